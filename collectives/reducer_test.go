package collectives_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/rlinf/rlinf/collectives"
	"github.com/rlinf/rlinf/spmd"
)

// newCounting returns a Group over m's Comm that adds the memory it takes to n.
func newCounting(m member, n *int) *collectives.Group {
	return collectives.New(m.comm, func(size int) ([]byte, error) {
		*n += size
		return m.alloc(size)
	})
}

// checkGradient sums one gradient, whose ranges backward makes ready, and compares it bit by bit with the sum in member order.
func checkGradient(m member, r *collectives.Reducer, n int, backward func(ready func(lo, hi int))) error {
	b, err := allocGuarded[float32](m.alloc, n, 12345)
	if err != nil {
		return err
	}
	copy(b.buf(), addend[float32](m.Rank(), n))
	s := r.Gradient(b.buf())
	backward(s.Ready)
	if err := s.Wait(); err != nil {
		return err
	}
	if d := differences(b.buf(), total[float32](upTo(m.Size()), n)); d != 0 {
		return fmt.Errorf("member %d of %d: %d of %d elements are not the sum in member order", m.Rank(), m.Size(), d, n)
	}
	return b.check()
}

// The sum of a gradient has the same bits, those of the sum in member order, whatever the buckets and whatever became ready when.
func TestGradientDoesNotDependOnBucketsNorOnRanges(t *testing.T) {
	everywhere(t, func(ctx context.Context, m member) error {
		for _, bucket := range []int{0, 1 << 10, 120_000, 1 << 30} {
			r := collectives.NewReducer(ctx, m.Group, bucket)
			if n, this := r.Replicas(); n != m.Size() || this != m.Rank() {
				return fmt.Errorf("replica %d of %d, want %d of %d", this, n, m.Rank(), m.Size())
			}
			for _, n := range []int{0, 1, 257, 70_000} {
				for _, b := range backwards(n) { // in the same order on every member
					if err := checkGradient(m, r, n, b.pass); err != nil {
						return fmt.Errorf("%d elements in buckets of %d bytes, %s: %w", n, bucket, b.name, err)
					}
				}
			}
		}
		return nil
	})
}

// A backward is a way to make the ranges of a gradient ready.
type backward struct {
	name string
	pass func(ready func(lo, hi int))
}

func backwards(n int) []backward {
	ranges := func(seed uint64) [][2]int {
		r := rand.New(rand.NewPCG(seed, uint64(n)))
		var rs [][2]int
		for lo := 0; lo < n; {
			hi := min(n, lo+1+r.IntN(1+n/7))
			rs = append(rs, [2]int{lo, hi})
			lo = hi
		}
		r.Shuffle(len(rs), func(i, j int) { rs[i], rs[j] = rs[j], rs[i] })
		return rs
	}
	return []backward{
		{"never ready", func(func(lo, hi int)) {}},
		{"all at once", func(ready func(lo, hi int)) { ready(0, n) }},
		{"from the end", func(ready func(lo, hi int)) {
			for hi := n; hi > 0; hi -= min(hi, 999) {
				ready(max(0, hi-999), hi)
			}
		}},
		{"shuffled", func(ready func(lo, hi int)) {
			for _, r := range ranges(1) {
				ready(r[0], r[1])
			}
		}},
		{"with gaps", func(ready func(lo, hi int)) {
			for i, r := range ranges(2) {
				ready(r[0], r[0]) // nothing
				if i%3 != 0 {
					ready(r[0], r[1])
				}
			}
		}},
	}
}

// Complete buckets leave while the backward pass still runs; none leaves before it is complete.
func TestBucketsLeaveDuringTheBackwardPass(t *testing.T) {
	const n = 4 * 256 // four buckets of 1 KiB
	wrap := func(c spmd.Comm) spmd.Comm { return &countingSends{Comm: c} }
	err := run(t, []int{0, 1}, wrap, func(ctx context.Context, m member) error {
		r := collectives.NewReducer(ctx, m.Group, 1<<10)
		sends := &m.comm.(*countingSends).n
		var early, during int
		err := checkGradient(m, r, n, func(ready func(lo, hi int)) {
			ready(800, n)
			ready(100, 500)
			early = *sends
			ready(500, 800) // makes the three last complete; their sums are made by the two members in turn
			during = *sends
		})
		if err == nil && (early != 0 || during == 0) {
			err = fmt.Errorf("member %d made %d sends before a bucket was complete, want 0, and %d when three were, want some", m.Rank(), early, during)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

type countingSends struct {
	spmd.Comm
	n int
}

func (c *countingSends) Isend(b []byte, to, tag int) (spmd.Request, error) {
	c.n++
	return c.Comm.Isend(b, to, tag)
}

// Many buckets may be under way at once, and what is polled may look undone for long: none is taken for another.
func TestManySmallBucketsStayApart(t *testing.T) {
	const n = 3 * spmd.MaxTag
	wrap := func(c spmd.Comm) spmd.Comm { return &reluctant{c, rand.New(rand.NewPCG(8, uint64(c.Rank())))} }
	err := run(t, []int{0, 1, 2}, wrap, func(ctx context.Context, m member) error {
		r := collectives.NewReducer(ctx, m.Group, 4)
		for range 3 {
			err := checkGradient(m, r, n, func(ready func(lo, hi int)) {
				for hi := n; hi > 0; hi -= n / 12 {
					ready(hi-n/12, hi)
				}
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// reluctant says of what is done, now and then, that it is not yet: a Comm may do so.
type reluctant struct {
	spmd.Comm
	r *rand.Rand
}

func (c *reluctant) Test(r *spmd.Request) (bool, error) {
	if r.Handle != 0 && c.r.IntN(3) == 0 {
		return false, nil
	}
	return c.Comm.Test(r)
}

// Other sums of the group may be made while a gradient is under way.
func TestSumBesideAGradient(t *testing.T) {
	err := run(t, []int{0, 1, 2}, nil, func(ctx context.Context, m member) error {
		r := collectives.NewReducer(ctx, m.Group, 1<<10)
		return checkGradient(m, r, 5000, func(ready func(lo, hi int)) {
			ready(2500, 5000)
			if err := checkSum(3000, m, func(x []float64) error { return r.Sum(x) }); err != nil {
				panic(err)
			}
			ready(0, 2500)
		})
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestGradientDoesNotAllocate(t *testing.T) {
	allocs := allocsPerRun(t, []int{0, 1, 2, 2}, func(ctx context.Context, m member) (func() error, error) {
		r := collectives.NewReducer(ctx, m.Group, 1<<10)
		b, err := allocGuarded[float32](m.alloc, 5000, 0)
		return func() error {
			s := r.Gradient(b.buf())
			for hi := 5000; hi > 500; hi -= 500 {
				s.Ready(hi-500, hi)
			}
			return s.Wait()
		}, err
	})
	if allocs != 0 {
		t.Errorf("%v allocations per gradient on 4 members, want 0", allocs)
	}
}

// Gradients of two lengths in turn, an actor's and a critic's say, use the same memory again.
func TestGradientsOfTwoLengthsTakeMemoryOnce(t *testing.T) {
	taken := make([]int, 3)
	err := run(t, []int{0, 1, 2}, nil, func(ctx context.Context, m member) error {
		r := collectives.NewReducer(ctx, newCounting(m, &taken[m.Rank()]), 1<<10)
		long, err := allocGuarded[float32](m.alloc, 10_000, 0)
		if err != nil {
			return err
		}
		warm := 0
		for round := range 40 {
			for _, n := range []int{10_000, 3_000} {
				if err := r.Gradient(long.buf()[:n]).Wait(); err != nil {
					return err
				}
			}
			switch {
			case round == 9: // every bucket has been every member's by now
				warm = taken[m.Rank()]
			case round > 9 && taken[m.Rank()] != warm:
				return fmt.Errorf("member %d took more memory in round %d", m.Rank(), round)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
