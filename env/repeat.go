package env

import "github.com/rlinf/rlinf/tensor"

// ActionRepeat takes every action several times and adds up the rewards. It stops when the episode
// ends. The wrapped Vec gets a repeated action as a chunk of equal actions. Info has a row for each
// repetition.
type ActionRepeat struct {
	wrapper
	times  int
	action tensor.Dict // [N,K·times,A]
	// Reward, Terminated and Truncated are allocated here, [N,K·times]. So is Steps, if the wrapped Vec also repeats
	// actions. All other tensors are the caller's
	inner Step
}

// NewActionRepeat wraps v so that each action is taken the given number of times.
func NewActionRepeat(v Vec, times int) *ActionRepeat {
	w := &ActionRepeat{wrapper: wrapper{Vec: v}, times: times}
	if v.Spec().Repeats() > 1 {
		w.inner.Steps = tensor.New(tensor.I32, v.Len())
	}
	w.size(1)
	return w
}

// Spec returns the Spec of the wrapped Vec. MaxSteps counts an action with its repetitions as one
// step.
func (w *ActionRepeat) Spec() Spec {
	s := w.Vec.Spec()
	s.MaxSteps = (s.MaxSteps + w.times - 1) / w.times
	s.Repeat = s.Repeats() * w.times
	return s
}

// Step takes the actions of one chunk; see Vec.
func (w *ActionRepeat) Step(action tensor.Dict, seeds []uint64, out *Step) error {
	spec := w.Spec()
	a, err := spec.CheckStep(w.Len(), action, seeds, out)
	if err != nil {
		return err
	}
	if a.Dim(1)*w.times != w.inner.Reward.Dim(1) {
		w.size(a.Dim(1))
	}
	repeatRows(w.action.Must("action").Bytes(), a.Bytes(), a.Dim(2)*a.DType().Size(), w.times)
	w.inner.Obs, w.inner.FinalObs, w.inner.Status, w.inner.Info = out.Obs, out.FinalObs, out.Status, out.Info
	if err := w.Vec.Step(w.action, seeds, &w.inner); err != nil {
		return err
	}
	for n := range w.Len() {
		steps, _ := w.inner.Took(n)
		out.Steps.I32()[n] = int32(w.inner.taken(n, steps))
	}
	reward, terminated, truncated := w.inner.Reward.F32(), w.inner.Terminated.U8(), w.inner.Truncated.U8()
	for i := range out.Reward.F32() {
		sum, term, trunc := 0.0, byte(0), byte(0)
		for j := i * w.times; j < (i+1)*w.times; j++ {
			sum += float64(reward[j])
			term |= terminated[j]
			trunc |= truncated[j]
		}
		out.Reward.F32()[i], out.Terminated.U8()[i], out.Truncated.U8()[i] = float32(sum), term, trunc
	}
	return nil
}

// size allocates the memory for chunks of k actions.
func (w *ActionRepeat) size(k int) {
	space, n := w.Vec.Spec().Action, w.Len()
	w.action.Set("action", tensor.New(space.DType, n, k*w.times, space.Dim()))
	w.inner.Reward = tensor.New(tensor.F32, n, k*w.times)
	w.inner.Terminated = tensor.New(tensor.U8, n, k*w.times)
	w.inner.Truncated = tensor.New(tensor.U8, n, k*w.times)
}

// repeatRows copies each row of src to dst, the given number of times in succession. A row has size
// bytes.
func repeatRows(dst, src []byte, size, times int) {
	for at := 0; at < len(src); at += size {
		for range times {
			copy(dst, src[at:at+size])
			dst = dst[size:]
		}
	}
}
