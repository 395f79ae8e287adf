package classifier

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/policy/resnet"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/roles/member"
	"github.com/rlinf/rlinf/roles/state"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/tensor"
)

// shared has the classifiers of a rank's actors.
type shared struct {
	plan *plan
	nets map[int]*resnet.Classifier // by the number of the actor
}

// open makes the classifiers of this rank's actors with their initial parameters. After a move the parameters come from
// other ranks, or from an actor that stays here.
func open(w *spmd.World, p *plan, own *loop.Holdings) (*shared, error) {
	s := &shared{p, map[int]*resnet.Classifier{}}
	for _, m := range p.MembersOn("actor", w.Rank()) {
		if _, stays := loop.Part[*worker](own, "actor", m); stays {
			continue
		}
		make := p.load
		if own.Moved() {
			make = p.newNetwork
		}
		net, err := make(own.Alloc("actor", m))
		if err != nil {
			return nil, fmt.Errorf("actor %d: %w", m, err)
		}
		s.nets[m] = net
	}
	return s, nil
}

// Connect does nothing: nobody reads the actors' parameters.
func (s *shared) Connect(context.Context) error { return nil }

// Close does nothing.
func (s *shared) Close() {}

// A worker is an actor, which trains a replica of the classifier.
type worker struct {
	m        *spmd.Member
	plan     *plan
	net      *resnet.Classifier
	algo     *algo.Classify
	replicas *member.ReplicaGroup
	order    *order
	images   []byte
	labels   []byte
	stop     *member.EarlyStop

	evaluated algo.Metrics
	table     []string
	failure   error
}

// newWorker returns the worker of member m, for loop.Launch.
func newWorker(ctx context.Context, c *loop.Cluster, m *spmd.Member) (*worker, error) {
	s := loop.SharedOf(c).(*shared)
	if w, stayed := loop.PartOf[*worker](c, m); stayed {
		w.m, w.plan, w.order.plan = m, s.plan, s.plan
		return w, w.replicas.Join(ctx, m, s.plan.Job)
	}
	p, net := s.plan, s.nets[m.Index()]
	w := &worker{m: m, plan: p, net: net, order: newOrder(p), stop: member.NewEarlyStop(&p.Config.Runner.EarlyStop)}
	var err error
	if w.replicas, err = member.NewReplicaGroup(ctx, m, p.Job, net.Params()); err != nil {
		return nil, err
	}
	a := &p.Config.Actor
	w.algo, err = algo.NewClassify(algo.ClassifySetup{Network: net, Optim: a.Optim, GlobalBatch: a.GlobalBatchSize,
		MicroBatch: a.MicroBatchSize, Iterations: int(min(p.MaxSteps, math.MaxInt32)), Seed: a.Seed,
		Replicas: w.replicas, Alloc: c.Alloc(m), Progress: loop.ProgressOf(c, m)})
	if err != nil {
		return nil, err
	}
	w.images, w.labels = make([]byte, w.algo.Local()*net.Image.Len()), make([]byte, w.algo.Local())
	return w, nil
}

// Member returns the member of this worker.
func (w *worker) Member() *spmd.Member { return w.m }

// Part returns the worker itself.
func (w *worker) Part() any { return w }

// Retire does nothing: a worker runs nothing.
func (w *worker) Retire(any) error { return nil }

// State returns the parameters, the state of training and the hash of the frames. Replicas are equal, so the first one
// saves them.
func (w *worker) State(p state.Purpose) []state.Part {
	parts := state.PartsOf(state.ModelFile, "", w.net.Params(), w.net.Params())
	d := w.algo.Save()
	d.Set(member.EarlyStopState, w.stop.State())
	for i := range d.Len() {
		name, t := d.Entry(i)
		parts = append(parts, state.PartOf(state.TrainerFile, name, t, nn.Slice{}))
	}
	if !p.Move {
		parts = append(parts, state.Part{File: state.TrainerFile, Make: func() ([]state.Part, error) {
			hash := tensor.FromI64([]int64{int64(w.plan.train.Hash)}, 1)
			return []state.Part{state.PartOf(state.TrainerFile, framesHash, hash, nn.Slice{})}, nil
		}})
	}
	for i := range parts {
		parts[i].Spare = w.m.Index() > 0
	}
	return append(parts, state.Number(state.Moves, "iterations", w.replicas.Iterations,
		func(n int64) { w.replicas.Iterations = n }))
}

// train makes one optimiser step. Steps count from 0.
func (w *worker) train(ctx context.Context, step int64) (algo.Metrics, error) {
	span := w.m.Span("train").Begin()
	w.order.fill(w.images, w.labels, step, w.m.Index())
	m, err := w.algo.Update(w.images, w.labels)
	span.End(0, 0)
	member.YieldToFirst(ctx, w.m, err)
	if err == nil {
		err = w.replicas.Trained(ctx, &m)
	}
	return m, err
}

// evaluate measures the validation images. All actors return the same metrics.
func (w *worker) evaluate(ctx context.Context) (algo.Metrics, error) {
	defer w.m.Span("evaluate").Begin().End(0, 0)
	sums, err := w.algo.Evaluate(w.plan.validation(w.m.Index()))
	if ctx.Err() != nil { // the job ends
		return algo.Metrics{}, err
	}
	w.failure, w.table = err, sums.Table()
	w.evaluated = inSection(sums.Metrics())
	return w.evaluated, nil
}

// inSection returns m with "eval/" before each name.
func inSection(m algo.Metrics) algo.Metrics {
	m.Names = slices.Clone(m.Names)
	for i, name := range m.Names {
		m.Names[i] = "eval/" + name
	}
	return m
}

// EvaluationError returns the error with which the last evaluation of this worker failed, or nil.
func (w *worker) EvaluationError() error { return w.failure }
