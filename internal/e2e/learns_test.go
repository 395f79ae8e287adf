package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
)

// TestLearnsToAdd follows the tutorial. Fine-tuning ends when 30 % of the test problems are right for the first time.
// 60 steps of GRPO then reach 60 %, and at least 20 points more than before; 400 steps reach 70 %, and 30 points more.
// Random rewards gain nothing. Only a full test run tries three seeds and 400 steps.
func TestLearnsToAdd(t *testing.T) {
	t.Parallel()
	top := test.Must(filepath.Abs(root))(t)
	dir := t.TempDir()
	test.OK(t, os.Symlink(filepath.Join(top, "configs"), filepath.Join(dir, "configs")))
	local.ok(t, dir, 0, "data", "addition")
	seeds, steps, least, gain := []int{8}, 60, 0.6, 0.2 // the seed with the shortest fine-tuning
	if full {
		seeds, steps, least, gain = []int{7, 8, 9}, 400, 0.7, 0.3
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
			if end < least || end < start+gain {
				t.Errorf("GRPO goes from %v to %v, want %v and %v more than before", start, end, least, gain)
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
