package collectives

import (
	"fmt"
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

// describe names an operation in messages: "allreduce of 4 F32".
func describe(c *spmd.Collective) string {
	if c.Kind == spmd.Barrier {
		return c.Kind.String()
	}
	return fmt.Sprintf("%v of %d %v", c.Kind, len(c.Data)/c.DType.Size(), c.DType)
}

// check says what is wrong with a call, whatever the others pass.
func check(c *spmd.Collective, size, me int) error {
	if c.Kind == spmd.Barrier {
		return nil
	}
	if c.Kind > spmd.SendReceive || c.DType < tensor.F32 || c.DType > tensor.BF16 {
		return fmt.Errorf("no such operation: %v of %v", c.Kind, c.DType)
	}
	e := c.DType.Size()
	for _, b := range [2][]byte{c.Data, c.Send} {
		if len(b)%e != 0 || uintptr(unsafe.Pointer(unsafe.SliceData(b)))%uintptr(e) != 0 && len(b) > 0 {
			return fmt.Errorf("a buffer of %d bytes at an address that is %d mod %d does not hold %v", len(b),
				uintptr(unsafe.Pointer(unsafe.SliceData(b)))%uintptr(e), e, c.DType)
		}
	}
	if c.Op > spmd.Max {
		return fmt.Errorf("no such reduction: %v", c.Op)
	}
	if c.Root < 0 || c.Root >= size {
		return fmt.Errorf("root %d: expected a member from 0 to %d", c.Root, size-1)
	}
	whole := c.Kind != spmd.Gather && c.Kind != spmd.Scatter || me == c.Root // Data holds every block
	if err := checkCounts("counts", c.Counts, len(c.Data)/e, size, me, whole); err != nil {
		return err
	}
	switch c.Kind {
	case spmd.Gather, spmd.Scatter:
		if c.Counts == nil && whole && len(c.Data)/e%size != 0 {
			return fmt.Errorf("%d elements in even blocks for %d members: pass the counts", len(c.Data)/e, size)
		}
	case spmd.AllToAll:
		switch {
		case c.Send == nil && (c.SendCounts != nil || c.Counts != nil || len(c.Data)/e%size != 0):
			return fmt.Errorf("in place, blocks have one length: got %d elements for %d members", len(c.Data)/e, size)
		case c.Send != nil && c.Counts == nil && (len(c.Data) != len(c.Send) || len(c.Data)/e%size != 0):
			return fmt.Errorf("%d elements to send and %d to receive in even blocks for %d members: pass the counts",
				len(c.Send)/e, len(c.Data)/e, size)
		case (c.Counts == nil) != (c.SendCounts == nil):
			return fmt.Errorf("counts for one side only")
		}
		return checkCounts("send counts", c.SendCounts, len(c.Send)/e, size, me, true)
	case spmd.SendReceive:
		if c.To < 0 || c.To >= size || c.From < 0 || c.From >= size {
			return fmt.Errorf("to member %d, from member %d: expected members from 0 to %d", c.To, c.From, size-1)
		}
	}
	return nil
}

func checkCounts(what string, counts []int, n, size, me int, whole bool) error {
	if counts == nil {
		return nil
	}
	if len(counts) != size {
		return fmt.Errorf("%d %s for %d members", len(counts), what, size)
	}
	total := 0
	for m, k := range counts {
		if k < 0 {
			return fmt.Errorf("%s: %d elements for member %d", what, k, m)
		}
		total += k
	}
	if !whole {
		total = counts[me]
	}
	if total != n {
		return fmt.Errorf("%s add up to %d, the buffer has %d", what, total, n)
	}
	return nil
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
