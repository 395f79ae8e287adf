package env

import (
	"fmt"
	"slices"

	"github.com/rlinf/rlinf/tensor"
)

// ActionMask is the name of the observation that marks the allowed actions, in an environment whose actions are
// choices. It is a box of U8 with one element for each option of each choice, in the order of Nvec: 1 for an allowed
// option, else 0. While the episode runs, each choice must have an allowed option. Policies take only allowed options.
// FrameStack does not stack masks. A mask applies to all actions of a chunk, although it describes the state before the
// first action.
const ActionMask = "action_mask"

// Blocked returns the index of the first choice without an allowed option, or -1 if every choice has one. The mask is
// one row of an ActionMask.
func (s Space) Blocked(mask []uint8) int {
	for k, n := range s.Nvec {
		if !slices.ContainsFunc(mask[:n], func(m uint8) bool { return m != 0 }) {
			return k
		}
		mask = mask[n:]
	}
	return -1
}

// Allow replaces each forbidden choice in action, [n, len(Nvec)], by the next allowed option. The
// mask has n rows of an ActionMask. Each choice must have an allowed option.
func (s Space) Allow(action []int32, mask []uint8) {
	for i, choice := range action {
		n := s.Nvec[i%len(s.Nvec)]
		for mask[choice] == 0 {
			choice = (choice + 1) % int32(n)
		}
		action[i], mask = choice, mask[n:]
	}
}

// A masked Vec returns an error if a choice has no allowed option. No action follows the last step of an episode, so
// the Vec then allows every option instead of returning the error.
type masked struct {
	wrapper
	spec Spec
}

func (f Field) isMask() bool { return f.Name == ActionMask }

// CheckMask returns an error if s has an ActionMask that does not fit its actions.
func (s Spec) CheckMask() error {
	i := slices.IndexFunc(s.Obs, Field.isMask)
	if i < 0 {
		return nil
	}
	options := 0
	for _, n := range s.Action.Nvec {
		options += n
	}
	if options == 0 {
		return fmt.Errorf("%s: observation %s: its actions are continuous: expected discrete or multi-discrete ones, "+
			"or no mask", s.Name, ActionMask)
	}
	if f := s.Obs[i]; f.Kind != Box || f.DType != tensor.U8 || f.Dim() != options {
		return fmt.Errorf("%s: observation %s: %v%v: expected a box of U8[%d], the options %v of its actions", s.Name,
			f.Name, f.DType, f.Shape, options, s.Action.Nvec)
	}
	return nil
}

// Reset starts new episodes; see Vec.
func (w masked) Reset(mask []bool, seeds []uint64, out *Step) error {
	if err := w.Vec.Reset(mask, seeds, out); err != nil {
		return err
	}
	for n := range w.Len() {
		if mask == nil || mask[n] {
			if err := w.check(n, out.Obs); err != nil {
				return err
			}
		}
	}
	return nil
}

// Step takes the actions of one chunk; see Vec.
func (w masked) Step(action tensor.Dict, seeds []uint64, out *Step) error {
	if err := w.Vec.Step(action, seeds, out); err != nil {
		return err
	}
	for n := range w.Len() {
		_, ended := out.Took(n)
		switch {
		case ended && seeds == nil:
			w.release(n, out.Obs)
			continue
		case ended:
			w.release(n, out.FinalObs)
		}
		if err := w.check(n, out.Obs); err != nil {
			return err
		}
	}
	return nil
}

func (w masked) check(n int, obs tensor.Dict) error {
	if k := w.spec.Action.Blocked(w.row(n, obs)); k >= 0 {
		return fmt.Errorf("%s: %s of environment %d allows no option of choice %d, expected at least one", w.spec.Name,
			ActionMask, n, k)
	}
	return nil
}

// release handles the mask of environment n, whose episode is over: if a choice has no allowed
// option, all options of all choices become allowed.
func (w masked) release(n int, obs tensor.Dict) {
	if row := w.row(n, obs); w.spec.Action.Blocked(row) >= 0 {
		for i := range row {
			row[i] = 1
		}
	}
}

// row returns the mask of environment n.
func (w masked) row(n int, obs tensor.Dict) []uint8 {
	all := obs.Must(ActionMask).U8()
	width := len(all) / w.Len()
	return all[n*width : (n+1)*width]
}
