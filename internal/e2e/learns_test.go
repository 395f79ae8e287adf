package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// TestLearnsToAdd follows the tutorial. Fine-tuning ends when 30 % of the test problems are right for the first time.
// GRPO then reaches 70 %, and at least 30 points more than before. Random rewards gain nothing. Only a full test run
// tries three seeds.
func TestLearnsToAdd(t *testing.T) {
	t.Parallel()
	top, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Symlink(filepath.Join(top, "configs"), filepath.Join(dir, "configs")); err != nil {
		t.Fatal(err)
	}
	local.ok(t, dir, 0, "data", "addition")
	seeds, steps := []int{8}, 200 // the seed with the shortest fine-tuning
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
