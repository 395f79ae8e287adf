package worker

import (
	"context"
	"errors"
	"math"
	"slices"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/policy/lm"
	"github.com/rlinf/rlinf/roles/language/plan"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/roles/member"
	"github.com/rlinf/rlinf/roles/state"
	"github.com/rlinf/rlinf/spmd"
)

// A tuner is the common part of actors and critic workers. It has the member's part of the trained model, and the order
// of the texts.
type tuner struct {
	*texts
	m        *spmd.Member
	model    *lm.Model
	replica  *replica
	replicas *member.ReplicaGroup
	onDevice
}

func newTuner(ctx context.Context, m *spmd.Member, p *plan.Plan, model *lm.Model) (t *tuner, err error) {
	t = &tuner{texts: newTexts(p), m: m, model: model}
	if t.replicas, err = member.NewReplicaGroup(ctx, m, p.Job, model.Params); err == nil {
		t.replica, err = newReplica(ctx, m, p, p.Config.Reasons())
	}
	return t, err
}

// join connects a worker that has stayed on its rank in a move. m is its member in the new world.
func (t *tuner) join(ctx context.Context, m *spmd.Member, p *plan.Plan) error {
	t.m, t.plan = m, p
	if err := t.replicas.Join(ctx, m, p.Job); err != nil {
		return err
	}
	return t.replica.join(ctx, m, p, p.Config.Reasons())
}

// keptModel returns the model of a worker that stays on its rank in a move.
func (t *tuner) keptModel() *lm.Model { return t.model }

// stays returns w, a worker, as the part for its successor on the same rank. It returns nil if the job sends patches,
// because then all workers begin a new world with the initial weights.
func stays(w any, p *plan.Plan) any {
	if p.SendsPatches() {
		return nil
	}
	return w
}

// Member returns the member of this worker.
func (t *tuner) Member() *spmd.Member { return t.m }

// train calls update, and completes the metrics that update returns.
func (t *tuner) train(ctx context.Context, update func() (algo.Metrics, error)) (algo.Metrics, error) {
	span := t.m.Span("train").Begin()
	var m algo.Metrics
	err := member.Guard(func() (err error) {
		m, err = update()
		return err
	})
	span.End(0, 0)
	member.YieldToFirst(ctx, t.m, err)
	if err == nil {
		m.Names, m.Values = slices.Clone(m.Names), slices.Clone(m.Values)
		err = t.replicas.Trained(ctx, &m)
	}
	return m, err
}

// An SFTWorker is an actor of fine-tuning: it trains a language model on its share of the texts.
type SFTWorker struct {
	*tuner
	algo *algo.SFT
	mine []algo.Sequence // this replica's share of the validation texts
	stop *member.EarlyStop

	evaluated algo.Metrics // of the last evaluation, for stop
	failure   error        // see EvaluationError
}

// NewSFTWorker returns the worker of member m, for loop.Launch.
func NewSFTWorker(ctx context.Context, c *loop.Cluster, m *spmd.Member) (*SFTWorker, error) {
	shared, model, err := lookUp(c, m)
	if err != nil {
		return nil, err
	}
	p := shared.plan
	if w, stayed := loop.PartOf[*SFTWorker](c, m); stayed {
		err := w.join(ctx, m, p)
		w.useGPU(shared, m)
		return w, err
	}
	t, err := newTuner(ctx, m, p, model)
	if err != nil {
		return nil, err
	}
	t.useGPU(shared, m)
	w := &SFTWorker{tuner: t, stop: member.NewEarlyStop(&p.Config.Runner.EarlyStop)}
	optim, _ := p.Config.Optimisers()
	w.algo, err = algo.NewSFT(algo.SFTSetup{Model: model, Optim: optim,
		Iterations: int(min(p.MaxSteps, math.MaxInt32)), MicroBatch: p.Limit,
		Mesh: t.replica.mesh, Recompute: p.Config.RecomputedLayers(), Threads: p.Config.Actor.Threads,
		Replicas: w.replicas, Alloc: c.Alloc(m), Progress: loop.ProgressOf(c, m),
		Witness: loop.WitnessOf(c, m)})
	if p.Valid != nil {
		w.mine = p.Validation(t.replica.index, p.Actors)
	}
	return w, err
}

// RunTraining makes one optimiser step. Steps count from 0.
func (w *SFTWorker) RunTraining(ctx context.Context, step int64) (algo.Metrics, error) {
	return w.train(ctx, func() (algo.Metrics, error) {
		number := w.seek(step)
		b := w.plan.BatchOf(w.order, number, w.replica.index)
		return w.algo.Update(b.Mine, b.Targets, b.Tokens)
	})
}

// Evaluate measures the loss on the validation texts for the metrics eval/*. All actors return the same metrics.
// EvaluationError returns an error of this worker's model.
func (w *SFTWorker) Evaluate(ctx context.Context) (algo.Metrics, error) {
	defer w.m.Span("evaluate").Begin().End(0, 0)
	var m algo.Metrics
	err := member.Guard(func() (err error) {
		m, err = w.algo.Evaluate(w.mine)
		return err
	})
	if ctx.Err() != nil { // the job ends
		return algo.Metrics{}, err
	}
	for i, name := range m.Names {
		m.Names[i] = "eval/" + name
	}
	w.evaluated, w.failure = m, err
	return m, nil
}

// EvaluationError returns the error with which the last evaluation of this worker failed, or nil.
func (w *SFTWorker) EvaluationError() error { return w.failure }

// StopsEarly reports whether training should stop after the last evaluation. It is called once for each evaluation.
func (w *SFTWorker) StopsEarly() bool { return w.stop.Observe(w.evaluated) }

// EarlyStop returns the progress towards an early stop, for the progress line. If an early stop has ended the run, it
// also returns the reason. It returns nil if early stops are off.
func (w *SFTWorker) EarlyStop() []string { return w.stop.Describe() }

// First reports whether this worker is the first actor. The runner uses only the first actor's results, because all
// actors have equal results.
func (w *SFTWorker) First() bool { return w.m.Index() == 0 }

// Part returns the worker itself, or nil in a run that sends patches.
func (w *SFTWorker) Part() any { return stays(w, w.plan) }

// Close ends the worker's threads.
func (w *SFTWorker) Close() error {
	w.algo.Close()
	return nil
}

// Retire closes the worker, unless part is the worker itself.
func (w *SFTWorker) Retire(part any) error {
	return errors.Join(retire(w, part), w.releaseGPU(part == any(w)))
}

// State returns the model and the state of training.
func (w *SFTWorker) State(p state.Purpose) []state.Part {
	d := w.algo.Save()
	d.Set(member.EarlyStopState, w.stop.State())
	optim, _ := w.plan.Config.Optimisers()
	return w.state(p, trainerParts(d, w.network("actor", w.model, optim)))
}
