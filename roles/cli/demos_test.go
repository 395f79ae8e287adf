package cli

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/reward"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/internal/rolestest"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/tensor"
)

// TestDemos runs the command from end to end.
func TestDemos(t *testing.T) {
	out := filepath.Join(t.TempDir(), "demos.safetensors")
	args := strings.Fields("rlinf demos -c ../../configs/cartpole_ppo.yaml --episodes 6 --out " + out)
	reg := config.Registries{Envs: rolestest.Walkers(), Policies: policy.Builtin(), Algorithms: algo.Builtin(),
		Rewards: reward.Builtin()}
	if code := Run(append(args, "env.train.env_type=walker"), reg, tasks(), Own{}); code != loop.ExitOK {
		t.Errorf("exit code %d", code)
	}
	file := readFile(t, out)
	if d, _, err := tensor.ReadSafetensors([]byte(file)); err != nil || d.Must("action").Dim(0) != 18 {
		t.Errorf("read: %v, %v", d, err)
	}
	for args, want := range map[string]string{
		"demos -c ../../configs/" +
			"cartpole_ppo.yaml": "CartPole-v1 has no expert: expected an environment with one: " +
			"docs/experience.md",
		"demos -c ../../configs/cartpole_ppo.yaml --episodes 0": "--episodes 0",
		"demos -c ../../configs/cartpole_ppo.yaml --noise -1":   "--noise -1",
		"demos -c ../../configs/pendulum_sac.yaml --episodes 100000000 --out " +
			"/nowhere/x": "--out /nowhere/x: expected a file in a folder that can be written: write in /nowhere: no " +
			"such",
		"render -c ../../configs/cartpole_ppo.yaml --out " +
			"/nowhere/x": "--out /nowhere/x: expected a file in a folder that can be written: write in /nowhere: no " +
			"such",
	} {
		code, _, stderr := run(t, strings.Fields(args)...)
		if code != loop.ExitConfig || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit code %d, %q, want %d and %q", args, code, stderr, loop.ExitConfig, want)
		}
	}
}
