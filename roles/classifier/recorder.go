package classifier

import (
	"math"
	"strings"

	"github.com/rlinf/rlinf/internal/metrics"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/loop"
)

// A recorder shows the losses and the table of thresholds.
type recorder struct {
	plan    *plan
	watched float64 // the newest value of the metric that runner.early_stop watches
}

var _ loop.Recorder = (*recorder)(nil)

// Begin sets the names and units of the progress line.
func (r *recorder) Begin(s *metrics.RunStatus) {
	s.Measure, s.EvalMeasure, s.Unit = "loss", "loss", "images"
	if stop := &r.plan.Config.Runner.EarlyStop; stop.Enabled {
		s.Stop = stop.Progress(math.NaN(), 0)
	}
}

// Add shows the table of thresholds.
func (r *recorder) Add(l *loop.Logbook, rep *loop.RankReport) error {
	if len(rep.Answers) > 0 {
		l.Print(strings.Join(rep.Answers, "\n") + "\n")
	}
	return nil
}

// Added does nothing, because there are no environment steps.
func (r *recorder) Added(*metrics.RunStatus) {}

// Line sets the losses on the progress line.
func (r *recorder) Line(l *loop.Logbook) (rate string, done float64, err error) {
	s := l.State()
	if mean, ok := l.Mean("train/sft/loss"); ok {
		s.Return = mean
	}
	if mean, ok := l.Mean("eval/loss"); ok {
		s.Eval = mean
	}
	if x, ok := l.Mean(r.plan.Config.Runner.EarlyStop.Metric()); ok {
		r.watched = x
	}
	images := l.Sum("train/sft/images")
	s.Learnt += int64(images)
	return "time/images_per_second", images, nil
}

// Close does nothing.
func (r *recorder) Close() error { return nil }

// Timed reports whether the phase took any time.
func (r *recorder) Timed(_ loop.Phase, seconds float64) bool { return seconds > 0 }

// Score returns the value that runner.early_stop watches, with the sign that makes a larger score better. In a run
// without evaluations value is a loss.
func (r *recorder) Score(value float64) float64 {
	if c := r.plan.Config; c.Evaluates() && c.Runner.EarlyStop.Monitor != config.MonitorLoss {
		return r.watched
	}
	return -value
}

// Excess returns nil, because frames cannot be lost.
func (r *recorder) Excess() error { return nil }
