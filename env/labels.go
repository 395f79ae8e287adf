package env

import (
	"slices"

	"github.com/rlinf/rlinf/tensor"
)

// ExpertAction is the name of the observation that Labels adds: the expert's action, [1,A].
const ExpertAction = "expert_action"

// Labels adds the expert's action to each observation, for algorithms that imitate an expert. It
// must be the outermost wrapper. FinalObs also has a tensor for the label, but Labels never writes
// it, because no action follows a final observation.
type Labels struct {
	wrapper
	spec  Spec
	label tensor.Dict // a buffer for ExpertAction only
}

// NewLabels wraps v, which must be an Expert. Otherwise Reset and Step return errors that wrap
// errors.ErrUnsupported.
func NewLabels(v Vec) *Labels {
	w := &Labels{wrapper: wrapper{Vec: v}, spec: v.Spec().Labelled()}
	w.label.Set(ExpertAction, tensor.New(w.spec.Action.DType, v.Len(), 1, w.spec.Action.Dim()))
	return w
}

// Labelled returns s with ExpertAction as the last observation.
func (s Spec) Labelled() Spec {
	label := s.Action
	label.Shape = []int{1, s.Action.Dim()}
	s.Obs = append(slices.Clip(s.Obs), Field{Name: ExpertAction, Space: label})
	return s
}

// Spec returns the Spec of the wrapped Vec, with ExpertAction added.
func (w *Labels) Spec() Spec { return w.spec }

// Reset starts episodes; see Vec.
func (w *Labels) Reset(mask []bool, seeds []uint64, out *Step) error {
	if err := w.spec.CheckReset(w.Len(), mask, seeds, out); err != nil {
		return err
	}
	if err := w.Vec.Reset(mask, seeds, out); err != nil {
		return err
	}
	if mask == nil {
		return w.Act(out.Obs.Must(ExpertAction))
	}
	if err := w.Act(w.label.Must(ExpertAction)); err != nil {
		return err
	}
	copyRows(out.Obs, w.label, mask)
	return nil
}

// Step takes the actions of one chunk; see Vec.
func (w *Labels) Step(action tensor.Dict, seeds []uint64, out *Step) error {
	if _, err := w.spec.CheckStep(w.Len(), action, seeds, out); err != nil {
		return err
	}
	if err := w.Vec.Step(action, seeds, out); err != nil {
		return err
	}
	return w.Act(out.Obs.Must(ExpertAction))
}
