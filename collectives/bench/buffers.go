package bench

import (
	"slices"

	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/tensor"
)

// guard is the number of bytes before a buffer, and also behind it, that must stay unchanged.
const guard = 64

// A region is a piece of memory with a guard on either side.
type region struct{ whole []byte }

func newRegion(alloc func(int) ([]byte, error), n int) (region, error) {
	whole, err := alloc(n + 2*guard)
	if err != nil {
		return region{}, err
	}
	poisonAll(whole) // touched, so that the first call does not wait for pages
	return region{whole}, nil
}

// bytes renews two guards at offset `at` of the region and returns the n bytes between them. The
// region must have room for both guards.
func (r region) bytes(at, n int) []byte {
	poisonAll(r.whole[at : at+guard])
	poisonAll(r.whole[at+guard+n : at+2*guard+n])
	return r.whole[at+guard : at+guard+n : at+guard+n]
}

// intact reports whether the guards of bytes(at, n) are unchanged.
func (r region) intact(at, n int) bool {
	return poisoned(r.whole[at:at+guard]) && poisoned(r.whole[at+guard+n:at+2*guard+n])
}

// An operand holds the buffers of one operation on one member. It knows their content before the
// operation and after.
type operand struct {
	pattern
	me         int
	kind       spmd.Kind
	root       int
	size       int // bytes of the whole
	data, send []byte
}

// lengths returns the lengths in bytes of a member's Data and Send in an operation of size bytes.
func lengths(k spmd.Kind, members, me, root, size int) (data, send int) {
	switch k {
	case spmd.Barrier:
		return 0, 0
	case spmd.Gather, spmd.Scatter:
		if me != root {
			return size / members, 0
		}
	case spmd.AllToAll, spmd.SendReceive:
		return size, size
	}
	return size, 0
}

// blocks reports whether an operation cuts its data into one block for each member.
func blocks(k spmd.Kind) bool {
	switch k {
	case spmd.ReduceScatter, spmd.AllGather, spmd.Gather, spmd.Scatter, spmd.AllToAll:
		return true
	}
	return false
}

// collective returns the operation on these buffers.
func (o *operand) collective() spmd.Collective {
	c := spmd.Collective{Kind: o.kind, DType: o.dtype, Op: o.op, Root: o.root, Data: o.data, Send: o.send}
	if o.kind == spmd.SendReceive {
		c.To, c.From = (o.me+1)%o.members, (o.me+o.members-1)%o.members
	}
	return c
}

// block returns the number of elements of a block.
func (o *operand) block() int { return o.size / o.dtype.Size() / o.members }

// input returns member me's input in b, which is its Data or a copy of that, and the number of the
// input's first element.
func (o *operand) input(b []byte) (in []byte, first int) {
	n := o.inputBytes()
	switch {
	case n == 0:
		return nil, 0
	case o.kind == spmd.AllGather, o.kind == spmd.Gather && o.me == o.root:
		return b[o.me*n : (o.me+1)*n], o.me * o.block()
	case o.kind == spmd.Gather:
		return b, o.me * o.block()
	}
	return b, 0
}

// inputBytes returns how many bytes the input has.
func (o *operand) inputBytes() int {
	switch n := o.size / o.members; {
	case o.kind == spmd.Barrier, (o.kind == spmd.Broadcast || o.kind == spmd.Scatter) && o.me != o.root:
		return 0
	case o.kind == spmd.AllGather, o.kind == spmd.Gather:
		return n
	}
	return o.size
}

// fill puts the input into the buffers. It fills the places that only results use with poison.
func (o *operand) fill() {
	if o.send != nil {
		poisonAll(o.data)
		o.pattern.fill(o.send, o.me, 0)
		return
	}
	in, first := o.input(o.data)
	if len(in) < len(o.data) {
		poisonAll(o.data)
	}
	o.pattern.fill(in, o.me, first)
}

// wrongElements returns how many elements of the result are wrong.
func (o *operand) wrongElements() int64 {
	e, n := o.dtype.Size(), o.block()
	at := func(m int) []byte { return o.data[m*n*e : (m+1)*n*e] }
	wrong := int64(0)
	switch o.kind {
	case spmd.Broadcast:
		return o.wrong(o.data, o.root, 0)
	case spmd.Reduce:
		if o.me == o.root {
			return o.wrongSum(o.data, 0)
		}
	case spmd.AllReduce:
		return o.wrongSum(o.data, 0)
	case spmd.ReduceScatter:
		return o.wrongSum(at(o.me), o.me*n)
	case spmd.AllGather, spmd.Gather:
		for m := 0; m < o.members && (o.kind == spmd.AllGather || o.me == o.root); m++ {
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

// TypeNames returns the element types' names, as users write them.
func TypeNames() []string { return []string{"f32", "f64", "i32", "i64", "u8", "bf16"} }

// TypeOf returns the type of a name of TypeNames, and the zero DType for other names.
func TypeOf(name string) tensor.DType {
	return map[string]tensor.DType{"f32": tensor.F32, "f64": tensor.F64, "i32": tensor.I32, "i64": tensor.I64,
		"u8": tensor.U8, "bf16": tensor.BF16}[name]
}

// typeName returns the name of a type.
func typeName(d tensor.DType) string {
	names := TypeNames()
	return names[slices.IndexFunc(names, func(name string) bool { return TypeOf(name) == d })]
}
