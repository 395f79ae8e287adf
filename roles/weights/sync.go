package weights

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/rlinf/rlinf/collectives"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/job"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/tensor"
)

// A Sync sends versions of a model's parameters from the actors to the readers, which are members of other components.
// A version is the number of iterations for which the parameters were trained. Only Close accepts a nil Sync.
type Sync struct {
	label string
	ends  []*end
}

// An end has what this rank needs to send or to receive a flow.
type end struct {
	*flow
	weights *collectives.Weights // nil if this rank has neither a source nor a reader
	first   int                  // the first actor on this rank that is a source; -1 if there is none
	state   []byte               // the state of this actor
	piece   []byte               // a copy of the sent fields; nil if the whole state is sent
	common  []overlap            // the overlaps of state with piece
}

// A SyncMode decides whether readers copy the weights, and in which format they receive them.
type SyncMode int

const (
	// Configured follows the configuration (weight_syncer). If ReadsInPlace is true, readers on an actor's node use the
	// actor's own parameters. Otherwise they copy the weights, because rollouts continue with older weights.
	Configured SyncMode = iota
	// Once follows weight_syncer, but keeps only one copy, because readers use each version as soon as it arrives.
	Once
	// Exact lets readers on an actor's node use the actor's own parameters. Other readers receive them unrounded.
	Exact
)

// A SyncSpec says which parameters are sent, and to which components.
type SyncSpec struct {
	Label   string   // name in messages
	Readers []string // components that read the weights
	Mode    SyncMode
	// Params returns the parameters of an actor or a reader on this rank.
	Params func(component string, member int) *nn.Params[float32]
	// Part returns the parameters of an actor or a reader on any rank, declared without memory. It returns the same
	// pointer for members with the same part. If Part is nil, all members have all parameters.
	Part func(component string, member int) *nn.Params[float32]
}

// members returns the members of components, with their parts. It adds new parts to cache, which maps results of
// SyncSpec.Part to parts.
func (s *SyncSpec) members(w *spmd.World, j *job.Job, components []string,
	cache map[*nn.Params[float32]]*part) (all []member) {
	for _, of := range components {
		for m, rank := range j.Placement.Ranks(of) {
			var declared *nn.Params[float32] // nil for all parameters; only ranks with a member know their layout
			if s.Part != nil {
				declared = s.Part(of, m)
			}
			p := cache[declared]
			if p == nil {
				p = new(part)
				cache[declared] = p
			}
			if known := p.layout != nil; !known && declared != nil {
				*p = *newPart(declared)
			} else if !known && rank == w.Rank() {
				*p = *newPart(s.Params(of, m))
			}
			all = append(all, member{of, m, rank, p})
		}
	}
	return all
}

// New connects the actors of j with the readers. Every rank must call it.
func New(ctx context.Context, w *spmd.World, j *job.Job, s SyncSpec) (*Sync, error) {
	parts := map[*nn.Params[float32]]*part{}
	actors, readers := s.members(w, j, []string{"actor"}, parts), s.members(w, j, s.Readers, parts)
	places := w.Nodes()
	if _, ok := w.Shared(); !ok {
		places = w.Ranks()
	}
	flows, err := newFlows(actors, readers, places)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.Label, err)
	}
	ws := &Sync{label: s.Label}
	for i, f := range flows {
		label := s.Label
		if i > 0 {
			label = fmt.Sprintf("%s, part %d", s.Label, i)
		}
		e, err := newEnd(ctx, w, j, &s, f, label)
		if err != nil {
			return nil, err
		}
		ws.ends = append(ws.ends, e)
	}
	return ws, nil
}

// newEnd makes the end of a flow on this rank.
func newEnd(ctx context.Context, w *spmd.World, j *job.Job, s *SyncSpec, f *flow, label string) (*end, error) {
	e := &end{flow: f, first: -1}
	sources := ranksOf(f.sources)
	if f.part != f.held { // only the first source sends a piece
		sources = []int{slices.Min(sources)}
	}
	here := func(m member) bool { return m.rank == w.Rank() }
	var readers []member
	for _, r := range f.readers {
		readers = append(readers, r.member)
	}
	holders := slices.Concat(f.sources, readers)
	if !slices.Contains(sources, w.Rank()) && !slices.ContainsFunc(readers, here) {
		return e, nil
	}
	spec := wireSpec(j, f)
	spec.Label, spec.Sources, spec.Readers = label, sources, ranksOf(readers)
	if slices.Contains(sources, w.Rank()) {
		actor := f.sources[slices.IndexFunc(f.sources, here)]
		e.first, e.state = actor.index, s.Params("actor", actor.index).State()
	}
	if f.part == f.held {
		if i := slices.IndexFunc(holders, func(m member) bool { return here(m) && m.part == f.part }); i >= 0 {
			spec.State = s.Params(holders[i].component, holders[i].index).State()
		}
	} else if e.first >= 0 {
		var err error
		if e.piece, err = w.Alloc(f.part.layout.Size()); err != nil {
			return nil, fmt.Errorf("%s: %w", label, err)
		}
		e.piece = e.piece[:f.part.layout.Size()]
		var fields []int
		for _, field := range f.part.fields {
			fields = append(fields, f.held.find(field.Name))
		}
		e.common, spec.State = overlaps(f.held, fields, f.part), e.piece
	}
	switch s.Mode {
	case Once:
		spec.Slots = 1
	case Exact:
		spec.Slots, spec.Wire, spec.Patch = 0, tensor.F32, nil
	}
	var err error
	e.weights, err = collectives.NewWeights(ctx, w, spec)
	return e, err
}

func ranksOf(members []member) (ranks []int) {
	for _, m := range members {
		ranks = append(ranks, m.rank)
	}
	return ranks
}

// Publish sends the actor's parameters as the newest version. All actors call Publish. If several actors on a rank have
// the same part, only the first of them sends it.
func (w *Sync) Publish(ctx context.Context, actor *spmd.Member, version int64) error {
	for _, e := range w.ends {
		if e.first != actor.Index() {
			continue
		}
		span := spmd.NewSpan(actor.Recorder(), spmd.Site{Op: spmd.OpPublish, Name: w.label})
		span.Begin()
		copyOverlaps(e.piece, e.state, e.common)
		err := e.weights.Publish(ctx, version)
		span.End(version, 0)
		if err != nil {
			return err
		}
	}
	return nil
}

// Reader returns the WeightsReader of m, a member on this rank. The member must have the same part as an actor.
func (w *Sync) Reader(m *spmd.Member) *collectives.WeightsReader {
	for _, e := range w.ends {
		if i := e.find(m); i >= 0 {
			return e.reader(i, m, w.label)
		}
	}
	panic(fmt.Sprintf("weights: %s %d reads no %s", m.Group(), m.Index(), w.label))
}

// find returns the index of m among the readers of f. It is -1 if m is not a reader of f.
func (f *flow) find(m *spmd.Member) int {
	return slices.IndexFunc(f.readers, func(r reading) bool { return r.component == m.Group() && r.index == m.Index() })
}

// reader returns the WeightsReader of m, which is reader i of the flow.
func (e *end) reader(i int, m *spmd.Member, label string) *collectives.WeightsReader {
	r := e.weights.Reader(i)
	r.Record(m.Recorder(), label)
	return r
}

// Close ends the transfer of weights on this rank. Every rank calls Close after the last Publish.
func (w *Sync) Close() {
	if w == nil {
		return
	}
	for _, e := range w.ends {
		e.weights.Close()
	}
}

// ReadsInPlace reports whether readers on an actor's node use the actor's own parameters.
func ReadsInPlace(j *job.Job) bool {
	return j.SyncInterval == 1 && j.Config.WeightSyncer.Bucket.Wire() == tensor.F32 && !j.Async()
}

// wireSpec returns the configured settings for sending f.
func wireSpec(j *job.Job, f *flow) collectives.WeightsSpec {
	cfg := &j.Config.WeightSyncer
	s := collectives.WeightsSpec{
		Layout: f.part.layout, Frozen: f.part.frozen, Wire: cfg.Bucket.Wire(), Bucket: int(cfg.Bucket.BucketSize),
		Group: j.Collectives(), Slots: 2,
	}
	if ReadsInPlace(j) {
		s.Slots = 0
	}
	if !f.all && f.sent != nil {
		for _, sent := range f.sent {
			s.Local = append(s.Local, !sent)
		}
	}
	if cfg.Type == config.WeightSyncPatch {
		first := &cfg.Patch.InitSync
		s.Patch = &collectives.PatchSpec{Delta: cfg.Patch.DeltaEncoding, Bucket: int(first.BucketSize),
			Held: make([]bool, len(s.Frozen))}
		for i, f := range f.part.fields {
			sent := len(first.Prefixes) == 0 || slices.ContainsFunc(first.Prefixes, func(p string) bool {
				return strings.HasPrefix(f.Name, p)
			})
			s.Patch.Held[i] = !first.Enabled || !sent
		}
		if slices.ContainsFunc(f.readers, func(r reading) bool { return r.part != f.part }) {
			s.Patch.Held = nil // these readers have other initial values
		}
	}
	return s
}
