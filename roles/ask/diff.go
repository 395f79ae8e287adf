package ask

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/rlinf/rlinf/internal/checkpoint"
	"github.com/rlinf/rlinf/internal/metrics"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/tensor"
)

// A Diff lists the differences between two runs.
type Diff struct {
	Harmless []checkpoint.ChangedKey // keys that change no number
	Keys     []checkpoint.ChangedKey // keys that may change numbers
	Builds   [2]string               // equal if one program made both
	Metrics  []metrics.Difference    // of the first step that differs
	Tensors  []checkpoint.TensorDifference
	At       int64 // the step of Tensors
}

// Equal reports whether no number differs.
func (d *Diff) Equal() bool { return len(d.Metrics) == 0 && len(d.Tensors) == 0 }

// Parted returns the first step that differs; 0 if there is none.
func (d *Diff) Parted() int64 {
	if len(d.Metrics) > 0 {
		return d.Metrics[0].Step
	}
	return d.At
}

// NewDiff compares the configurations, the builds, the metrics and the checkpoints of two runs. It repeats nothing.
func NewDiff(a, b *Run) (*Diff, error) {
	d := &Diff{}
	one, other := a.Config.Record(), b.Config.Record()
	all, err := checkpoint.CompareConfigs(one, other)
	if err == nil {
		d.Keys, err = checkpoint.CompareConfigs(one, other, loop.Resumable()...)
	}
	if err != nil {
		return nil, err
	}
	d.Harmless = slices.DeleteFunc(all, func(x checkpoint.ChangedKey) bool { return slices.Contains(d.Keys, x) })
	d.Builds = [2]string{a.build(), b.build()}
	last := min(a.Last, b.Last)
	for _, name := range []string{"metrics.jsonl", "generation.jsonl"} {
		found, err := compareMetrics(a.Dir, b.Dir, name, 1, last)
		if err != nil {
			return nil, err
		}
		d.Metrics = append(d.Metrics, found...)
	}
	slices.SortStableFunc(d.Metrics, func(x, y metrics.Difference) int { return int(x.Step - y.Step) })
	if len(d.Metrics) > 0 {
		first := d.Metrics[0].Step
		d.Metrics = slices.DeleteFunc(d.Metrics, func(x metrics.Difference) bool { return x.Step != first })
		last = first - 1
	}
	for _, x := range a.States[1:] {
		i := slices.IndexFunc(b.States, func(y StartPoint) bool { return y.Step == x.Step })
		if i < 0 || x.Step > last {
			continue
		}
		if d.Tensors, err = checkpoint.Compare(x.Checkpoint, b.States[i].Checkpoint); err != nil {
			return nil, err
		}
		if len(d.Tensors) > 0 { // the metrics differ later
			d.At, d.Metrics = x.Step, nil
			return d, nil
		}
	}
	return d, nil
}

// compareMetrics compares the files of this name in the folders of two runs. A missing file has no metrics.
func compareMetrics(one, other, name string, first, last int64) ([]metrics.Difference, error) {
	var texts [2]metrics.Texts
	for i, dir := range []string{one, other} {
		var err error
		texts[i], err = metrics.ReadTexts(filepath.Join(dir, name), first, last)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	return metrics.Compare(texts[0], texts[1]), nil
}

// A Parting is the first tensor in which two repeated steps differ.
type Parting struct {
	Step int64
	Sight
	What string // the element, its values and their distance
}

func (p *Parting) String() string {
	return fmt.Sprintf("step %d: %s: %s %d: %s: %s", p.Step, p.Member, p.Phase, p.Number, p.Name, p.What)
}

// Part repeats step in both runs, from the newest states before it. It returns the first tensor that differs, or nil if
// the repeated steps agree. The Testifier one repeats run a, and the Testifier other repeats run b. They may be
// different programs.
func Part(ctx context.Context, one, other Testifier, a, b *Run, step int64) (*Parting, error) {
	testify := func(of *Sight) (x, y *Testimony, err error) {
		if x, err = one.Testify(ctx, a, step, of); err == nil {
			y, err = other.Testify(ctx, b, step, of)
		}
		return x, y, err
	}
	x, y, err := testify(nil)
	if err != nil {
		return nil, err
	}
	of := x.part(y)
	if of == nil {
		return nil, nil
	}
	if x, y, err = testify(of); err != nil {
		return nil, err
	}
	p := &Parting{Step: step, Sight: *of}
	switch {
	case x.Bytes == nil:
		p.What = "the first run has no such tensor"
	case y.Bytes == nil:
		p.What = "the second run has no such tensor"
	case x.DType != y.DType || !slices.Equal(x.Shape, y.Shape):
		p.What = fmt.Sprintf("is %v%v, and %v%v", x.DType, x.Shape, y.DType, y.Shape)
	default:
		index, what := tensor.FirstDifference(x.DType, x.Bytes, y.Bytes)
		p.What = fmt.Sprintf("element %v is %s", indices(index, x.Shape), what)
	}
	return p, nil
}

// indices converts i, the index of an element, to its index in each dimension.
func indices(i int, shape []int) []int {
	at := make([]int, len(shape))
	for k := range slices.Backward(shape) {
		at[k], i = i%shape[k], i/shape[k]
	}
	return at
}

// To returns the stretch that ends with step. It begins at the newest state before step.
func (r *Run) To(step int64) Stretch {
	s := Stretch{From: r.Before(step), Until: step}
	for _, x := range r.States[1:] {
		if x.Step >= step { // this checkpoint has the configuration with which the step was made
			s.Config = x.Checkpoint
			break
		}
	}
	return s
}
