package collectives

import (
	"fmt"
	"math/bits"

	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/tensor"
)

// combine sets dst to the result of op on a and b, element by element. dst may be a or b. The results of bfloat16 are
// rounded.
func combine(t tensor.DType, op spmd.Op, dst, a, b []byte) {
	switch t {
	case tensor.F32:
		combineF32(op, view[float32](dst), view[float32](a), view[float32](b))
	case tensor.F64:
		combineAs(op, view[float64](dst), view[float64](a), view[float64](b))
	case tensor.I32:
		combineAs(op, view[int32](dst), view[int32](a), view[int32](b))
	case tensor.I64:
		combineAs(op, view[int64](dst), view[int64](a), view[int64](b))
	case tensor.U8:
		combineAs(op, dst, a, b)
	case tensor.BF16:
		combineBF16(op, view[uint16](dst), view[uint16](a), view[uint16](b))
	default:
		panic(fmt.Sprintf("collectives: reduction of %v", t))
	}
}

func combineF32(op spmd.Op, dst, a, b []float32) {
	if op == spmd.Sum {
		addF32(dst, a, b)
	} else {
		combineAs(op, dst, a, b)
	}
}

func combineAs[T float32 | float64 | int32 | int64 | uint8](op spmd.Op, dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	switch op {
	case spmd.Sum:
		for i := range dst {
			dst[i] = a[i] + b[i]
		}
	case spmd.Prod:
		for i := range dst {
			dst[i] = a[i] * b[i]
		}
	case spmd.Min: // if an operand is NaN, min and max return NaN
		for i := range dst {
			dst[i] = min(a[i], b[i])
		}
	case spmd.Max:
		for i := range dst {
			dst[i] = max(a[i], b[i])
		}
	}
}

func combineBF16(op spmd.Op, dst, a, b []uint16) {
	var x, y [256]float32
	for lo := 0; lo < len(dst); lo += len(x) {
		hi := min(lo+len(x), len(dst))
		tensor.FromBF16(x[:hi-lo], a[lo:hi])
		tensor.FromBF16(y[:hi-lo], b[lo:hi])
		combineF32(op, x[:hi-lo], x[:hi-lo], y[:hi-lo])
		tensor.ToBF16(dst[lo:hi], x[:hi-lo])
	}
}

// cacheBlock is the number of bytes that a treeSum processes at a time. It is small enough that the partial
// sums stay in the L1 cache.
const cacheBlock = 8 << 10

// A treeSum reduces the pieces of all members by the tree over members. It combines the result of the first 2^k pieces
// with the result of the other pieces. 2^k is the largest power of two below the number of pieces. Both results are
// computed in the same way: five pieces give ((x₀+x₁)+(x₂+x₃))+x₄. A treeSum owns the memory for partial sums.
type treeSum struct {
	rooms [][]byte // one for each level of the tree
}

// split returns the largest power of two below n.
func split(n int) int { return 1 << (bits.Len(uint(n-1)) - 1) }

// reduce reduces bytes [from, end) of the pieces and writes the result to the same bytes of each dst. A dst may be one
// of the pieces. bfloat16 is reduced in float32 and rounded once. The bits of the result depend only on the pieces and
// their order.
func (s *treeSum) reduce(t tensor.DType, op spmd.Op, dsts, pieces [][]byte, from, end int) {
	if t == tensor.F32 && op == spmd.Sum && 1 < len(pieces) && len(pieces) <= maxSumF32 {
		if from = sumF32(dsts, pieces, from, end); from == end {
			return
		}
	}
	e, step := 1, cacheBlock // e: bytes of a partial sum per byte of a piece; step: bytes of a piece in a block
	if t == tensor.BF16 {
		e, step = 2, cacheBlock/2
	}
	acc := s.room(0)
	for lo := from; lo < end; lo += step {
		hi := min(lo+step, end)
		a := acc[:(hi-lo)*e]
		s.block(t, op, a, pieces, lo, hi, 1)
		if t == tensor.BF16 {
			tensor.ToBF16(view[uint16](dsts[0][lo:hi]), view[float32](a))
			a = dsts[0][lo:hi]
		}
		for _, d := range dsts {
			copy(d[lo:hi], a)
		}
	}
}

// block reduces bytes [lo, hi) of the pieces into acc. If the pieces are bfloat16, acc is float32. block may overwrite
// s.rooms[level:].
func (s *treeSum) block(t tensor.DType, op spmd.Op, acc []byte, pieces [][]byte, lo, hi, level int) {
	n := len(pieces)
	switch {
	case n == 1 && t == tensor.BF16:
		tensor.FromBF16(view[float32](acc), view[uint16](pieces[0][lo:hi]))
		return
	case n == 1:
		copy(acc, pieces[0][lo:hi])
		return
	case n == 2 && t != tensor.BF16:
		combine(t, op, acc, pieces[0][lo:hi], pieces[1][lo:hi])
		return
	case n <= maxSumF32 && t == tensor.F32 && op == spmd.Sum && sumBlock(acc, pieces, lo, hi):
		return
	}
	left := split(n)
	s.block(t, op, acc, pieces[:left], lo, hi, level)
	rest, right := pieces[left:], s.room(level)[:len(acc)]
	if len(rest) == 1 && t != tensor.BF16 {
		right = rest[0][lo:hi]
	} else {
		s.block(t, op, right, rest, lo, hi, level+1)
	}
	if t == tensor.BF16 {
		t = tensor.F32
	}
	combine(t, op, acc, acc, right)
}

// sumBlock sums bytes [lo, hi) of the pieces into acc with sumF32. It returns false if sumF32 cannot sum them.
func sumBlock(acc []byte, pieces [][]byte, lo, hi int) bool {
	var cut [maxSumF32][]byte
	for i, p := range pieces {
		cut[i] = p[lo:hi]
	}
	dst := [1][]byte{acc}
	return (hi-lo)%128 == 0 && sumF32(dst[:], cut[:len(pieces)], 0, hi-lo) == hi-lo
}

// reduceBF16 reduces pieces of bfloat16 into dst, whose elements are float32.
func (s *treeSum) reduceBF16(op spmd.Op, dst []byte, pieces [][]byte) {
	for lo := 0; lo < len(pieces[0]); lo += cacheBlock / 2 {
		hi := min(lo+cacheBlock/2, len(pieces[0]))
		s.block(tensor.BF16, op, dst[2*lo:2*hi], pieces, lo, hi, 0)
	}
}

func (s *treeSum) room(level int) []byte {
	for len(s.rooms) <= level {
		s.rooms = append(s.rooms, bytesOf(make([]float64, cacheBlock/8))) // float64 for the alignment
	}
	return s.rooms[level]
}

// addF32Go is addF32 in plain Go.
func addF32Go(dst, a, b []float32) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] + b[i]
	}
}
