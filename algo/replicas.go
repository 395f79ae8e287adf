package algo

// Single is one replica alone: sums leave their input as it is.
type Single struct{}

var _ Replicas = Single{}

// Count returns 1 replica, of index 0.
func (Single) Count() (n, this int) { return 1, 0 }

// Sum leaves x as it is.
func (Single) Sum([]float64) error { return nil }

// Gradient leaves the gradient as it is.
func (Single) Gradient(grad []float32) GradientStream { return summed(len(grad)) }

// Gather leaves x as it is.
func (Single) Gather([]float32, []int) error { return nil }

// summed is the GradientStream of one replica, by the number of elements of the gradient. The gradient is the sum
// already.
type summed int

func (summed) Ready(lo, hi int) {}

func (n summed) Wait(final func(lo, hi int)) error {
	if final != nil {
		final(0, int(n))
	}
	return nil
}
