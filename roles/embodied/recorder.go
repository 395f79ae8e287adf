package embodied

import (
	"math"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/metrics"
	"github.com/rlinf/rlinf/roles/embodied/plan"
	"github.com/rlinf/rlinf/roles/loop"
)

// A recorder computes the metrics of training in environments, from the ended episodes and the actors' reports.
type recorder struct {
	plan     *plan.Plan
	losses   [2]losses // lost episodes: [0] of training, [1] of evaluations
	excess   error     // nil unless too many episodes were lost
	rollouts int64     // rollouts of each environment so far
	from     int64     // the number of iterations before this run
	written  int64     // environment steps up to the last line
	rows     [2][]float64
}

var _ loop.Recorder = (*recorder)(nil)

func newRecorder(p *plan.Plan, from loop.StartState) *recorder {
	return &recorder{plan: p, rollouts: from.Rollouts(), from: from.Step, losses: [2]losses{
		newLosses("env.train", p.Config.Env.Train), newLosses("env.eval", p.Config.Env.Eval)}}
}

// Begin sets the names and units of the progress line.
func (r *recorder) Begin(s *metrics.RunStatus) {
	if r.plan.Offline {
		s.Measure, s.Unit = "loss", "samples"
	}
	r.Added(s)
	r.written = s.EnvSteps
}

// Add adds the episodes of one rank.
func (r *recorder) Add(_ *loop.Logbook, rep *loop.RankReport) error {
	r.rollouts = max(r.rollouts, rep.Rollouts)
	r.rows[0] = append(r.rows[0], rep.Episodes...)
	r.rows[1] = append(r.rows[1], rep.Evals...)
	return nil
}

// Added sets the number of environment steps.
func (r *recorder) Added(s *metrics.RunStatus) { s.EnvSteps = r.rollouts * r.plan.EnvSteps() }

// Line sets the means over the episodes that have ended since the last line.
func (r *recorder) Line(l *loop.Logbook) (rate string, done float64, err error) {
	episodes, err := env.FromRows(r.rows[0], len(r.plan.Spec.Figures()))
	if err != nil {
		return "", 0, err
	}
	evals, err := env.FromRows(r.rows[1], len(r.plan.EvalSpec.Figures()))
	if err != nil {
		return "", 0, err
	}
	s := l.State()
	l.Set("env/steps", float64(s.EnvSteps))
	mean := r.episodes(l, "env/", &r.plan.Spec, episodes, s.Return, &r.losses[0])
	if r.plan.Offline {
		r.describeDemos(l)
	} else {
		s.Return = mean
	}
	if len(evals) > 0 {
		s.Eval = r.episodes(l, "eval/", &r.plan.EvalSpec, evals, s.Eval, &r.losses[1])
	}
	steps := s.EnvSteps - r.written
	r.written = s.EnvSteps
	r.rows[0], r.rows[1] = r.rows[0][:0], r.rows[1][:0]
	return "time/env_steps_per_second", float64(steps), nil
}

// describeDemos sets the loss and the number of trained samples, for training from demonstrations.
func (r *recorder) describeDemos(l *loop.Logbook) {
	s := l.State()
	if loss, ok := algo.Loss(nil, l.Means("train/")); ok {
		s.Return = loss
	}
	c := r.plan.Config
	s.Learnt = (s.Step - r.from) * int64(c.Algorithm.UpdateEpoch*c.Actor.GlobalBatchSize)
}

// episodes sets the means over the episodes es, in environments with this spec. The names of the metrics begin with
// prefix. It returns the mean return, or the previous mean if no episode has ended.
func (r *recorder) episodes(l *loop.Logbook, prefix string, spec *env.Spec, es []env.Episode, previous float64,
	lost *losses) float64 {
	s := env.Summarize(es)
	state := l.State()
	state.Lost, state.Episodes = state.Lost+int64(s.NumLost), state.Episodes+int64(len(es))
	if err := lost.add(s); r.excess == nil {
		r.excess = err
	}
	set := func(name string, value float64) { l.Set(prefix+name, value) }
	set("num_trajectories", float64(s.NumTrajectories))
	if s.NumLost > 0 {
		set("num_lost", float64(s.NumLost))
	}
	if s.NumTrajectories == 0 {
		return previous
	}
	set("return", s.Return)
	set("episode_len", s.EpisodeLen)
	set("reward", s.Reward)
	setOwn(set, spec, &s)
	return s.Return
}

// Timed reports whether the time of a phase becomes a metric. Every phase has a metric, except an evaluation that took
// no time.
func (r *recorder) Timed(p loop.Phase, seconds float64) bool {
	return seconds > 0 || p != loop.Evaluating
}

// Score returns value, which is a mean return. Training from demonstrations without evaluations has only a loss, which
// does not measure the policy. In this case Score returns NaN.
func (r *recorder) Score(value float64) float64 {
	if r.plan.Offline && !r.plan.Config.Evaluates() {
		return math.NaN()
	}
	return value
}

// Excess returns an error if more episodes were lost than the configuration allows.
func (r *recorder) Excess() error { return r.excess }

// Close does nothing, because there are no files.
func (r *recorder) Close() error { return nil }
