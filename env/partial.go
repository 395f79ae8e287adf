package env

import (
	"fmt"
	"slices"

	"github.com/rlinf/rlinf/tensor"
)

// stateName is the name of the observation whose elements Partial hides.
const stateName = "state"

// Partial shows some elements of the observation "state" and hides the others. A task may then need
// a policy with memory.
type Partial struct {
	wrapper
	elements []int
	width    int // width of the wrapped Vec's state
	spec     Spec
	inner    Step // its Obs and FinalObs have all elements; its other tensors are the caller's
}

// checkElements returns an error unless the observation "state" of s is a vector with all the given elements. If
// elements is empty, it returns nil.
func (s Spec) checkElements(elements []int) error {
	if len(elements) == 0 {
		return nil
	}
	i := slices.IndexFunc(s.Obs, func(f Field) bool {
		return f.Name == stateName && f.DType == tensor.F32 && len(f.Shape) == 1
	})
	if i < 0 {
		return fmt.Errorf("%s: state_elements %v: it has no vector %q of F32 to show elements of", s.Name, elements,
			stateName)
	}
	for k, e := range elements {
		if width := s.Obs[i].Dim(); e < 0 || e >= width || slices.Contains(elements[:k], e) {
			return fmt.Errorf("%s: state_elements %v: element %d, expected some of 0 to %d, each once", s.Name,
				elements, e, width-1)
		}
	}
	return nil
}

// NewPartial wraps v and shows the given elements of its state, in the given order.
func NewPartial(v Vec, elements []int) *Partial {
	w := &Partial{wrapper: wrapper{Vec: v}, elements: elements, spec: v.Spec()}
	w.inner.Obs, w.inner.FinalObs = w.spec.newObs(v.Len()), w.spec.newObs(v.Len())
	w.own = memory{{"partial", w.inner.Obs.Must(stateName)}} // an environment that is done keeps its observation
	w.spec.Obs = slices.Clone(w.spec.Obs)
	for i := range w.spec.Obs {
		if f := &w.spec.Obs[i]; f.Name == stateName {
			w.width = f.Dim()
			low, high := f.Low, f.High
			f.Shape, f.Low, f.High = []int{len(elements)}, nil, nil
			for _, e := range elements {
				f.Low, f.High = append(f.Low, low[e]), append(f.High, high[e])
			}
		}
	}
	return w
}

// Spec returns the Spec of the inner Vec with the shorter state.
func (w *Partial) Spec() Spec { return w.spec }

// Reset starts new episodes; see Vec.
func (w *Partial) Reset(mask []bool, seeds []uint64, out *Step) error {
	if err := w.spec.CheckReset(w.Len(), mask, seeds, out); err != nil {
		return err
	}
	w.share(out)
	if err := w.Vec.Reset(mask, seeds, &w.inner); err != nil {
		return err
	}
	for n := range w.Len() {
		if mask == nil || mask[n] {
			w.show(out.Obs, w.inner.Obs, n)
		}
	}
	return nil
}

// Step takes the actions of one chunk; see Vec.
func (w *Partial) Step(action tensor.Dict, seeds []uint64, out *Step) error {
	if _, err := w.spec.CheckStep(w.Len(), action, seeds, out); err != nil {
		return err
	}
	w.share(out)
	if err := w.Vec.Step(action, seeds, &w.inner); err != nil {
		return err
	}
	for n := range w.Len() {
		w.show(out.Obs, w.inner.Obs, n)
		if _, ended := out.Took(n); ended && seeds != nil {
			w.show(out.FinalObs, w.inner.FinalObs, n)
		}
	}
	return nil
}

// share lets the inner Vec write everything except the state directly to the caller's memory.
func (w *Partial) share(out *Step) {
	w.inner.Reward, w.inner.Terminated, w.inner.Truncated = out.Reward, out.Terminated, out.Truncated
	w.inner.Status, w.inner.Info, w.inner.Steps = out.Status, out.Info, out.Steps
	w.inner.Intervened, w.inner.Taken = out.Intervened, out.Taken
	for _, f := range w.spec.Obs {
		if f.Name != stateName {
			w.inner.Obs.Set(f.Name, out.Obs.Must(f.Name))
			w.inner.FinalObs.Set(f.Name, out.FinalObs.Must(f.Name))
		}
	}
}

// show copies the shown elements of environment n's state from src to dst.
func (w *Partial) show(dst, src tensor.Dict, n int) {
	to, from := dst.Must(stateName).F32()[n*len(w.elements):], src.Must(stateName).F32()[n*w.width:]
	for k, e := range w.elements {
		to[k] = from[e]
	}
}
