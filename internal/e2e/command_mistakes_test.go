package e2e

import (
	"strings"
	"testing"
)

// TestCommandMistakes makes mistakes in calls of the other commands.
func TestCommandMistakes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ args, want string }{
		{"train -c job.yaml", `"train" is no command: rlinf -c FILE.yaml trains`},
		{"help trainers", `"trainers" is no command and no key, rlinf help lists the commands`},
		{"envs CartPole-v1", `envs: argument "CartPole-v1": expected none`},
		{"version --long", "unknown flag --long: rlinf version --help lists the flags"},
		{"doctor all", `doctor: argument "all": expected none`},
		{"check", "no configuration: expected -c FILE.yaml%"},
		{"eval -c job.yaml --episodes 0", "--episodes 0: expected a number from 1 to 1048576"},
		{"check -c job.yaml --resume auto", "unknown flag --resume%"},
		{"check -c job.yaml -np 4",
			"job.yaml:3: cluster.component_placement: expected a component on every one of the 4 ranks%\n" +
				"verdict: runs with these overrides\n  rlinf -c job.yaml -np 4 cluster.allow_idle_ranks=true"},
		{"check -c job.yaml actor.global_batch_size=40",
			"command line: actor.global_batch_size: 40: expected a multiple of 32%\n" +
				"verdict: runs with these overrides\n  rlinf -c job.yaml actor.global_batch_size=32"},
		{"eval -c job.yaml", "no checkpoint in logs/job: expected a run that saved one (runner.save_interval), " +
			"--checkpoint DIR or runner.ckpt_path"},
		{"eval -c job.yaml --checkpoint nowhere", "checkpoint nowhere: %no such file or directory"},
		{"-c job.yaml runner.only_eval=true", "no checkpoint in logs/job: expected%"},
		{"-c job.yaml runner.task_type=embodied_evil",
			"command line: runner.task_type: embodied_evil: expected embodied, embodied_eval, sft or reasoning, " +
				"did you mean embodied_eval?"},
	} {
		t.Run(c.args, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir() // its own: a command tries for a moment whether it can write there
			writeFile(t, dir, "job.yaml", good)
			refused(t, local, dir, -1, c.want, strings.Fields(c.args)...)
		})
	}
}
