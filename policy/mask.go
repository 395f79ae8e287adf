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

// allows returns an error if an element of action, [n,C,A], is not a valid option, or if the mask in w forbids it.
func (o *observations) allows(w *obsWork, action tensor.Tensor) error {
	nvec := o.action.Nvec
	perRow := action.Dim(1) * len(nvec)
	at, options := 0, 0 // first column of the choice in the mask; number of columns of the mask
	for _, k := range nvec {
		options += k
	}
	for i, choice := range action.I32() {
		k := nvec[i%len(nvec)]
		if choice < 0 || int(choice) >= k {
			return fmt.Errorf("row %d: choice %d: expected 0 to %d", i/perRow, choice, k-1)
		}
		if w.mask != nil && w.mask[i/perRow*options+at+int(choice)] == 0 {
			return fmt.Errorf("row %d: choice %d: %s does not allow it", i/perRow, choice, env.ActionMask)
		}
		at = (at + k) % options
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
