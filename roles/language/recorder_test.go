package language

import (
	"testing"

	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/job"
	"github.com/rlinf/rlinf/roles/language/plan"
)

// TestScore: a lower loss of fine-tuning has a higher score. A reward is its own score.
func TestScore(t *testing.T) {
	for task, want := range map[string]float64{config.TaskSFT: -3, config.TaskReasoning: 3} {
		cfg := &config.Config{}
		cfg.Runner.TaskType = task
		r := &recorder{plan: &plan.Plan{Job: &job.Job{Config: cfg}}}
		if got := r.Score(3); got != want {
			t.Errorf("%s: %v, want %v", task, got, want)
		}
	}
}
