package nn

import (
	"fmt"

	"github.com/rlinf/rlinf/policy/nn/kernel"
)

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

// activate sets y to f(x). y may be x.
func activate[T Float](f Activation, y, x []T) {
	switch f {
	case Tanh:
		kernel.Tanh(y, x)
	case ReLU:
		kernel.Relu(y, x)
	default:
		panic(fmt.Sprintf("nn: no such activation %d", uint8(f)))
	}
}

// activateGrad replaces dy, the gradient of y = f(z), with the gradient of z.
func activateGrad[T Float](f Activation, dy, y []T) {
	switch f {
	case Tanh:
		kernel.TanhGrad(dy, dy, y)
	case ReLU:
		kernel.ReluGrad(dy, dy, y)
	default:
		panic(fmt.Sprintf("nn: no such activation %d", uint8(f)))
	}
}
