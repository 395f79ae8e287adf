package worker

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/policy/lm"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/job"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/tensor"
)

// A tuner is what workers have in common that train a language model on texts: a replica of the
// model, and the order of the texts.
type tuner struct {
	*texts
	m        *spmd.Member
	model    *lm.Model
	replicas *replicas
	trace    *Tracer
}

func newTuner(ctx context.Context, m *spmd.Member, j *job.Job, model *lm.Model) (t *tuner, err error) {
	t = &tuner{texts: newTexts(j.Tuning), m: m, model: model, trace: newTracer(j, m)}
	t.replicas, err = newReplicas(ctx, m, j, model.Params)
	return t, err
}

// Tracer returns what this worker has noted; nil where no trace was asked for.
func (t *tuner) Tracer() *Tracer { return t.trace }

// save returns the state, not copied, with that of the trainer: the first actor's is everyone's.
func (t *tuner) save(trainer tensor.Dict) []Share {
	if t.m.Index() > 0 {
		return nil
	}
	trainer.Set(job.TextsHash, tensor.FromI64([]int64{int64(t.tuning.Train.Hash)}, 1))
	if below := int64(t.tuning.Below.Hash); below != 0 {
		trainer.Set(job.BelowHash, tensor.FromI64([]int64{below}, 1))
	}
	return []Share{{Kind: "model", Dict: job.ModelDict(t.model.Params)}, {Kind: "trainer", Dict: trainer}}
}

// load takes the weights of st. It reports whether st has a trainer's state, too.
func (t *tuner) load(st State) (whole bool, err error) {
	if err := job.LoadModel(t.model.Params, st.Model); err != nil || st.Trainer.Len() == 0 {
		return false, err
	}
	return true, nil
}

// An SFTWorker trains a language model on its share of the texts.
type SFTWorker struct {
	*tuner
	algo *algo.SFT
	mine []algo.Sequence // for evaluations
	stop *earlyStop
}

// NewSFTWorker returns the worker of member m, which trains model.
func NewSFTWorker(ctx context.Context, m *spmd.Member, j *job.Job, model *lm.Model) (*SFTWorker, error) {
	t, err := newTuner(ctx, m, j, model)
	if err != nil {
		return nil, err
	}
	w := &SFTWorker{tuner: t, stop: newEarlyStop(&j.Config.Runner.EarlyStop)}
	w.algo, err = algo.NewSFT(algo.SFTSetup{Model: model, Optim: j.Config.Actor.Optim,
		Iterations: int(min(j.MaxSteps, math.MaxInt32)), MicroBatch: j.Tuning.Limit,
		Threads: j.Config.Actor.Threads, Replicas: w.replicas,
		Alloc: m.World().Alloc, Progress: newProgress(j, m)})
	if w.tuning.Valid != nil {
		w.mine = w.tuning.Validation(m.Index(), m.Size())
	}
	return w, err
}

// RunTraining takes optimiser step number step, from 0 on.
func (w *SFTWorker) RunTraining(ctx context.Context, step int64) (algo.Metrics, error) {
	start := w.trace.start()
	number := w.at(step)
	b := w.tuning.Batch(w.order, number, w.m.Index())
	m, err := w.algo.Update(b.Mine, b.Targets, b.Tokens)
	w.trace.done("train", start)
	yieldToFirst(ctx, w.m, err)
	if err == nil {
		err = w.replicas.trained(ctx, &m)
	}
	return m, err
}

// Evaluate measures the texts of validation, with the metrics eval/*, and reports whether training is
// to stop. All actors say the same.
func (w *SFTWorker) Evaluate(context.Context) (m algo.Metrics, stop bool, err error) {
	start := w.trace.start()
	m, err = w.algo.Evaluate(w.mine)
	w.trace.done("evaluate", start)
	if err != nil {
		return m, false, err
	}
	stop = w.stop.observe(m)
	for i, name := range m.Names {
		m.Names[i] = "eval/" + name
	}
	return m, stop, nil
}

// EarlyStop returns what the early stop of the run waits for, for the progress line, and why it has
// stopped the run, if it has. Without one it returns nothing.
func (w *SFTWorker) EarlyStop() []string { return w.stop.describe() }

// First reports whether this is the first actor, which speaks for all.
func (w *SFTWorker) First() bool { return w.m.Index() == 0 }

// Close ends the worker's threads.
func (w *SFTWorker) Close() error {
	w.algo.Close()
	return nil
}

// Save returns the state, not copied: the first actor's is everyone's.
func (w *SFTWorker) Save() []Share {
	trainer := w.algo.Save()
	trainer.Set(stopState, tensor.FromF64(slices.Clone(w.stop.state[:]), len(w.stop.state)))
	return w.save(trainer)
}

// Load takes st, which may be weights alone.
func (w *SFTWorker) Load(st State) error {
	if whole, err := w.load(st); err != nil || !whole {
		return err
	}
	if t, ok := st.Trainer.Get(stopState); ok {
		copy(w.stop.state[:], t.F64())
	}
	return w.algo.Load(st.Trainer)
}

// An earlyStop watches a metric of validation.
type earlyStop struct {
	config *config.EarlyStopConfig
	sign   float64    // -1 where more is better
	state  [2]float64 // the best value, times sign, and evaluations since
	last   float64    // value of the metric
	reason string     // why it stopped the run; "": it has not
}

const stopState = "early_stop"

func newEarlyStop(c *config.EarlyStopConfig) *earlyStop {
	s := &earlyStop{config: c, sign: 1, state: [2]float64{math.Inf(1), 0}}
	if c.Monitor == config.MonitorExactMatch {
		s.sign = -1
	}
	return s
}

// observe reports whether to stop after an evaluation with these metrics.
func (s *earlyStop) observe(m algo.Metrics) bool {
	c, found := s.config, m.Values[slices.Index(m.Names, strings.TrimPrefix(s.config.Monitor, "val_"))]
	value := s.sign * found
	s.last = found
	if c.Enabled && c.Target > 0 && value <= s.sign*c.Target {
		s.reason = fmt.Sprintf("early stop: %s %.4g has reached runner.early_stop.target %g", c.Monitor, found,
			c.Target)
		return true
	}
	if value < s.state[0]-s.config.MinDelta {
		s.state = [2]float64{value, 0}
		return false
	}
	s.state[1]++
	if c.Enabled && s.state[1] >= float64(c.Patience) {
		s.reason = fmt.Sprintf("early stop: %s %.4g, not better than %.4g by min_delta %g for %d evaluations "+
			"(runner.early_stop.patience)", c.Monitor, found, s.sign*s.state[0], c.MinDelta, c.Patience)
	}
	return s.reason != ""
}

// describe is SFTWorker.EarlyStop.
func (s *earlyStop) describe() []string {
	if !s.config.Enabled {
		return nil
	}
	now := []string{s.config.Progress(s.last, int(s.state[1]))}
	if s.reason != "" {
		now = append(now, s.reason)
	}
	return now
}
