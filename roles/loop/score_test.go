package loop

import (
	"fmt"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/job"
)

// A judge is a Recorder with a Score.
type judge struct {
	Recorder
	of func(float64) float64
}

func (j judge) Score(value float64) float64 { return j.of(value) }

// TestScore: the score of a checkpoint comes from the evaluation after its step, or from training in a job without
// evaluations.
func TestScore(t *testing.T) {
	same, less := func(x float64) float64 { return x }, func(x float64) float64 { return -x }
	for _, c := range []struct {
		of       func(float64) float64
		interval int
		step     int64
		want     string
	}{
		{same, 10, 20, "3"},
		{same, 10, 15, "none"},
		{same, -1, 15, "2"},
		{less, 10, 20, "-3"},
		{less, -1, 15, "-2"},
	} {
		cfg := &config.Config{}
		cfg.Runner.ValCheckInterval = c.interval
		l := &Logbook{job: &job.Job{Config: cfg, MaxSteps: 100}, recorder: judge{of: c.of}}
		l.state.Step, l.state.Return, l.state.Eval = c.step, 2, 3
		got := "none"
		if score := l.score(c.step); score != nil {
			got = fmt.Sprint(*score)
		}
		test.Equal(t, got, c.want, "step %d of evaluations every %d", c.step, c.interval)
	}
}
