package advice_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/results/resultstest"
	"github.com/rlinf/rlinf/roles/internal/rolestest"
)

// TestAutoScheduler: a job whose workers exchange a message for each step of few environments measures itself, and
// moves env and rollout to one rank. Its metrics are those of the job that stays.
func TestAutoScheduler(t *testing.T) {
	log, steps := t.TempDir(), "400"
	if testing.Short() {
		steps = "200"
	}
	job := func(name, auto string) []string {
		cfg, _ := rolestest.MustLoad(t, rolestest.Cartpole, small(log, name, "cluster.auto_scheduler="+auto,
			"cluster.component_placement.actor=0-1", "cluster.component_placement.env=0",
			"cluster.component_placement.rollout=1", "runner.max_epochs="+steps, "runner.max_steps="+steps,
			"runner.val_check_interval=-1", "runner.save_interval=-1", "env.train.max_steps_per_rollout_epoch=512",
			"env.train.total_num_envs=4", "actor.micro_batch_size=256", "actor.global_batch_size=2048",
			"algorithm.update_epoch=1")...)
		train(t, cfg, 2, "")
		return resultstest.Untimed(t, filepath.Join(log, name))
	}
	moves := job("moves", "true")
	if !testing.Short() && !slices.Equal(moves, job("stays", "false")) {
		t.Error("metrics differ")
	}
	text, err := os.ReadFile(filepath.Join(log, "moves", "moves.jsonl"))
	if err != nil || !strings.Contains(string(text), "generate_rollouts, bound by") {
		t.Errorf("%v, moves\n%s", err, text)
	}
	t.Logf("%s", text)
}
