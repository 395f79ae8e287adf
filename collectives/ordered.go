package collectives

import (
	"context"
	"unsafe"

	"github.com/rlinf/rlinf/spmd"
)

type float interface{ float32 | float64 }

// whole bounds the bytes, S·P, that one member takes in to sum a vector alone instead of all members a shard each: there latency counts,
// and 2(P-1) messages in all beat 2P(P-1). Eight ranks on two cores sum 36 KiB in 0.3 ms this way, in 0.5 ms in shards (Open MPI 4.1.4).
const whole = 512 << 10

// A sum is one ordered allreduce under way. The vector is cut into shards, each with an owner:
//
//  1. every member sends its piece of each shard to the owner             P-1 messages, (P-1)/P·S bytes sent
//  2. the owner adds the pieces in member order                           so the bits depend on nothing else
//  3. the owner sends the result to every member                          P-1 messages, (P-1)/P·S bytes
//
// A short vector is one shard, owned in turn by all members. Nothing here waits but finish: start and poll only post what can be
// posted, so a sum makes progress whenever its owner finds the time to poll. Sums of one Group may overlap.
type sum[T float] struct {
	g     *Group
	x     []T
	tag   int
	owner int // of the only shard, or -1: shard i belongs to member i
	phase phase
	in    []spmd.Request // what the phase waits to receive
	out   []spmd.Request // what was sent: its memory is in use
	mem   []byte         // pieces of my shard from all other members
}

type phase int

const (
	done    phase = iota
	pieces        // waiting for the pieces of my shard, and for mine to be gone
	results       // waiting for the results of the other shards
)

// start begins to sum x, which must be communication memory, in place.
func (s *sum[T]) start(g *Group, x []T) error {
	s.g, s.x, s.tag, s.owner = g, x, g.tags(2), -1
	if n := len(x) * int(unsafe.Sizeof(x[0])); n*g.Size() <= whole {
		s.owner = (s.tag / 2) % g.Size()
	}
	s.phase = pieces
	s.in, s.out = s.in[:0], s.out[:0]
	me := g.Rank()
	if mine := s.shard(me); len(mine) > 0 {
		if err := g.grow(&s.mem, g.Size()*len(mine)*int(unsafe.Sizeof(x[0]))); err != nil {
			return err
		}
		for m := range g.Size() {
			if m != me {
				r, err := g.comm.Irecv(bytesOf(s.piece(m, len(mine))), m, s.tag)
				if err != nil {
					return err
				}
				s.in = append(s.in, r)
			}
		}
	}
	for i := 1; i < g.Size(); i++ { // each starts with its neighbour, so that no owner is flooded
		m := (me + i) % g.Size()
		if shard := s.shard(m); len(shard) > 0 {
			r, err := g.comm.Isend(bytesOf(shard), m, s.tag)
			if err != nil {
				return err
			}
			s.out = append(s.out, r)
		}
	}
	return nil
}

// poll moves on as far as it can without waiting, and reports whether the sum is done.
func (s *sum[T]) poll() (bool, error) {
	for s.phase != done {
		for _, reqs := range [2][]spmd.Request{s.in, s.out} {
			for i := range reqs {
				if ok, err := s.g.comm.Test(&reqs[i]); !ok || err != nil {
					return false, err
				}
			}
		}
		if err := s.next(); err != nil {
			return false, err
		}
	}
	return true, nil
}

// finish waits for the sum.
func (s *sum[T]) finish(ctx context.Context) error {
	for s.phase != done {
		if err := s.g.comm.Wait(ctx, s.in); err != nil {
			return err
		}
		if err := s.g.comm.Wait(ctx, s.out); err != nil {
			return err
		}
		if err := s.next(); err != nil {
			return err
		}
	}
	return nil
}

// next enters the phase after the present one, all of whose requests are done.
func (s *sum[T]) next() error {
	if s.phase == results {
		s.phase = done
		return nil
	}
	s.in, s.out, s.phase = s.in[:0], s.out[:0], results
	if err := s.addMine(); err != nil {
		return err
	}
	me := s.g.Rank()
	for m := range s.g.Size() { // only now: until our pieces were gone, this memory was being sent
		if shard := s.shard(m); m != me && len(shard) > 0 {
			r, err := s.g.comm.Irecv(bytesOf(shard), m, s.tag+1)
			if err != nil {
				return err
			}
			s.in = append(s.in, r)
		}
	}
	return nil
}

// addMine adds the pieces of this member's shard in member order and sends the result.
func (s *sum[T]) addMine() error {
	me := s.g.Rank()
	mine := s.shard(me)
	if len(mine) == 0 {
		return nil
	}
	acc := s.piece(me, len(mine)) // nobody wrote there
	copy(acc, mine)
	if me != 0 {
		copy(mine, s.piece(0, len(mine)))
	}
	for m := 1; m < s.g.Size(); m++ {
		add(mine, s.piece(m, len(mine)))
	}
	for i := 1; i < s.g.Size(); i++ {
		r, err := s.g.comm.Isend(bytesOf(mine), (me+i)%s.g.Size(), s.tag+1)
		if err != nil {
			return err
		}
		s.out = append(s.out, r)
	}
	return nil
}

// shard returns the part of x that member m owns.
func (s *sum[T]) shard(m int) []T {
	if s.owner >= 0 {
		if m == s.owner {
			return s.x
		}
		return nil
	}
	n, p := len(s.x), s.g.Size()
	return s.x[m*n/p : (m+1)*n/p]
}

// piece returns where member m's piece of this member's shard of n elements arrives.
func (s *sum[T]) piece(m, n int) []T {
	all := unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(s.mem))), s.g.Size()*n)
	return all[m*n : (m+1)*n]
}

func add[T float](dst, x []T) {
	x = x[:len(dst)]
	for i := range dst {
		dst[i] += x[i]
	}
}

func bytesOf[T float](x []T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), len(x)*int(unsafe.Sizeof(*new(T))))
}
