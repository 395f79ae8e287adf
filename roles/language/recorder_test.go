package language

import (
	"testing"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/job"
	"github.com/rlinf/rlinf/roles/language/plan"
)

// TestScore: a lower loss of fine-tuning has a higher score, unless runner.early_stop watches the share of right
// answers. A reward is its own score.
func TestScore(t *testing.T) {
	for _, c := range []struct {
		task, monitor string
		want          float64
	}{{config.TaskSFT, config.MonitorLoss, -3}, {config.TaskSFT, config.MonitorExactMatch, 0.5},
		{config.TaskReasoning, config.MonitorLoss, 3}} {
		cfg := &config.Config{}
		cfg.Runner.TaskType, cfg.Runner.EarlyStop.Monitor, cfg.Runner.ValCheckInterval = c.task, c.monitor, 1
		r := &recorder{plan: &plan.Plan{Job: &job.Job{Config: cfg}}, watched: 0.5}
		test.Equal(t, r.Score(3), c.want, "%s, %s", c.task, c.monitor)
	}
}
