package env

import (
	"fmt"
	"slices"

	"github.com/rlinf/rlinf/tensor"
)

// NewStep returns buffers on the Go heap for n environments and chunks of k actions.
func (s Spec) NewStep(n, k int) *Step {
	out := &Step{
		Obs: s.newObs(n), FinalObs: s.newObs(n),
		Reward:     tensor.New(tensor.F32, n, k),
		Terminated: tensor.New(tensor.U8, n, k),
		Truncated:  tensor.New(tensor.U8, n, k),
		Status:     tensor.New(tensor.U8, n),
	}
	if len(s.Info) > 0 {
		out.Info = tensor.New(tensor.F32, n, k*s.Repeats(), len(s.Info))
	}
	if s.Repeats() > 1 {
		out.Steps = tensor.New(tensor.I32, n)
	}
	if s.Intervene {
		out.Intervened = tensor.New(tensor.U8, n, k)
		out.Taken = tensor.New(s.Action.DType, n, k, s.Action.Dim())
	}
	return out
}

// Repeats returns the number of times that an action is taken.
func (s Spec) Repeats() int { return max(s.Repeat, 1) }

// Took returns how many steps of the chunk environment n took, and whether its episode ended.
func (s *Step) Took(n int) (steps int, ended bool) {
	f := s.flags()
	return f.took(n)
}

// flags are the flags of a Step as plain slices, for loops over environments.
type flags struct {
	terminated, truncated []byte
	chunk                 int
}

func (s *Step) flags() flags { return flags{s.Terminated.U8(), s.Truncated.U8(), s.Reward.Dim(1)} }

// took implements Step.Took.
func (f *flags) took(n int) (steps int, ended bool) {
	for k := n * f.chunk; k < (n+1)*f.chunk; k++ {
		if f.terminated[k]|f.truncated[k] != 0 {
			return k + 1 - n*f.chunk, true
		}
	}
	return f.chunk, false
}

// InfoOf returns the rows of Info for the steps that environment n took, concatenated. It returns nil if Info is the
// zero Tensor. An environment that was already done has one row, the figures of its last step.
func (s *Step) InfoOf(n int) []float32 {
	if s.Info.IsZero() {
		return nil
	}
	steps, _ := s.Took(n)
	return s.infoOf(n, steps)
}

// infoOf is like InfoOf, but steps is what Took returned. Info must not be the zero Tensor.
func (s *Step) infoOf(n, steps int) []float32 {
	row := s.Info.Dim(2)
	return s.Info.F32()[n*s.Info.Dim(1)*row:][:s.taken(n, steps)*row]
}

// taken returns the number of steps that environment n took, counting repeated actions. The argument steps is what Took
// returned.
func (s *Step) taken(n, steps int) int {
	if !s.Steps.IsZero() {
		return int(s.Steps.I32()[n])
	}
	return steps
}

// IntervenedOf reports whether a person acted in any of the steps that environment n took. If Intervened is the zero
// Tensor, nobody did.
func (s *Step) IntervenedOf(n int) bool {
	if s.Intervened.IsZero() {
		return false
	}
	steps, _ := s.Took(n)
	return slices.ContainsFunc(s.Intervened.U8()[n*s.Intervened.Dim(1):][:steps], func(x byte) bool { return x != 0 })
}

// StatusOf returns the status of environment n. It is Normal if Status is the zero Tensor.
func (s *Step) StatusOf(n int) uint8 {
	if s.Status.IsZero() {
		return Normal
	}
	return s.Status.U8()[n]
}

// InfoIndex returns the column of the figure called name, or -1 if there is none.
func (s Spec) InfoIndex(name string) int { return slices.Index(s.Info, name) }

// CheckReset returns an error if the arguments of a Reset of n environments are invalid.
func (s *Spec) CheckReset(n int, mask []bool, seeds []uint64, out *Step) error {
	if mask != nil && len(mask) != n || len(seeds) != n {
		return fmt.Errorf("%s: reset with %d seeds and a mask of %d, expected %d of each, or no mask", s.Name,
			len(seeds), len(mask), n)
	}
	return s.checkObs("Obs", out.Obs, n)
}

// CheckStep returns the actions, [n,K,Dim], of a Step of n environments, or an error if an argument
// is invalid.
func (s *Spec) CheckStep(n int, action tensor.Dict, seeds []uint64, out *Step) (tensor.Tensor, error) {
	a, err := s.action(action, n)
	if err != nil {
		return a, err
	}
	if seeds != nil && len(seeds) != n {
		return a, fmt.Errorf("%s: step with %d seeds, expected %d or none", s.Name, len(seeds), n)
	}
	return a, s.checkOut(out, n, a.Dim(1), seeds != nil)
}

func (s Spec) newObs(n int) tensor.Dict {
	var d tensor.Dict
	for _, f := range s.Obs {
		d.Set(f.Name, tensor.New(f.DType, append([]int{n}, f.Shape...)...))
	}
	return d
}

// checkObs returns an error unless d has a tensor with n rows for every observation. In errors, label is the name of d.
func (s *Spec) checkObs(label string, d tensor.Dict, n int) error {
	for i := range s.Obs {
		f := &s.Obs[i]
		t, ok := d.Get(f.Name)
		if !ok || t.DType() != f.DType || t.Rank() == 0 || t.Dim(0) != n || t.Len() != n*f.Dim() {
			return fmt.Errorf("%s: buffer of %s.%s: %v, expected %v[%d] of %v", s.Name, label, f.Name, t, f.DType, n,
				f.Shape)
		}
	}
	return nil
}

// checkOut returns an error if a buffer of a step of n environments with k actions each is invalid.
// It checks FinalObs only if final is true.
func (s *Spec) checkOut(out *Step, n, k int, final bool) error {
	if err := s.checkObs("Obs", out.Obs, n); err != nil {
		return err
	}
	if final {
		if err := s.checkObs("FinalObs", out.FinalObs, n); err != nil {
			return err
		}
	}
	if !shaped(&out.Reward, tensor.F32, n, k) || !shaped(&out.Terminated, tensor.U8, n, k) ||
		!shaped(&out.Truncated, tensor.U8, n, k) {
		return fmt.Errorf("%s: buffers of Reward, Terminated, Truncated: %v, %v, %v, expected F32, U8, U8 [%d %d]",
			s.Name, out.Reward, out.Terminated, out.Truncated, n, k)
	}
	if t := &out.Status; !t.IsZero() && !shaped(t, tensor.U8, n) {
		return fmt.Errorf("%s: buffer of Status: %v, expected U8[%d]", s.Name, t, n)
	}
	rows := k * max(s.Repeat, 1)
	if t := &out.Info; !t.IsZero() && !shaped(t, tensor.F32, n, rows, len(s.Info)) {
		return fmt.Errorf("%s: buffer of Info: %v, expected F32[%d %d %d]", s.Name, t, n, rows, len(s.Info))
	}
	if t := &out.Steps; (!t.IsZero() || s.Repeat > 1) && !shaped(t, tensor.I32, n) {
		return fmt.Errorf("%s: buffer of Steps: %v, expected I32[%d]", s.Name, t, n)
	}
	if s.Intervene && (!shaped(&out.Intervened, tensor.U8, n, k) ||
		!shaped(&out.Taken, s.Action.DType, n, k, s.Action.Dim())) {
		return fmt.Errorf("%s: buffers of Intervened, Taken: %v, %v, expected U8[%d %d], %v[%d %d %d]", s.Name,
			out.Intervened, out.Taken, n, k, s.Action.DType, n, k, s.Action.Dim())
	}
	return nil
}

func shaped(t *tensor.Tensor, dtype tensor.DType, dims ...int) bool {
	if t.DType() != dtype || t.Rank() != len(dims) {
		return false
	}
	for i, d := range dims {
		if t.Dim(i) != d {
			return false
		}
	}
	return true
}

// action returns the tensor "action" of the given Dict, [n,K,Dim]. It returns an error if the shape
// or a value does not fit the action space.
func (s *Spec) action(action tensor.Dict, n int) (tensor.Tensor, error) {
	a, ok := action.Get("action")
	if !ok || a.DType() != s.Action.DType || a.Rank() != 3 || a.Dim(0) != n || a.Dim(1) == 0 ||
		a.Dim(2) != s.Action.Dim() {
		return a, fmt.Errorf("%s: action: %v, expected %v[%d K %d]", s.Name, a, s.Action.DType, n, s.Action.Dim())
	}
	values := a.Dim(1) * a.Dim(2) // of one environment
	switch s.Action.Kind {
	case Discrete, MultiDiscrete:
		if i := badChoice(a.I32(), s.Action.Nvec); i >= 0 {
			return a, fmt.Errorf("%s: action of environment %d: %d, expected 0..%d", s.Name, i/values, a.I32()[i],
				s.Action.Nvec[i%len(s.Action.Nvec)]-1)
		}
	case Box:
		if i := badNumber(a.F32()); i >= 0 {
			return a, fmt.Errorf("%s: action of environment %d: %v, expected a finite number", s.Name, i/values,
				a.F32()[i])
		}
	}
	return a, nil
}

// badChoice returns the index of the first number of x that is not a valid choice, or -1 if there
// is none. The rows of x have len(nvec) numbers.
func badChoice(x []int32, nvec []int) int {
	for i := 0; i < len(x); i += len(nvec) {
		for j, n := range nvec {
			if uint32(x[i+j]) >= uint32(n) {
				return i + j
			}
		}
	}
	return -1
}

// badNumber returns the index of the first number of x that is NaN or infinite, or -1 if there is
// none.
func badNumber(x []float32) int {
	for i, v := range x {
		if !finite(v) {
			return i
		}
	}
	return -1
}
