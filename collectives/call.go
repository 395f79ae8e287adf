package collectives

import (
	"unsafe"

	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/tensor"
)

// A BF16 is the bits of a bfloat16, the upper half of a float32. Its reductions add in float32.
type BF16 uint16

// A Number is what a buffer of a collective holds.
type Number interface {
	float32 | float64 | int32 | int64 | uint8 | BF16
}

// AllReduce reduces x over the members, in place.
func AllReduce[T Number](x []T, op spmd.Op) spmd.Collective {
	return spmd.Collective{Kind: spmd.AllReduce, DType: dtypeOf[T](), Op: op, Data: bytesOf(x)}
}

// Reduce reduces x over the members to root's x. What the others' x holds then is not said.
func Reduce[T Number](x []T, op spmd.Op, root int) spmd.Collective {
	return spmd.Collective{Kind: spmd.Reduce, DType: dtypeOf[T](), Op: op, Root: root, Data: bytesOf(x)}
}

// Broadcast fills x with root's. All members pass the same length.
func Broadcast[T Number](x []T, root int) spmd.Collective {
	return spmd.Collective{Kind: spmd.Broadcast, DType: dtypeOf[T](), Root: root, Data: bytesOf(x)}
}

// ReduceScatter reduces x over the members and leaves block m of the result in its place in member
// m's x; counts are the blocks' lengths, nil for even ones.
func ReduceScatter[T Number](x []T, op spmd.Op, counts []int) spmd.Collective {
	return spmd.Collective{Kind: spmd.ReduceScatter, DType: dtypeOf[T](), Op: op, Data: bytesOf(x), Counts: counts}
}

// AllGather fills x with the block that each member has in its place in x.
func AllGather[T Number](x []T, counts []int) spmd.Collective {
	return spmd.Collective{Kind: spmd.AllGather, DType: dtypeOf[T](), Data: bytesOf(x), Counts: counts}
}

// Gather fills root's x with every member's block: x is the whole at root, its own block in its
// place, and the block alone elsewhere.
func Gather[T Number](x []T, root int, counts []int) spmd.Collective {
	return spmd.Collective{Kind: spmd.Gather, DType: dtypeOf[T](), Root: root, Data: bytesOf(x), Counts: counts}
}

// Scatter gives every member its block of root's x, which is the whole at root and the block alone
// elsewhere.
func Scatter[T Number](x []T, root int, counts []int) spmd.Collective {
	return spmd.Collective{Kind: spmd.Scatter, DType: dtypeOf[T](), Root: root, Data: bytesOf(x), Counts: counts}
}

// AllToAll sends block m of send to member m and fills block m of x with what comes from it; nil
// counts are even blocks. A nil send exchanges the blocks of x in place.
func AllToAll[T Number](x []T, counts []int, send []T, sendCounts []int) spmd.Collective {
	c := spmd.Collective{Kind: spmd.AllToAll, DType: dtypeOf[T](), Data: bytesOf(x), Counts: counts,
		SendCounts: sendCounts}
	if send != nil {
		c.Send = bytesOf(send)
	}
	return c
}

// SendReceive sends to member `to` and receives x from member `from`.
func SendReceive[T Number](send []T, to int, x []T, from int) spmd.Collective {
	return spmd.Collective{Kind: spmd.SendReceive, DType: dtypeOf[T](), Data: bytesOf(x), Send: bytesOf(send), To: to,
		From: from}
}

func dtypeOf[T Number]() tensor.DType {
	var zero T
	switch any(zero).(type) {
	case float32:
		return tensor.F32
	case float64:
		return tensor.F64
	case int32:
		return tensor.I32
	case int64:
		return tensor.I64
	case uint8:
		return tensor.U8
	default:
		return tensor.BF16
	}
}

func bytesOf[T any](x []T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), len(x)*int(unsafe.Sizeof(*new(T))))
}

// view is b as elements of T.
func view[T any](b []byte) []T {
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(*new(T))))
}

// block returns member m's block of b, of elements of e bytes, cut by counts or else evenly.
func block(b []byte, e int, counts []int, size, m int) []byte {
	n := len(b) / e
	lo, hi := m*n/size, (m+1)*n/size
	if counts != nil {
		lo = 0
		for _, k := range counts[:m] {
			lo += k
		}
		hi = lo + counts[m]
	}
	return b[lo*e : hi*e : hi*e]
}
