//go:build mpi

package mpi

/*
#include <stdlib.h>
#include "native.h"

#cgo noescape rl_native_run
#cgo nocallback rl_native_run
#cgo noescape rl_native_start
#cgo nocallback rl_native_start
#cgo noescape rl_native_wait
#cgo nocallback rl_native_wait
#cgo noescape rl_native_time
#cgo nocallback rl_native_time
*/
import "C"

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"time"
	"unsafe"

	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/tensor"
)

// Go passes the numbers of kinds, operations and types to C. If a number differs between Go and C, one of
// these indices is out of range, and the compiler reports it.
var _ = [...]struct{}{
	[1]struct{}{}[spmd.Barrier-C.RL_BARRIER], [1]struct{}{}[spmd.Broadcast-C.RL_BROADCAST],
	[1]struct{}{}[spmd.AllReduce-C.RL_ALLREDUCE],
	[1]struct{}{}[spmd.Sum-C.RL_SUM], [1]struct{}{}[spmd.Prod-C.RL_PROD],
	[1]struct{}{}[spmd.Min-C.RL_MIN], [1]struct{}{}[spmd.Max-C.RL_MAX],
	[1]struct{}{}[tensor.F32-C.RL_F32], [1]struct{}{}[tensor.F64-C.RL_F64], [1]struct{}{}[tensor.I32-C.RL_I32],
	[1]struct{}{}[tensor.I64-C.RL_I64], [1]struct{}{}[tensor.U8-C.RL_U8], [1]struct{}{}[tensor.BF16-C.RL_BF16],
}

// A native is one rank's end of an MPI communicator with the library's own collectives.
type native struct {
	t          *transport
	end        *C.rl_native
	call       *C.rl_collective // arguments of the next call, in C's memory
	made       uint64           // number in the order of creation, the same on all members
	label      string
	ranks      []int // ranks of the members
	rank, size int
	pin        *runtime.Pinner // pins data that C keeps from one call to the next
	broken     error           // error after which the communicator cannot be used any more; nil if there was none
}

var (
	_ spmd.NativeMaker = (*transport)(nil)
	_ spmd.Native      = (*native)(nil)
)

// NewNative makes an MPI communicator; see spmd.NativeMaker. MPI spins until all ranks have called it.
func (t *transport) NewNative(ranks []int, label string) (_ spmd.Native, err error) {
	defer annotate(&err, "new native communicator %q", label)
	t.making.Lock()
	defer t.making.Unlock()
	l, err := t.layOut(ranks)
	if err != nil {
		return nil, err
	}
	for m, s := range l.members {
		if s.local > 0 {
			return nil, fmt.Errorf("member %d is on rank %d, which has a member already: MPI has one for each process",
				m, s.rank)
		}
	}
	n := &native{t: t, label: label, ranks: slices.Clone(ranks), rank: l.here, size: len(ranks),
		pin: new(runtime.Pinner)}
	members := make([]C.int, n.size)
	for m, r := range ranks {
		members[m] = C.int(r)
	}
	// A native uses no tags. The agreed block number only serves as the tag of MPI_Comm_create_group.
	if n.made, err = t.agree(l, "native "+label, ranks); err != nil {
		return nil, err
	}
	t.next = n.made + 1
	var fault C.rl_fault
	name := C.CString(label)
	defer C.free(unsafe.Pointer(name))
	if rc := C.rl_native_open(t.world, &members[0], C.int(n.size), makingTag(n.made), name, &n.end, &n.call,
		&fault); rc != 0 {
		return nil, callError(&fault)
	}
	n.ChunkAt(1 << 30)
	t.mu.Lock()
	t.natives[n] = struct{}{}
	t.mu.Unlock()
	return n, nil
}

func (n *native) Rank() int { return n.rank }
func (n *native) Size() int { return n.size }

// ChunkAt sets the largest number of elements in one MPI call, for operations that can be split. It must be the same on
// every member. Tests lower it.
func (n *native) ChunkAt(elements int) { n.call.chunk = C.int64_t(elements) }

// RunBlocking needs no pinning, because it makes only one call into C, and cgo pins the data during a call.
func (n *native) RunBlocking(c *spmd.Collective) error {
	if err := n.prepare(c); err != nil {
		return err
	}
	if r := C.rl_native_run(n.end, pointer(c.Data)); r != 0 {
		return n.failed(c, r)
	}
	return nil
}

func (n *native) Run(ctx context.Context, c *spmd.Collective) error {
	if err := n.prepare(c); err != nil {
		return err
	}
	if len(c.Data) > 0 && !n.t.arena.holds(c.Data) {
		n.pin.Pin(unsafe.SliceData(c.Data))
	}
	report := n.t.stall
	r := C.rl_native_start(n.end, pointer(c.Data))
	for slice := C.int(1); r == C.RL_PENDING; slice++ {
		waited := time.Duration(slice) * C.RL_SLICE_NS
		if end := n.giveUp(ctx, c, waited); end != nil {
			// MPI cannot cancel a collective. The collective continues, so that the other members get their
			// results, and its data stay pinned.
			C.rl_native_abandon(n.end)
			n.broken = n.errorf(c, errors.New("nobody waited for its end"))
			return end
		}
		if report > 0 && waited > report {
			n.t.reportWait(waited, n.text(c))
			report *= 4
		}
		r = C.rl_native_wait(n.end, slice)
	}
	n.pin.Unpin()
	if r != 0 {
		return n.failed(c, r)
	}
	return nil
}

// giveUp returns an error if the wait for c must end: ctx has ended, or c waits for a rank that has left.
func (n *native) giveUp(ctx context.Context, c *spmd.Collective, waited time.Duration) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if !n.t.overdue(waited) {
		return nil
	}
	if err := n.checkDeparted(c); err != nil {
		return n.errorf(c, err)
	}
	return nil
}

// checkDeparted returns an error if c can never end because programs of other ranks have ended. The library does not
// report for which ranks c waits, so the check is conservative. A barrier or an allreduce fails if any member has left.
// A broadcast fails on a member whose root has left, and on the root only if all other members have left.
func (n *native) checkDeparted(c *spmd.Collective) error {
	// If needAll is true, c fails only if all peers have left. Otherwise one peer that has left is enough.
	peers, needAll := n.ranks, false
	if c.Kind == spmd.Broadcast {
		if needAll = n.rank == c.Root; !needAll {
			peers = n.ranks[c.Root : c.Root+1]
		}
	}
	var left error
	for _, r := range peers {
		if r == n.t.rank {
			continue
		}
		if left = n.t.departed(r); (left != nil) != needAll {
			return left
		}
	}
	return left
}

// Time makes all calls on the same buffers. Every call after the first works on the result of the previous call. So a
// sum grows, and a maximum does not.
func (n *native) Time(c *spmd.Collective, batch int, ns []float64) error {
	if batch < 1 {
		return n.errorf(c, fmt.Errorf("batches of %d: expected 1 or more", batch))
	}
	if err := n.prepare(c); err != nil {
		return err
	}
	times := (*C.double)(unsafe.Pointer(unsafe.SliceData(ns)))
	if r := C.rl_native_time(n.end, pointer(c.Data), C.int(batch), C.int(len(ns)), times); r != 0 {
		return n.failed(c, r)
	}
	return nil
}

// Close frees the communicator. Members may close their communicators in different orders.
func (n *native) Close() error {
	if n.end == nil {
		return nil
	}
	r := C.rl_native_close(n.end)
	n.end = nil
	n.t.mu.Lock()
	defer n.t.mu.Unlock()
	delete(n.t.natives, n)
	switch {
	case r == 0:
		n.pin.Unpin()
		return nil
	case r == C.RL_PENDING:
		n.t.lost = append(n.t.lost, pinned{pin: n.pin})
		return fmt.Errorf("close native communicator: %w", n.broken)
	}
	return fmt.Errorf("close native communicator %q, member %d: %s", n.label, n.rank, errorText(r))
}

// closeNatives closes the natives that are still open, in the order of their creation, which is the same
// on every rank.
func (t *transport) closeNatives() error {
	t.mu.Lock()
	left := slices.SortedFunc(maps.Keys(t.natives), func(a, b *native) int { return cmp.Compare(a.made, b.made) })
	t.mu.Unlock()
	var errs []error
	for _, n := range left {
		errs = append(errs, n.Close())
	}
	return errors.Join(errs...)
}

// pointer returns the address of b, for use in one call into C.
func pointer(b []byte) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(b)) }

// prepare writes c to n.call, where C reads it. It returns an error if c is invalid, so that MPI never
// reads or writes outside of the data.
func (n *native) prepare(c *spmd.Collective) error {
	switch {
	case n.end == nil:
		return n.errorf(c, errClosed)
	case n.broken != nil:
		return n.errorf(c, fmt.Errorf("the communicator broke before: %w", n.broken))
	case !c.Kind.Native():
		return n.errorf(c, errors.New("expected barrier, broadcast or allreduce"))
	}
	if err := c.Check(n.size, n.rank); err != nil {
		return n.errorf(c, err)
	}
	*n.call = C.rl_collective{kind: C.int(c.Kind), dtype: C.int(c.DType), op: C.int(c.Op), root: C.int(c.Root),
		chunk: n.call.chunk}
	if c.Kind != spmd.Barrier {
		n.call.n = C.int64_t(len(c.Data) / c.DType.Size())
	}
	return nil
}

// failed returns an error for the result r of a call into C.
func (n *native) failed(c *spmd.Collective, r C.int) error {
	n.broken = n.errorf(c, errors.New(errorText(r))) // members may no longer agree on which call comes next
	return n.broken
}

func (n *native) errorf(c *spmd.Collective, cause error) error {
	return fmt.Errorf("%s: %w", n.text(c), cause)
}

// text describes a call, as in: communicator "actor", member 0: allreduce of 1000 F32 (max).
func (n *native) text(c *spmd.Collective) string {
	text := c.String()
	if c.Kind == spmd.AllReduce {
		text = fmt.Sprintf("%s (%v)", text, c.Op)
	}
	return fmt.Sprintf("communicator %q, member %d: %s", n.label, n.rank, text)
}
