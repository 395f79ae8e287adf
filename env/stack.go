package env

import (
	"fmt"
	"slices"

	"github.com/rlinf/rlinf/tensor"
)

// FrameStack stacks the most recent observations, oldest first: each observation [shape...] becomes
// [frames, shape...]. An ActionMask is not stacked. At the start of an episode, all frames are its
// first observation. A chunk of actions adds one frame, the observation at its end.
type FrameStack struct {
	wrapper
	spec  Spec
	inner Step          // its Obs and FinalObs are single frames; its other tensors are the caller's
	stack tensor.Dict   // each environment's last frames
	over  tensor.Tensor // U8 [N]: 1 where the episode is done and no frame follows
}

// NewFrameStack wraps v so that observations have the given number of frames.
func NewFrameStack(v Vec, frames int) *FrameStack {
	w := &FrameStack{wrapper: wrapper{Vec: v}, spec: v.Spec(), over: tensor.New(tensor.U8, v.Len())}
	w.inner.Obs, w.inner.FinalObs = w.spec.newObs(v.Len()), w.spec.newObs(v.Len())
	w.spec.Obs = slices.Clone(w.spec.Obs)
	for i := range w.spec.Obs {
		if f := &w.spec.Obs[i]; !f.isMask() {
			f.Shape, f.Frames = append([]int{frames}, f.Shape...), frames
			f.Low, f.High, f.Nvec = slices.Repeat(f.Low, frames), slices.Repeat(f.High, frames),
				slices.Repeat(f.Nvec, frames)
			if f.Kind == Discrete {
				f.Kind = MultiDiscrete
			}
		}
	}
	w.stack = w.spec.newObs(v.Len())
	for i := range w.stack.Len() {
		name, t := w.stack.Entry(i)
		w.own = append(w.own, namedTensor{"frames." + name, t})
	}
	w.own = append(w.own, namedTensor{"frames_over", w.over})
	return w
}

// checkStack returns an error if an observation of s, stacked the given number of times, is too
// large.
func (s Spec) checkStack(frames int) error {
	const most = 1 << 24 // numbers, 64 MiB of F32
	for _, f := range s.Obs {
		if can := max(most/max(f.Dim(), 1), 1); frames > can && !f.isMask() {
			return fmt.Errorf("%s: frame_stack %d of observation %s, %d numbers: expected at most %d", s.Name, frames,
				f.Name, f.Dim(), can)
		}
	}
	return nil
}

// Spec returns the Spec of the wrapped Vec, with stacked observations.
func (w *FrameStack) Spec() Spec { return w.spec }

// Reset starts new episodes; see Vec.
func (w *FrameStack) Reset(mask []bool, seeds []uint64, out *Step) error {
	if err := w.spec.CheckReset(w.Len(), mask, seeds, out); err != nil {
		return err
	}
	if err := w.Vec.Reset(mask, seeds, &w.inner); err != nil {
		return err
	}
	for i := range w.stack.Len() {
		name, _ := w.stack.Entry(i)
		for n := range w.Len() {
			if mask == nil || mask[n] {
				stack := w.row(w.stack, name, n)
				fill(stack, w.row(w.inner.Obs, name, n))
				copy(w.row(out.Obs, name, n), stack)
				w.over.U8()[n] = 0
			}
		}
	}
	return nil
}

// Step takes the actions of one chunk; see Vec.
func (w *FrameStack) Step(action tensor.Dict, seeds []uint64, out *Step) error {
	if _, err := w.spec.CheckStep(w.Len(), action, seeds, out); err != nil {
		return err
	}
	w.inner.Reward, w.inner.Terminated, w.inner.Truncated = out.Reward, out.Terminated, out.Truncated
	w.inner.Status, w.inner.Info, w.inner.Steps = out.Status, out.Info, out.Steps
	w.inner.Intervened, w.inner.Taken = out.Intervened, out.Taken
	if err := w.Vec.Step(action, seeds, &w.inner); err != nil {
		return err
	}
	for n, over := range w.over.U8() {
		if over == 0 {
			_, ended := out.Took(n)
			w.push(n, ended && seeds != nil, out)
			if ended && seeds == nil {
				w.over.U8()[n] = 1
			}
		}
	}
	out.Obs.CopyFrom(w.stack)
	return nil
}

// push appends the new frame of environment n to its stack. If restarted is true, the environment
// has reset itself: push then writes the final stack to FinalObs and begins a new stack.
func (w *FrameStack) push(n int, restarted bool, out *Step) {
	for i := range w.stack.Len() {
		name, _ := w.stack.Entry(i)
		stack, frame := w.row(w.stack, name, n), w.row(w.inner.Obs, name, n)
		copy(stack, stack[len(frame):])
		if !restarted {
			copy(stack[len(stack)-len(frame):], frame)
			continue
		}
		copy(stack[len(stack)-len(frame):], w.row(w.inner.FinalObs, name, n))
		copy(w.row(out.FinalObs, name, n), stack)
		fill(stack, frame)
	}
}

// row returns the bytes of environment n in the tensor called name.
func (w *FrameStack) row(d tensor.Dict, name string, n int) []byte {
	b := d.Must(name).Bytes()
	size := len(b) / w.Len()
	return b[n*size : (n+1)*size]
}

// fill fills stack with copies of frame.
func fill(stack, frame []byte) {
	for at := 0; at < len(stack); at += len(frame) {
		copy(stack[at:], frame)
	}
}
