package collectivestest

import (
	"fmt"
	"math"
	"unsafe"

	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/tensor"
)

// A Case is an operation with known input and output. The elements are small integers, which every type
// represents exactly, so the order of additions does not matter.
type Case struct {
	Kind   spmd.CollectiveKind
	Type   tensor.DType
	N      int // approximate number of elements in the whole vector
	Op     spmd.Op
	Root   int
	Uneven bool // whether the call has Counts; the blocks are uneven unless N is 1000
	Size   int  // number of members
}

// input returns element i of member m's input.
func (c Case) input(m, i int) int {
	v := (m*7 + i*3 + i>>8) % 4
	if c.Op == spmd.Prod {
		v = 1 + v%2*(m%2) // at most 2⁴
	}
	return v
}

// count returns the number of elements in member m's block. In an AllToAll this is the block that the
// sender sends to member m.
func (c Case) count(sender, m int) int {
	switch {
	case c.N == 0:
		return 0
	case c.Kind == spmd.AllToAll && c.Uneven:
		return c.N/(c.Size*2)*(1+(sender+m)%2) + (sender+2*m)%3
	case c.Uneven && c.N == 1000: // there are counts, but the blocks are even
		return c.N / c.Size
	case c.Uneven:
		return []int{c.N / c.Size, 0, c.N/c.Size + m, 1}[m%4]
	case c.Kind == spmd.ReduceScatter || c.Kind == spmd.AllGather:
		return (m+1)*c.N/c.Size - m*c.N/c.Size
	default:
		return c.N / c.Size
	}
}

// offset returns the index of the first element of member m's block. The sender is as in count.
func (c Case) offset(sender, m int) (n int) {
	for i := range m {
		n += c.count(sender, i)
	}
	return n
}

// Counts returns the Counts and SendCounts of a member.
func (c Case) Counts(member int) (counts, sendCounts []int) {
	if !c.Uneven {
		return nil, nil
	}
	for m := range c.Size {
		if c.Kind == spmd.AllToAll {
			counts, sendCounts = append(counts, c.count(m, member)), append(sendCounts, c.count(member, m))
		} else {
			counts = append(counts, c.count(0, m))
		}
	}
	return counts, sendCounts
}

const junk = 9

// Buffers returns the contents of a member's Data and Send before the call.
func (c Case) Buffers(member int) (data, send []int) {
	whole := make([]int, c.N)
	if blocks(c.Kind) {
		whole = make([]int, c.offset(0, c.Size))
	}
	for i := range whole {
		whole[i] = c.input(member, i)
	}
	lo := c.offset(0, member)
	switch c.Kind {
	case spmd.Barrier:
		return nil, nil
	case spmd.Broadcast:
		if member != c.Root {
			fillWith(whole, junk)
		}
	case spmd.AllGather, spmd.Gather:
		block := append([]int(nil), whole[lo:lo+c.count(0, member)]...)
		if c.Kind == spmd.Gather && member != c.Root {
			return block, nil
		}
		fillWith(whole, junk)
		copy(whole[lo:], block)
	case spmd.Scatter:
		if member != c.Root {
			whole = whole[:c.count(0, member)]
			fillWith(whole, junk)
		}
	case spmd.AllToAll:
		n := 0
		for m := range c.Size {
			n += c.count(m, member)
		}
		send = make([]int, c.offset(member, c.Size))
		for i := range send {
			send[i] = c.input(member, i)
		}
		if !c.Uneven && c.N%2 == 1 { // in place
			return send, nil
		}
		data = make([]int, n)
		fillWith(data, junk)
		return data, send
	case spmd.SendReceive:
		data = make([]int, c.N)
		fillWith(data, junk)
		return data, whole
	}
	return whole, nil
}

// Want returns the expected contents of a member's Data after the call. An element is -1 if it is undefined.
func (c Case) Want(member int) []int {
	data, _ := c.Buffers(member)
	want := make([]int, len(data))
	lo := c.offset(0, member)
	switch c.Kind {
	case spmd.Broadcast:
		for i := range want {
			want[i] = c.input(c.Root, i)
		}
	case spmd.Reduce, spmd.AllReduce, spmd.ReduceScatter:
		for i := range want {
			want[i] = c.reduced(i)
			if c.Kind == spmd.Reduce && member != c.Root || c.Kind == spmd.ReduceScatter &&
				(i < lo || i >= lo+c.count(0, member)) {
				want[i] = -1
			}
		}
	case spmd.AllGather, spmd.Gather:
		if c.Kind == spmd.Gather && member != c.Root {
			return data
		}
		for m := range c.Size {
			for i := range c.count(0, m) {
				want[c.offset(0, m)+i] = c.input(m, c.offset(0, m)+i)
			}
		}
	case spmd.Scatter:
		if member == c.Root {
			lo = 0
		}
		for i := range want {
			want[i] = c.input(c.Root, lo+i)
		}
	case spmd.AllToAll:
		at := 0
		for m := range c.Size {
			for i := range c.count(m, member) {
				want[at] = c.input(m, c.offset(m, member)+i)
				at++
			}
		}
	case spmd.SendReceive:
		for i := range want {
			want[i] = c.input((member-1+c.Size)%c.Size, i)
		}
	}
	return want
}

func (c Case) reduced(i int) int {
	v := c.input(0, i)
	for m := 1; m < c.Size; m++ {
		switch x := c.input(m, i); c.Op {
		case spmd.Sum:
			v += x
		case spmd.Prod:
			v *= x
		case spmd.Min:
			v = min(v, x)
		case spmd.Max:
			v = max(v, x)
		}
	}
	return v
}

func fillWith(x []int, v int) {
	for i := range x {
		x[i] = v
	}
}

// fill writes x to b as elements of type t.
func fill(b []byte, t tensor.DType, x []int16) {
	switch t {
	case tensor.F32:
		fillAs[float32](b, x)
	case tensor.F64:
		fillAs[float64](b, x)
	case tensor.I32:
		fillAs[int32](b, x)
	case tensor.I64:
		fillAs[int64](b, x)
	case tensor.U8:
		fillAs[uint8](b, x)
	case tensor.BF16:
		y := view[uint16](b)
		for i, v := range x {
			y[i] = uint16(math.Float32bits(float32(v)) >> 16)
		}
	}
}

func fillAs[T float32 | float64 | int32 | int64 | uint8](b []byte, x []int16) {
	y := view[T](b)
	for i, v := range x {
		y[i] = T(v)
	}
}

// compare returns an error if an element of b differs from the expected element, unless the expected element
// is -1. The elements of b have type t.
func compare(b []byte, t tensor.DType, expected []int16) error {
	switch t {
	case tensor.F32:
		return compareAs(view[float32](b), expected)
	case tensor.F64:
		return compareAs(view[float64](b), expected)
	case tensor.I32:
		return compareAs(view[int32](b), expected)
	case tensor.I64:
		return compareAs(view[int64](b), expected)
	case tensor.U8:
		return compareAs(b, expected)
	default:
		wide := make([]float32, len(expected))
		tensor.FromBF16(wide, view[uint16](b))
		return compareAs(wide, expected)
	}
}

func compareAs[T float32 | float64 | int32 | int64 | uint8](got []T, want []int16) error {
	for i, v := range want {
		if v >= 0 && got[i] != T(v) {
			return fmt.Errorf("element %d is %v, want %v", i, got[i], v)
		}
	}
	return nil
}

func view[T any](b []byte) []T {
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(*new(T))))
}
