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

// Weights carry versions of a model's parameters from the actors to their readers, the members of other components. A
// version is the number of iterations for which the parameters were trained. A nil Weights carries nothing.
type Weights struct {
	weights *collectives.Weights // nil: this rank has neither an actor nor a reader
	first   int                  // the first actor on this rank, which publishes for all actors on it; -1: none
	readers []reader             // all readers, in order
	label   string
}

// A reader is a member of a component that reads weights.
type reader struct {
	component string
	member    int
}

// A Mode says when readers use the weights, and so which copies are needed.
type Mode int

const (
	// Configured follows weight_syncer. If every iteration begins with the newest weights, readers on an actor's node
	// read the actor's own parameters, because no reader computes while actors change them. Otherwise readers copy
	// the weights, because rollouts go on with older ones.
	Configured Mode = iota
	// Once follows weight_syncer, and keeps one copy: readers use each version at once.
	Once
	// Exact reads in place, or copies without rounding.
	Exact
)

// A Spec says which parameters are sent, and to which components.
type Spec struct {
	Label   string   // name in messages
	Readers []string // components that read the weights
	Mode    Mode
	// Params are the parameters of a model on this rank: those of its first actor, or else of a reader. nil: this
	// rank has no such model.
	Params *nn.Params[float32]
	// Has says which members have these parameters, where members have parts of a model; nil: all.
	Has func(component string, member int) bool
}

// members returns the members of a component that have the parameters of s, and their ranks.
func (s *Spec) members(j *job.Job, component string) (members, ranks []int) {
	for m, rank := range j.Placement.Ranks(component) {
		if s.Has == nil || s.Has(component, m) {
			members, ranks = append(members, m), append(ranks, rank)
		}
	}
	return members, ranks
}

// New makes the weights between the actors of j and their readers. Collective over the world.
func New(ctx context.Context, w *spmd.World, j *job.Job, s Spec) (*Weights, error) {
	ws := &Weights{first: -1, label: s.Label}
	actors, sources := s.members(j, "actor")
	if i := slices.Index(sources, w.Rank()); i >= 0 {
		ws.first = actors[i]
	}
	var ranks []int
	for _, of := range s.Readers {
		members, on := s.members(j, of)
		for _, m := range members {
			ws.readers = append(ws.readers, reader{of, m})
		}
		ranks = append(ranks, on...)
	}
	if s.Params == nil {
		return ws, nil
	}
	spec := wireSpec(j, s.Params)
	spec.Label, spec.State = s.Label, s.Params.State()
	spec.Sources, spec.Readers = sources, ranks
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

// Publish makes the actors' parameters the newest version. All actors call it; the first on each rank publishes.
func (w *Weights) Publish(ctx context.Context, actor *spmd.Member, version int64) error {
	if actor.Index() != w.first {
		return nil
	}
	span := spmd.NewSpan(actor.Recorder(), spmd.Site{Op: spmd.OpPublish, Name: w.label})
	span.Begin()
	defer span.End(version, 0)
	return w.weights.Publish(ctx, version)
}

// Reader returns the reader of member m, on this rank.
func (w *Weights) Reader(m *spmd.Member) *collectives.WeightsReader {
	r := w.weights.Reader(slices.Index(w.readers, reader{m.Group(), m.Index()}))
	r.Record(m.Recorder(), w.label)
	return r
}

// Close is called on every rank, after the last Publish.
func (w *Weights) Close() {
	if w != nil {
		w.weights.Close()
	}
}

// ReadsInPlace reports whether readers on an actor's node use the actor's own parameters.
func ReadsInPlace(j *job.Job) bool {
	return j.SyncInterval == 1 && j.Config.WeightSyncer.Bucket.Wire() == tensor.F32 && !j.Async()
}

// wireSpec returns the configured way to send parameters with p's layout.
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
