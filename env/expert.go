package env

import (
	"errors"
	"fmt"

	"github.com/rlinf/rlinf/tensor"
)

// Act fills action, [N,1,A], with what v's expert does now if v is an Expert, and what it is made of; else it gives an error that is
// errors.ErrUnsupported.
func Act(v any, action tensor.Tensor) error {
	if e, ok := v.(Expert); ok {
		return e.Act(action)
	}
	return fmt.Errorf("expert of %T: %w", v, errors.ErrUnsupported)
}
