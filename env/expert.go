package env

import (
	"errors"
	"fmt"

	"github.com/rlinf/rlinf/tensor"
)

// Act fills action, [N,1,A], with what the expert of v, a Vec or a Simulator, does now if v is an
// Expert, and what it is made of; else it gives an error that is errors.ErrUnsupported.
func Act(v interface{ Spec() Spec }, action tensor.Tensor) error {
	if e, ok := v.(Expert); ok {
		return e.Act(action)
	}
	return fmt.Errorf("%s has no expert (%w)", v.Spec().Name, errors.ErrUnsupported)
}
