package collectives_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/rlinf/rlinf/collectives"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/spmd"
)

// lengths are numbers of elements to sum: none, one, fewer than members, and enough for other algorithms.
var lengths = []int{0, 1, 3, 7, 1000, 2049, 4097, 65537}

// numbers differ so much in size that every order of additions gives other bits.
var numbers = sync.OnceValue(func() []float64 {
	r := rand.New(rand.NewPCG(1, 2))
	x := make([]float64, 1<<18)
	for i := range x {
		x[i] = math.Ldexp(r.Float64()-0.5, r.IntN(20))
	}
	return x
})

// addend returns a member's input.
func addend[T float32 | float64](member, n int) []T {
	x := make([]T, n)
	for i, v := range numbers()[member*7919:][:n] {
		x[i] = T(v)
	}
	return x
}

// total returns the sum of all addends by the tree over members, computed by a plain recursion.
func total[T float32 | float64](members []int, n int) []T {
	if len(members) == 1 {
		return addend[T](members[0], n)
	}
	left := 1
	for 2*left < len(members) {
		left *= 2
	}
	sum := total[T](members[:left], n)
	for i, v := range total[T](members[left:], n) {
		sum[i] += v
	}
	return sum
}

func upTo(n int) []int {
	x := make([]int, n)
	for i := range x {
		x[i] = i
	}
	return x
}

// differences counts the elements whose bits differ.
func differences[T float32 | float64](got, want []T) (n int) {
	for i := range want {
		if math.Float64bits(float64(got[i])) != math.Float64bits(float64(want[i])) {
			n++
		}
	}
	return n
}

func TestAddendsTellOrdersApart(t *testing.T) {
	if n := differences(total[float32]([]int{2, 1, 0}, 1000), total[float32](upTo(3), 1000)); n < 100 {
		t.Errorf("backwards, only %d of 1000 float32 sums have other bits: the tests would not see a wrong order", n)
	}
	if n := differences(total[float32]([]int{2, 3, 0, 1}, 1000), total[float32](upTo(4), 1000)); n != 0 {
		t.Errorf("addition commutes, but %d of 1000 sums have other bits", n)
	}
	if n := differences(total[float32]([]int{0, 2, 1, 3}, 1000), total[float32](upTo(4), 1000)); n < 100 {
		t.Errorf("of other pairs, only %d of 1000 sums have other bits: the tests would not see a wrong tree", n)
	}
	if n := differences(total[float64]([]int{0, 2, 1}, 1000), total[float64](upTo(3), 1000)); n < 100 {
		t.Errorf("swapped, only %d of 1000 float64 sums have other bits: the tests would not see a wrong order", n)
	}
}

func TestSumsAddByTheTree(t *testing.T) {
	everywhere(t, func(ctx context.Context, m member) error {
		for _, n := range lengths {
			if err := checkSum(n, m, func(x []float32) error { return m.Sum32(ctx, x) }); err != nil {
				return err
			}
			if err := checkSum(n, m, func(x []float64) error { return m.Sum64(ctx, x) }); err != nil {
				return err
			}
		}
		return nil
	})
}

// checkSum makes one sum of n elements and compares it bit by bit.
func checkSum[T float32 | float64](n int, m member, sum func([]T) error) error {
	b := newGuarded[T](n, 12345)
	copy(b.buf(), addend[T](m.Rank(), n))
	if err := sum(b.buf()); err != nil {
		return err
	}
	if d := differences(b.buf(), total[T](upTo(m.Size()), n)); d != 0 {
		return fmt.Errorf("member %d of %d: %d of %d elements are not the sum by the tree", m.Rank(), m.Size(), d, n)
	}
	return b.check()
}

// The sum is the same for every order of arrival. A member starts when the member before it in the order has sent all
// that it can and waits.
func TestOrderOfArrivalDoesNotMatter(t *testing.T) {
	const members = 4
	for _, order := range permutations(members) {
		for _, n := range []int{5, 40_000} { // a short vector and a long one
			gates := make([]chan struct{}, members+1)
			for i := range gates {
				gates[i] = make(chan struct{})
			}
			close(gates[0])
			turn := make([]int, members)
			for k, m := range order {
				turn[m] = k
			}
			wrap := func(c spmd.Comm) spmd.Comm { return &announcing{Comm: c, posted: gates[turn[c.Rank()]+1]} }
			err := run(t, upTo(members), wrap, func(ctx context.Context, m member) error {
				select {
				case <-gates[turn[m.Rank()]]:
				case <-ctx.Done():
					return context.Cause(ctx)
				}
				return checkSum(n, m, func(x []float32) error { return m.Sum32(ctx, x) })
			})
			test.OK(t, err, "in the order %v", order)
		}
	}
}

// An announcing closes posted when its owner first waits.
type announcing struct {
	spmd.Comm
	posted chan struct{}
	said   bool
}

func (a *announcing) Wait(ctx context.Context, reqs []spmd.Request) error {
	if !a.said {
		a.said = true
		close(a.posted)
	}
	return a.Comm.Wait(ctx, reqs)
}

// permutations returns all orders of 0..n-1.
func permutations(n int) [][]int {
	if n == 0 {
		return [][]int{nil}
	}
	var all [][]int
	for _, p := range permutations(n - 1) {
		for at := range n {
			q := append(append(append([]int(nil), p[:at]...), n-1), p[at:]...)
			all = append(all, q)
		}
	}
	return all
}

// The memory for messages grows in few steps.
func TestSumsOfGrowingLengthsTakeLittleMemory(t *testing.T) {
	const longest = 3000
	err := run(t, []int{0, 1, 2}, ways["messages"], func(ctx context.Context, m member) error {
		taken := new(atomic.Int64)
		g, err := collectives.New(counting{m.host, taken}, m.comm, collectives.Options{})
		if err != nil {
			return err
		}
		for n := 1; n <= longest; n++ {
			if err := g.Sum64(ctx, make([]float64, n)); err != nil {
				return err
			}
		}
		if n, most := taken.Load(), int64(16*longest*8); n > most {
			return fmt.Errorf("member %d took %d bytes, which stay taken, for sums of up to %d: want at most %d",
				m.Rank(), n, longest*8, most)
		}
		return nil
	})
	test.OK(t, err)
}
