package collectives

import (
	"unsafe"

	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/tensor"
)

// A BF16 holds the bits of a bfloat16, which is the upper half of a float32. Reductions of BF16 compute
// in float32.
type BF16 uint16

// A Number is an element type of collectives.
type Number interface {
	float32 | float64 | int32 | int64 | uint8 | BF16
}

// AllReduce reduces x over the members. Every member gets the result in x.
func AllReduce[T Number](x []T, op spmd.Op) spmd.Collective {
	return spmd.Collective{Kind: spmd.AllReduce, DType: dtypeOf[T](), Op: op, Data: bytesOf(x)}
}

// Reduce reduces x over the members into root's x. Other members' x is undefined afterwards.
func Reduce[T Number](x []T, op spmd.Op, root int) spmd.Collective {
	return spmd.Collective{Kind: spmd.Reduce, DType: dtypeOf[T](), Op: op, Root: root, Data: bytesOf(x)}
}

// Broadcast copies root's x to every member. All members pass the same length.
func Broadcast[T Number](x []T, root int) spmd.Collective {
	return spmd.Collective{Kind: spmd.Broadcast, DType: dtypeOf[T](), Root: root, Data: bytesOf(x)}
}

// ReduceScatter reduces x over the members. Member m gets block m of the result in block m of x.
// counts[m] is the length of block m; nil counts mean even blocks.
func ReduceScatter[T Number](x []T, op spmd.Op, counts []int) spmd.Collective {
	return spmd.Collective{Kind: spmd.ReduceScatter, DType: dtypeOf[T](), Op: op, Data: bytesOf(x), Counts: counts}
}

// AllGather fills x on every member with the blocks of all members. Before the call, block m of member m's
// x holds the data of member m.
func AllGather[T Number](x []T, counts []int) spmd.Collective {
	return spmd.Collective{Kind: spmd.AllGather, DType: dtypeOf[T](), Data: bytesOf(x), Counts: counts}
}

// Gather fills root's x with the blocks of all members. The root passes a vector for all blocks, in which
// its own block is in place already. Other members pass only their own block.
func Gather[T Number](x []T, root int, counts []int) spmd.Collective {
	return spmd.Collective{Kind: spmd.Gather, DType: dtypeOf[T](), Root: root, Data: bytesOf(x), Counts: counts}
}

// Scatter sends each member its block of root's x. The root passes all blocks. Other members pass the
// buffer for their own block.
func Scatter[T Number](x []T, root int, counts []int) spmd.Collective {
	return spmd.Collective{Kind: spmd.Scatter, DType: dtypeOf[T](), Root: root, Data: bytesOf(x), Counts: counts}
}

// AllToAll sends block m of input to member m, and receives block m of x from member m. nil counts mean
// even blocks. If input is nil, AllToAll exchanges the blocks of x in place.
func AllToAll[T Number](x []T, counts []int, input []T, inputCounts []int) spmd.Collective {
	c := spmd.Collective{Kind: spmd.AllToAll, DType: dtypeOf[T](), Data: bytesOf(x), Counts: counts,
		SendCounts: inputCounts}
	if input != nil {
		c.Send = bytesOf(input)
	}
	return c
}

// SendReceive sends input to member destination, and receives x from member source.
func SendReceive[T Number](input []T, destination int, x []T, source int) spmd.Collective {
	return spmd.Collective{Kind: spmd.SendReceive, DType: dtypeOf[T](), Data: bytesOf(x), Send: bytesOf(input),
		To: destination, From: source}
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

// view returns the memory of b as a slice of T.
func view[T any](b []byte) []T {
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(*new(T))))
}

// block returns member m's block of b, which has one block for each member. An element has e bytes. counts
// are the lengths of the blocks in elements; nil means even blocks.
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
