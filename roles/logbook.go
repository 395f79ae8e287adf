package roles

import (
	"errors"
	"strings"
	"time"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/metrics"
)

// A logbook turns the reports of all ranks into the metrics of a step, on rank 0. A nil logbook ignores them.
type logbook struct {
	log      *metrics.Log
	events   *metrics.Events // nil: no TensorBoard
	progress *metrics.Progress
	job      *job
	state    metrics.State
	report   report
	names    []string
	values   []float64
	rows     [2][]float64
}

// record writes the metrics of step, which took all of reports, unless it has: the first report after a resume says nothing new.
func (l *logbook) record(step int64, reports [][]byte) error {
	if l == nil || reports == nil || step <= l.state.Step {
		return nil
	}
	l.names, l.values = l.names[:0], l.values[:0]
	var longest, total [len(phases)]float64
	l.rows[0], l.rows[1] = l.rows[0][:0], l.rows[1][:0]
	for _, b := range reports {
		r := &l.report
		if err := r.parse(b); err != nil {
			return err
		}
		for i, t := range r.times {
			longest[i] = max(longest[i], t)
			total[i] += t
		}
		l.rows[0] = append(l.rows[0], r.episodes...)
		l.rows[1] = append(l.rows[1], r.evals...)
		for i, name := range r.names {
			if !strings.HasPrefix(name, "rollout/") {
				name = "train/" + name
			}
			l.set(name, r.values[i])
		}
	}
	episodes, err := env.FromRows(l.rows[0])
	if err != nil {
		return err
	}
	evals, err := env.FromRows(l.rows[1])
	if err != nil {
		return err
	}
	now := time.Now()
	perStep := l.job.envSteps()
	l.state.Step, l.state.EnvSteps = step, step*perStep
	l.set("env/steps", float64(l.state.EnvSteps))
	l.state.Return = l.episodes("env/", episodes, l.state.Return)
	if len(evals) > 0 {
		l.state.Eval = l.episodes("eval/", evals, l.state.Eval)
	}
	for i, name := range phases {
		if i != evaluating || longest[i] > 0 {
			l.set("time/"+name, longest[i])
			l.set("time/"+name+"_mean", total[i]/float64(len(reports)))
		}
	}
	l.set("time/env_steps_per_second", float64(perStep)/longest[wholeStep])
	if err := l.log.Write(step, now, l.names, l.values); err != nil {
		return err
	}
	if l.events != nil {
		if err := l.events.Write(step, now, l.names, l.values); err != nil {
			return err
		}
	}
	l.progress.Update(l.state)
	return nil
}

// episodes sets the means over episodes under prefix and returns the mean return, or old where no episode ended.
func (l *logbook) episodes(prefix string, es []env.Episode, old float64) float64 {
	s := env.Summarize(es)
	l.set(prefix+"num_trajectories", float64(s.NumTrajectories))
	if s.NumTrajectories == 0 {
		return old
	}
	l.set(prefix+"return", s.Return)
	l.set(prefix+"episode_len", s.EpisodeLen)
	l.set(prefix+"reward", s.Reward)
	if l.job.spec.InfoIndex("success") >= 0 {
		l.set(prefix+"success_once", s.SuccessOnce)
		l.set(prefix+"success_at_end", s.SuccessAtEnd)
	}
	return s.Return
}

func (l *logbook) set(name string, value float64) {
	l.names, l.values = append(l.names, name), append(l.values, value)
}

// close ends the live line and the files.
func (l *logbook) close() error {
	if l == nil {
		return nil
	}
	l.progress.Done()
	err := l.log.Close()
	if l.events != nil {
		err = errors.Join(err, l.events.Close())
	}
	return err
}
