package nn

import "fmt"

// An Activation is applied to each element of a hidden layer.
type Activation uint8

const (
	Tanh Activation = 1 + iota
	ReLU
)

// String returns the name of f.
func (f Activation) String() string {
	switch f {
	case Tanh:
		return "Tanh"
	case ReLU:
		return "ReLU"
	}
	return fmt.Sprintf("Activation(%d)", uint8(f))
}
