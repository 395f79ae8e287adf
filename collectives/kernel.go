package collectives

import (
	"fmt"

	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/tensor"
)

// reduceInto sets dst to dst op src, element by element. Each call rounds bfloat16.
func reduceInto(t tensor.DType, op spmd.Op, dst, src []byte) {
	switch t {
	case tensor.F32:
		if op == spmd.Sum {
			d := view[float32](dst)
			addF32(d, d, view[float32](src))
			return
		}
		reduceIntoAs(op, view[float32](dst), view[float32](src))
	case tensor.F64:
		reduceIntoAs(op, view[float64](dst), view[float64](src))
	case tensor.I32:
		reduceIntoAs(op, view[int32](dst), view[int32](src))
	case tensor.I64:
		reduceIntoAs(op, view[int64](dst), view[int64](src))
	case tensor.U8:
		reduceIntoAs(op, dst, src)
	case tensor.BF16:
		reduceBF16Into(op, view[uint16](dst), view[uint16](src))
	default:
		panic(fmt.Sprintf("collectives: reduction of %v", t))
	}
}

func reduceIntoAs[T float32 | float64 | int32 | int64 | uint8](op spmd.Op, dst, src []T) {
	src = src[:len(dst)]
	switch op {
	case spmd.Sum:
		for i, x := range src {
			dst[i] += x
		}
	case spmd.Prod:
		for i, x := range src {
			dst[i] *= x
		}
	case spmd.Min: // min and max return NaN for a NaN, so a NaN stays visible
		for i, x := range src {
			dst[i] = min(dst[i], x)
		}
	case spmd.Max:
		for i, x := range src {
			dst[i] = max(dst[i], x)
		}
	}
}

func reduceBF16Into(op spmd.Op, dst, src []uint16) {
	var d, s [256]float32
	for lo := 0; lo < len(dst); lo += len(d) {
		hi := min(lo+len(d), len(dst))
		tensor.FromBF16(d[:hi-lo], dst[lo:hi])
		tensor.FromBF16(s[:hi-lo], src[lo:hi])
		reduceIntoAs(op, d[:hi-lo], s[:hi-lo])
		tensor.ToBF16(dst[lo:hi], d[:hi-lo])
	}
}

// cacheBlock is the number of bytes that reduceAll processes at a time. It is small enough that the sums
// stay in the L1 cache while all pieces are added.
const cacheBlock = 8 << 10

// reduceAll reduces bytes from to end of the pieces, in their order, and writes the result to the
// same bytes of each dst. A dst may be one of the pieces. bfloat16 is reduced in float32 and rounded
// once. The bits of the result depend only on the pieces and their order.
func reduceAll(t tensor.DType, op spmd.Op, dsts, pieces [][]byte, from, end int) {
	if t == tensor.BF16 {
		reduceAllBF16(op, dsts, pieces, from/2, end/2)
		return
	}
	if t == tensor.F32 && op == spmd.Sum {
		if from = sumF32(dsts, pieces, from, end); from == end {
			return
		}
	}
	var acc [cacheBlock / 8]float64 // float64 for the alignment
	room := bytesOf(acc[:])
	for lo := from; lo < end; lo += cacheBlock {
		hi := min(lo+cacheBlock, end)
		a := room[:hi-lo]
		copy(a, pieces[0][lo:hi])
		for _, p := range pieces[1:] {
			reduceInto(t, op, a, p[lo:hi])
		}
		for _, d := range dsts {
			copy(d[lo:hi], a)
		}
	}
}

func reduceAllBF16(op spmd.Op, dsts, pieces [][]byte, from, end int) {
	const step = 512
	var acc, x [step]float32
	var out [step]uint16
	for lo := from; lo < end; lo += step {
		k := min(step, end-lo)
		tensor.FromBF16(acc[:k], view[uint16](pieces[0][2*lo:2*(lo+k)]))
		for _, p := range pieces[1:] {
			tensor.FromBF16(x[:k], view[uint16](p[2*lo:2*(lo+k)]))
			reduceIntoAs(op, acc[:k], x[:k])
		}
		tensor.ToBF16(out[:k], acc[:k])
		for _, d := range dsts {
			copy(view[uint16](d[2*lo:2*(lo+k)]), out[:k])
		}
	}
}

// addF32Go is addF32 in plain Go.
func addF32Go(dst, a, b []float32) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] + b[i]
	}
}
