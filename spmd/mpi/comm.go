//go:build mpi

package mpi

/*
#include "shim.h"

#cgo noescape rl_isend
#cgo nocallback rl_isend
#cgo noescape rl_irecv
#cgo nocallback rl_irecv
#cgo noescape rl_wait
#cgo nocallback rl_wait
#cgo noescape rl_test
#cgo nocallback rl_test
#cgo noescape rl_cancel
#cgo nocallback rl_cancel
#cgo noescape rl_is_open
#cgo nocallback rl_is_open
*/
import "C"

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/rlinf/rlinf/spmd"
)

// maxBytes is the largest length of a message, because MPI counts in C ints.
const maxBytes = 1 << 30

// Go passes a spmd.Request to C as an rl_request. If their sizes differ, one of these constants does not
// compile.
const (
	_ = uint(unsafe.Sizeof(spmd.Request{}) - C.sizeof_rl_request)
	_ = uint(C.sizeof_rl_request - unsafe.Sizeof(spmd.Request{}))
)

// A comm is one member's end of a communicator.
type comm struct {
	t     *transport
	end   *C.rl_end
	label string
	me    int
	layout
	served bool // still used after the members' programs have ended: see Outlast
	long   bool // the last wait was longer than shortSleepTime, so the next wait is expected to be long too

	pinned []pinned // requests under way whose buffers are Go memory
	spare  []*runtime.Pinner
}

var _ spmd.Comm = (*comm)(nil)

var errClosed = errors.New("the communicator is closed")

type pinned struct {
	handle uint64
	pin    *runtime.Pinner
}

func (c *comm) Rank() int { return c.me }
func (c *comm) Size() int { return len(c.members) }

func (c *comm) WorldRank(m int) int { return c.members[m].rank }

func (c *comm) Isend(b []byte, to, tag int) (spmd.Request, error) { return c.post(true, b, to, tag) }

func (c *comm) Irecv(b []byte, from, tag int) (spmd.Request, error) {
	return c.post(false, b, from, tag)
}

func (c *comm) post(sending bool, b []byte, peer, tag int) (spmd.Request, error) {
	if c.end == nil || peer < 0 || peer >= len(c.members) || tag < 0 || tag >= spmd.MaxTag || len(b) > maxBytes {
		return spmd.Request{}, c.refuse(sending, b, peer, tag)
	}
	pin := c.pin(b)
	p := C.uintptr_t(uintptr(unsafe.Pointer(unsafe.SliceData(b))))
	you, wire, near := c.members[peer], 0, -1
	if c.t.shared != nil && c.t.shared.regions[you.rank] != nil {
		near = you.rank
	}
	var handle uint64
	if sending {
		wire = c.wireTag(c.members[c.me].local, you.local, tag)
		handle = uint64(C.rl_isend(c.end, p, C.int64_t(len(b)), C.int(you.process), C.int(wire), C.int(near),
			c.inbox(you.local)))
	} else {
		wire = c.wireTag(you.local, c.members[c.me].local, tag)
		handle = uint64(C.rl_irecv(c.end, p, C.int64_t(len(b)), C.int(you.process), C.int(wire), C.int(near)))
	}
	if handle&C.RL_BAD != 0 {
		c.unpin(pin)
		cause := errors.New("too many requests under way, or out of memory")
		if code := C.int(uint32(handle)); code != 0 {
			cause = errors.New(errorText(code))
		}
		return spmd.Request{}, c.errorf(opText(sending, len(b), peer, tag), cause)
	}
	if pin != nil {
		if handle == 0 {
			c.unpin(pin)
		} else {
			c.pinned = append(c.pinned, pinned{handle, pin})
		}
	}
	return spmd.Request{Handle: handle}, nil
}

// wireTag returns the MPI tag of a message between two members. The first two arguments are the numbers of the sender
// and of the receiver, each among the members of its own rank. For each pair of such numbers the communicator has a
// block of tags.
func (c *comm) wireTag(from, to, tag int) int { return (c.block+from*c.width+to)*spmd.MaxTag + tag }

// inbox returns the number of a member's inbox. The argument local is the member's number among the members of its
// rank. Comms of one rank that wait at the same time usually have different inboxes.
func (l *layout) inbox(local int) C.int {
	return C.int((l.space*5 + uint64(l.block)*3 + uint64(local)) % C.RL_INBOXES)
}

// refuse returns the error for a request that post rejects.
func (c *comm) refuse(sending bool, b []byte, peer, tag int) error {
	var cause error
	switch {
	case c.end == nil:
		cause = errClosed
	case peer < 0 || peer >= len(c.members):
		cause = fmt.Errorf("expected a member from 0 to %d", len(c.members)-1)
	case tag < 0 || tag >= spmd.MaxTag:
		cause = fmt.Errorf("expected a tag from 0 to %d", spmd.MaxTag-1)
	default:
		cause = fmt.Errorf("expected at most %d bytes in one message", maxBytes)
	}
	return c.errorf(opText(sending, len(b), peer, tag), cause)
}

func (c *comm) errorf(op string, cause error) error {
	return fmt.Errorf("communicator %q, member %d: %s: %w", c.label, c.me, op, cause)
}

// pin pins b until unpin. It returns nil for memory outside Go's heap, which needs no pinning.
func (c *comm) pin(b []byte) *runtime.Pinner {
	if len(b) == 0 || c.t.arena.holds(b) {
		return nil
	}
	var p *runtime.Pinner
	if n := len(c.spare); n > 0 {
		p, c.spare = c.spare[n-1], c.spare[:n-1]
	} else {
		p = new(runtime.Pinner)
	}
	p.Pin(unsafe.SliceData(b))
	return p
}

func (c *comm) unpin(p *runtime.Pinner) {
	if p != nil {
		p.Unpin()
		c.spare = append(c.spare, p)
	}
}

// release unpins the memory of requests that are done.
func (c *comm) release() {
	for i := 0; i < len(c.pinned); i++ {
		if C.rl_is_open(c.end, C.uint64_t(c.pinned[i].handle)) != 0 {
			continue
		}
		c.unpin(c.pinned[i].pin)
		last := len(c.pinned) - 1
		c.pinned[i], c.pinned[last] = c.pinned[last], pinned{}
		c.pinned = c.pinned[:last]
		i--
	}
}

func (c *comm) Wait(ctx context.Context, reqs []spmd.Request) error {
	for _, r := range reqs {
		if r.Handle != 0 {
			_, err := c.wait(ctx, reqs, 0)
			return err
		}
	}
	return nil
}

func (c *comm) WaitAny(ctx context.Context, reqs []spmd.Request) (int, error) {
	if len(reqs) == 0 {
		return -1, nil
	}
	return c.wait(ctx, reqs, 1)
}

func (c *comm) wait(ctx context.Context, reqs []spmd.Request, any C.int) (int, error) {
	if c.end == nil {
		return -1, c.errorf("wait", errClosed)
	}
	var fault C.rl_fault
	var ev C.rl_go_event
	report := c.t.stall
	var spent C.int64_t
	for {
		r := C.rl_wait(c.end, (*C.rl_request)(unsafe.Pointer(unsafe.SliceData(reqs))), C.int(len(reqs)), any, &spent,
			&ev, &fault)
		if r == C.RL_SHORT_SLEEP {
			e := event{(*atomic.Uint32)(ev.word), (*atomic.Uint32)(ev.sleepers), (*atomic.Uint64)(ev.top),
				uint32(ev.old)}
			spent = C.int64_t(c.t.shortSleeps.sleep(e, time.Duration(spent), c.long))
			continue
		}
		if len(c.pinned) > 0 {
			c.release()
		}
		switch {
		case r >= C.RL_ALL_ZERO:
			if spent > 0 {
				c.long = time.Duration(spent) >= shortSleepTime
			}
			return int(r), nil
		case r != C.RL_PENDING:
			return -1, c.failed(r, &fault)
		case ctx.Err() != nil:
			return -1, context.Cause(ctx)
		}
		waited := time.Duration(spent)
		if c.t.overdue(waited) && !c.served {
			if err := c.checkDeparted(reqs, any != 0); err != nil {
				return -1, err
			}
		}
		if report > 0 && waited > report {
			var first C.rl_fault
			C.rl_end_next(c.end, 0, &first)
			c.t.reportWait(waited, fmt.Sprintf("communicator %q, member %d: %s", c.label, c.me, c.requestText(&first)))
			report *= 4
		}
	}
}

func (c *comm) Test(r *spmd.Request) (bool, error) {
	if r.Handle == 0 {
		return true, nil
	}
	if c.end == nil {
		return false, c.errorf("wait", errClosed)
	}
	var fault C.rl_fault
	got := C.rl_test(c.end, (*C.rl_request)(unsafe.Pointer(r)), &fault)
	if len(c.pinned) > 0 {
		c.release()
	}
	switch got {
	case 0:
		return true, nil
	case C.RL_PENDING:
		return false, nil
	}
	return false, c.failed(got, &fault)
}

func (c *comm) Cancel(r *spmd.Request) error {
	if r.Handle == 0 {
		return nil
	}
	if c.end == nil {
		return c.errorf("wait", errClosed)
	}
	var fault C.rl_fault
	got := C.rl_cancel(c.end, (*C.rl_request)(unsafe.Pointer(r)), &fault)
	if len(c.pinned) > 0 {
		c.release()
	}
	switch got {
	case 0:
		return nil
	case C.RL_PENDING:
		return c.errorf("cancel", errors.New("it is a send, or a message has matched it"))
	}
	return c.failed(got, &fault)
}

// failed returns the error for the result r of a shim function.
func (c *comm) failed(r C.int, f *C.rl_fault) error {
	if r == C.RL_UNKNOWN {
		return c.errorf("wait", errors.New("a request of another communicator, or one that was waited for before"))
	}
	return c.errorf(c.requestText(f), errors.New(errorText(f.code)))
}

// requestText describes the request in f.
func (c *comm) requestText(f *C.rl_fault) string {
	locals, tag := int(f.tag)/spmd.MaxTag-c.block, int(f.tag)%spmd.MaxTag
	local := locals / c.width
	if f.sending != 0 {
		local = locals % c.width
	}
	member := slices.IndexFunc(c.members, func(s member) bool { return s.process == int(f.peer) && s.local == local })
	return opText(f.sending != 0, int(f.bytes), member, tag)
}

// rankOf returns the world rank of a process, given its rank in the MPI communicator.
func (c *comm) rankOf(process int) int {
	return c.members[slices.IndexFunc(c.members, func(s member) bool { return s.process == process })].rank
}

func opText(sending bool, n, peer, tag int) string {
	op, side := "receive", "from"
	if sending {
		op, side = "send", "to"
	}
	return fmt.Sprintf("%s %d bytes %s member %d, tag %d", op, n, side, peer, tag)
}

// Close frees this member's end of the communicator. It abandons requests that nobody waited for, and returns an error
// that names them.
func (c *comm) Close() error {
	if c.end == nil {
		return nil
	}
	var left []string
	var open C.rl_fault
	for i := C.rl_end_next(c.end, 0, &open); i >= 0; i = C.rl_end_next(c.end, i, &open) {
		left = append(left, c.requestText(&open))
	}
	C.rl_end_close(c.end)
	c.end = nil
	c.t.mu.Lock()
	c.t.lost = append(c.t.lost, c.pinned...)
	delete(c.t.open, c)
	c.t.mu.Unlock()
	if len(left) > 0 {
		return fmt.Errorf("close communicator %q, member %d: requests nobody waited for: %s", c.label, c.me,
			strings.Join(left, "; "))
	}
	return nil
}
