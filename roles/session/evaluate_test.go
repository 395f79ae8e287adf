package session

import (
	"bytes"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/env/all"
	"github.com/rlinf/rlinf/internal/durable"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/internal/rolestest"
	"github.com/rlinf/rlinf/roles/job"
	"github.com/rlinf/rlinf/tensor"
)

// A losing is environments whose first ones lose every episode.
type losing struct {
	env.Vec
	lost int
}

func (l losing) Step(action tensor.Dict, seeds []uint64, out *env.Step) error {
	err := l.Vec.Step(action, seeds, out)
	for n := range l.lost {
		out.Truncated.U8()[n], out.Status.U8()[n] = 1, env.Aborted
	}
	return err
}

// An evaluation says which episodes were lost, and fails where all were.
func TestEvaluationLost(t *testing.T) {
	cfg, _ := rolestest.MustLoad(t, rolestest.Cartpole, "runner.ckpt_path="+filepath.Join(t.TempDir(), "weights"), "env.eval.env_type=losing", "env.eval.total_num_envs=5")
	pol := rolestest.NewPolicy(t, rolestest.EnvConfig("CartPole-v1", 5), 1, nil)
	if err := durable.Write(cfg.Runner.CkptPath, func(w io.Writer) error { return tensor.WriteSafetensors(w, job.ModelDict(pol.Params()), nil) }); err != nil {
		t.Fatal(err)
	}
	for lost, says := range map[int]string{0: "5 episodes of CartPole-v1\n  eval/return", 2: "3 episodes of CartPole-v1", 5: "CartPole-v1: all 5 episodes were lost"} {
		reg := config.Registries{Policies: policy.Builtin(), Envs: all.Registry().With("losing", func(cfg env.Config, n int) (env.Vec, error) {
			cfg.EnvType = "CartPole-v1"
			v, err := all.Registry().New(cfg, n)
			return losing{v, min(lost, n)}, err
		})}
		var out bytes.Buffer
		err := EvaluateCheckpoint(&out, cfg, reg, "")
		if got := fmt.Sprint(out.String(), err); !strings.Contains(got, says) || strings.Contains(got, "eval/num_lost     2") != (lost == 2) || (err != nil) != (lost == 5) {
			t.Errorf("%d of 5 lost: %s, want %s", lost, got, says)
		}
	}
}
