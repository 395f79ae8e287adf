package collectives

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"sync/atomic"

	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/tensor"
)

// compare checks the values of s. On the first source (member 0) it also returns an error if the ranks describe
// different weights.
func compare(ctx context.Context, setup *Group, s *WeightsSpec) error {
	switch {
	case s.Slots < 0 || s.Slots > maxSlots:
		return fmt.Errorf("%d slots: expected 0 to %d", s.Slots, maxSlots)
	case s.Wire != tensor.F32 && s.Wire != tensor.BF16:
		return fmt.Errorf("sent as %v: expected F32 or BF16", s.Wire)
	case s.Slots == 0 && s.Wire != tensor.F32:
		return fmt.Errorf("sent as %v and read in place: expected slots, for rounded values", s.Wire)
	case s.State != nil && len(s.State) != s.Layout.Size():
		return fmt.Errorf("state of %d bytes, the layout has %d", len(s.State), s.Layout.Size())
	}
	mine := describeWeights(s)
	all, err := setup.Gather(ctx, mine, 0)
	if err != nil {
		return err
	}
	for m, theirs := range all {
		if err := sameWeights(mine, theirs); err != nil {
			return fmt.Errorf("rank %d and rank %d: %w", setup.comm.WorldRank(0), setup.comm.WorldRank(m), err)
		}
	}
	return nil
}

// describeWeights encodes the names, types and shapes of the tensors, and hashes of the tensors in Patch.Held.
func describeWeights(s *WeightsSpec) []byte {
	var d tensor.Dict
	for i, f := range s.Layout.Fields() {
		shape, hash := tensor.New(tensor.I64, len(f.Shape)+2), fnv.New64a()
		for k, n := range f.Shape {
			shape.I64()[k] = int64(n)
		}
		shape.I64()[len(f.Shape)] = int64(f.DType)
		if s.Patch != nil && s.Patch.Held != nil && s.Patch.Held[i] && s.State != nil {
			hash.Write(s.State[s.Layout.Offset(i):][:f.Bytes()])
		}
		shape.I64()[len(f.Shape)+1] = int64(hash.Sum64())
		d.Set(f.Name, shape)
	}
	return tensor.Encode(nil, d)
}

// sameWeights returns an error if two descriptions differ. The error shows the first difference.
func sameWeights(a, b []byte) error {
	mine, err := tensor.Decode(a)
	if err != nil {
		return err
	}
	theirs, err := tensor.Decode(b)
	if err != nil {
		return err
	}
	for i := range max(mine.Len(), theirs.Len()) {
		what := [2]string{"nothing", "nothing"}
		var hash [2]int64
		for side, d := range []tensor.Dict{mine, theirs} {
			if i < d.Len() {
				name, t := d.Entry(i)
				x := t.I64()
				n := len(x) - 2
				what[side], hash[side] = fmt.Sprintf("%q, %v%v", name, tensor.DType(x[n]), x[:n]), x[n+1]
			}
		}
		if what[0] != what[1] {
			return fmt.Errorf("tensor %d is %s on the one and %s on the other", i, what[0], what[1])
		}
		if hash[0] != hash[1] {
			return fmt.Errorf("tensor %d (%s) is said to be held by all, and begins with other values on the other", i,
				what[0])
		}
	}
	return nil
}

// The kinds of tensors in a publication. A kind says how the tensor is sent. The head of the publication has the kind
// of each tensor.
const (
	notSent    = iota // unchanged
	sentSparse        // changed elements, in the patch
	sentWhole         // all elements, in a bucket
)

// A channel is one rank's end of the broadcast from the first source to the leaders of units without a source. A
// publication consists of
//
//	head      { more u8, version i64, bytes of the patch u64, kind of each tensor u8 }
//	patch     changed elements of sparse tensors, see weights_patch.go
//	buckets   tensors sent whole, in the order of the layout; a bucket has at least WeightsSpec.Bucket bytes
//	credit    an empty message from each receiver; the next publication waits for the credits, so that a
//	          fast source does not flood a slow reader
//
// F32 tensors are sent in the type of WeightsSpec.Wire. An image is a copy of the state, with each tensor in the type
// wireField.dtype. If no tensor is converted, the state itself is the image.
type channel struct {
	g       *Group
	credits spmd.Comm
	due     bool           // the sender has not received the credits for the last publication yet
	reqs    []spmd.Request // one per receiver
	alloc   tensor.Allocator
	spec    *WeightsSpec
	fields  []wireField
	size    int // bytes of an image
	head    []byte
	image   []byte // nil if the state is the image
	patch   *patcher
	bytes   []byte // buffer for the patch, in communication memory
	count   uint32 // number of publications
	slots   uint32

	received atomic.Int64 // bytes of tensors that this rank has received
}

// A wireField describes how a tensor is sent.
type wireField struct {
	name      string
	dtype     tensor.DType // type in which the tensor is sent
	cast      bool         // the tensor is converted from F32 to dtype
	off, size int          // offset and length in the state, in bytes
	at, bytes int          // offset and length in the image, in bytes
	frozen    bool
	local     bool // not sent
}

const (
	headMore    = 0
	headVersion = 8
	headPatch   = 16
	headKinds   = 24
)

// newChannel makes this rank's end of the broadcast. It is collective over the given ranks. The first rank is the
// sender.
func newChannel(world *spmd.World, ranks []int, s *WeightsSpec) (*channel, error) {
	comms := [2]spmd.Comm{}
	for i, what := range []string{"", ": credits"} {
		ends, err := world.NewComm(ranks, s.Label+what)
		if err != nil {
			return nil, err
		}
		comms[i] = ends[0]
	}
	comm := comms[0]
	g, err := New(world, comm, s.Group)
	if err != nil {
		return nil, err
	}
	c := &channel{g: g, credits: comms[1], alloc: world.Alloc, spec: s, slots: uint32(max(1, s.Slots))}
	c.setFields()
	if c.head, err = world.Alloc(headKinds + len(c.fields)); err != nil {
		return nil, err
	}
	if s.Wire != tensor.F32 && (s.Patch == nil || comm.Rank() > 0) {
		if c.image, err = world.Alloc(c.size); err != nil {
			return nil, err
		}
	}
	if s.Patch == nil {
		return c, nil
	}
	if comm.Rank() > 0 {
		c.patch = &patcher{delta: s.Patch.Delta}
		return c, nil
	}
	c.patch, err = newPatcher(world.Alloc, c)
	return c, err
}

// setFields computes the layout of the image.
func (c *channel) setFields() {
	s := c.spec
	for i, f := range s.Layout.Fields() {
		w := wireField{name: f.Name, dtype: f.DType, off: s.Layout.Offset(i), size: f.Bytes(), at: c.size,
			frozen: s.Frozen != nil && s.Frozen[i], local: s.Local != nil && s.Local[i]}
		if f.DType == tensor.F32 && s.Wire != tensor.F32 {
			w.dtype, w.cast = s.Wire, true
		}
		w.bytes = w.size / f.DType.Size() * w.dtype.Size()
		c.size += (w.bytes + tensor.Align - 1) &^ (tensor.Align - 1)
		c.fields = append(c.fields, w)
	}
}

// send sends src as publication j.
func (c *channel) send(ctx context.Context, j job, src []byte) error {
	slot := int(j.seq % c.slots)
	image, patch := src, []byte(nil)
	kinds := c.head[headKinds:]
	first := j.seq <= c.slots // the slot is empty
	switch {
	case c.patch != nil:
		image = c.patch.images[slot]
		patch = c.patch.diff(kinds, slot, src)
	default:
		for i, f := range c.fields {
			kinds[i] = sentWhole
			if f.local || f.frozen && !first {
				kinds[i] = notSent
			} else if c.image != nil {
				f.toWire(c.image, src)
			}
		}
		if c.image != nil {
			image = c.image
		}
	}
	if err := c.collect(ctx); err != nil {
		return err
	}
	c.due = true
	c.head[headMore] = 1
	binary.LittleEndian.PutUint64(c.head[headVersion:], uint64(j.version))
	binary.LittleEndian.PutUint64(c.head[headPatch:], uint64(len(patch)))
	if err := c.g.Broadcast(ctx, c.head, 0); err != nil {
		return err
	}
	if len(patch) > 0 {
		if err := c.g.Broadcast(ctx, patch, 0); err != nil {
			return err
		}
	}
	return c.buckets(ctx, image)
}

// end notifies the receivers that no publication follows.
func (c *channel) end(ctx context.Context) error {
	if err := c.collect(ctx); err != nil {
		return err
	}
	c.head[headMore] = 0
	return c.g.Broadcast(ctx, c.head, 0)
}

// collect waits for the receivers' credits for the last publication.
func (c *channel) collect(ctx context.Context) error {
	if !c.due {
		return nil
	}
	c.due = false
	c.reqs = c.reqs[:0]
	for m := 1; m < c.credits.Size(); m++ {
		r, err := c.credits.Irecv(nil, m, 0)
		if err != nil {
			return err
		}
		c.reqs = append(c.reqs, r)
	}
	return c.credits.Wait(ctx, c.reqs)
}

// credit sends this receiver's credit for the last publication.
func (c *channel) credit(ctx context.Context) error {
	r, err := c.credits.Isend(nil, 0, 0)
	if err != nil {
		return err
	}
	c.reqs = append(c.reqs[:0], r)
	return c.credits.Wait(ctx, c.reqs)
}

// begin waits for the head of a publication and returns its version. It returns false if the sender has called end
// instead.
func (c *channel) begin(ctx context.Context) (version int64, more bool, err error) {
	if err := c.g.Broadcast(ctx, c.head, 0); err != nil {
		return 0, false, err
	}
	return int64(binary.LittleEndian.Uint64(c.head[headVersion:])), c.head[headMore] == 1, nil
}

// receive receives the patch and the buckets of a publication into dst, and sends the credit. dst must still hold the
// last contents of the slot.
func (c *channel) receive(ctx context.Context, dst []byte) error {
	image := c.image
	if image == nil {
		image = dst
	}
	kinds := c.head[headKinds:]
	n := int(binary.LittleEndian.Uint64(c.head[headPatch:]))
	if n > 0 {
		if len(c.bytes) < n {
			var err error
			if c.bytes, err = c.alloc(max(n, 2*len(c.bytes))); err != nil {
				return err
			}
		}
		if err := c.g.Broadcast(ctx, c.bytes[:n], 0); err != nil {
			return err
		}
		if err := c.patch.apply(c.fields, kinds, c.bytes[:n], dst); err != nil {
			return err
		}
	}
	if err := c.buckets(ctx, image); err != nil {
		return err
	}
	for i, f := range c.fields {
		if kinds[i] == sentWhole {
			n += f.bytes
			if c.image != nil {
				f.fromWire(dst, image)
			}
		}
	}
	c.received.Add(int64(n))
	return c.credit(ctx)
}

// buckets broadcasts the tensors that are sent whole.
func (c *channel) buckets(ctx context.Context, image []byte) error {
	size := c.spec.Bucket
	if c.count++; c.count <= c.slots && c.spec.Patch != nil {
		size = c.spec.Patch.Bucket
	}
	lo, hi := 0, 0
	flush := func() error {
		if lo == hi {
			return nil
		}
		err := c.g.Broadcast(ctx, image[lo:hi], 0)
		lo = hi
		return err
	}
	for i, f := range c.fields {
		if c.head[headKinds+i] != sentWhole {
			continue
		}
		if hi-lo >= size || c.gap(hi, f.at) {
			if err := flush(); err != nil {
				return err
			}
			lo = f.at
		}
		hi = f.at + f.bytes
	}
	return flush()
}

// gap reports whether a tensor that is not sent lies between two offsets in an image. The offset end is the end of one
// tensor, and start is the start of a later tensor.
func (c *channel) gap(end, start int) bool { return start-end >= tensor.Align }

// toWire copies the tensor from src to the image, in the type in which it is sent.
func (f *wireField) toWire(image, src []byte) {
	dst, x := image[f.at:f.at+f.bytes], src[f.off:f.off+f.size]
	if f.cast {
		tensor.ToBF16(view[uint16](dst), view[float32](x))
	} else {
		copy(dst, x)
	}
}

// fromWire copies the tensor from the image to dst, in the type that it has in the state.
func (f *wireField) fromWire(dst, image []byte) {
	x, src := dst[f.off:f.off+f.size], image[f.at:f.at+f.bytes]
	if f.cast {
		tensor.FromBF16(view[float32](x), view[uint16](src))
	} else {
		copy(x, src)
	}
}
