package collectives

import (
	"context"
	"fmt"
	"slices"

	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/tensor"
)

// WeightsSpec says what Weights carry, and between whom. But for State it is the same on every
// rank.
type WeightsSpec struct {
	Label string // names the weights in messages
	// Layout is what State holds.
	Layout *tensor.Layout
	// Frozen marks the tensors of Layout that do not change after the first version; nil: none.
	Frozen []bool
	// Sources are the ranks that have a replica of the state, all replicas the same.
	Sources []int
	// Readers is the rank of each reader; several may be on one rank.
	Readers []int
	// State is this rank's replica on a source, memory of World.Alloc; elsewhere what Patch.Held
	// asks for, or nil.
	State []byte
	// Slots is how many copies each set of ranks that share one has. With 2, a version arrives
	// while readers still use the one before. With 1, it waits until they ask for it. With 0,
	// readers on a source's node use its State in place: it must not change while they do, which is
	// the caller's to see to.
	Slots int
	// Wire is what F32 tensors travel as: F32, or BF16, to which every reader's values are then
	// rounded, wherever it is.
	Wire tensor.DType
	// Group is how the groups that the weights travel over work.
	Group Options
	// Bucket is how many bytes are sent at once; a tensor is not split.
	Bucket int
	// Patch, unless nil, sends only changes, tensor by tensor, where that is less than the whole.
	Patch *PatchSpec
}

// A PatchSpec says how changes are sent.
type PatchSpec struct {
	// Delta writes the places of changed elements as distances, which take fewer bytes where many
	// are close together.
	Delta bool
	// Held marks the tensors whose first values, in State, are the same on all ranks from the
	// beginning; nil: none. They are compared.
	Held []bool
	// Bucket is WeightsSpec.Bucket for the first version.
	Bucket int
}

// Weights carry versions of one state from its sources to readers. The sources publish; a reader
// adopts when it suits it:
//
//	w, err := NewWeights(ctx, world, spec)         // collective over Sources and Readers
//	w.Publish(ctx, version)                        // on every source, in the same order
//	state, version, err := w.Reader(i).Adopt(ctx, version)
//	w.Close()                                      // on every rank, when no source will publish again
//
// The ranks of a node share a copy, where they share memory: the sources' own (Slots 0), or one
// that the first source of the node fills. Nodes without a source get theirs by a broadcast from
// the first source of all, which goes on while Publish has returned and readers work. All readers
// see the same bits.
type Weights struct {
	spec    WeightsSpec
	world   *spmd.World
	unit    *unit    // of this rank; nil: it has none, as nobody reads near this source
	seq     uint32   // publications so far
	writes  bool     // this rank fills the unit
	channel *channel // the end of the broadcast that is here; nil: none
	jobs    chan job // to the goroutine that sends; nil where there is none
	readers []*WeightsReader
}

// A job is a publication to be sent.
type job struct {
	seq     uint32
	version int64
}

// NewWeights makes the weights of spec. It is collective over the sources and readers, and returns
// nil elsewhere. If the layout of another rank differs, or what that rank holds, NewWeights fails
// on the first source.
func NewWeights(ctx context.Context, world *spmd.World, spec WeightsSpec) (*Weights, error) {
	w, err := newWeights(ctx, world, spec)
	if err != nil {
		return nil, fmt.Errorf("weights %q: %w", spec.Label, err)
	}
	return w, nil
}

func newWeights(ctx context.Context, world *spmd.World, spec WeightsSpec) (*Weights, error) {
	shared, ok := world.Shared()
	units := planUnits(&spec, world.Nodes(), ok)
	root := slices.Min(spec.Sources)
	ranks := append([]int{root}, slices.Concat(spec.Sources, spec.Readers)...)
	slices.Sort(ranks[1:])
	ranks = slices.Compact(append(ranks[:1], slices.DeleteFunc(ranks[1:], func(r int) bool { return r == root })...))
	if !slices.Contains(ranks, world.Rank()) {
		return nil, nil
	}
	ends, err := world.NewComm(ranks, spec.Label+": set up")
	if err != nil {
		return nil, err
	}
	setup := ends[0]
	if err := compare(ctx, setup, &spec); err != nil {
		return nil, err
	}
	w := &Weights{spec: spec, world: world}
	leaders := []int{root} // of those that the broadcast goes to, after the root
	for i := range units {
		p := &units[i]
		if !p.source && p.leader != root {
			leaders = append(leaders, p.leader)
		}
		if p.leader != world.Rank() && !slices.Contains(p.ranks, world.Rank()) {
			continue
		}
		if w.unit, err = newUnit(ctx, world, shared, setup, ranks, &spec, p); err != nil {
			return nil, err
		}
		w.writes = p.source && p.leader == world.Rank()
		for _, r := range p.readers {
			if spec.Readers[r] == world.Rank() {
				w.readers = append(w.readers, &WeightsReader{unit: w.unit, index: r, word: slices.Index(p.readers, r)})
			}
		}
	}
	if err := setup.Close(); err != nil {
		return nil, err
	}
	if len(leaders) == 1 || !slices.Contains(leaders, world.Rank()) {
		return w, nil
	}
	if w.channel, err = newChannel(world, leaders, &spec); err != nil {
		return nil, err
	}
	if world.Rank() == root {
		w.jobs = make(chan job, maxSlots+1) // as many as can be under way
		w.unit.sends = true
		world.Go(spec.Label, func() error { return w.send(ctx) })
	} else {
		world.Go(spec.Label, func() error { return w.receive(ctx) })
	}
	return w, nil
}

// Publish makes the present state of the sources the newest version. Every source calls it, with
// versions that grow. When it returns, the state may change, unless readers use it in place. It
// waits for readers only where the slots are all in use.
func (w *Weights) Publish(ctx context.Context, version int64) error {
	if !w.writes {
		return nil // another rank fills what is read here
	}
	w.seq++
	u := w.unit
	if u.slots > 0 {
		if err := u.claim(ctx, w.seq); err != nil {
			return fmt.Errorf("weights %q: publish version %d: %w", w.spec.Label, version, err)
		}
		w.spec.copyState(u.slot(w.seq), w.seq <= uint32(u.slots))
	}
	u.publish(w.seq, version)
	if w.jobs == nil {
		return nil
	}
	select {
	case w.jobs <- job{w.seq, version}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if u.slots > 0 {
		return nil
	}
	if err := u.awaitSent(ctx, w.seq); err != nil {
		return fmt.Errorf("weights %q: send version %d: %w", w.spec.Label, version, err)
	}
	return nil
}

// copyState copies State to a slot, with the values that readers elsewhere get. Frozen tensors are
// copied the first time alone.
func (s *WeightsSpec) copyState(slot []byte, first bool) {
	for i, f := range s.Layout.Fields() {
		if !first && s.Frozen != nil && s.Frozen[i] {
			continue
		}
		lo, n := s.Layout.Offset(i), f.Bytes()
		dst, src := slot[lo:lo+n], s.State[lo:lo+n]
		if f.DType == tensor.F32 && s.Wire == tensor.BF16 {
			round(view[float32](dst), view[float32](src))
		} else {
			copy(dst, src)
		}
	}
}

// round sets dst to src, rounded to BF16.
func round(dst, src []float32) {
	var b [256]uint16
	for len(src) > 0 {
		n := min(len(b), len(src))
		tensor.ToBF16(b[:n], src[:n])
		tensor.FromBF16(dst[:n], b[:n])
		dst, src = dst[n:], src[n:]
	}
}

// send is the life of the goroutine that sends what the first source publishes.
func (w *Weights) send(ctx context.Context) error {
	for {
		select {
		case j, ok := <-w.jobs:
			if !ok {
				return w.channel.end(ctx)
			}
			src := w.spec.State
			if w.unit.slots > 0 {
				src = w.unit.slot(j.seq)
			}
			if err := w.channel.send(ctx, j, src); err != nil {
				return fmt.Errorf("send version %d: %w", j.version, err)
			}
			w.unit.markSent(j.seq)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// receive is the life of the goroutine that fills a unit without a source.
func (w *Weights) receive(ctx context.Context) error {
	for seq := uint32(1); ; seq++ {
		version, more, err := w.channel.begin(ctx)
		if err != nil || !more {
			return err
		}
		if err := w.unit.claim(ctx, seq); err != nil {
			return err
		}
		if err := w.channel.receive(ctx, w.unit.slot(seq)); err != nil {
			return fmt.Errorf("receive version %d: %w", version, err)
		}
		w.unit.publish(seq, version)
	}
}

// Close ends the broadcast. The sources call it after the last Publish; it does nothing elsewhere,
// nor on nil.
func (w *Weights) Close() {
	if w != nil && w.jobs != nil {
		close(w.jobs)
	}
}

// Reader returns reader i of WeightsSpec.Readers, which must be on this rank.
func (w *Weights) Reader(i int) *WeightsReader {
	for _, r := range w.readers {
		if r.index == i {
			return r
		}
	}
	panic(fmt.Sprintf("collectives: weights %q: reader %d is not on rank %d", w.spec.Label, i, w.world.Rank()))
}

// A WeightsReader is one user of the weights. It belongs to one goroutine at a time.
type WeightsReader struct {
	unit  *unit
	index int // among all readers
	word  int // of the unit's
	using uint32
}

// Adopt moves on to the newest version that has arrived, and waits until that is atLeast. It
// returns its state, which does not change until the next call, and its version. With the version
// that the reader has, it never waits: so one that works on while versions come calls it between
// two of its steps.
func (r *WeightsReader) Adopt(ctx context.Context, atLeast int64) (state []byte, version int64, err error) {
	return r.unit.adopt(ctx, r, atLeast)
}

// Copy is Adopt for a reader that works with the same version for long: it copies the state, which
// no Publish then waits for, into memory of its size. Where the newest version is the one that
// state holds already, has, nothing is copied.
func (r *WeightsReader) Copy(ctx context.Context, atLeast int64, state []byte, has int64) (version int64, err error) {
	newest, version, err := r.Adopt(ctx, atLeast)
	if err != nil {
		return has, err
	}
	if version != has {
		copy(state, newest)
	}
	r.unit.leave(r)
	return version, nil
}

// Newest returns the newest version that has arrived, -1 where there is none yet.
func (r *WeightsReader) Newest() int64 { return r.unit.newest() }
