package policy

import (
	"fmt"
	"math"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/tensor"
)

// readMask reads the mask of n rows into w. It returns an error if a row forbids all options of a choice.
func (o *observations) readMask(w *obsWork, obs tensor.Dict, n int) error {
	if !o.masked {
		return nil
	}
	w.mask = obs.Must(env.ActionMask).U8()
	for row := range n {
		width := len(w.mask) / n
		if k := o.action.Blocked(w.mask[row*width : (row+1)*width]); k >= 0 {
			return fmt.Errorf("observation %q: row %d: no option of choice %d is allowed: expected at least one",
				env.ActionMask, row, k)
		}
	}
	return nil
}

// ActionMask is the name of the observation that marks the allowed actions.
const ActionMask = env.ActionMask

// A Spaced has observations and actions, as a Policy has.
type Spaced interface {
	Spaces() (obs []env.Field, action env.Space)
}

// CheckChoices checks that each element of action, [n,C,A], is an option of s that the mask allows. It returns the
// index of the first element that is not, and an error that describes the valid choices. mask has n rows of an
// ActionMask; nil allows every option. If all elements are valid, CheckChoices returns -1 and nil.
func CheckChoices(s env.Space, action tensor.Tensor, mask []uint8) (int, error) {
	perRow := action.Dim(1) * len(s.Nvec)
	at, options := 0, 0 // at: first column of the choice in the mask; options: number of columns of the mask
	for _, k := range s.Nvec {
		options += k
	}
	for i, choice := range action.I32() {
		k := s.Nvec[i%len(s.Nvec)]
		if choice < 0 || int(choice) >= k {
			return i, fmt.Errorf("expected 0 to %d", k-1)
		}
		if mask != nil && mask[i/perRow*options+at+int(choice)] == 0 {
			return i, fmt.Errorf("%s does not allow it", ActionMask)
		}
		at = (at + k) % options
	}
	return -1, nil
}

// allows returns an error if an element of action, [n,C,A], is not a valid option, or if the mask in w forbids it.
func (o *observations) allows(w *obsWork, action tensor.Tensor) error {
	if i, err := CheckChoices(o.action, action, w.mask); err != nil {
		return fmt.Errorf("row %d: choice %d: %w", i/(action.Len()/action.Dim(0)), action.I32()[i], err)
	}
	return nil
}

// forbid sets the elements of x that mask forbids to -Inf. x is [n,C,m] and mask is [n,m]. m is the total number of
// options of an action. A nil mask allows everything.
func forbid[T nn.Float](x []T, mask []uint8, n int) {
	if len(mask) == 0 {
		return
	}
	m, width := len(mask)/n, len(x)/n
	for i := range x {
		if mask[i/width*m+i%width%m] == 0 {
			x[i] = T(math.Inf(-1))
		}
	}
}
