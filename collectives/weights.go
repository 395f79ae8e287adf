package collectives

import (
	"context"
	"fmt"
	"slices"

	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/tensor"
)

// WeightsSpec configures Weights. Except for State it is the same on every rank.
type WeightsSpec struct {
	Label string // names the weights in messages
	// Layout is the layout of State.
	Layout *tensor.Layout
	// Frozen marks the tensors that do not change after the first version. nil means none.
	Frozen []bool
	// Local marks the tensors that readers on nodes without a source do not use. They are not sent to these nodes. nil
	// means none.
	Local []bool
	// Sources are the ranks that hold a replica of the state. All replicas are equal.
	Sources []int
	// Readers are the ranks of the readers; a rank may have several.
	Readers []int
	// State is this rank's replica, in memory of World.Alloc. On a rank that is not a source, State holds the tensors
	// of Patch.Held, or is nil.
	State []byte
	// Slots is the number of versions that each unit stores. A unit is a set of ranks that share one copy. With 2, a
	// version can arrive while readers use the previous version. With 1, a version arrives only when no reader uses the
	// previous version. With 0, readers on a source's node use State in place, and the caller must not change State
	// during their use.
	Slots int
	// Wire is the type in which F32 tensors are sent: F32 or BF16. With BF16 all readers get rounded
	// values, even on a source's node.
	Wire tensor.DType
	// Group configures the groups that distribute the weights.
	Group Options
	// Bucket is the number of bytes to collect before a message with whole tensors is sent. Tensors are not split.
	Bucket int
	// Patch makes a publication send only the changed elements of a tensor, if this takes fewer bytes. nil means that
	// a publication sends whole tensors.
	Patch *PatchSpec
}

// A PatchSpec configures how changes are sent.
type PatchSpec struct {
	// Delta encodes the index of a changed element as the distance from the previous changed element. This
	// takes fewer bytes if many elements change.
	Delta bool
	// Held marks the tensors whose initial values in State are the same on all ranks. nil means none. NewWeights
	// checks that the values are the same.
	Held []bool
	// Bucket replaces WeightsSpec.Bucket for the first version.
	Bucket int
}

// Weights distribute the versions of a state from sources to readers. The sources publish versions. Each reader adopts
// the newest version when the reader is ready:
//
//	w, err := NewWeights(ctx, world, spec)         // collective over Sources and Readers
//	w.Publish(ctx, version)                        // on every source, in the same order
//	state, version, err := w.Reader(i).Adopt(ctx, version)
//	w.Close()                                      // on every rank, when no source will publish again
//
// With shared memory, the ranks of a node share one copy: the source's State if Slots is 0, or a copy that the node's
// first source writes. The first of all sources broadcasts the versions to nodes without a source. The broadcast may
// continue after Publish has returned. All copies of a version have equal bits.
type Weights struct {
	spec    WeightsSpec
	world   *spmd.World
	unit    *unit    // unit of this rank; nil if no reader needs a copy from this source
	seq     uint32   // number of publications so far
	writes  bool     // this rank writes the unit's copy
	channel *channel // this rank's end of the broadcast; nil if there is none
	jobs    chan job // publications for the sending goroutine; nil if this rank does not broadcast
	readers []*WeightsReader
}

// A job is a publication to send.
type job struct {
	seq     uint32
	version int64
}

// NewWeights makes the weights of spec. It is collective over the sources and readers, and returns
// nil on other ranks. If ranks give different layouts, or different values of tensors that Held marks,
// NewWeights returns an error on the first source.
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
	setup, err := New(world, ends[0], Options{Algorithm: "direct"}) // "direct" takes no memory
	if err != nil {
		return nil, err
	}
	if err := compare(ctx, setup, &spec); err != nil {
		return nil, err
	}
	w := &Weights{spec: spec, world: world}
	leaders := []int{root} // ranks of the broadcast, root first
	for i := range units {
		p := &units[i]
		if !p.source && p.leader != root {
			leaders = append(leaders, p.leader)
		}
		if p.leader != world.Rank() && !slices.Contains(p.ranks, world.Rank()) {
			continue
		}
		if w.unit, err = newUnit(ctx, world, shared, setup.comm, ranks, &spec, p); err != nil {
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
		w.jobs = make(chan job, maxSlots+1) // room for all publications that can be in progress
		w.unit.sends = true
		world.Go(spec.Label, func() error { return w.send(ctx) })
	} else {
		world.Go(spec.Label, func() error { return w.receive(ctx) })
	}
	return w, nil
}

// Publish publishes the current State of the sources as the newest version. Every source calls it, with
// increasing versions. After Publish returns, State may change, unless readers use State in place. Publish
// waits for readers only if all slots are in use.
func (w *Weights) Publish(ctx context.Context, version int64) error {
	if !w.writes {
		return nil // another rank writes this unit's copy
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

// copyState copies State to a slot. It rounds F32 tensors to the type of Wire. It copies frozen tensors
// only if withFrozen is true.
func (s *WeightsSpec) copyState(slot []byte, withFrozen bool) {
	for i, f := range s.Layout.Fields() {
		if !withFrozen && s.Frozen != nil && s.Frozen[i] {
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

// send runs on a goroutine of the first source, and broadcasts the publications.
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

// receive runs on a goroutine of the leader of a unit without a source. It writes received versions to the unit's copy.
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

// Close ends the broadcast. Sources call it after the last Publish. On other ranks, and for nil, it
// does nothing.
func (w *Weights) Close() {
	if w != nil && w.jobs != nil {
		close(w.jobs)
	}
}

// Received returns the bytes of tensors that this rank has received from other nodes.
func (w *Weights) Received() int64 {
	if w == nil || w.channel == nil {
		return 0
	}
	return w.channel.received.Load()
}

// Reader returns reader i of WeightsSpec.Readers. That reader must be on this rank.
func (w *Weights) Reader(i int) *WeightsReader {
	for _, r := range w.readers {
		if r.index == i {
			return r
		}
	}
	panic(fmt.Sprintf("collectives: weights %q: reader %d is not on rank %d", w.spec.Label, i, w.world.Rank()))
}

// A WeightsReader is one reader of the weights. It belongs to one goroutine at a time.
type WeightsReader struct {
	unit  *unit
	index int // in WeightsSpec.Readers
	word  int // index in unit.using
	using uint32
	span  spmd.Span
}

// Record makes rec record the reader's waits under the given name. If rec is nil, nothing is recorded.
func (r *WeightsReader) Record(rec spmd.Recorder, name string) {
	r.span = spmd.NewSpan(rec, spmd.Site{Op: spmd.OpAdopt, Name: name})
}

// Adopt waits until a version >= atLeast has arrived. It returns the newest version and its state, which does not
// change until the next call. If atLeast is the version of the last call, Adopt does not wait, so a reader may call
// Adopt between two steps.
func (r *WeightsReader) Adopt(ctx context.Context, atLeast int64) (state []byte, version int64, err error) {
	waits := r.Newest() < atLeast
	if waits {
		r.span.Begin()
	}
	state, version, err = r.unit.adopt(ctx, r, atLeast)
	if waits {
		r.span.End(version, 0)
	} else {
		r.span.Pass(version, 0)
	}
	return state, version, err
}

// Copy is like Adopt, but for a reader that uses one version for a long time. It copies the newest version to the
// buffer, so that no Publish waits for this reader. inBuffer is the version that the buffer holds. If it is the newest
// version, Copy copies nothing.
func (r *WeightsReader) Copy(ctx context.Context, atLeast int64, buffer []byte, inBuffer int64) (version int64,
	err error) {
	newest, version, err := r.Adopt(ctx, atLeast)
	if err != nil {
		return inBuffer, err
	}
	if version != inBuffer {
		copy(buffer, newest)
	}
	r.unit.leave(r)
	return version, nil
}

// Newest returns the newest version that has arrived, or -1 if there is none.
func (r *WeightsReader) Newest() int64 { return r.unit.newest() }
