package e2e

import (
	"fmt"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
)

// learn runs one of configs for so many iterations. It returns the metrics, and the return of the evaluation after the
// last iteration.
func learn(t *testing.T, config string, steps int, args ...string) (m metrics, evaluation float64) {
	t.Helper()
	dir := t.TempDir()
	path, err := filepath.Abs(filepath.Join(root, "configs", config+".yaml"))
	test.OK(t, err)
	args = append([]string{"-c", path, fmt.Sprint("runner.max_steps=", steps),
		fmt.Sprint("runner.val_check_interval=", steps), "runner.save_interval=-1"}, args...)
	local.ok(t, dir, 0, args...)
	m = readMetrics(t, filepath.Join(dir, "logs", config))
	last := m[len(m)-1]
	if evaluation, err = strconv.ParseFloat(fmt.Sprint(last["eval/return"]), 64); err != nil {
		t.Fatalf("step %v: eval/return is %v", last["step"], last["eval/return"])
	}
	return m, evaluation
}

// TestRewardsTeach: CartPole is learnt from the rewards of a separate reward rank. With the opposite sign of the
// rewards the pole falls at once.
func TestRewardsTeach(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name        string
		steps       int
		least, most float64
		args        []string
	}{
		{"thirty times a potential beside the environment's, which leaves what is best as it is", 100, 475, 500,
			[]string{"reward.reward_weight=30"}},
		{"the environment's, by the component alone", 40, 475, 500,
			[]string{"reward.reward_type=env", "reward.env_reward_weight=0"}},
		// the return was 9.45 in the beginning
		{"the same, turned round", 20, 8, 9.2, []string{"reward.reward_type=env", "reward.env_reward_weight=0",
			"reward.reward_weight=-1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if _, got := learn(t, "cartpole_reward", c.steps, c.args...); got < c.least || got > c.most {
				t.Errorf("eval/return is %v, want it in [%v, %v]", got, c.least, c.most)
			}
		})
	}
}
