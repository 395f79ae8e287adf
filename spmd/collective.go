package spmd

import (
	"context"
	"fmt"
	"sync/atomic"
	"unsafe"

	"github.com/rlinf/rlinf/tensor"
)

// A CollectiveKind is a type of collective operation.
type CollectiveKind uint8

const (
	Barrier       CollectiveKind = iota // returns when every member has called it
	Broadcast                           // copies root's Data to every member
	Reduce                              // reduces all Data into root's Data; that of others is undefined afterwards
	AllReduce                           // reduces all Data into every member's Data
	ReduceScatter                       // reduces all Data; member m gets block m, its other blocks are undefined
	AllGather                           // copies block m of member m's Data to block m of every member's Data
	Gather                              // copies member m's block to block m of root's Data; others have one block
	Scatter                             // copies block m of root's Data to member m, whose Data is one block
	AllToAll                            // block m of Send goes to member m; block m of Data comes from member m
	SendReceive                         // Send goes to member To; Data comes from member From
)

// String returns the name that benchmarks and messages use, such as "allreduce".
func (k CollectiveKind) String() string {
	names := [...]string{"barrier", "broadcast", "reduce", "allreduce", "reduce_scatter", "allgather", "gather",
		"scatter", "alltoall", "sendrecv"}
	if int(k) < len(names) {
		return names[k]
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// Native reports whether the type Native can run operations of this kind. It is true for Barrier, Broadcast and
// AllReduce.
func (k CollectiveKind) Native() bool { return k == Barrier || k == Broadcast || k == AllReduce }

// An Op is the operation of a reduction, applied element by element.
type Op uint8

const (
	Sum Op = iota
	Prod
	Min
	Max
)

// String returns "sum", "prod", "min" or "max".
func (o Op) String() string {
	names := [...]string{"sum", "prod", "min", "max"}
	if int(o) < len(names) {
		return names[o]
	}
	return fmt.Sprintf("Op(%d)", uint8(o))
}

// A Collective is one operation of all members of a communicator, with this member's buffers. All fields but
// Data and Send are equal on every member, unless the comment of a field allows a difference.
type Collective struct {
	Kind  CollectiveKind
	DType tensor.DType // type of the elements
	Op    Op           // operation of a reduction
	Root  int          // root of Broadcast, Reduce, Gather, Scatter

	// Data receives the result. For all operations but AllToAll and SendReceive it also holds the
	// input.
	Data []byte
	// Send is the input of AllToAll and SendReceive. If Send is nil, AllToAll works in place on Data, and all blocks of
	// all members have the same length.
	Send []byte
	// Counts[m] is the number of elements in member m's block of Data. If Counts is nil, the n elements are split
	// evenly: member m of P has [m·n/P, (m+1)·n/P). In Gather and Scatter, nil means equal blocks. Only AllToAll
	// allows different Counts on different members.
	Counts []int
	// SendCounts[m] is the number of elements in block m of Send, in an AllToAll with Counts.
	SendCounts []int
	To, From   int // members of a SendReceive
}

// String names the operation in messages: "allreduce of 4 F32".
func (c *Collective) String() string {
	if c.Kind == Barrier {
		return c.Kind.String()
	}
	if !c.known() {
		return fmt.Sprintf("%v of %v", c.Kind, c.DType)
	}
	return fmt.Sprintf("%v of %d %v", c.Kind, len(c.Data)/c.DType.Size(), c.DType)
}

func (c *Collective) known() bool {
	return c.Kind <= SendReceive && c.DType >= tensor.F32 && c.DType <= tensor.BF16
}

// Check returns an error if the fields are invalid for a member of a communicator of this size. It does not
// compare the fields with those of other members.
func (c *Collective) Check(size, member int) error {
	if c.Kind == Barrier {
		return nil
	}
	if !c.known() {
		return fmt.Errorf("no such operation: %v of %v", c.Kind, c.DType)
	}
	e := c.DType.Size()
	for _, b := range [2][]byte{c.Data, c.Send} {
		if len(b)%e != 0 || uintptr(unsafe.Pointer(unsafe.SliceData(b)))%uintptr(e) != 0 && len(b) > 0 {
			return fmt.Errorf("a buffer of %d bytes at an address that is %d mod %d does not hold %v", len(b),
				uintptr(unsafe.Pointer(unsafe.SliceData(b)))%uintptr(e), e, c.DType)
		}
	}
	if c.Op > Max {
		return fmt.Errorf("no such reduction: %v", c.Op)
	}
	if c.Root < 0 || c.Root >= size {
		return fmt.Errorf("root %d: expected a member from 0 to %d", c.Root, size-1)
	}
	whole := c.Kind != Gather && c.Kind != Scatter || member == c.Root // Data holds every block
	if err := checkCounts("counts", c.Counts, len(c.Data)/e, size, member, whole); err != nil {
		return err
	}
	switch c.Kind {
	case Gather, Scatter:
		if c.Counts == nil && whole && len(c.Data)/e%size != 0 {
			return fmt.Errorf("%d elements in even blocks for %d members: pass the counts", len(c.Data)/e, size)
		}
	case AllToAll:
		switch {
		case c.Send == nil && (c.SendCounts != nil || c.Counts != nil || len(c.Data)/e%size != 0):
			return fmt.Errorf("in place, blocks have one length: got %d elements for %d members", len(c.Data)/e, size)
		case c.Send != nil && c.Counts == nil && (len(c.Data) != len(c.Send) || len(c.Data)/e%size != 0):
			return fmt.Errorf("%d elements to send and %d to receive in even blocks for %d members: pass the counts",
				len(c.Send)/e, len(c.Data)/e, size)
		case (c.Counts == nil) != (c.SendCounts == nil):
			return fmt.Errorf("counts for one side only")
		}
		return checkCounts("send counts", c.SendCounts, len(c.Send)/e, size, member, true)
	case SendReceive:
		if c.To < 0 || c.To >= size || c.From < 0 || c.From >= size {
			return fmt.Errorf("to member %d, from member %d: expected members from 0 to %d", c.To, c.From, size-1)
		}
	}
	return nil
}

func checkCounts(what string, counts []int, n, size, member int, whole bool) error {
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
		total = counts[member]
	}
	if total != n {
		return fmt.Errorf("%s add up to %d, the buffer has %d", what, total, n)
	}
	return nil
}

// A Native gives one member access to the MPI library's own barrier, broadcast and allreduce, on a communicator made
// for them. Like a Comm it belongs to one goroutine at a time. Every member makes the same calls in the same order.
type Native interface {
	Rank() int
	Size() int
	// Run runs c by the library's non-blocking call and waits for the result. The wait uses no CPU, and ends early if
	// ctx ends.
	Run(ctx context.Context, c *Collective) error
	// RunBlocking runs c by the library's blocking call. Only the end of the job can interrupt it.
	RunBlocking(c *Collective) error
	// Time measures the library's blocking call in a plain C loop. Sample i is a barrier followed by n calls.
	// Time stores the nanoseconds of these n calls in ns[i].
	Time(c *Collective, n int, ns []float64) error
	// Close frees the communicator. It is collective.
	Close() error
}

// A NativeMaker is a Transport whose library has collectives of its own.
type NativeMaker interface {
	// NewNative makes a communicator of the library. Member m is on ranks[m]. A rank may be listed only once. The call
	// is collective over these ranks. It may take tens of milliseconds if ranks share cores.
	NewNative(ranks []int, label string) (Native, error)
}

// A Signal is a word in shared memory. Shared.Post changes it, and Shared.Await waits for a change. It has a
// cache line of its own. The zero Signal has the value 0.
type Signal struct {
	Value    atomic.Uint32
	Sleepers atomic.Uint32 // number of members that sleep in Await; used by the transport
	_        [56]byte
}

// Shared gives access to the memory of all ranks on the same node. Its methods may be called from any
// goroutine.
type Shared interface {
	// Locate returns the offset of b within this rank's Alloc memory. Other ranks of the node pass this offset to View.
	// The bool is false if b is not in that memory.
	Locate(b []byte) (offset int64, ok bool)
	// View returns n bytes at an offset in the memory of a rank on this node. It does not copy. The view is valid as
	// long as the memory itself.
	View(rank int, offset int64, n int) ([]byte, error)
	// Await waits while s.Value equals value. If ctx ends first, it returns context.Cause(ctx). If the node has a core
	// for every rank, Await first spins briefly. The argument rank is for error messages: it is the rank that is
	// expected to change s, or -1 for any rank.
	Await(ctx context.Context, s *Signal, value uint32, rank int) error
	// Post sets s.Value and wakes all members that wait for s.
	Post(s *Signal, value uint32)
}

// A SharedMaker is a Transport that may offer shared memory. Shared returns false if there is a node whose ranks cannot
// map each other's memory. The result is the same on every rank.
type SharedMaker interface {
	Shared() (Shared, bool)
}
