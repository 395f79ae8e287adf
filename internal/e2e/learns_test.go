package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// TestLearnsToAdd: as the tutorial says, fine-tuning ends where 30 % of the test problems are right for the first time,
// and GRPO then gets 70 % of them right, and 30 points more than before. Rewards by chance gain nothing. One seed
// stands for three, but in a whole test run.
func TestLearnsToAdd(t *testing.T) {
	top, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Symlink(filepath.Join(top, "configs"), filepath.Join(dir, "configs")); err != nil {
		t.Fatal(err)
	}
	local.ok(t, dir, 0, "data", "addition")
	seeds, steps := []int{8}, 200 // the seed whose fine-tuning is the shortest
	if full {
		seeds, steps = []int{7, 8, 9}, 400
	}
	for _, seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			run := func(config, name, metric string, args ...string) float64 {
				t.Helper()
				local.ok(t, dir, 0,
					append([]string{"-c", config, fmt.Sprint("runner.seed=", seed), "runner.logger.experiment_name=" +
						name}, args...)...)
				values := readMetrics(t, filepath.Join(dir, "logs", name)).values(t, metric)
				return values[len(values)-1]
			}
			first := fmt.Sprint("start", seed)
			start := run("configs/addition_start.yaml", first, "eval/exact_match")
			if start < 0.3 || start > 0.65 {
				t.Fatalf("fine-tuning ends at %v, want the first value from 0.3 on", start)
			}
			from := "runner.ckpt_path=logs/" + first + "/checkpoints/latest/model.safetensors"
			end := run("configs/addition_grpo.yaml", fmt.Sprint("grpo", seed), "eval/accuracy", from,
				fmt.Sprint("runner.max_steps=", steps), fmt.Sprint("runner.val_check_interval=", steps))
			t.Logf("from %v to %v", start, end)
			if end < 0.7 || end < start+0.3 {
				t.Errorf("GRPO goes from %v to %v, want 0.7 and 0.3 more than before", start, end)
			}
			if len(seeds) == 1 {
				return
			}
			if chance := run("configs/addition_grpo.yaml", fmt.Sprint("chance", seed), "eval/accuracy", from,
				"runner.val_check_interval=100", "runner.max_steps=100", "reward.random_reward=true"); chance > start {
				t.Errorf("rewards by chance go from %v to %v, want no gain", start, chance)
			}
		})
	}
}
