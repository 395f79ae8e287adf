package weights

import (
	"context"
	"slices"
	"strings"

	"github.com/rlinf/rlinf/collectives"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/job"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/tensor"
)

// Weights carry versions of a model's parameters from the actors, which train it, to the members of other
// components, which read it; see collectives.Weights. A version is the number of iterations that went into it.
// A nil Weights carries nothing.
type Weights struct {
	weights *collectives.Weights // nil: neither an actor nor a reader is on this rank
	first   int                  // the first actor of this rank, which publishes for all of its actors; -1: none
	readers map[string]int       // the number of each component's first reader
}

// A Mode says how readers use the weights.
type Mode int

const (
	// Configured is as weight_syncer says. If every iteration begins with the newest weights, readers on an
	// actor's node read them in place: an actor changes its parameters only when it has received all that it
	// trains on, and nobody infers. Otherwise the weights are copied: those of the rollouts stay while the
	// actors' change.
	Configured Mode = iota
	// Once is as weight_syncer says, for readers that use each version at once.
	Once
	// Exact is in place, or by exact copies.
	Exact
)

// A Spec says which parameters travel, and to whom.
type Spec struct {
	Label   string   // in messages
	Readers []string // the components that read
	Mode    Mode
	// Params are those of a model on this rank: the first actor's, else that of a reader. nil: there is none.
	Params *nn.Params[float32]
}

// New makes the weights between the actors of j and their readers. Collective over the world.
func New(ctx context.Context, w *spmd.World, j *job.Job, s Spec) (*Weights, error) {
	ws := &Weights{first: -1, readers: map[string]int{}}
	if actors := j.MembersOn("actor", w.Rank()); len(actors) > 0 {
		ws.first = actors[0]
	}
	var ranks []int
	for _, of := range s.Readers {
		ws.readers[of] = len(ranks)
		if j.Placement.Has(of) {
			ranks = append(ranks, j.Placement.Group(of).Ranks...)
		}
	}
	if s.Params == nil {
		return ws, nil
	}
	spec := wireSpec(j, s.Params)
	spec.Label, spec.State = s.Label, s.Params.State()
	spec.Sources, spec.Readers = j.Placement.Group("actor").Ranks, ranks
	switch s.Mode {
	case Once:
		spec.Slots = 1
	case Exact:
		spec.Slots, spec.Wire, spec.Patch = 0, tensor.F32, nil
	}
	var err error
	ws.weights, err = collectives.NewWeights(ctx, w, spec)
	return ws, err
}

// Publish makes the actors' parameters the newest version. Every actor calls it; one of a rank speaks for all.
func (w *Weights) Publish(ctx context.Context, actor int, version int64) error {
	if actor != w.first {
		return nil
	}
	return w.weights.Publish(ctx, version)
}

// Reader returns the end of a reader on this rank.
func (w *Weights) Reader(m *spmd.Member) *collectives.WeightsReader {
	return w.weights.Reader(w.readers[m.Group()] + m.Index())
}

// Close is called on every rank when there is nothing more to publish.
func (w *Weights) Close() {
	if w != nil {
		w.weights.Close()
	}
}

// ReadsInPlace reports whether readers on an actor's node use the actor's own parameters.
func ReadsInPlace(j *job.Job) bool {
	return j.SyncInterval == 1 && j.Config.WeightSyncer.Bucket.Wire() == tensor.F32 && !j.Async()
}

// wireSpec says how parameters like p travel.
func wireSpec(j *job.Job, p *nn.Params[float32]) collectives.WeightsSpec {
	cfg := &j.Config.WeightSyncer
	s := collectives.WeightsSpec{
		Layout: p.Layout(), Wire: cfg.Bucket.Wire(), Bucket: int(cfg.Bucket.BucketSize), Group: j.Collectives(),
		Slots: 2,
	}
	if ReadsInPlace(j) {
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
