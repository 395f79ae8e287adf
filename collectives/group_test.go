package collectives_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/rlinf/rlinf/collectives"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/spmd/local"
)

// groups are the placements that every operation is tried on: the world rank of each member. Several members may be
// on one rank.
var groups = [][]int{
	{0}, {0, 1}, {0, 1, 2}, {0, 1, 2, 3}, {0, 1, 2, 3, 4}, {0, 1, 2, 3, 4, 5, 6}, {0, 1, 2, 3, 4, 5, 6, 7},
	{0, 0}, {0, 0, 1, 1, 1}, {2, 0, 1}, {1, 0, 1, 0},
}

// A member is one goroutine's end of the group of a test.
type member struct {
	*collectives.Group
	host  collectives.Host
	comm  spmd.Comm
	alloc func(n int) ([]byte, error)
}

// An apart is a host without shared memory.
type apart struct{ collectives.Host }

func (apart) Shared() (spmd.Shared, bool) { return nil, false }

// A counting is a host that counts the bytes of Alloc.
type counting struct {
	collectives.Host
	taken *atomic.Int64
}

func (c counting) Alloc(n int) ([]byte, error) {
	c.taken.Add(int64(n))
	return c.Host.Alloc(n)
}

// run runs f on a group with a member on each of ranks, in that order. Each member has its own goroutine. If wrap is
// not nil, it replaces the member's Comm, and all data is sent by messages. At its end the world reports requests
// that nobody waited for.
func run(t testing.TB, ranks []int, wrap func(spmd.Comm) spmd.Comm, f func(ctx context.Context, m member) error) error {
	t.Helper()
	return spmd.Run(t.Context(), local.New(slices.Max(ranks)+1), spmd.Options{Log: t.Output()},
		func(ctx context.Context, w *spmd.World) error {
			ends, err := w.NewComm(ranks, "test")
			if err != nil {
				return err
			}
			for _, end := range ends {
				w.Go(fmt.Sprintf("member %d", end.Rank()), func() error {
					var host collectives.Host = w
					if wrap != nil {
						end, host = wrap(end), apart{w}
					}
					g, err := collectives.New(host, end, collectives.Options{})
					if err != nil {
						return err
					}
					if err := f(ctx, member{g, host, end, w.Alloc}); err != nil {
						return err
					}
					return g.Close()
				})
			}
			return nil
		})
}

// everywhere runs f on each of groups, with shared memory and with messages.
func everywhere(t *testing.T, f func(ctx context.Context, m member) error) {
	t.Helper()
	for _, ranks := range groups {
		for how, wrap := range ways {
			t.Run(fmt.Sprint(ranks, " by ", how), func(t *testing.T) {
				test.OK(t, run(t, ranks, wrap, f))
			})
		}
	}
}

// ways are the two ways in which members of a node exchange data.
var ways = map[string]func(spmd.Comm) spmd.Comm{"memory": nil, "messages": func(c spmd.Comm) spmd.Comm { return c }}

// guard is the number of elements with a known value before the buffer of an operation, and also behind it.
const guard = 16

// A guarded is a buffer between guards.
type guarded[T comparable] struct {
	all  []T
	mark T
}

// newGuarded returns a buffer of n elements that is not aligned like communication memory.
func newGuarded[T comparable](n int, mark T) guarded[T] { return guard1(make([]T, n+2*guard+1), mark) }

// allocGuarded returns a guarded in communication memory.
func allocGuarded[T comparable](alloc func(int) ([]byte, error), n int, mark T) (guarded[T], error) {
	size := int(unsafe.Sizeof(mark))
	b, err := alloc((n + 2*guard + 1) * size)
	if err != nil {
		return guarded[T]{}, err
	}
	return guard1(unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/size), mark), nil
}

func guard1[T comparable](all []T, mark T) guarded[T] {
	for i := range all {
		all[i] = mark
	}
	return guarded[T]{all, mark}
}

func (g guarded[T]) buf() []T { return g.all[guard : len(g.all)-guard-1 : len(g.all)-guard-1] }

func (g guarded[T]) check() error {
	for i, v := range g.all {
		if (i < guard || i >= len(g.all)-guard-1) && v != g.mark {
			return fmt.Errorf("element %d, outside of the buffer, was overwritten with %v", i-guard, v)
		}
	}
	return nil
}

func TestBroadcastReachesEveryMemberFromAnyRoot(t *testing.T) {
	everywhere(t, func(ctx context.Context, m member) error {
		for root := range m.Size() {
			for _, n := range []int{0, 1, 7, 1000, 65537} {
				want := noise(root, n)
				b := newGuarded[byte](n, 0xa5)
				if m.Rank() == root {
					copy(b.buf(), want)
				}
				if err := m.Broadcast(ctx, b.buf(), root); err != nil {
					return err
				}
				if !bytes.Equal(b.buf(), want) {
					return fmt.Errorf("member %d has not what root %d sent in %d bytes", m.Rank(), root, n)
				}
				if err := b.check(); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

func TestGatherKeepsMemberOrderAndLengths(t *testing.T) {
	everywhere(t, func(ctx context.Context, m member) error {
		piece := func(root, member int) []byte { // each has another length, which may be 0
			return noise(10*root+member, []int{0, 3, 70000, 1}[(root+member)%4])
		}
		for root := range m.Size() {
			all, err := m.Gather(ctx, piece(root, m.Rank()), root)
			if err != nil {
				return err
			}
			if m.Rank() != root {
				if all != nil {
					return fmt.Errorf("member %d, not the root, got %d pieces", m.Rank(), len(all))
				}
				continue
			}
			if len(all) != m.Size() {
				return fmt.Errorf("%d pieces of %d members", len(all), m.Size())
			}
			for i, b := range all {
				if !bytes.Equal(b, piece(root, i)) {
					return fmt.Errorf("root %d has %d wrong bytes of member %d", root, len(b), i)
				}
			}
		}
		return nil
	})
}

// TestMemoryIsTakenOnce: calls do not take more and more communication memory, which is never freed.
func TestMemoryIsTakenOnce(t *testing.T) {
	for how, wrap := range ways {
		err := run(t, []int{0, 1, 2}, wrap, func(ctx context.Context, m member) error {
			taken := new(atomic.Int64)
			g, err := collectives.New(counting{m.host, taken}, m.comm, collectives.Options{})
			if err != nil {
				return err
			}
			x := make([]float32, 50_000)
			warm := int64(0)
			for round := range 6 {
				if _, err := g.Gather(ctx, make([]byte, 1000), 0); err != nil {
					return err
				}
				if err := g.Sum32(ctx, x); err != nil {
					return err
				}
				if round == 2 {
					warm = taken.Load()
				}
			}
			if n := taken.Load(); n != warm {
				return fmt.Errorf("member %d took %d bytes in three rounds, and %d in six", m.Rank(), warm, n)
			}
			return nil
		})
		test.OK(t, err, "by %s", how)
	}
}

// No member leaves a barrier before the last one has come.
func TestBarrier(t *testing.T) {
	for _, ranks := range groups {
		t.Run(fmt.Sprint(ranks), func(t *testing.T) {
			var came atomic.Int64
			err := run(t, ranks, nil, func(ctx context.Context, m member) error {
				r := rand.New(rand.NewPCG(3, uint64(m.Rank())))
				for round := int64(1); round <= 200; round++ {
					dawdle(r)
					came.Add(1)
					if err := m.Barrier(ctx); err != nil {
						return err
					}
					if n := came.Load(); n < round*int64(len(ranks)) {
						return fmt.Errorf("member %d left barrier %d when %d of %d had come", m.Rank(), round,
							n-(round-1)*int64(len(ranks)), len(ranks))
					}
				}
				return nil
			})
			test.OK(t, err)
		})
	}
}

// The tags of operations repeat after some calls. Messages of different operations do not mix all the same, in any
// order of arrival.
func TestManyOperationsStayApart(t *testing.T) {
	const ops = 3 * spmd.MaxTag / 2 // each operation uses one tag or two
	err := run(t, []int{0, 1, 2, 1}, nil, func(ctx context.Context, m member) error {
		mine := rand.New(rand.NewPCG(5, uint64(m.Rank())))
		same := rand.New(rand.NewPCG(6, 6)) // the same sequence on all members
		for op := range ops {
			dawdle(mine)
			if err := oneOf(ctx, m, same, op); err != nil {
				return fmt.Errorf("operation %d: %w", op, err)
			}
		}
		return nil
	})
	test.OK(t, err)
}

// oneOf makes one call, chosen by r, that leaves a known result.
func oneOf(ctx context.Context, m member, r *rand.Rand, op int) error {
	kind, root, n := r.IntN(5), r.IntN(m.Size()), 1+r.IntN(3)
	if op%97 == 0 {
		n = 40_000 // in shards
	}
	switch total := float64(m.Size()*op) + float64(m.Size()*(m.Size()-1)/2); kind {
	case 0:
		return m.Barrier(ctx)
	case 1:
		b := slices.Repeat([]byte{byte(op + root - m.Rank())}, n)
		if err := m.Broadcast(ctx, b, root); err != nil {
			return err
		}
		return expect(b, byte(op))
	case 2:
		all, err := m.Gather(ctx, slices.Repeat([]byte{byte(op + m.Rank())}, n), root)
		for i, b := range all {
			if err == nil {
				err = expect(b, byte(op+i))
			}
		}
		return err
	case 3:
		x := slices.Repeat([]float64{float64(op + m.Rank())}, n)
		if err := m.Sum64(ctx, x); err != nil {
			return err
		}
		return expect(x, total)
	default:
		x := slices.Repeat([]float32{float32(op + m.Rank())}, n)
		if err := m.Sum32(ctx, x); err != nil {
			return err
		}
		return expect(x, float32(total))
	}
}

func expect[T comparable](x []T, want T) error {
	for i, v := range x {
		if v != want {
			return fmt.Errorf("element %d is %v, want %v", i, v, want)
		}
	}
	return nil
}

func TestOtherLengthsAreAnError(t *testing.T) {
	for how, wrap := range ways {
		err := run(t, []int{0, 1}, wrap, func(ctx context.Context, m member) error {
			b := newGuarded[byte](10-5*m.Rank(), 0xa5)
			if err := m.Broadcast(ctx, b.buf(), 0); err != nil {
				return errors.Join(err, b.check())
			}
			<-ctx.Done() // the root may be done already, so it waits until another member fails
			return context.Cause(ctx)
		})
		if err == nil || !strings.Contains(err.Error(), "broadcast of ") || !strings.Contains(err.Error(), "10 bytes") {
			t.Errorf("10 bytes for a buffer of 5 by %s: %v", how, err)
		}
		if err != nil && strings.Contains(err.Error(), "overwritten") {
			t.Error(err)
		}
		err = run(t, []int{0, 1}, wrap, func(ctx context.Context, m member) error {
			if err := m.Broadcast(ctx, make([]byte, 5+5*m.Rank()), 0); err != nil {
				return err
			}
			<-ctx.Done()
			return context.Cause(ctx)
		})
		if err == nil || !strings.Contains(err.Error(), "broadcast of 10 ") ||
			!strings.Contains(err.Error(), "5 bytes where") {
			t.Errorf("5 bytes for a buffer of 10 by %s: %v", how, err)
		}
		for _, longer := range [][]int{{4, 5}, {5, 4}} {
			err = run(t, []int{0, 1}, wrap, func(ctx context.Context, m member) error {
				if err := m.Sum64(ctx, make([]float64, longer[m.Rank()])); err != nil {
					return err
				}
				<-ctx.Done()
				return context.Cause(ctx)
			})
			test.Fails(t, err, "allreduce of ", "sum of %v elements by %s", longer, how)
		}
	}
}

// If the context of a waiting member ends, the member returns the cause of the context.
func TestContextEndsTheWait(t *testing.T) {
	gone := errors.New("gone fishing")
	for what, op := range map[string]func(ctx context.Context, m member) error{
		"barrier":   func(ctx context.Context, m member) error { return m.Barrier(ctx) },
		"broadcast": func(ctx context.Context, m member) error { return m.Broadcast(ctx, make([]byte, 9), 1) },
		"gather":    func(ctx context.Context, m member) error { _, err := m.Gather(ctx, nil, 0); return err },
		"allreduce": func(ctx context.Context, m member) error { return m.Sum64(ctx, make([]float64, 3)) },
		"sum gradients over 2 replicas": func(ctx context.Context, m member) error {
			mem, err := m.alloc(4096)
			if err != nil {
				return err
			}
			grad := unsafe.Slice((*float32)(unsafe.Pointer(&mem[0])), 1024)
			s := collectives.NewReducer(ctx, m.Group, 256).Gradient(grad)
			s.Ready(0, 512)
			return s.Wait(nil)
		},
	} {
		t.Run(what, func(t *testing.T) {
			err := run(t, []int{0, 1}, nil, func(ctx context.Context, m member) error {
				if m.Rank() == 1 { // never comes
					<-ctx.Done()
					return nil
				}
				ctx, cancel := context.WithCancelCause(ctx)
				cancel(gone)
				err := op(ctx, m)
				if !errors.Is(err, gone) || !strings.HasPrefix(err.Error(), what) {
					return fmt.Errorf("got %w, want %s: … %v", err, what, gone)
				}
				return gone
			})
			var f *spmd.Failure
			if !errors.As(err, &f) || f.Err != gone {
				t.Error(err)
			}
		})
	}
}

// Once warm, an operation allocates nothing on any member.
func TestOperationsDoNotAllocate(t *testing.T) {
	for _, c := range []struct {
		name string
		op   func(ctx context.Context, m member, b []byte, x []float64, y []float32) error
	}{
		{"barrier", func(ctx context.Context, m member, _ []byte, _ []float64, _ []float32) error {
			return m.Barrier(ctx)
		}},
		{"broadcast", func(ctx context.Context, m member, b []byte, _ []float64, _ []float32) error {
			return m.Broadcast(ctx, b, 1)
		}},
		{"short sum", func(ctx context.Context, m member, _ []byte, x []float64, _ []float32) error {
			return m.Sum64(ctx, x[:7])
		}},
		{"long sum", func(ctx context.Context, m member, _ []byte, _ []float64, y []float32) error {
			return m.Sum32(ctx, y)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			allocs := allocsPerRun(t, []int{0, 1, 2, 2}, func(ctx context.Context, m member) (func() error, error) {
				b, x, y := make([]byte, 10_000), make([]float64, 7), make([]float32, 40_000)
				return func() error { return c.op(ctx, m, b, x, y) }, nil
			})
			test.Equal(t, allocs, 0, "allocations per operation of 4 members")
		})
	}
}

// allocsPerRun returns the allocations, on all members together, of one round of what setup returns, once warm.
func allocsPerRun(t *testing.T, ranks []int, setup func(ctx context.Context, m member) (func() error, error)) float64 {
	t.Helper()
	const warm, runs = 100, 200
	var allocs float64
	measured := make(chan struct{})
	err := run(t, ranks, nil, func(ctx context.Context, m member) error {
		op, err := setup(ctx, m)
		if err != nil {
			return err
		}
		for range warm {
			if err := op(); err != nil {
				return err
			}
		}
		if m.Rank() != 0 {
			for range runs + 1 { // AllocsPerRun makes one more
				if err := op(); err != nil {
					return err
				}
			}
			select { // the calls below may allocate
			case <-measured:
			case <-ctx.Done():
			}
			return nil
		}
		defer close(measured)
		allocs = testing.AllocsPerRun(runs, func() { err = errors.Join(err, op()) })
		return err
	})
	test.OK(t, err)
	return allocs
}

// dawdle sometimes yields to other members, so that members arrive in changing orders.
func dawdle(r *rand.Rand) {
	for range r.IntN(4) {
		runtime.Gosched()
	}
}

// noise returns n pseudo-random bytes, which depend on seed.
func noise(seed, n int) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{byte(seed)})
	r.Read(b)
	return b
}

// A spans counts the spans of a group's waits, and reports an End without a Begin.
type spans struct{ begun, ended, passed atomic.Int64 }

func (s *spans) Site(spmd.Site) int     { return 0 }
func (s *spans) Begin(int)              { s.begun.Add(1) }
func (s *spans) End(_, _ int64)         { s.ended.Add(1) }
func (s *spans) Mark(int, int64)        {}
func (s *spans) Pass(int, int64, int64) { s.passed.Add(1) }
func (s *spans) Divide(int, int64)      {}

// TestRecordsEveryOperation: the n-th span belongs to the n-th operation, whether the member waited for the operation
// or found it done.
func TestRecordsEveryOperation(t *testing.T) {
	for _, ranks := range groups {
		if err := run(t, ranks, nil, func(ctx context.Context, m member) error {
			rec := &spans{}
			m.Record(rec, "sums", "")
			x := []float64{1}
			for i := range 10 {
				if err := m.Sum64(ctx, x); err != nil {
					return err
				}
				f := m.Start(ctx, collectives.AllReduce(x, spmd.Sum))
				for i%2 == 0 && !f.Done() {
					runtime.Gosched()
				}
				if err := f.Wait(); err != nil {
					return err
				}
				want := int64(2 * (i + 1))
				if m.Size() == 1 {
					want = 0
				}
				if n := rec.begun.Load() + rec.passed.Load(); n != want || rec.begun.Load() != rec.ended.Load() {
					return fmt.Errorf("%d begun, %d ended, %d passed, want %d in all", rec.begun.Load(),
						rec.ended.Load(), rec.passed.Load(), want)
				}
			}
			return nil
		}); err != nil {
			t.Errorf("%v: %v", ranks, err)
		}
	}
}
