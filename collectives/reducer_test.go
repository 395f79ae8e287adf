package collectives_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/rlinf/rlinf/collectives"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/tensor"
)

// checkGradient sums one gradient, whose ranges backward makes ready, and compares all bits with the sum by the tree
// over members.
func checkGradient(m member, r *collectives.Reducer, n int, backward func(ready func(lo, hi int))) error {
	b, err := allocGuarded[float32](m.alloc, n, 12345)
	if err != nil {
		return err
	}
	copy(b.buf(), addend[float32](m.Rank(), n))
	s := r.Gradient(b.buf())
	backward(s.Ready)
	if err := s.Wait(nil); err != nil {
		return err
	}
	if d := differences(b.buf(), total[float32](upTo(m.Size()), n)); d != 0 {
		return fmt.Errorf("member %d of %d: %d of %d elements are not the sum in member order", m.Rank(), m.Size(), d,
			n)
	}
	return b.check()
}

// The sum of a gradient has the bits of the tree over members, for any size of buckets and any order in which ranges
// become ready.
func TestGradientDoesNotDependOnBucketsNorOnRanges(t *testing.T) {
	buckets, lengths := []int{0, 1 << 10, 120_000, 1 << 30}, []int{0, 1, 257, 70_000}
	if testing.Short() {
		buckets, lengths = []int{1 << 10, 120_000}, []int{1, 20_000}
	}
	everywhere(t, func(ctx context.Context, m member) error {
		for _, bucket := range buckets {
			r := collectives.NewReducer(ctx, m.Group, bucket)
			if n, this := r.Replicas(); n != m.Size() || this != m.Rank() {
				return fmt.Errorf("replica %d of %d, want %d of %d", this, n, m.Rank(), m.Size())
			}
			for _, n := range lengths {
				for _, b := range backwards(n) { // the same order on every member
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

// The sum of a complete bucket starts during the backward pass, without another call of the member. No bucket starts
// before it is complete.
func TestBucketsLeaveDuringTheBackwardPass(t *testing.T) {
	const n = 4 * 256 // four buckets of 1 KiB
	wrap := func(c spmd.Comm) spmd.Comm { return &countingSends{Comm: c} }
	err := run(t, []int{0, 1}, wrap, func(ctx context.Context, m member) error {
		r := collectives.NewReducer(ctx, m.Group, 1<<10)
		sends := &m.comm.(*countingSends).n
		var early int64
		err := checkGradient(m, r, n, func(ready func(lo, hi int)) {
			ready(800, n)
			ready(100, 500)
			early = sends.Load()
			ready(500, 800) // completes the last three buckets
			for ctx.Err() == nil && sends.Load() < 3 {
				runtime.Gosched()
			}
		})
		if err == nil && early != 0 {
			err = fmt.Errorf("member %d made %d sends before a bucket was complete", m.Rank(), early)
		}
		return err
	})
	test.OK(t, err)
}

type countingSends struct {
	spmd.Comm
	n atomic.Int64
}

func (c *countingSends) Isend(b []byte, to, tag int) (spmd.Request, error) {
	c.n.Add(1)
	return c.Comm.Isend(b, to, tag)
}

// Many buckets may be in progress at the same time without being mixed up.
func TestManySmallBucketsStayApart(t *testing.T) {
	const n = 3 * spmd.MaxTag
	for how, wrap := range ways {
		err := run(t, []int{0, 1, 2}, wrap, func(ctx context.Context, m member) error {
			r := collectives.NewReducer(ctx, m.Group, 4)
			return checkGradient(m, r, n, func(ready func(lo, hi int)) {
				for hi := n; hi > 0; hi -= n / 12 {
					ready(hi-n/12, hi)
				}
			})
		})
		test.OK(t, err, "by %s", how)
	}
}

// The group may make other sums while a gradient is in progress.
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
	test.OK(t, err)
}

// Every member gets the blocks of all members, which may be empty.
func TestReducerGathers(t *testing.T) {
	counts := []int{3, 0, 5000}
	err := run(t, []int{0, 1, 1}, nil, func(ctx context.Context, m member) error {
		b, err := allocGuarded[float32](m.alloc, 5003, 0)
		if err != nil {
			return err
		}
		lo := []int{0, 3, 3}[m.Rank()]
		for i := range counts[m.Rank()] {
			b.buf()[lo+i] = float32(lo + i)
		}
		if err := collectives.NewReducer(ctx, m.Group, 1<<10).Gather(b.buf(), counts); err != nil {
			return err
		}
		for i, x := range b.buf() {
			if x != float32(i) {
				return fmt.Errorf("element %d is %v", i, x)
			}
		}
		return b.check()
	})
	test.OK(t, err)
}

// The sum of a gradient of one bucket allocates nothing. With several buckets, each but the last starts a goroutine.
func TestGradientDoesNotAllocate(t *testing.T) {
	for buckets, most := range map[int]float64{1: 0, 20: 4 * 20 * 8} {
		allocs := allocsPerRun(t, []int{0, 1, 2, 2}, func(ctx context.Context, m member) (func() error, error) {
			r := collectives.NewReducer(ctx, m.Group, 4*5000/buckets)
			b, err := allocGuarded[float32](m.alloc, 5000, 0)
			return func() error {
				s := r.Gradient(b.buf())
				for hi := 5000; hi > 500; hi -= 500 {
					s.Ready(hi-500, hi)
				}
				return s.Wait(nil)
			}, err
		})
		if allocs > most {
			t.Errorf("%v allocations per gradient of %d buckets on 4 members, want at most %v", allocs, buckets, most)
		}
	}
}

// TestCompressedGradient: the parts are rounded to bfloat16, added in float32, and the sum is rounded once. The
// reported error is that of rounding the parts.
func TestCompressedGradient(t *testing.T) {
	everywhere(t, func(ctx context.Context, m member) error {
		const n = 5000
		r := collectives.NewReducer(ctx, m.Group, 1<<10)
		r.Compress()
		mem, err := m.alloc(4 * n)
		if err != nil {
			return err
		}
		grad := unsafe.Slice((*float32)(unsafe.Pointer(&mem[0])), n)
		copy(grad, addend[float32](m.Rank(), n))
		if err := r.Gradient(grad).Wait(nil); err != nil {
			return err
		}
		want := make([]float32, n)
		var lost, squares float64
		for i := range m.Size() {
			for j, x := range addend[float32](i, n) {
				y := rounded(x)
				want[j] += y
				if i == m.Rank() {
					lost += float64(x-y) * float64(x-y)
					squares += float64(x) * float64(x)
				}
			}
		}
		if m.Size() == 1 { // nothing is sent, so nothing is rounded
			copy(want, addend[float32](0, n))
			lost, squares = 0, 1
		}
		for j := range want {
			if m.Size() > 1 {
				want[j] = rounded(want[j])
			}
		}
		if d := differences(grad, want); d != 0 {
			return fmt.Errorf("member %d: %d of %d elements are not the rounded sum", m.Rank(), d, n)
		}
		if e, want := r.CompressionError(), math.Sqrt(lost/squares); math.Abs(e-want) > 1e-9 || e > 1./256 {
			return fmt.Errorf("compression error %v, want %v", e, want)
		}
		return nil
	})
}

func rounded(x float32) float32 {
	var b [1]uint16
	var y [1]float32
	tensor.ToBF16(b[:], []float32{x})
	tensor.FromBF16(y[:], b[:])
	return y[0]
}
