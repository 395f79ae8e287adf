package algo

import (
	"fmt"
	"math"

	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/policy/nn/kernel"
)

// gradNorm returns the Euclidean norm of the gradient of all trainable parameters together. A NaN or Inf among them is an error that
// names the tensor.
func gradNorm(p *nn.Params[float32]) (float64, error) {
	var sum float64
	for _, g := range p.Groups {
		if g.Trainable {
			sum += kernel.SumSq(p.Grad[g.Lo:g.Hi])
		}
	}
	if math.IsNaN(sum) || math.IsInf(sum, 0) { // finite float32s do not get there in float64
		return 0, notFinite(p)
	}
	return math.Sqrt(sum), nil
}

// A DivergedError says that the gradient is not finite. It is summed over the replicas by then: all of them get this error.
type DivergedError struct{ What string }

// Error names the tensor and the element.
func (e *DivergedError) Error() string { return e.What }

// notFinite names the first tensor with a gradient that is NaN or Inf, and says whether its parameters already were.
func notFinite(p *nn.Params[float32]) error {
	for _, f := range p.Fields {
		n := 1
		for _, d := range f.Shape {
			n *= d
		}
		grad, data := p.Grad[f.Off:f.Off+n], p.Data[f.Off:f.Off+n]
		for i, g := range grad {
			if bad(g) {
				for _, x := range data {
					if bad(x) {
						return &DivergedError{fmt.Sprintf("gradient of %s%v: %v at element %d; the parameter itself has %v", f.Name, f.Shape, g, i, x)}
					}
				}
				return &DivergedError{fmt.Sprintf("gradient of %s%v: %v at element %d", f.Name, f.Shape, g, i)}
			}
		}
	}
	return &DivergedError{"gradient has a NaN or Inf outside every named tensor"}
}

func bad(x float32) bool { return x-x != 0 }

// clipScale returns what a gradient of the given norm is multiplied with to have at most norm limit; 1 for limit 0.
func clipScale(norm, limit float64) float32 {
	if limit == 0 || norm <= limit {
		return 1
	}
	return float32(limit / norm)
}
