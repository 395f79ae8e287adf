package spmd

import "context"

// A Comm is one member's end of a communicator: the object with which this member sends and receives. The members are
// numbered 0..Size-1. Messages with the same tag, from one member to another, arrive in the order in which they were
// sent. A Comm belongs to one goroutine at a time. Messages of different Comms do not mix.
//
// A buffer belongs to the Comm from Isend or Irecv until Wait. Memory of World.Alloc is sent without a
// copy; other memory may be pinned or copied. A message may be empty.
type Comm interface {
	Rank() int
	Size() int
	// WorldRank returns the world rank of member m.
	WorldRank(m int) int
	// Isend starts sending b to a member. The tag must be in 0..MaxTag-1.
	Isend(b []byte, to, tag int) (Request, error)
	// Irecv starts receiving a message of at most len(b) bytes from a member. For a longer message Wait
	// returns an error, and memory behind b does not change. A shorter message sets Request.N to its
	// length.
	Irecv(b []byte, from, tag int) (Request, error)
	// Wait waits until all of reqs are done, sets their N and zeroes their handles. It returns the
	// first error, or context.Cause(ctx) if ctx ends first. Wait ignores a zero Request in reqs. Waiting
	// neither uses the CPU nor allocates.
	Wait(ctx context.Context, reqs []Request) error
	// WaitAny waits until one of reqs is done, zeroes that request and returns its index. It returns
	// -1 if all of reqs are zero.
	WaitAny(ctx context.Context, reqs []Request) (int, error)
	// Test reports, without waiting, whether r is done. If r is done, Test sets its N and zeroes its
	// handle.
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
