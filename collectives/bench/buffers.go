package bench

import (
	"slices"
	"strings"

	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/tensor"
)

// guard is the number of bytes before and after each buffer. No operation may change these bytes.
const guard = 64

// A region is a piece of memory with a guard on either side.
type region struct{ whole []byte }

func newRegion(alloc func(int) ([]byte, error), n int) (region, error) {
	whole, err := alloc(n + 2*guard)
	if err != nil {
		return region{}, err
	}
	poisonAll(whole) // written once, so that the first call need not wait for pages
	return region{whole}, nil
}

// buffer returns n bytes of the region. The guard before them is at offset `at` of the region.
func (r region) buffer(at, n int) []byte { return r.whole[at+guard : at+guard+n : at+guard+n] }

// guarded writes the guards before and after buffer(at, n), and returns the buffer.
func (r region) guarded(at, n int) []byte {
	poisonAll(r.whole[at : at+guard])
	poisonAll(r.whole[at+guard+n : at+2*guard+n])
	return r.buffer(at, n)
}

// intact reports whether the two guards of the buffer guarded(at, n) are unchanged.
func (r region) intact(at, n int) bool {
	return poisoned(r.whole[at:at+guard]) && poisoned(r.whole[at+guard+n:at+2*guard+n])
}

// An operand holds the buffers of one operation on one member. It writes their input and checks their result.
type operand struct {
	pattern
	me   int
	kind spmd.CollectiveKind
	root int
	size int // bytes of the operation, as in Measurement.Size
	data []byte
	// second is the send buffer of an AllToAll or SendReceive. For other out-of-place operations it is the input, which
	// the call copies into data. It is nil if data holds the input.
	second []byte
}

// lengths returns the lengths in bytes of operand.data and operand.second. The argument size is the operation's size.
func lengths(k spmd.CollectiveKind, members, me, root, size int, out bool) (data, second int) {
	data = size
	switch {
	case k == spmd.Barrier:
		data = 0
	case (k == spmd.Gather || k == spmd.Scatter) && me != root:
		data = size / members
	}
	if out || k == spmd.SendReceive {
		second = inputLength(k, members, me, root, size)
	}
	return data, second
}

// inputLength returns the length in bytes of a member's input.
func inputLength(k spmd.CollectiveKind, members, me, root, size int) int {
	switch {
	case k == spmd.Barrier, (k == spmd.Broadcast || k == spmd.Scatter) && me != root:
		return 0
	case k == spmd.AllGather, k == spmd.Gather:
		return size / members
	}
	return size
}

// hasSend reports whether an out-of-place operation of kind k has a separate send buffer.
func hasSend(k spmd.CollectiveKind) bool { return k == spmd.SendReceive || k == spmd.AllToAll }

// blocks reports whether the data of an operation consists of one block for each member.
func blocks(k spmd.CollectiveKind) bool {
	switch k {
	case spmd.ReduceScatter, spmd.AllGather, spmd.Gather, spmd.Scatter, spmd.AllToAll:
		return true
	}
	return false
}

// collective returns the operation on these buffers.
func (o *operand) collective() spmd.Collective {
	c := spmd.Collective{Kind: o.kind, DType: o.dtype, Op: o.op, Root: o.root, Data: o.data}
	if hasSend(o.kind) {
		c.Send = o.second
	}
	if o.kind == spmd.SendReceive {
		c.To, c.From = (o.me+1)%o.members, (o.me+o.members-1)%o.members
	}
	return c
}

// block returns the number of elements of a block.
func (o *operand) block() int { return o.size / o.dtype.Size() / o.members }

// input returns the part of data that holds the input of an in-place call.
func (o *operand) input() []byte {
	n := inputLength(o.kind, o.members, o.me, o.root, o.size)
	if o.kind == spmd.AllGather || o.kind == spmd.Gather && o.me == o.root {
		return o.data[o.me*n : (o.me+1)*n]
	}
	return o.data[:n]
}

// fill writes the input into the buffers. It poisons the bytes that only the result uses.
func (o *operand) fill() {
	in, first := o.second, 0
	if in == nil {
		in = o.input()
	}
	if o.kind == spmd.AllGather || o.kind == spmd.Gather {
		first = o.me * o.block()
	}
	if len(in) < len(o.data) || o.second != nil {
		poisonAll(o.data)
	}
	o.pattern.fill(in, o.me, first)
}

// wrongElements returns the number of elements of the result that are wrong.
func (o *operand) wrongElements() int64 {
	e, n := o.dtype.Size(), o.block()
	at := func(m int) []byte { return o.data[m*n*e : (m+1)*n*e] }
	wrong := int64(0)
	if (o.kind == spmd.Reduce || o.kind == spmd.Gather) && o.me != o.root {
		return 0 // only the root has a result
	}
	switch o.kind {
	case spmd.Broadcast:
		return o.wrong(o.data, o.root, 0)
	case spmd.Reduce, spmd.AllReduce:
		return o.wrongSum(o.data, 0)
	case spmd.ReduceScatter:
		return o.wrongSum(at(o.me), o.me*n)
	case spmd.AllGather, spmd.Gather:
		for m := range o.members {
			wrong += o.wrong(at(m), m, m*n)
		}
	case spmd.Scatter:
		mine := o.data
		if o.me == o.root {
			mine = at(o.me)
		}
		return o.wrong(mine, o.root, o.me*n)
	case spmd.AllToAll:
		for m := range o.members {
			wrong += o.wrong(at(m), m, o.me*n)
		}
	case spmd.SendReceive:
		return o.wrong(o.data, (o.me+o.members-1)%o.members, 0)
	}
	return wrong
}

// TypeNames returns the names of the element types, such as f32.
func TypeNames() (names []string) {
	for d := tensor.F32; d <= tensor.BF16; d++ {
		names = append(names, typeName(d))
	}
	return names
}

// TypeOf returns the type with this name, or the zero DType if there is no such type.
func TypeOf(name string) tensor.DType {
	return tensor.F32 + tensor.DType(slices.Index(TypeNames(), name))
}

func typeName(d tensor.DType) string { return strings.ToLower(d.String()) }
