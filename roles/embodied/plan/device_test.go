//go:build !cuda

package plan

import (
	"testing"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/internal/rolestest"
)

// TestDeviceIsChecked: a device needs a policy and an algorithm with device kernels, and a GPU.
func TestDeviceIsChecked(t *testing.T) {
	t.Parallel()
	reg := rolestest.Registries()
	for _, c := range []struct{ file, override, want string }{
		{"cartpole_one_rank", "actor.device=cpu", ""},
		{"cartpole_one_rank", "actor.device=gpu", "actor.device: gpu: expected cpu, or cuda in environments"},
		{"cartpole_one_rank", "actor.device=cuda", "actor.device: cuda: expected cpu: this build cannot find GPUs"},
		{"cartpole_dqn", "actor.device=cuda", "expected cpu: only on-policy algorithms train on a device"},
		{"cartpole_masked_gru_ppo", "actor.device=cuda", "expected cpu: rnn_policy has layers without device kernels"},
		{"pendulum_ppo", "actor.device=cuda", "expected cpu: use_sde has no device kernels"},
	} {
		cfg, _, err := config.Load(reg, "../../configs/"+c.file+".yaml", []string{c.override}, false)
		if err == nil {
			_, err = newPlan(cfg, reg, []int{0})
		}
		if c.want == "" {
			test.OK(t, err, c.file)
		} else {
			test.Fails(t, err, c.want, c.file)
		}
	}
}
