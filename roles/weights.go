package roles

import (
	"context"
	"slices"
	"strings"

	"github.com/rlinf/rlinf/collectives"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/tensor"
)

// weights bring the actors' parameters to the rollout workers; see collectives.Weights. A version
// is the number of iterations that went into it.
//
// An asynchronous run has slots, and its rollouts copies of them; see runningLane.
//
// Where every iteration begins with the newest weights, rollout workers on an actor's node read
// them where that actor has them: an actor changes its parameters only when all trajectories are
// with the actors, and by then nobody infers any more. Else they are copied: the rollouts' weights
// stay while the actors' move on.
type weights struct {
	training   *collectives.Weights
	evaluation *collectives.Weights // for evaluations with newer weights than the rollouts'; nil: with theirs
	inference  *collectives.Weights // for inference workers; nil: there are none
}

// makeWeights makes the weights between the workers of both groups. Collective over the world.
func (r *EmbodiedRunner) makeWeights(ctx context.Context, w *spmd.World) error {
	var here []policy.Policy
	for _, rw := range r.rollout.Here() {
		here = append(here, rw.policy)
	}
	spec, ok := r.weightsTo("weights", r.rollout.Spec().Ranks, here)
	if !ok {
		return nil
	}
	var err error
	if r.weights.training, err = collectives.NewWeights(ctx, w, spec); err != nil {
		return err
	}
	if r.job.evaluatesApart() {
		spec.Label, spec.Slots = "weights of evaluations", 1
		if r.weights.evaluation, err = collectives.NewWeights(ctx, w, spec); err != nil {
			return err
		}
	}
	if actors := r.actor.Here(); len(actors) > 0 {
		actors[0].weights = &r.weights
	}
	for _, rw := range r.rollout.Here() {
		rw.training = r.weights.training.Reader(rw.m.Index())
		if r.weights.evaluation != nil {
			rw.evaluation = r.weights.evaluation.Reader(rw.m.Index())
		}
	}
	return nil
}

// makeInferenceWeights makes those of inference workers, which use the newest before every update:
// where an actor has them, or as exact copies. Collective over the world.
func (r *EmbodiedRunner) makeInferenceWeights(ctx context.Context, w *spmd.World) error {
	var here []policy.Policy
	for _, iw := range r.inference.Here() {
		here = append(here, iw.policy)
	}
	spec, ok := r.weightsTo("weights of inference", r.inference.Spec().Ranks, here)
	if !ok {
		return nil
	}
	spec.Slots, spec.Wire, spec.Patch = 0, tensor.F32, nil
	var err error
	if r.weights.inference, err = collectives.NewWeights(ctx, w, spec); err != nil {
		return err
	}
	for _, iw := range r.inference.Here() {
		iw.weights = r.weights.inference.Reader(iw.m.Index())
	}
	return nil
}

// weightsTo says how parameters travel from the actors to readers on these ranks; here are the
// readers' policies on this one. It reports false where no worker of either is here.
func (r *EmbodiedRunner) weightsTo(label string, readers []int, here []policy.Policy) (collectives.WeightsSpec, bool) {
	if actors := r.actor.Here(); len(actors) > 0 {
		here = []policy.Policy{actors[0].policy}
	}
	if len(here) == 0 {
		return collectives.WeightsSpec{}, false
	}
	params := here[len(here)-1].Params()
	spec := r.job.weightsSpec(params)
	spec.Label, spec.Sources, spec.Readers, spec.State = label, r.actor.Spec().Ranks, readers, params.State()
	return spec, true
}

// weightsSpec says how parameters like p travel.
func (j *job) weightsSpec(p *nn.Params[float32]) collectives.WeightsSpec {
	cfg := &j.cfg.WeightSyncer
	s := collectives.WeightsSpec{
		Layout: p.Layout(), Wire: cfg.Bucket.wire(), Bucket: int(cfg.Bucket.BucketSize), Group: j.collectives(),
		Slots: 2,
	}
	if j.syncInterval == 1 && s.Wire == tensor.F32 && !j.async() {
		s.Slots = 0
	}
	s.Frozen = make([]bool, len(s.Layout.Fields()))
	for i, f := range p.Fields {
		s.Frozen[i] = slices.ContainsFunc(p.Groups, func(g nn.Group) bool {
			return !g.Trainable && g.Lo <= f.Off && f.Off < g.Hi
		})
	}
	if cfg.Type == WeightSyncPatch {
		first := &cfg.Patch.InitSync
		s.Patch = &collectives.PatchSpec{Delta: cfg.Patch.DeltaEncoding, Bucket: int(first.BucketSize),
			Held: make([]bool, len(s.Frozen))}
		for i, f := range s.Layout.Fields() {
			sent := len(first.Prefixes) == 0 || slices.ContainsFunc(first.Prefixes, func(p string) bool {
				return strings.HasPrefix(f.Name, p)
			})
			s.Patch.Held[i] = !first.Enabled || !sent
		}
	}
	return s
}

// publish gives the actors' parameters to the rollout workers, or to those of an evaluation.
func (w *weights) publish(ctx context.Context, version int64, evaluation bool) error {
	if evaluation {
		return w.evaluation.Publish(ctx, version)
	}
	return w.training.Publish(ctx, version)
}

// close is called on every rank when there is nothing more to publish.
func (w *weights) close() {
	w.training.Close()
	w.evaluation.Close()
	w.inference.Close()
}
