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
	"math"
	"runtime"
	"slices"
	"time"
	"unsafe"

	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/tensor"
)

// Kinds, operations and types are handed to C as they are; if the numbers ever differ, this does
// not compile.
var _ = [...]struct{}{
	[1]struct{}{}[spmd.Barrier-C.RL_BARRIER], [1]struct{}{}[spmd.Broadcast-C.RL_BROADCAST],
	[1]struct{}{}[spmd.Reduce-C.RL_REDUCE],
	[1]struct{}{}[spmd.AllReduce-C.RL_ALLREDUCE], [1]struct{}{}[spmd.ReduceScatter-C.RL_REDUCE_SCATTER],
	[1]struct{}{}[spmd.AllGather-C.RL_ALLGATHER],
	[1]struct{}{}[spmd.Gather-C.RL_GATHER], [1]struct{}{}[spmd.Scatter-C.RL_SCATTER],
	[1]struct{}{}[spmd.AllToAll-C.RL_ALLTOALL],
	[1]struct{}{}[spmd.SendReceive-C.RL_SENDRECV],
	[1]struct{}{}[spmd.Sum-C.RL_SUM], [1]struct{}{}[spmd.Prod-C.RL_PROD], [1]struct{}{}[spmd.Min-C.RL_MIN],
	[1]struct{}{}[spmd.Max-C.RL_MAX],
	[1]struct{}{}[tensor.F32-C.RL_F32], [1]struct{}{}[tensor.F64-C.RL_F64], [1]struct{}{}[tensor.I32-C.RL_I32],
	[1]struct{}{}[tensor.I64-C.RL_I64],
	[1]struct{}{}[tensor.U8-C.RL_U8], [1]struct{}{}[tensor.BF16-C.RL_BF16],
}

// A native is one rank's end of a communicator of MPI.
type native struct {
	t          *transport
	end        *C.rl_native
	call       *C.rl_collective // in C's memory: what the next call does
	made       uint64           // natives of one process count up in this, in the same order everywhere
	label      string
	ranks      []int // of the members
	rank, size int
	pin        *runtime.Pinner // what C holds on to between two crossings
	broken     error           // what ended the communicator before its time
}

var (
	_ spmd.NativeMaker = (*transport)(nil)
	_ spmd.Native      = (*native)(nil)
)

// NewNative makes a communicator of MPI; see spmd.NativeMaker. Once all its ranks have called, MPI
// turns their cores until it is there.
func (t *transport) NewNative(ranks []int, label string) (spmd.Native, error) {
	n, err := t.newNative(ranks, label)
	if err != nil {
		return nil, fmt.Errorf("new native communicator %q: %w", label, err)
	}
	return n, nil
}

func (t *transport) newNative(ranks []int, label string) (*native, error) {
	t.making.Lock()
	defer t.making.Unlock()
	l, err := layOut(ranks, t.size)
	if err != nil {
		return nil, err
	}
	for m, s := range l.seats {
		if s.local > 0 {
			return nil, fmt.Errorf("member %d is on rank %d, which has a member already: MPI has one for each process",
				m, s.rank)
		}
	}
	n := &native{t: t, label: label, ranks: slices.Clone(ranks), rank: -1, size: len(ranks), pin: new(runtime.Pinner)}
	members := make([]C.int, n.size)
	for m, r := range ranks {
		members[m] = C.int(r)
		if r == t.rank {
			n.rank = m
		}
	}
	if n.rank < 0 {
		return nil, fmt.Errorf("rank %d calls, but the members are on ranks %v", t.rank, ranks)
	}
	// The block of tags that is agreed on stays empty: its number is MPI's tag for the making.
	if n.made, err = t.agree(ranks, n.rank, "native "+label, ranks); err != nil {
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

// ChunkAt sets how many elements one call of MPI gets at most, of an operation that can be cut.
// Tests lower it; the same on every member.
func (n *native) ChunkAt(elements int) { n.call.chunk = C.int64_t(elements) }

// RunBlocking is one crossing into C, which Go's memory is held in place for.
func (n *native) RunBlocking(c *spmd.Collective) error {
	if err := n.prepare(c); err != nil {
		return err
	}
	if r := C.rl_native_run(n.end, pointer(c.Data), pointer(c.Send)); r != 0 {
		return n.failed(c, r)
	}
	return nil
}

func (n *native) Run(ctx context.Context, c *spmd.Collective) error {
	if err := n.prepare(c); err != nil {
		return err
	}
	n.hold(c.Data)
	n.hold(c.Send)
	report := n.t.stall
	r := C.rl_native_start(n.end, pointer(c.Data), pointer(c.Send))
	for slice := C.int(1); r == C.RL_PENDING; slice++ {
		waited := time.Duration(slice) * C.RL_SLICE_NS
		if end := n.giveUp(ctx, c, waited); end != nil {
			// MPI cannot take it back: it goes on, so that the other members need not stop, and
			// what it touches stays.
			C.rl_native_abandon(n.end)
			n.broken = n.errorf(c, errors.New("nobody waited for its end"))
			return end
		}
		if report > 0 && waited > report {
			n.t.reportWait(waited, fmt.Sprintf("communicator %q, member %d: %s", n.label, n.rank, text(c)))
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

// giveUp returns why c is not worth waiting for any longer.
func (n *native) giveUp(ctx context.Context, c *spmd.Collective, waited time.Duration) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if !n.t.doubts(waited) {
		return nil
	}
	if err := n.vain(c); err != nil {
		return n.errorf(c, err)
	}
	return nil
}

// vain returns an error if c waits for a rank whose program has ended. The library hides what c
// waits for, so vain goes by what is sure. A barrier needs every member. A broadcast comes from its
// root. A reduction or gather may wait while any of the other members is left.
func (n *native) vain(c *spmd.Collective) error {
	among, all := n.ranks, false // one of these, or all
	switch {
	case c.Kind == spmd.SendReceive:
		among = []int{n.ranks[c.From], n.ranks[c.To]}
	case c.Kind == spmd.Reduce, c.Kind == spmd.Gather:
		all = true
	case c.Kind == spmd.Broadcast, c.Kind == spmd.Scatter:
		if all = n.rank == c.Root; !all {
			among = n.ranks[c.Root : c.Root+1]
		}
	}
	var left error
	for _, r := range among {
		if r == n.t.rank {
			continue
		}
		if left = n.t.departed(r); (left != nil) != all {
			return left
		}
	}
	return left
}

// Time leaves the result of the last call in c.Data, which is the input of every call but the
// first: a sum grows, a maximum does not.
func (n *native) Time(c *spmd.Collective, batch int, ns []float64) error {
	if batch < 1 {
		return n.errorf(c, fmt.Errorf("batches of %d: expected 1 or more", batch))
	}
	if err := n.prepare(c); err != nil {
		return err
	}
	times := (*C.double)(unsafe.Pointer(unsafe.SliceData(ns)))
	if r := C.rl_native_time(n.end, pointer(c.Data), pointer(c.Send), C.int(batch), C.int(len(ns)), times); r != 0 {
		return n.failed(c, r)
	}
	return nil
}

// Close frees the communicator, in any order with those of the other members.
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

// closeNatives closes those that are still open, everywhere in the order in which they were made.
func (t *transport) closeNatives() error {
	t.mu.Lock()
	left := slices.Collect(maps.Keys(t.natives))
	t.mu.Unlock()
	slices.SortFunc(left, func(a, b *native) int { return cmp.Compare(a.made, b.made) })
	var errs []error
	for _, n := range left {
		errs = append(errs, n.Close())
	}
	return errors.Join(errs...)
}

// pointer is where b lies, for one crossing.
func pointer(b []byte) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(b)) }

// hold keeps b in place until n.pin lets go.
func (n *native) hold(b []byte) {
	if len(b) > 0 && !n.t.arena.holds(b) {
		n.pin.Pin(unsafe.SliceData(b))
	}
}

// prepare tells C what c does, and refuses what would make MPI read or write where it should not.
func (n *native) prepare(c *spmd.Collective) error {
	if err := n.fill(c); err != nil {
		return n.errorf(c, err)
	}
	return nil
}

func (n *native) fill(c *spmd.Collective) error {
	if n.end == nil {
		return errClosed
	}
	if n.broken != nil {
		return fmt.Errorf("the communicator broke before: %w", n.broken)
	}
	to := n.call
	to.kind, to.dtype, to.op, to.root = C.int(c.Kind), C.int(c.DType), C.int(c.Op), C.int(c.Root)
	if c.Kind == spmd.Barrier {
		to.n = 0
		return nil
	}
	if c.DType < tensor.F32 || c.DType > tensor.BF16 {
		return errors.New("no such type of elements")
	}
	size := c.DType.Size()
	elements, sent := len(c.Data)/size, len(c.Send)/size
	if elements*size != len(c.Data) || sent*size != len(c.Send) {
		return fmt.Errorf("%d bytes of data and %d to send: expected multiples of %d", len(c.Data), len(c.Send), size)
	}
	to.n, to.sent = C.int64_t(elements), C.int64_t(sent)
	if c.Kind == spmd.Reduce || c.Kind == spmd.AllReduce || c.Kind == spmd.ReduceScatter {
		if err := checkReduction(c, size); err != nil {
			return err
		}
	}
	switch c.Kind {
	case spmd.Broadcast, spmd.Reduce:
		return n.checkMember("root", c.Root)
	case spmd.AllReduce:
		return nil
	case spmd.ReduceScatter, spmd.AllGather:
		return n.cut(c, elements, false)
	case spmd.Gather, spmd.Scatter:
		if err := n.checkMember("root", c.Root); err != nil {
			return err
		}
		return n.cut(c, elements, c.Root != n.rank)
	case spmd.AllToAll:
		return n.cutExchange(c, elements, sent)
	case spmd.SendReceive:
		to.to, to.from = C.int(c.To), C.int(c.From)
		if err := n.checkMember("to", c.To); err != nil {
			return err
		}
		return n.checkMember("from", c.From)
	}
	return errors.New("no such collective")
}

func (n *native) checkMember(what string, m int) error {
	if m < 0 || m >= n.size {
		return fmt.Errorf("%s %d: expected a member from 0 to %d", what, m, n.size-1)
	}
	return nil
}

// checkReduction refuses what MPI's arithmetic must not see.
func checkReduction(c *spmd.Collective, size int) error {
	if c.Op > spmd.Max {
		return errors.New("no such operation")
	}
	if uintptr(pointer(c.Data))%uintptr(size) != 0 {
		return fmt.Errorf("data at an address that is no multiple of %d", size)
	}
	return nil
}

// cut cuts the data into blocks, equal ones where they are on every member, since MPI knows better
// algorithms for these. alone: this member's data is its own block and nothing else.
func (n *native) cut(c *spmd.Collective, elements int, alone bool) error {
	if c.Counts != nil {
		return n.cutByCounts(c, elements, alone)
	}
	to, block := n.call, elements
	if !alone {
		block /= n.size
	}
	to.uneven, to.block = 0, C.int64_t(block)
	if alone || block*n.size == elements {
		return fit(c.Kind, block, elements)
	}
	if c.Kind == spmd.Gather || c.Kind == spmd.Scatter {
		return fmt.Errorf("expected a multiple of %d elements where there are no Counts", n.size)
	}
	to.uneven = 1
	counts, displs := unsafe.Slice(to.counts, n.size), unsafe.Slice(to.displs, n.size)
	for m := range counts {
		lo, hi := m*elements/n.size, (m+1)*elements/n.size
		displs[m], counts[m] = C.int(lo), C.int(hi-lo)
	}
	return fit(c.Kind, elements, elements)
}

func (n *native) cutByCounts(c *spmd.Collective, elements int, alone bool) error {
	to := n.call
	want, equal, err := n.lay("Counts", c.Counts, to.counts, to.displs)
	if err != nil {
		return err
	}
	longest := want
	if alone {
		want = c.Counts[n.rank]
	}
	if elements != want {
		return fmt.Errorf("the Counts are for %d elements", want)
	}
	if equal {
		to.uneven, to.block = 0, C.int64_t(c.Counts[0])
		return fit(c.Kind, c.Counts[0], elements)
	}
	to.uneven = 1
	return fit(c.Kind, longest, elements)
}

// cutExchange cuts what an AllToAll sends, and where it arrives. Counts belong to a member alone,
// so that equal ones do not make it even.
func (n *native) cutExchange(c *spmd.Collective, elements, sent int) error {
	to := n.call
	to.in_place, to.uneven = 0, 0
	if c.Send == nil && c.SendCounts == nil {
		to.in_place, sent = 1, elements
	}
	if (c.Counts == nil) != (c.SendCounts == nil) {
		return errors.New("expected Counts and SendCounts, or neither")
	}
	if c.Counts == nil {
		block := elements / n.size
		if sent != elements || block*n.size != elements {
			return fmt.Errorf(
				"%d elements to send: expected as many as arrive, a multiple of %d, where there are no Counts", sent,
				n.size)
		}
		to.block = C.int64_t(block)
		return fit(c.Kind, block, elements)
	}
	to.uneven = 1
	in, _, err := n.lay("Counts", c.Counts, to.counts, to.displs)
	if err != nil {
		return err
	}
	out, _, err := n.lay("SendCounts", c.SendCounts, to.send_counts, to.send_displs)
	if err != nil {
		return err
	}
	if in != elements || out != sent {
		return fmt.Errorf("%d elements to send: the Counts are for %d, the SendCounts for %d", sent, in, out)
	}
	return fit(c.Kind, max(elements, sent), elements)
}

// lay writes counts as C takes them, with where each block begins.
func (n *native) lay(name string, counts []int, to, displs *C.int) (sum int, equal bool, err error) {
	if len(counts) != n.size {
		return 0, false, fmt.Errorf("%d %s: expected one for each of %d members", len(counts), name, n.size)
	}
	equal = true
	lengths, starts := unsafe.Slice(to, n.size), unsafe.Slice(displs, n.size)
	for m, k := range counts {
		if k < 0 {
			return 0, false, fmt.Errorf("%s[%d] is %d: expected 0 or more", name, m, k)
		}
		lengths[m], starts[m] = C.int(k), C.int(sum)
		sum += k
		equal = equal && k == counts[0]
	}
	return sum, equal, nil
}

// fit refuses blocks that MPI cannot count: it counts in C ints, and blocks cannot be cut. longest
// is what it counts up to: a block, or the sum of uneven ones.
func fit(kind spmd.Kind, longest, elements int) error {
	if kind == spmd.ReduceScatter {
		longest = elements
	}
	if longest > math.MaxInt32 {
		return fmt.Errorf("too many for MPI, which counts to %d here: do it in several parts", math.MaxInt32)
	}
	return nil
}

func (n *native) failed(c *spmd.Collective, r C.int) error {
	if r == C.RL_SHORT {
		return n.errorf(c, fmt.Errorf("got %d elements only", n.call.got))
	}
	// after an error of MPI the members need not agree any more in where they are
	n.broken = n.errorf(c, errors.New(errorText(r)))
	return n.broken
}

func (n *native) errorf(c *spmd.Collective, cause error) error {
	return fmt.Errorf("communicator %q, member %d: %s: %w", n.label, n.rank, text(c), cause)
}

// text names a collective: allreduce of 1000 F32 (max).
func text(c *spmd.Collective) string {
	if c.Kind == spmd.Barrier {
		return c.Kind.String()
	}
	if c.DType < tensor.F32 || c.DType > tensor.BF16 {
		return fmt.Sprintf("%v of %v", c.Kind, c.DType)
	}
	s := fmt.Sprintf("%v of %d %v", c.Kind, len(c.Data)/c.DType.Size(), c.DType)
	switch c.Kind {
	case spmd.Reduce, spmd.AllReduce, spmd.ReduceScatter:
		return fmt.Sprintf("%s (%v)", s, c.Op)
	case spmd.SendReceive:
		return fmt.Sprintf("%s, to %d and from %d", s, c.To, c.From)
	}
	return s
}
