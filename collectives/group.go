package collectives

import (
	"context"
	"encoding/binary"
	"fmt"
	"unsafe"

	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/tensor"
)

// A Group runs collective operations over one Comm.
type Group struct {
	comm  spmd.Comm
	alloc tensor.Allocator
	seq   int // operations started; names their messages
	reqs  []spmd.Request
	sum32 sum[float32]
	sum64 sum[float64]
	stage []byte // communication memory for what callers hold elsewhere
}

// New returns a Group over comm, which it owns from now on; alloc gives the memory for messages.
func New(comm spmd.Comm, alloc tensor.Allocator) *Group {
	return &Group{comm: comm, alloc: alloc, reqs: make([]spmd.Request, 0, 2*comm.Size())}
}

// Rank returns this member's number.
func (g *Group) Rank() int { return g.comm.Rank() }

// Size returns the number of members.
func (g *Group) Size() int { return g.comm.Size() }

// Close frees the Comm; every member calls it.
func (g *Group) Close() error { return g.comm.Close() }

// Barrier returns when every member has called it: ⌈log₂P⌉ rounds of a dissemination barrier (Hensgen, Finkel and Manber 1988).
func (g *Group) Barrier(ctx context.Context) error {
	rank, size, tag := g.Rank(), g.Size(), g.tags(1)
	for step := 1; step < size; step *= 2 {
		if err := g.send(nil, (rank+step)%size, tag); err != nil {
			return fmt.Errorf("barrier: %w", err)
		}
		if err := g.recv(nil, (rank-step+size)%size, tag); err != nil {
			return fmt.Errorf("barrier: %w", err)
		}
		if err := g.wait(ctx); err != nil {
			return fmt.Errorf("barrier: %w", err)
		}
	}
	return nil
}

// Broadcast fills b on every member with root's: a binomial tree, ⌈log₂P⌉ rounds, S bytes each. All members pass the same length.
func (g *Group) Broadcast(ctx context.Context, b []byte, root int) error {
	size, tag := g.Size(), g.tags(1)
	me := (g.Rank() - root + size) % size // numbered from the root
	for step := 1; step < size; step *= 2 {
		switch {
		case me < step && me+step < size:
			if err := g.send(b, (me+step+root)%size, tag); err != nil {
				return fmt.Errorf("broadcast: %w", err)
			}
		case me >= step && me < 2*step:
			if err := g.recv(b, (me-step+root)%size, tag); err != nil {
				return fmt.Errorf("broadcast: %w", err)
			}
			if err := g.wait(ctx); err != nil { // what is not here yet cannot be passed on
				return fmt.Errorf("broadcast: %w", err)
			}
		}
	}
	if err := g.wait(ctx); err != nil {
		return fmt.Errorf("broadcast: %w", err)
	}
	return nil
}

// Gather returns every member's b at root, in member order, and nil elsewhere. Lengths may differ. It allocates: not for step loops.
func (g *Group) Gather(ctx context.Context, b []byte, root int) ([][]byte, error) {
	tag := g.tags(2)
	if g.Rank() != root {
		head := make([]byte, 8) // not of g.alloc, whose memory is never given back
		binary.LittleEndian.PutUint64(head, uint64(len(b)))
		if err := g.send(head, root, tag); err != nil {
			return nil, fmt.Errorf("gather: %w", err)
		}
		if err := g.send(b, root, tag+1); err != nil {
			return nil, fmt.Errorf("gather: %w", err)
		}
		return nil, g.wait(ctx)
	}
	heads := make([]byte, 8*g.Size())
	all := make([][]byte, g.Size())
	for m := range all {
		if m != root {
			if err := g.recv(heads[8*m:8*m+8], m, tag); err != nil {
				return nil, fmt.Errorf("gather: %w", err)
			}
		}
	}
	if err := g.wait(ctx); err != nil {
		return nil, fmt.Errorf("gather: %w", err)
	}
	for m := range all {
		if m == root {
			all[m] = b
			continue
		}
		all[m] = make([]byte, binary.LittleEndian.Uint64(heads[8*m:]))
		if err := g.recv(all[m], m, tag+1); err != nil {
			return nil, fmt.Errorf("gather: %w", err)
		}
	}
	if err := g.wait(ctx); err != nil {
		return nil, fmt.Errorf("gather: %w", err)
	}
	return all, nil
}

// Sum64 adds x over the members, in member order, in place.
func (g *Group) Sum64(ctx context.Context, x []float64) error { return sumStaged(ctx, g, &g.sum64, x) }

// Sum32 adds x over the members, in member order, in place.
func (g *Group) Sum32(ctx context.Context, x []float32) error { return sumStaged(ctx, g, &g.sum32, x) }

// sumStaged sums a copy of x in communication memory, so that callers may pass any slice.
func sumStaged[T float](ctx context.Context, g *Group, s *sum[T], x []T) error {
	if g.Size() == 1 || len(x) == 0 {
		return nil
	}
	n := len(x) * int(unsafe.Sizeof(x[0]))
	if err := g.grow(&g.stage, n); err != nil {
		return fmt.Errorf("sum of %d: %w", len(x), err)
	}
	mem := unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(g.stage))), len(x))
	copy(mem, x)
	if err := s.start(g, mem); err != nil {
		return fmt.Errorf("sum of %d: %w", len(x), err)
	}
	if err := s.finish(ctx); err != nil {
		return fmt.Errorf("sum of %d: %w", len(x), err)
	}
	copy(x, mem)
	return nil
}

// grow makes mem at least n bytes long; what is in it may be lost. Memory is never given back, so lengths that grow little by little
// take ever larger steps.
func (g *Group) grow(mem *[]byte, n int) error {
	if len(*mem) >= n {
		return nil
	}
	b, err := g.alloc(max(n, 2*len(*mem)))
	if err != nil {
		return err
	}
	*mem = b
	return nil
}

// tags reserves n consecutive tags for an operation. They come round again: messages of one pair and tag keep their order. But sums that
// overlap may overtake each other, so they must have tags of their own; see maxBuckets.
func (g *Group) tags(n int) int {
	const room = spmd.MaxTag - 8
	t := g.seq % room
	g.seq += n
	return t
}

func (g *Group) send(b []byte, to, tag int) error {
	r, err := g.comm.Isend(b, to, tag)
	g.reqs = append(g.reqs, r)
	return err
}

func (g *Group) recv(b []byte, from, tag int) error {
	r, err := g.comm.Irecv(b, from, tag)
	g.reqs = append(g.reqs, r)
	return err
}

func (g *Group) wait(ctx context.Context) error {
	err := g.comm.Wait(ctx, g.reqs)
	g.reqs = g.reqs[:0]
	return err
}
