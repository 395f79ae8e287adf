package spmd

import (
	"context"
	"fmt"
	"sync/atomic"

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
