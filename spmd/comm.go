package spmd

import "context"

// A Comm is one member's end of a communicator whose members are numbered 0..Size-1. Messages
// between two members with the same tag arrive in the order sent. A Comm belongs to one goroutine
// at a time; different Comms never disturb each other.
//
// Buffers belong to the Comm from the post until the request is waited for. Memory of World.Alloc
// is used where it lies; other memory may be pinned or copied. An empty buffer is a legal message.
type Comm interface {
	Rank() int
	Size() int
	// WorldRank returns the rank in the world that member m lives on.
	WorldRank(m int) int
	// Isend starts sending b to member `to`. 0 <= tag < MaxTag.
	Isend(b []byte, to, tag int) (Request, error)
	// Irecv starts receiving a message of at most len(b) bytes from member `from`. A longer message
	// is an error of Wait, never an overrun; a shorter one sets Request.N.
	Irecv(b []byte, from, tag int) (Request, error)
	// Wait returns when all of reqs are done (N set, handles zero), or with the first error, or
	// with context.Cause(ctx). It burns no core, and reqs may hold zero Requests. It does not
	// allocate.
	Wait(ctx context.Context, reqs []Request) error
	// WaitAny returns the index of one request of reqs that is done and zeroes it; -1 when all of
	// reqs are zero.
	WaitAny(ctx context.Context, reqs []Request) (int, error)
	// Test reports, without waiting, whether r is done; r is zeroed then.
	Test(r *Request) (bool, error)
	// Cancel takes back a receive that nothing has matched.
	Cancel(r *Request) error
	// Close frees the communicator; every member calls it, and a second call does nothing. Requests
	// still open are an error that names them.
	Close() error
}

// MaxTag is one above the largest tag of a Comm.
const MaxTag = 1 << 12

// A Request is a send or receive under way. The zero Request is done.
type Request struct {
	Handle uint64 // the Comm's own; 0 when done
	N      int    // bytes received, once done
}
