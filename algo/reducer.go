package algo

// Single is the Reducer of one replica: every sum is what it was.
type Single struct{}

var _ Reducer = Single{}

// Replicas returns one replica, this one.
func (Single) Replicas() (n, this int) { return 1, 0 }

// Sum leaves x as it is.
func (Single) Sum([]float64) error { return nil }

// Gradient leaves the gradient as it is.
func (Single) Gradient(grad []float32) GradientSum { return summed(len(grad)) }

// summed is a gradient of so many elements that is its own sum.
type summed int

func (summed) Ready(lo, hi int) {}

func (n summed) Wait(final func(lo, hi int)) error {
	if final != nil {
		final(0, int(n))
	}
	return nil
}
