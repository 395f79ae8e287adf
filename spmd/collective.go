package spmd

import (
	"context"
	"fmt"
	"sync/atomic"
	"unsafe"

	"github.com/rlinf/rlinf/tensor"
)

// A Kind is what a collective operation does.
type Kind uint8

const (
	Barrier       Kind = iota // returns when every member has called it
	Broadcast                 // root's Data to every member
	Reduce                    // the reduction of all Data to root's; elsewhere Data is used up
	AllReduce                 // the reduction of all Data to every member's
	ReduceScatter             // block m of the reduction to member m, in its place in Data; the rest of Data is used up
	AllGather                 // block m of member m, in its place in Data, to every member
	Gather                    // the same to root alone: elsewhere Data is the member's block and nothing else
	Scatter                   // block m of root's Data to member m, whose Data is that block and nothing else
	AllToAll                  // block m of Send to member m; block m of Data comes from it
	SendReceive               // Send to member To; Data comes from member From
)

// String returns the name that benchmarks and messages use: allreduce.
func (k Kind) String() string {
	names := [...]string{"barrier", "broadcast", "reduce", "allreduce", "reduce_scatter", "allgather", "gather",
		"scatter", "alltoall", "sendrecv"}
	if int(k) < len(names) {
		return names[k]
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// An Op is how a reduction joins two elements.
type Op uint8

const (
	Sum Op = iota
	Prod
	Min
	Max
)

// String returns sum, prod, min or max.
func (o Op) String() string {
	names := [...]string{"sum", "prod", "min", "max"}
	if int(o) < len(names) {
		return names[o]
	}
	return fmt.Sprintf("Op(%d)", uint8(o))
}

// A Collective is one operation that all members of a communicator take part in, with this member's
// buffers. Results arrive in place. Unless a field says otherwise, all fields but Data and Send are
// the same on every member.
type Collective struct {
	Kind  Kind
	DType tensor.DType // of the elements
	Op    Op           // of a reduction
	Root  int          // of Broadcast, Reduce, Gather, Scatter

	// Data is where the result arrives, and all operations but AllToAll and SendReceive take their
	// input from it too.
	Data []byte
	// Send is the input of AllToAll and SendReceive. A nil Send of AllToAll stands for Data itself;
	// then block m of every member has the length of every other.
	Send []byte
	// Counts are the elements of each member's block of Data; nil cuts Data evenly: of n elements
	// member m of P has [m·n/P, (m+1)·n/P). In AllToAll they belong to this member alone. A Gather
	// or Scatter with nil Counts has equal blocks.
	Counts []int
	// SendCounts are the elements of each member's block of Send, for AllToAll with Counts.
	SendCounts []int
	To, From   int // of SendReceive
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

// Check says what is wrong with the call of member me in a group of size members, whatever the others
// pass.
func (c *Collective) Check(size, me int) error {
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
	whole := c.Kind != Gather && c.Kind != Scatter || me == c.Root // Data holds every block
	if err := checkCounts("counts", c.Counts, len(c.Data)/e, size, me, whole); err != nil {
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
		return checkCounts("send counts", c.SendCounts, len(c.Send)/e, size, me, true)
	case SendReceive:
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

// A Native is an end of a communicator of the library underneath, with the library's own
// collectives. Like a Comm it belongs to one goroutine at a time, and every member makes the same
// calls in the same order.
type Native interface {
	Rank() int
	Size() int
	// Run runs c by the library's non-blocking call and waits for it as Comm.Wait does: without
	// burning a core, until ctx ends.
	Run(ctx context.Context, c *Collective) error
	// RunBlocking runs c by the library's blocking call. Nothing ends its wait but the job.
	RunBlocking(c *Collective) error
	// Time runs c by the library's blocking call in a plain C loop, nothing of Go between: samples
	// times, each a barrier and then batch calls. ns gets the duration of each sample's calls, in
	// nanoseconds.
	Time(c *Collective, batch int, ns []float64) error
	// Close frees the communicator; collective.
	Close() error
}

// A NativeMaker is a Transport whose library has collectives of its own.
type NativeMaker interface {
	// NewNative makes a communicator of the library over ranks, each at most once, in that order;
	// collective over these ranks. It takes the library's time, tens of milliseconds where ranks
	// share cores.
	NewNative(ranks []int, label string) (Native, error)
}

// A Signal is a word in shared memory that members wait for, on a cache line of its own. The zero
// Signal has the value 0. It is changed by Shared.Post alone.
type Signal struct {
	Value    atomic.Uint32
	Sleepers atomic.Uint32 // how many wait for it in the operating system; the transport's
	_        [56]byte
}

// Shared is what a Transport offers whose ranks reach the memory of the others on their node. Its
// methods may be called from any goroutine.
type Shared interface {
	// Locate says where b lies, which is memory of this rank's Alloc, in a number that the ranks of
	// its node understand; false for other memory.
	Locate(b []byte) (at int64, ok bool)
	// View returns the n bytes at `at` of the memory of rank, which is of this node: the same
	// memory, no copy, until the transport closes.
	View(rank int, at int64, n int) ([]byte, error)
	// Await returns once s.Value differs from old, or with context.Cause(ctx). It spins only while
	// the node has a core for every rank, and not for long. rank is the rank that should change it,
	// for error messages; -1 if any may.
	Await(ctx context.Context, s *Signal, old uint32, rank int) error
	// Post sets s.Value and wakes all that wait for it.
	Post(s *Signal, value uint32)
}

// A SharedMaker is a Transport whose ranks may have memory in common. Shared has the same answer on
// every rank: false where the ranks of some node cannot reach each other's memory.
type SharedMaker interface {
	Shared() (Shared, bool)
}
