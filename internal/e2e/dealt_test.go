package e2e

import "testing"

// longer lets answers get much longer than usual, so that they end at different times and move.
var longer = []string{"runner.seq_length=72", "actor.model.initializer_range=0.2", "runner.max_steps=4",
	"runner.val_check_interval=2", "runner.save_interval=2", "reward.random_reward=true"}

// TestDealt: prompts that are dealt, and answers that move, change no metric and no checkpoint.
func TestDealt(t *testing.T) {
	dir := t.TempDir()
	local.ok(t, dir, 0, "data", "addition", "--out", "data", "--train", "60", "--test", "9")
	job := laidOut(reasoning)
	const dealt = "cluster.auto_scheduler=true"
	few := []string{dealt, "rollout.max_running_requests=5"}
	sameLayouts(t, dir, job, layout{local, 0, collocated, nil}, map[string]layout{
		"one rank":   {local, 0, collocated, []string{dealt}},
		"two ranks":  {local, 2, "actor: 0-1", []string{dealt}},
		"five ranks": {local, 0, "actor: 0-1\n    rollout: 0-4\n    reward: 3", []string{dealt}},
		"few run":    {local, 0, "actor: 0-1\n    rollout: 2-4", few},
		"Open MPI":   {openmpi, 4, "actor: 0-1\n    rollout: 0-3\n    reward: 0", []string{dealt}},
		"MPICH":      {mpich, 3, "actor: 0-1\n    rollout: 1-2", few},
		"2 × 2":      {local, 0, "actor: 0-3", divided(2, dealt)},
	}, longer...)
}
