package collectivestest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"

	"github.com/rlinf/rlinf/collectives"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/tensor"
)

// Weights tests collectives.Weights with different specs. If versions are published in lockstep with the
// readers, every reader must get the exact bits of every version. If they are published in the background,
// a version must not change while a reader uses it. Weights returns the number of comparisons on this rank.
// It is collective over the world.
func Weights(ctx context.Context, w *spmd.World, sources, readers []int) (compared int, err error) {
	ends, err := w.NewComm(w.Ranks(), "weights: steps")
	if err != nil {
		return 0, err
	}
	steps, err := collectives.New(w, ends[0], collectives.Options{})
	if err != nil {
		return 0, err
	}
	held := []bool{true, false, true, true, true}
	for _, spec := range []collectives.WeightsSpec{
		{Label: "in place"},
		{Label: "one slot", Slots: 1},
		{Label: "two slots", Slots: 2},
		{Label: "small buckets", Slots: 1, Bucket: 1},
		{Label: "rounded", Slots: 1, Wire: tensor.BF16},
		{Label: "patch, in place", Patch: &collectives.PatchSpec{Delta: true, Bucket: 256}},
		{Label: "patch, two slots", Slots: 2, Patch: &collectives.PatchSpec{Bucket: 1}},
		{Label: "patch, rounded", Slots: 2, Wire: tensor.BF16, Patch: &collectives.PatchSpec{Delta: true,
			Bucket: 1 << 20}},
		{Label: "patch, held", Slots: 2, Patch: &collectives.PatchSpec{Held: held, Bucket: 1 << 20}},
	} {
		s := &scene{w: w, steps: steps, compared: &compared}
		if err := s.open(ctx, spec, sources, readers); err != nil {
			return compared, err
		}
		if err := s.lockstep(ctx); err != nil {
			return compared, fmt.Errorf("%s: %w", spec.Label, err)
		}
	}
	for _, spec := range []collectives.WeightsSpec{
		{Label: "background", Slots: 2, Bucket: 1024},
		{Label: "patch in the background", Slots: 2, Patch: &collectives.PatchSpec{Delta: true, Bucket: 1 << 20}},
	} {
		s := &scene{w: w, steps: steps, compared: &compared}
		if err := s.open(ctx, spec, sources, readers); err != nil {
			return compared, err
		}
		if err := s.background(ctx, adopting); err != nil {
			return compared, fmt.Errorf("%s: %w", spec.Label, err)
		}
	}
	s := &scene{w: w, steps: steps, compared: &compared}
	if err := s.open(ctx, collectives.WeightsSpec{Label: "copied in the background", Slots: 2, Bucket: 1024}, sources,
		readers); err != nil {
		return compared, err
	}
	if err := s.background(ctx, copying); err != nil {
		return compared, fmt.Errorf("copied in the background: %w", err)
	}
	return compared, steps.Close()
}

// reading is a function that reads weights, like WeightsReader.Adopt.
type reading = func(ctx context.Context, atLeast int64) (state []byte, version int64, err error)

func adopting(r *collectives.WeightsReader, _ int) reading { return r.Adopt }

// copying returns a reading that calls Copy with a state of the given size in bytes.
func copying(r *collectives.WeightsReader, size int) reading {
	state, has := tensor.New(tensor.U8, size).Bytes(), int64(-1)
	return func(ctx context.Context, atLeast int64) ([]byte, int64, error) {
		var err error
		has, err = r.Copy(ctx, atLeast, state, has)
		return state, has, err
	}
}

// A scene is one rank's state in the test of one spec.
type scene struct {
	w        *spmd.World
	steps    *collectives.Group
	spec     collectives.WeightsSpec
	weights  *collectives.Weights
	source   bool
	readers  []*collectives.WeightsReader // the readers on this rank
	want     tensor.Dict                  // expected contents, rounded to the type of Wire
	plain    []byte                       // expected contents before rounding
	version  int64                        // the version in want and plain
	compared *int
}

func (s *scene) open(ctx context.Context, spec collectives.WeightsSpec, sources, readers []int) error {
	spec.Layout, spec.Sources, spec.Readers = weightsLayout(), sources, readers
	if spec.Wire == 0 {
		spec.Wire = tensor.F32
	}
	if spec.Bucket == 0 {
		spec.Bucket = 1 << 20
	}
	s.spec, s.source = spec, slices.Contains(sources, s.w.Rank())
	s.plain = tensor.New(tensor.U8, spec.Layout.Size()).Bytes()
	writeVersion(spec.Layout, s.plain, 0)
	var err error
	if s.spec.State, err = s.w.Alloc(spec.Layout.Size()); err != nil {
		return err
	}
	copy(s.spec.State, s.plain)
	if s.weights, err = collectives.NewWeights(ctx, s.w, s.spec); err != nil {
		return err
	}
	for i, rank := range readers {
		if rank == s.w.Rank() {
			s.readers = append(s.readers, s.weights.Reader(i))
		}
	}
	return nil
}

// lockstep publishes versions one by one. It publishes each version after all readers have checked
// the previous version.
func (s *scene) lockstep(ctx context.Context) error {
	for version := int64(1); version <= 6; version++ {
		s.expect(version)
		var calls []func() error
		if s.source {
			calls = append(calls, func() error {
				writeVersion(s.spec.Layout, s.spec.State, version)
				return s.weights.Publish(ctx, version)
			})
		}
		states := make([][]byte, len(s.readers))
		for i, r := range s.readers {
			calls = append(calls, func() error {
				state, got, err := r.Adopt(ctx, version)
				if err == nil && got != version {
					err = fmt.Errorf("adopted version %d, want %d", got, version)
				}
				states[i] = state
				return err
			})
		}
		if err := runAll(calls...); err != nil {
			return err
		}
		for _, state := range states {
			if err := s.check(state, version); err != nil {
				return err
			}
		}
		if err := s.steps.Barrier(ctx); err != nil {
			return err
		}
	}
	if s.source {
		s.weights.Close()
	}
	return nil
}

// background publishes versions without waiting for readers, which read the newest version.
func (s *scene) background(ctx context.Context, by func(r *collectives.WeightsReader, size int) reading) error {
	const versions = 40
	var calls []func() error
	if s.source {
		calls = append(calls, func() error {
			defer s.weights.Close()
			for version := int64(1); version <= versions; version++ {
				writeVersion(s.spec.Layout, s.spec.State, version)
				if err := s.weights.Publish(ctx, version); err != nil {
					return err
				}
			}
			return nil
		})
	}
	for _, r := range s.readers {
		read := by(r, s.spec.Layout.Size())
		calls = append(calls, func() error {
			last := int64(0)
			for last < versions && ctx.Err() == nil {
				state, version, err := read(ctx, max(last, 1)) // only the first call waits
				if err != nil {
					return err
				}
				if version < last {
					return fmt.Errorf("a reader went back from version %d to %d", last, version)
				}
				last = version
				before := bytes.Clone(state)
				runtime.Gosched() // a reader's step takes time
				if !bytes.Equal(before, state) {
					return fmt.Errorf("version %d changed while it was in use", version)
				}
				d := s.spec.Layout.Bind(before)
				for i := range d.Len() {
					if name, t := d.Entry(i); !ofVersion(t, name, version) {
						return fmt.Errorf("%s is not of version %d, which was read: %v", name, version, t.Bytes())
					}
				}
			}
			return context.Cause(ctx)
		})
	}
	if err := runAll(calls...); err != nil {
		return err
	}
	*s.compared += len(s.readers)
	return s.steps.Barrier(ctx)
}

// expect advances the expected contents to a version.
func (s *scene) expect(version int64) {
	for ; s.version < version; s.version++ {
		writeVersion(s.spec.Layout, s.plain, s.version+1)
	}
	s.want = s.spec.Layout.Bind(tensor.New(tensor.U8, len(s.plain)).Bytes())
	s.want.CopyFrom(s.spec.Layout.Bind(s.plain))
	for i := range s.want.Len() {
		if _, t := s.want.Entry(i); t.DType() == tensor.F32 && s.spec.Wire == tensor.BF16 {
			half := make([]uint16, t.Len())
			tensor.ToBF16(half, t.F32())
			tensor.FromBF16(t.F32(), half)
		}
	}
}

func (s *scene) check(state []byte, version int64) error {
	got := s.spec.Layout.Bind(state)
	for i := range got.Len() {
		name, t := got.Entry(i)
		if want := s.want.Must(name); !bytes.Equal(t.Bytes(), want.Bytes()) {
			return fmt.Errorf("version %d: %s is %v, want %v", version, name, t.Bytes(), want.Bytes())
		}
		*s.compared++
	}
	return nil
}

// weightsLayout returns the layout of a small network with statistics. Its tensors have gaps
// between them.
func weightsLayout() *tensor.Layout {
	return tensor.NewLayout(
		tensor.Field{Name: "a.weight", DType: tensor.F32, Shape: []int{17, 9}},
		tensor.Field{Name: "a.bias", DType: tensor.F32, Shape: []int{9}},
		tensor.Field{Name: "b.weight", DType: tensor.F32, Shape: []int{9, 100}},
		tensor.Field{Name: "mean", DType: tensor.F64, Shape: []int{170}},
		tensor.Field{Name: "count", DType: tensor.I64, Shape: []int{1}},
	)
}

// From one version to the next, one in changeEvery elements of b.weight changes.
const changeEvery = 50

// writeVersion changes state from the previous version to this version. In b.weight only some elements change.
func writeVersion(l *tensor.Layout, state []byte, version int64) {
	d := l.Bind(state)
	for i := range d.Len() {
		name, t := d.Entry(i)
		for k := range t.Len() {
			if name != "b.weight" || k%changeEvery == int(version)%changeEvery {
				write(t, k, version)
			}
		}
	}
}

func write(t tensor.Tensor, k int, version int64) {
	switch t.DType() {
	case tensor.F32:
		t.F32()[k] = float32(version) + float32(k)/1024
	case tensor.F64:
		t.F64()[k] = float64(version) + float64(k)/1e9
	case tensor.I64:
		t.I64()[k] = version
	}
}

// ofVersion reports whether all elements of t have the values of a version.
func ofVersion(t tensor.Tensor, name string, version int64) bool {
	want := tensor.New(t.DType(), t.Len())
	for k := range t.Len() {
		v := version
		if name == "b.weight" { // the last version that wrote element k
			v -= ((version-int64(k))%changeEvery + changeEvery) % changeEvery
		}
		if v >= 0 {
			write(want, k, v)
		}
	}
	return bytes.Equal(t.Bytes(), want.Bytes())
}

// runAll runs calls concurrently and returns their errors.
func runAll(calls ...func() error) error {
	errs := make(chan error, len(calls))
	for _, call := range calls {
		go func() { errs <- call() }()
	}
	var all []error
	for range calls {
		all = append(all, <-errs)
	}
	return errors.Join(all...)
}
