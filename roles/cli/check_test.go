package cli

import (
	"runtime"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/runfolder"
	"github.com/rlinf/rlinf/roles/internal/rolestest"
)

// TestCheckCountsCores: check says that ranks share the cores of this machine, as text and as JSON.
func TestCheckCountsCores(t *testing.T) {
	crowd := "warning: " + runfolder.CrowdText(8, 1) + " of this machine: "
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	if out := ok(t, "check", "-c", rolestest.Cartpole); !strings.Contains(out, crowd) {
		t.Errorf("eight ranks: %s", out)
	}
	if out := ok(t, "check", "--json", "-c", rolestest.Cartpole); !strings.Contains(out,
		`"warnings":["8 ranks share 1 core`) {
		t.Errorf("eight ranks: %s", out)
	}
	if got := crowdHere([]int{0}); got != "" {
		t.Errorf("one rank: %s", got)
	}
	if got := crowdHere([]int{0, 0, 1, 1}); !strings.Contains(got, "2 ranks share 1 core on each node") {
		t.Errorf("two nodes: %s", got)
	}
	if got := crowdHere([]int{0, 1}); got != "" {
		t.Errorf("a rank on each of two nodes: %s", got)
	}
}

// TestCheckWarnsOnce: check shows a warning of the plan once.
func TestCheckWarnsOnce(t *testing.T) {
	const warning = "warning: env.eval.group_size: an evaluation plays 16 episodes from 4 initial states"
	if out := ok(t, "check", "-c", rolestest.Cartpole, "env.eval.group_size=4"); strings.Count(out, warning) != 1 {
		t.Errorf("%s", out)
	}
}

// TestCheckBlames: a value that does not fit the environment is a mistake in its own key.
func TestCheckBlames(t *testing.T) {
	for _, c := range []struct{ args, key, want string }{
		{"actor.model.obs_dim=42", "actor.model.obs_dim", "42, but the observations have 4 elements"},
		{"env.train.env_type=mujoco env.train.model_path=none.xml env.train.task.max_steps=5 " +
			`env.train.task.observations=[{"joint":"a"}] ` +
			`env.train.task.rewards=[{"constant":1}]`, "env.train.model_path",
			"stat none.xml: no such file or directory"},
	} {
		args := append([]string{"check", "-c", rolestest.Cartpole}, strings.Fields(c.args)...)
		_, _, text := run(t, args...)
		if !strings.Contains(text, "command line: "+c.key+": expected a value that fits: "+c.want+"\n") ||
			!strings.Contains(text, "verdict: does not run: change "+c.key+"\n") {
			t.Errorf("%s: %s", c.args, text)
		}
	}
}
