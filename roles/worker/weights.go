package worker

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rlinf/rlinf/collectives"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/job"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/tensor"
)

// Weights bring the actors' parameters to the rollout workers; see collectives.Weights. A version
// is the number of iterations that went into it.
//
// An asynchronous run has slots, and each rollout a copy; see asyncRoute.
//
// If every iteration begins with the newest weights, rollout workers on an actor's node read them
// in place: an actor changes its parameters only after it has received all trajectories, when
// nobody infers. Otherwise the weights are copied: those of the rollouts stay while the actors'
// change.
type Weights struct {
	training   *collectives.Weights
	evaluation *collectives.Weights // for evaluations with newer weights than the rollouts'; nil: with theirs
	inference  *collectives.Weights // for inference workers; nil: there are none

	actors, rollouts, inferences map[int]policy.Policy // of this rank's workers, by member
}

// NewWeights makes the policies of this rank's workers, all with the same first parameters, and the
// weights between them. Collective over the world.
func NewWeights(ctx context.Context, w *spmd.World, j *job.Job) (*Weights, error) {
	ws := new(Weights)
	var err error
	// Other workers may read the actors' parameters in place. Workers that infer begin with a copy,
	// and later use the weights.
	if ws.actors, err = policiesOn(w.Rank(), j, "actor", w.Alloc); err != nil {
		return nil, err
	}
	if ws.rollouts, err = policiesOn(w.Rank(), j, "rollout", tensor.Heap); err != nil {
		return nil, err
	}
	if ws.inferences, err = policiesOn(w.Rank(), j, "inference", tensor.Heap); err != nil {
		return nil, err
	}
	if spec, ok := ws.between(j, "rollout", ws.rollouts); ok {
		spec.Label = "weights"
		if ws.training, err = collectives.NewWeights(ctx, w, spec); err != nil {
			return nil, err
		}
		if j.EvaluatesApart() {
			spec.Label, spec.Slots = "weights of evaluations", 1
			if ws.evaluation, err = collectives.NewWeights(ctx, w, spec); err != nil {
				return nil, err
			}
		}
	}
	if j.Inferences == 0 {
		return ws, nil
	}
	// Inference workers use the newest weights before every update: in place, or as exact copies.
	if spec, ok := ws.between(j, "inference", ws.inferences); ok {
		spec.Label, spec.Slots, spec.Wire, spec.Patch = "weights of inference", 0, tensor.F32, nil
		ws.inference, err = collectives.NewWeights(ctx, w, spec)
	}
	return ws, err
}

// policiesOn makes the policies of a component's workers on a rank, by member.
func policiesOn(rank int, j *job.Job, component string, alloc tensor.Allocator) (map[int]policy.Policy, error) {
	policies := map[int]policy.Policy{}
	if !j.Placement.Has(component) {
		return policies, nil
	}
	for m, r := range j.Placement.Group(component).Ranks {
		if r != rank {
			continue
		}
		pol, err := j.NewPolicy(alloc)
		if err != nil {
			return nil, fmt.Errorf("%s %d: %w", component, m, err)
		}
		policies[m] = pol
	}
	return policies, nil
}

// between says how parameters travel from the actors to the workers of a component, readers. here
// are the policies of the readers on this rank. It returns false if neither an actor nor a reader
// is on this rank.
func (ws *Weights) between(j *job.Job, readers string, here map[int]policy.Policy) (collectives.WeightsSpec, bool) {
	if len(ws.actors) > 0 {
		here = ws.actors
	}
	if len(here) == 0 {
		return collectives.WeightsSpec{}, false
	}
	params := here[slices.Min(slices.Collect(maps.Keys(here)))].Params()
	spec := weightsSpec(j, params)
	spec.Sources, spec.Readers, spec.State = j.Placement.Group("actor").Ranks, j.Placement.Group(readers).Ranks,
		params.State()
	return spec, true
}

// speaks reports whether actor m publishes the parameters for its rank: the first actor does.
func (ws *Weights) speaks(m int) bool { return m == slices.Min(slices.Collect(maps.Keys(ws.actors))) }

// readsInPlace reports whether readers on an actor's node use the actor's own parameters.
func readsInPlace(j *job.Job) bool {
	return j.SyncInterval == 1 && j.Config.WeightSyncer.Bucket.Wire() == tensor.F32 && !j.Async()
}

// weightsSpec says how parameters like p travel.
func weightsSpec(j *job.Job, p *nn.Params[float32]) collectives.WeightsSpec {
	cfg := &j.Config.WeightSyncer
	s := collectives.WeightsSpec{
		Layout: p.Layout(), Wire: cfg.Bucket.Wire(), Bucket: int(cfg.Bucket.BucketSize), Group: j.Collectives(),
		Slots: 2,
	}
	if readsInPlace(j) {
		s.Slots = 0
	}
	s.Frozen = make([]bool, len(s.Layout.Fields()))
	for i, f := range p.Fields {
		s.Frozen[i] = slices.ContainsFunc(p.Groups, func(g nn.Group) bool {
			return !g.Trainable && g.Lo <= f.Off && f.Off < g.Hi
		})
	}
	if cfg.Type == config.WeightSyncPatch {
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

// Close is called on every rank when there is nothing more to publish.
func (w *Weights) Close() {
	w.training.Close()
	w.evaluation.Close()
	w.inference.Close()
}
