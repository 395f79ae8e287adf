package env

import (
	"errors"
	"fmt"

	"github.com/rlinf/rlinf/tensor"
)

// Act fills action, [N,1,A], with the present actions of the expert of v, a Vec or a Simulator. It returns an
// error that is errors.ErrUnsupported if v, or a Vec inside v, is no Expert.
func Act(v interface{ Spec() Spec }, action tensor.Tensor) error {
	if e, ok := v.(Expert); ok {
		return e.Act(action)
	}
	return fmt.Errorf("%s has no expert (%w)", v.Spec().Name, errors.ErrUnsupported)
}
