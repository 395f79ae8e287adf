package language

import (
	"errors"
	"fmt"
	"math"
	"os"
	"time"

	"github.com/rlinf/rlinf/internal/metrics"
	"github.com/rlinf/rlinf/policy/lm/engine"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/language/plan"
	"github.com/rlinf/rlinf/roles/loop"
)

// A recorder computes the metrics of training a language model, from trained tokens and answers.
type recorder struct {
	plan    *plan.Plan
	answers string // file for the answers of evaluations

	path       string             // file for counts of rewards, and for the use of engines
	generation *metrics.Logger    // the open file; nil if not open
	rewards    tally              // rewards since the last line
	use        engine.Utilization // use of engines since the last line

	watched float64 // the newest value of the metric that runner.early_stop watches
}

var _ loop.Recorder = (*recorder)(nil)

// Begin sets the names and units of the progress line.
func (r *recorder) Begin(s *metrics.RunStatus) {
	s.Measure, s.EvalMeasure, s.Unit = "loss", "loss", "tokens"
	if r.plan.Config.Reasons() {
		s.Measure, s.EvalMeasure = "reward", "accuracy"
	} else if stop := &r.plan.Config.Runner.EarlyStop; stop.Enabled {
		s.Stop = stop.Progress(math.NaN(), 0)
	}
}

// Add adds the report of one rank: it shows the answers, and counts rewards.
func (r *recorder) Add(l *loop.Logbook, rep *loop.RankReport) error {
	if err := r.showAnswers(l, rep.Answers); err != nil {
		return err
	}
	if len(rep.Rewards) > 0 {
		r.rewards.merge(rep.Rewards)
		r.use.Add(engine.Utilization{Passes: int(rep.Engine[0]), Pages: rep.Engine[1], Running: rep.Engine[2],
			Peak: rep.Engine[3]})
	}
	return nil
}

// Added does nothing, because there are no environment steps.
func (r *recorder) Added(*metrics.RunStatus) {}

// Line sets the reward or loss, the result of evaluations and the number of trained tokens on the progress line. It
// also writes the rewards to their file.
func (r *recorder) Line(l *loop.Logbook) (rate string, done float64, err error) {
	s := l.State()
	for _, name := range []string{"train/sft/loss", "rollout/rewards"} {
		if mean, ok := l.Mean(name); ok {
			s.Return = mean
		}
	}
	for _, name := range []string{"eval/loss", "eval/accuracy"} {
		if mean, ok := l.Mean(name); ok {
			s.Eval = mean
		}
	}
	if x, ok := l.Mean(r.plan.Config.Runner.EarlyStop.Metric()); ok {
		r.watched = x
	}
	tokens := l.Sum("train/sft/tokens") + l.Sum("rollout/response_tokens")
	s.Learnt += int64(tokens)
	return "time/tokens_per_second", tokens, r.writeGeneration(s.Step)
}

// writeGeneration writes a line with the counts of rewards and the use of engines since the last line. Without rewards
// it writes no line.
func (r *recorder) writeGeneration(step int64) (err error) {
	if len(r.rewards.counts) == 0 {
		return nil
	}
	if r.generation == nil {
		if r.generation, err = metrics.OpenLogger(r.path); err != nil {
			return err
		}
	}
	names, values := r.rewards.line()
	if n := float64(r.use.Passes); n > 0 {
		names = append(names, "engine/pages", "engine/pages_max", "engine/sequences")
		values = append(values, r.use.Pages/n, r.use.Peak, r.use.Running/n)
	}
	r.rewards, r.use = tally{}, engine.Utilization{}
	return r.generation.Write(step, time.Now(), names, values)
}

// Close closes the file of rewards.
func (r *recorder) Close() error {
	if r.generation == nil {
		return nil
	}
	return r.generation.Close()
}

// shownInLog is the maximum number of answers that an evaluation writes to the log. The file has more.
const shownInLog = 3

// showAnswers writes the answers of an evaluation to a file, and the first answers to the log. Each answer has two
// texts: a line and a block.
func (r *recorder) showAnswers(l *loop.Logbook, answers []string) error {
	if len(answers) == 0 {
		return nil
	}
	log := fmt.Sprintf("answers after step %d, more in %s\n", l.State().Step, r.answers)
	text := fmt.Sprintf("== after step %d\n\n", l.State().Step)
	for i := 0; i < len(answers); i += 2 {
		if i < 2*shownInLog {
			log += "  " + answers[i] + "\n"
		}
		text += answers[i+1] + "\n"
	}
	l.Print(log)
	f, err := os.OpenFile(r.answers, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// Timed reports whether the phase took any time.
func (r *recorder) Timed(_ loop.Phase, seconds float64) bool { return seconds > 0 }

// Score returns value unchanged if it is a reward. For a text it returns the value that runner.early_stop watches, with
// the sign that makes a larger score better. In a run without evaluations value is a loss.
func (r *recorder) Score(value float64) float64 {
	switch c := r.plan.Config; {
	case c.Reasons():
		return value
	case c.Evaluates() && c.Runner.EarlyStop.Monitor == config.MonitorExactMatch:
		return r.watched
	}
	return -value
}

// Excess returns nil, because texts cannot be lost.
func (r *recorder) Excess() error { return nil }
