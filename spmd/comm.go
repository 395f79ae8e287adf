package spmd

import "context"

// A Comm is one member's end of a communicator whose members are numbered 0..Size-1. Messages
// between two members with the same tag arrive in the order sent. A Comm belongs to one goroutine
// at a time; different Comms never disturb each other.
//
// A buffer belongs to the Comm from Isend or Irecv until Wait. Memory of World.Alloc is sent
// without a copy; other memory may be pinned or copied. An empty buffer is a legal message.
type Comm interface {
	Rank() int
	Size() int
	// WorldRank returns the world rank of member m.
	WorldRank(m int) int
	// Isend starts sending b to member `to`. 0 <= tag < MaxTag.
	Isend(b []byte, to, tag int) (Request, error)
	// Irecv starts receiving a message of at most len(b) bytes from member `from`. A longer message
	// is an error of Wait, never an overrun. A shorter message sets Request.N to its length.
	Irecv(b []byte, from, tag int) (Request, error)
	// Wait returns nil when all of reqs are done, with N set and the handles zero. Otherwise it
	// returns the first error or context.Cause(ctx). reqs may hold zero Requests. Waiting neither
	// uses the CPU nor allocates.
	Wait(ctx context.Context, reqs []Request) error
	// WaitAny returns the index of one finished request of reqs and zeroes it. It returns -1 when
	// all of reqs are zero.
	WaitAny(ctx context.Context, reqs []Request) (int, error)
	// Test reports, without waiting, whether r is done. If so it zeroes r.
	Test(r *Request) (bool, error)
	// Cancel cancels a receive that no message has matched.
	Cancel(r *Request) error
	// Close frees the communicator. Every member calls it. A second call does nothing. If requests
	// are still open, Close returns an error that names them.
	Close() error
}

// MaxTag is one above the largest tag of a Comm.
const MaxTag = 1 << 12

// A Request is a send or receive in progress. The zero Request is done.
type Request struct {
	Handle uint64 // chosen by the Comm; 0 when done
	N      int    // bytes received, once done
}
