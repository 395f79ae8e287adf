package collectives_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rlinf/rlinf/collectives"
	"github.com/rlinf/rlinf/collectives/collectivestest"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/spmd/local"
	"github.com/rlinf/rlinf/tensor"
)

// weightsLayout returns a layout of two tensors with a gap between them.
func weightsLayout() *tensor.Layout {
	return tensor.NewLayout(tensor.Field{Name: "w", DType: tensor.F32, Shape: []int{333, 3}},
		tensor.Field{Name: "v", DType: tensor.F32, Shape: []int{7}})
}

// A sharing is a placement of sources and readers.
type sharing struct {
	name             string
	np, nodes        int // nodes: virtual ones; 0: one
	sources, readers []int
}

var sharings = []sharing{
	{"one rank", 1, 0, []int{0}, []int{0}},
	{"one rank, three readers", 1, 0, []int{0}, []int{0, 0, 0}},
	{"collocated", 3, 0, []int{0, 1, 2}, []int{0, 1, 2}},
	{"apart on a node", 4, 0, []int{3, 0}, []int{1, 2, 2}},
	{"one source, everywhere", 4, 2, []int{1}, []int{0, 1, 2, 3}},
	{"apart on two nodes", 4, 2, []int{0}, []int{2, 3, 3}},
	{"three nodes, no reader at the first source", 6, 3, []int{5, 0}, []int{2, 3, 4}},
	{"each its own node", 5, 5, []int{2, 3}, []int{4, 0, 1, 2}},
}

// onSharing makes weights between the ranks of s. It runs publish on every source and read with every reader, each in
// its own goroutine.
func onSharing(t *testing.T, s sharing, spec collectives.WeightsSpec,
	source func(ctx context.Context, w *collectives.Weights, state []byte) error,
	reader func(ctx context.Context, i int, r *collectives.WeightsReader) error) error {
	t.Helper()
	spec.Label, spec.Sources, spec.Readers = "weights", s.sources, s.readers
	return spmd.Run(t.Context(), local.New(s.np), spmd.Options{Log: t.Output(), VirtualNodes: s.nodes},
		func(ctx context.Context, w *spmd.World) error {
			spec := spec
			var err error
			if spec.State, err = w.Alloc(spec.Layout.Size()); err != nil {
				return err
			}
			weights, err := collectives.NewWeights(ctx, w, spec)
			if err != nil {
				return err
			}
			if slices.Contains(s.sources, w.Rank()) {
				w.Go("source", func() error {
					defer weights.Close()
					return source(ctx, weights, spec.State)
				})
			}
			for i, rank := range s.readers {
				if rank == w.Rank() {
					w.Go(fmt.Sprint("reader ", i), func() error { return reader(ctx, i, weights.Reader(i)) })
				}
			}
			return nil
		})
}

// A gate holds n goroutines until all have arrived.
type gate struct {
	n    int
	mu   sync.Mutex
	here int
	open chan struct{}
}

func newGate(n int) *gate { return &gate{n: n, open: make(chan struct{})} }

func (g *gate) pass(ctx context.Context) error {
	g.mu.Lock()
	open := g.open
	if g.here++; g.here == g.n {
		g.here, g.open = 0, make(chan struct{})
		close(open)
	}
	g.mu.Unlock()
	select {
	case <-open:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// TestWeightsReachEveryReader runs the suite: every reader gets the bits of every version and keeps them while it
// uses them, in every placement and encoding.
func TestWeightsReachEveryReader(t *testing.T) {
	for _, shm := range []string{"", "off"} {
		t.Setenv("RLINF_SHM", shm)
		for _, s := range sharings {
			t.Run(fmt.Sprintf("%s/shm %s", s.name, shm), func(t *testing.T) {
				var compared atomic.Int64
				err := spmd.Run(t.Context(), local.New(s.np), spmd.Options{Log: t.Output(), VirtualNodes: s.nodes},
					func(ctx context.Context, w *spmd.World) error {
						n, err := collectivestest.Weights(ctx, w, s.sources, s.readers)
						compared.Add(int64(n))
						return err
					})
				test.OK(t, err)
				// 9 ways to send, 6 versions of 5 tensors; 3 versions in the background
				if want := int64(len(s.readers) * (9*6*5 + 3)); compared.Load() != want {
					t.Errorf("%d comparisons, want %d", compared.Load(), want)
				}
			})
		}
	}
}

// With two slots Publish returns although nobody reads, because it waits only for the slot.
func TestPublishDoesNotWaitForReaders(t *testing.T) {
	for _, s := range []sharing{sharings[3], sharings[5]} {
		t.Run(s.name, func(t *testing.T) {
			l := weightsLayout()
			published := make(chan struct{})
			var left atomic.Int64
			left.Store(int64(len(s.sources)))
			err := onSharing(t, s, collectives.WeightsSpec{Layout: l, Slots: 2, Wire: tensor.F32, Bucket: 1 << 20},
				func(ctx context.Context, w *collectives.Weights, state []byte) error {
					for v := range int64(2) {
						l.Bind(state).Must("v").F32()[6] = float32(v + 1)
						if err := w.Publish(ctx, v+1); err != nil {
							return err
						}
					}
					if left.Add(-1) == 0 {
						close(published)
					}
					return nil
				}, func(ctx context.Context, i int, r *collectives.WeightsReader) error {
					select {
					case <-published:
					case <-ctx.Done():
						return context.Cause(ctx)
					}
					state, version, err := r.Adopt(ctx, 2)
					if err == nil && (version != 2 || l.Bind(state).Must("v").F32()[6] != 2) {
						err = fmt.Errorf("reader %d has another version %d", i, version)
					}
					return err
				})
			test.OK(t, err)
		})
	}
}

// TestPublishDoesNotWaitForCopies: a reader that copies delays no Publish. It keeps its copy until it copies again,
// and copies each version at most once.
func TestPublishDoesNotWaitForCopies(t *testing.T) {
	for _, s := range []sharing{sharings[1], sharings[3], sharings[5]} {
		t.Run(s.name, func(t *testing.T) {
			const versions = 6 // more than there are slots
			l := weightsLayout()
			copied, published := newGate(len(s.sources)+len(s.readers)), newGate(len(s.sources)+len(s.readers))
			err := onSharing(t, s, collectives.WeightsSpec{Layout: l, Slots: 2, Wire: tensor.F32, Bucket: 1 << 20},
				func(ctx context.Context, w *collectives.Weights, state []byte) error {
					for v := int64(1); v <= versions; v++ {
						l.Bind(state).Must("v").F32()[6] = float32(v)
						if err := w.Publish(ctx, v); err != nil {
							return err
						}
						if v == 1 {
							if err := copied.pass(ctx); err != nil {
								return err
							}
						}
					}
					return published.pass(ctx)
				}, func(ctx context.Context, i int, r *collectives.WeightsReader) error {
					state := tensor.New(tensor.U8, l.Size()).Bytes()
					last := &l.Bind(state).Must("v").F32()[6]
					read := func(has, atLeast, want int64, wantLast float32) error {
						version, err := r.Copy(ctx, atLeast, state, has)
						if err == nil && (version != want || *last != wantLast) {
							err = fmt.Errorf("reader %d has version %d, which ends with %v: want %d, %v", i, version,
								*last, want, wantLast)
						}
						return err
					}
					if err := errors.Join(read(-1, 1, 1, 1), copied.pass(ctx), published.pass(ctx)); err != nil {
						return err
					}
					if *last != 1 {
						return fmt.Errorf("reader %d: its copy has become %v", i, *last)
					}
					if err := read(1, versions, versions, versions); err != nil {
						return err
					}
					*last = -1
					return read(versions, 0, versions, -1)
				})
			test.OK(t, err)
		})
	}
}

func TestFrozenWeightsAreSentOnce(t *testing.T) {
	l := tensor.NewLayout(tensor.Field{Name: "free", DType: tensor.I64, Shape: []int{8}},
		tensor.Field{Name: "frozen", DType: tensor.I64, Shape: []int{8}},
		tensor.Field{Name: "last", DType: tensor.I64, Shape: []int{8}})
	for _, patch := range []*collectives.PatchSpec{nil, {}} {
		for _, s := range sharings[3:] {
			spec := collectives.WeightsSpec{Layout: l, Slots: 1, Wire: tensor.F32, Bucket: 1 << 20,
				Frozen: []bool{false, true, false}, Patch: patch}
			step := newGate(len(s.sources) + len(s.readers))
			err := onSharing(t, s, spec, func(ctx context.Context, w *collectives.Weights, state []byte) error {
				for v := range int64(3) {
					d := l.Bind(state)
					for i := range d.Len() {
						_, t := d.Entry(i)
						t.I64()[0] = v + 1 // also in the frozen tensor, to check that it is not sent
					}
					if err := errors.Join(w.Publish(ctx, v+1), step.pass(ctx)); err != nil {
						return err
					}
				}
				return nil
			}, func(ctx context.Context, i int, r *collectives.WeightsReader) error {
				for v := range int64(3) {
					state, _, err := r.Adopt(ctx, v+1)
					if err != nil {
						return err
					}
					if d := l.Bind(state); d.Must("frozen").I64()[0] != 1 || d.Must("free").I64()[0] != v+1 ||
						d.Must("last").I64()[0] != v+1 {
						return fmt.Errorf("version %d: %v, %v, %v", v+1, d.Must("free").I64(), d.Must("frozen").I64(),
							d.Must("last").I64())
					}
					if err := step.pass(ctx); err != nil {
						return err
					}
				}
				return nil
			})
			test.OK(t, err, "%s", s.name)
		}
	}
}

// TestLocalTensors: readers on a node without a source get all tensors except the local ones, and Received counts the
// bytes of these tensors.
func TestLocalTensors(t *testing.T) {
	l := weightsLayout()
	for _, spec := range []collectives.WeightsSpec{{}, {Slots: 1}, {Slots: 2, Patch: &collectives.PatchSpec{}},
		{Slots: 1, Wire: tensor.BF16}} {
		if spec.Wire == 0 {
			spec.Wire = tensor.F32
		}
		spec.Layout, spec.Bucket, spec.Local = l, 1<<20, []bool{true, false}
		var received atomic.Int64
		err := spmd.Run(t.Context(), local.New(4), spmd.Options{Log: t.Output(), VirtualNodes: 2},
			func(ctx context.Context, w *spmd.World) (err error) {
				spec := spec
				spec.Label, spec.Sources, spec.Readers = "weights", []int{0}, []int{1, 2, 3}
				if spec.State, err = w.Alloc(l.Size()); err != nil {
					return err
				}
				d := l.Bind(spec.State)
				d.Must("w").F32()[0], d.Must("v").F32()[0] = 1, 2
				weights, err := collectives.NewWeights(ctx, w, spec)
				if err != nil {
					return err
				}
				if w.Rank() == 0 {
					defer weights.Close()
					return weights.Publish(ctx, 1)
				}
				i := w.Rank() - 1
				state, _, err := weights.Reader(i).Adopt(ctx, 1)
				if err != nil {
					return err
				}
				received.Add(weights.Received())
				want := float32(0)
				if i == 0 {
					want = 1
				}
				// The first patch is relative to the initial values of the readers' leader.
				if d := l.Bind(state); d.Must("v").F32()[0] != 2 || spec.Patch == nil && d.Must("w").F32()[0] != want {
					return fmt.Errorf("reader %d has %v and %v", i, d.Must("w").F32()[0], d.Must("v").F32()[0])
				}
				return nil
			})
		test.OK(t, err)
		if want := int64(7 * spec.Wire.Size()); received.Load() != want {
			t.Errorf("%v: %d bytes, want %d", spec, received.Load(), want)
		}
	}
}

func TestWeightsThatDifferAreNamed(t *testing.T) {
	field := func(name string, dtype tensor.DType, shape ...int) tensor.Field {
		return tensor.Field{Name: name, DType: dtype, Shape: shape}
	}
	good := []tensor.Field{field("a", tensor.F32, 2, 3), field("b", tensor.F64, 4)}
	for _, c := range []struct {
		name  string
		other []tensor.Field
		value byte // in the state of the other rank
		want  []string
	}{
		{"shape", []tensor.Field{field("a", tensor.F32, 3, 2), good[1]}, 0,
			[]string{`tensor 0 is "a", F32[2 3] on the one and "a", F32[3 2] on the other`}},
		{"type", []tensor.Field{good[0], field("b", tensor.F32, 4)}, 0, []string{`"b", F64[4]`, `"b", F32[4]`}},
		{"name", []tensor.Field{good[0], field("c", tensor.F64, 4)}, 0, []string{`tensor 1`, `"b"`, `"c"`}},
		{"order", []tensor.Field{good[1], good[0]}, 0, []string{`tensor 0`, `"a"`, `"b"`}},
		{"fewer", good[:1], 0, []string{`tensor 1`, `"b"`, "nothing on the other"}},
		{"more", append(slices.Clone(good), field("c", tensor.U8)), 0,
			[]string{`tensor 2`, "nothing on the one", `"c"`}},
		{"values", good, 1, []string{`tensor 1`, `"b"`, "other values"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := spmd.Run(t.Context(), local.New(3), spmd.Options{Log: t.Output()},
				func(ctx context.Context, w *spmd.World) error {
					l, value := tensor.NewLayout(good...), byte(0)
					if w.Rank() == 2 {
						l, value = tensor.NewLayout(c.other...), c.value
					}
					state, err := w.Alloc(l.Size())
					if err != nil {
						return err
					}
					for i := range state {
						state[i] = value
					}
					held := make([]bool, len(l.Fields()))
					if len(held) > 1 {
						held[1] = true
					}
					_, err = collectives.NewWeights(ctx, w, collectives.WeightsSpec{
						Label: "weights", Layout: l, Sources: []int{0}, Readers: []int{1, 2}, State: state, Slots: 1,
						Wire: tensor.F32, Bucket: 1,
						Patch: &collectives.PatchSpec{Held: held, Bucket: 1},
					})
					return err
				})
			var f *spmd.Failure
			if !errors.As(err, &f) {
				t.Fatalf("got %v, want a failure", err)
			}
			for _, want := range append(c.want, "rank 0 and rank 2", `weights "weights"`) {
				if !strings.Contains(f.Error(), want) {
					t.Errorf("%v: does not say %q", f, want)
				}
			}
		})
	}
}

func TestWeightsRefuseWhatCannotWork(t *testing.T) {
	l := weightsLayout()
	for _, c := range []struct {
		name string
		spec collectives.WeightsSpec
		want string
	}{
		{"slots", collectives.WeightsSpec{Slots: 3, Wire: tensor.F32}, "3 slots"},
		{"wire", collectives.WeightsSpec{Slots: 1, Wire: tensor.I32}, "sent as I32"},
		{"rounded in place", collectives.WeightsSpec{Wire: tensor.BF16}, "in place"},
		{"heap", collectives.WeightsSpec{Wire: tensor.F32, State: make([]byte, l.Size())}, "not memory of its World"},
		{"size", collectives.WeightsSpec{Wire: tensor.F32, State: make([]byte, 3)}, "3 bytes"},
	} {
		err := spmd.Run(t.Context(), local.New(2), spmd.Options{Log: t.Output()},
			func(ctx context.Context, w *spmd.World) error {
				spec := c.spec
				spec.Label, spec.Layout, spec.Sources, spec.Readers = "w", l, []int{0}, []int{1}
				_, err := collectives.NewWeights(ctx, w, spec)
				return err
			})
		test.Fails(t, err, c.want, "%s", c.name)
	}
}

// A wait for a version that never arrives ends with the job, and the error names the version.
func TestAdoptEndsWithTheJob(t *testing.T) {
	for _, shm := range []string{"", "off"} {
		t.Setenv("RLINF_SHM", shm)
		for _, s := range []sharing{sharings[0], sharings[5]} {
			boom := errors.New("boom")
			waiting := make(chan struct{})
			var once sync.Once
			err := onSharing(t, s, collectives.WeightsSpec{Layout: weightsLayout(), Slots: 1, Wire: tensor.F32,
				Bucket: 1}, func(ctx context.Context, w *collectives.Weights, state []byte) error {
				<-waiting
				time.Sleep(time.Millisecond)
				return boom
			}, func(ctx context.Context, i int, r *collectives.WeightsReader) error {
				once.Do(func() { close(waiting) })
				_, _, err := r.Adopt(ctx, 1)
				test.Fails(t, err, "version 1", "Adopt")
				return err
			})
			if !errors.Is(err, boom) {
				t.Errorf("%s: got %v", s.name, err)
			}
		}
	}
}

// After the first versions, publishing and adopting allocate nothing, in every encoding.
func TestWeightsDoNotAllocate(t *testing.T) {
	for _, s := range []sharing{sharings[0], sharings[5]} {
		for _, spec := range []collectives.WeightsSpec{{Slots: 0, Wire: tensor.F32}, {Slots: 1, Wire: tensor.BF16},
			{Slots: 2, Wire: tensor.F32, Patch: &collectives.PatchSpec{Delta: true}}} {
			t.Run(fmt.Sprintf("%s/slots %d", s.name, spec.Slots), func(t *testing.T) {
				spec.Layout, spec.Bucket = weightsLayout(), 1<<20
				const warm, counted = 50, 500
				var before, after runtime.MemStats // of all ranks
				err := onSharing(t, s, spec, func(ctx context.Context, w *collectives.Weights, state []byte) error {
					for v := range int64(warm + counted) {
						if v == warm {
							runtime.ReadMemStats(&before)
						}
						if err := w.Publish(ctx, v+1); err != nil {
							return err
						}
					}
					runtime.ReadMemStats(&after)
					return nil
				}, func(ctx context.Context, i int, r *collectives.WeightsReader) error {
					for v := range int64(warm + counted) {
						if _, _, err := r.Adopt(ctx, v+1); err != nil {
							return err
						}
					}
					return nil
				})
				test.OK(t, err)
				// one allocation per version would be twice as many; the transport and the runtime allocate now and
				// then
				if n := after.Mallocs - before.Mallocs; n > counted/2 {
					t.Errorf("%d allocations in %d versions", n, counted)
				}
			})
		}
	}
}
