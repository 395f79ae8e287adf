package worker

import (
	"context"
	"fmt"
	"runtime"
	"slices"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/roles/embodied/plan"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/roles/member"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/tensor"
	"golang.org/x/sys/unix"
)

// An ActorWorker trains one replica of the policy on a share of the environments.
type ActorWorker struct {
	base
	policy   policy.Policy
	algo     algo.Algorithm
	replicas *member.ReplicaGroup
	weights  *Shared
	inputs   []*input    // one for each of this actor's shards, in the order of environments
	joined   tensor.Dict // memory in which several shards are joined
	batch    tensor.Dict // the trajectories to train on
	arrivals *Arrivals   // nil unless the run is asynchronous
	witness  algo.Witness
}

// An input receives the trajectories of one shard.
type input struct {
	plan.ActorShard
	from *spmd.Receiver
	item *spmd.Item // the trajectories to train on
	next *spmd.Item // in an asynchronous run, received trajectories that wait for those of the other shards
	queue
}

// NewActorWorker returns the worker of member m, for loop.Launch. All replicas start with the same parameters, which
// depend only on the seed.
func NewActorWorker(ctx context.Context, c *loop.Cluster, m *spmd.Member) (*ActorWorker, error) {
	b, shared, err := newBase(c, m)
	if err != nil {
		return nil, err
	}
	p := b.plan
	pol := shared.policies["actor"][m.Index()]
	a := &ActorWorker{base: b, policy: pol, weights: shared, witness: loop.WitnessOf(c, m)}
	part, stayed := loop.PartOf[*actorPart](c, m)
	if stayed {
		a.algo, a.replicas, a.arrivals = part.algo, part.replicas, part.arrivals
		err = a.replicas.Join(ctx, m, p.Job)
	} else if a.replicas, err = member.NewReplicaGroup(ctx, m, p.Job, pol.Params()); err == nil {
		a.algo, err = p.NewAlgorithm(algo.Setup{Policy: pol, Replicas: a.replicas, Alloc: c.Alloc(m),
			Progress: loop.ProgressOf(c, m), Witness: a.witness})
	}
	if err != nil {
		return nil, err
	}
	for _, l := range p.Train.Routes {
		for _, s := range l.Shards {
			if s.Actor == m.Index() {
				a.inputs = append(a.inputs, &input{ActorShard: s})
			}
		}
	}
	slices.SortFunc(a.inputs, func(x, y *input) int { return x.Lo - y.Lo })
	if p.Async() && a.arrivals == nil {
		a.arrivals = newArrivals(p)
	}
	if stayed {
		for i, in := range a.inputs {
			in.queue = part.queues[i]
		}
	}
	return a, nil
}

// Index returns the number of this actor, from 0.
func (a *ActorWorker) Index() int { return a.m.Index() }

// Policy returns the replica that the actor trains.
func (a *ActorWorker) Policy() policy.Policy { return a.policy }

// Algorithm returns the algorithm that trains the policy.
func (a *ActorWorker) Algorithm() algo.Algorithm { return a.algo }

// Batch returns the last received trajectories. They are valid until the actor trains on them.
func (a *ActorWorker) Batch() tensor.Dict { return a.batch }

// SyncModelToRollout publishes the parameters as this version, for the rollout workers.
func (a *ActorWorker) SyncModelToRollout(ctx context.Context, version int64) error {
	return a.weights.training.Publish(ctx, a.m, version)
}

// SyncModelToEvaluation publishes the parameters as this version, for the rollout workers' next evaluation.
func (a *ActorWorker) SyncModelToEvaluation(ctx context.Context, version int64) error {
	return a.weights.evaluation.Publish(ctx, a.m, version)
}

// SyncModelToInference publishes the parameters as this version, for the inference workers.
func (a *ActorWorker) SyncModelToInference(ctx context.Context, version int64) error {
	return a.weights.inference.Publish(ctx, a.m, version)
}

// RecvRolloutBatch receives this actor's trajectories of the iteration.
func (a *ActorWorker) RecvRolloutBatch(ctx context.Context, out *spmd.Channel) error {
	if err := a.listen(out); err != nil {
		return err
	}
	for _, in := range a.inputs {
		var err error
		if in.item, err = in.from.Get(ctx); err != nil {
			return fmt.Errorf("trajectories of %s: %w", in.Name(), err)
		}
		stamp(in.item)
		if first := a.inputs[0]; in.item.Version != first.item.Version {
			return fmt.Errorf("trajectories of %s are of weights %d, those of %s of weights %d", in.Name(),
				in.item.Version, first.Name(), first.item.Version)
		}
	}
	a.assemble()
	return nil
}

// listen opens the receivers of all shards. Later calls do nothing.
func (a *ActorWorker) listen(out *spmd.Channel) (err error) {
	for _, in := range a.inputs {
		if in.from != nil {
			continue
		}
		if in.from, err = out.Receiver(a.m, spmd.Key{To: a.m.Index(), Name: in.Name()}); err != nil {
			return err
		}
	}
	return nil
}

// stamp writes the version of the weights into a rollout, if the algorithm uses the version.
func stamp(item *spmd.Item) {
	if t, ok := item.Dict.Get(algo.FieldVersion); ok {
		for i := range t.I64() {
			t.I64()[i] = item.Version
		}
	}
}

// assemble joins the shards in the order of their environments, and makes the result the batch. If there is only one
// shard, assemble copies nothing.
func (a *ActorWorker) assemble() {
	if len(a.inputs) == 1 {
		a.batch = a.inputs[0].item.Dict
		return
	}
	n := a.plan.Train.Envs / a.plan.Actors
	if a.joined.Len() == 0 {
		layout := a.plan.TrajectoryLayout(n)
		a.joined = layout.Bind(tensor.New(tensor.U8, layout.Size()).Bytes())
	}
	at := 0
	for _, in := range a.inputs {
		for f := range in.item.Dict.Len() {
			name, src := in.item.Dict.Entry(f)
			// The algorithm adds the advantages and the returns.
			if name != algo.FieldAdvantage && name != algo.FieldReturn {
				copyColumns(a.joined.Must(name), src, at)
			}
		}
		at += in.Hi - in.Lo
	}
	a.batch = a.joined
}

// copyColumns copies src to the columns of dst that begin at index offset. The shape of src is [T, m, ...], and the
// shape of dst is [T, n, ...].
func copyColumns(dst, src tensor.Tensor, offset int) {
	column := src.Len() / (src.Dim(0) * src.Dim(1)) * src.DType().Size()
	to, from := dst.Bytes(), src.Bytes()
	wide, narrow := dst.Dim(1)*column, src.Dim(1)*column
	for t := range src.Dim(0) {
		copy(to[t*wide+offset*column:], from[t*narrow:(t+1)*narrow])
	}
}

// Resample lets the algorithm choose from batch n of this iteration, and reports whether the algorithm needs another
// batch.
func (a *ActorWorker) Resample(n int) (more bool, err error) {
	resampler, ok := a.algo.(algo.Resampler)
	if !ok {
		return false, fmt.Errorf("algorithm %T cannot choose from several rollouts", a.algo)
	}
	if more, err = resampler.Resample(n, &a.batch); err == nil {
		a.release()
	}
	return more, err
}

// ComputeAdvantagesAndReturns prepares the batch for training.
func (a *ActorWorker) ComputeAdvantagesAndReturns() error {
	a.witness.Show(algo.PhaseRollout, a.batch)
	err := member.Guard(func() error { return a.algo.Prepare(&a.batch) })
	a.witness.Show(algo.PhaseAdvantages, a.batch)
	return err
}

// RunTraining trains on the batch and releases its memory.
func (a *ActorWorker) RunTraining(ctx context.Context) (algo.Metrics, error) {
	span := a.m.Span("train").Begin()
	m, err := a.update()
	span.End(0, 0)
	a.release()
	member.YieldToFirst(ctx, a.m, err)
	if err == nil && a.arrivals != nil {
		err = a.arrivals.describe(&m, a.replicas)
	}
	if err == nil {
		err = a.CompareReplicas(ctx, &m)
	}
	return m, err
}

// update lets the algorithm train on the batch. If the environments are robots, it trains in a thread of lower
// priority. On a busy core, decisions of rollout workers then come before updates.
func (a *ActorWorker) update() (m algo.Metrics, err error) {
	update := func() error {
		m, err = a.algo.Update(a.batch)
		return err
	}
	if a.plan.Backlog() == 0 {
		err = member.Guard(update)
		return m, err
	}
	done := make(chan any)
	go func() {
		runtime.LockOSThread()                              // never unlocked: the thread ends with the goroutine
		raised, _ := unix.Getpriority(unix.PRIO_PROCESS, 0) // 20 - nice
		unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), min(20-raised+updateNice, 19))
		defer func() { done <- recover() }()
		err = member.Guard(update)
	}()
	if p := <-done; p != nil {
		panic(p)
	}
	return m, err
}

// updateNice is added to the nice value of updates if environments are robots. On a busy core, an update then gets a
// tenth of the time of decisions.
const updateNice = 10

// CompareReplicas is called after each iteration. It adds the error of compressed gradients to m. Every
// comm.check_replicas iterations it compares the parameters of all actors, which must be equal.
func (a *ActorWorker) CompareReplicas(ctx context.Context, m *algo.Metrics) error {
	return a.replicas.Trained(ctx, m)
}

// release returns the memory of shards to their senders. It skips shards whose memory is already released.
func (a *ActorWorker) release() {
	for _, in := range a.inputs {
		if in.item != nil {
			in.release(in.item)
			in.item = nil
		}
	}
}
