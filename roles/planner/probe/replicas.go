package probe

import (
	"time"

	"github.com/rlinf/rlinf/algo"
)

// A Counter replaces the sums over the actors of a job. It counts sums, and adds nothing. So a measurement of one
// actor's update contains no time for other actors.
type Counter struct {
	Actors    int
	Small     int // sums of a few numbers
	Gradients int
	Gathers   int
	Bytes     int64         // size of the last gradient
	Backward  time.Duration // sum of the times from Gradient to Wait
	open      time.Time     // when Gradient was last called
}

var _ algo.Replicas = (*Counter)(nil)

// Count returns the number of actors, and 0 as the index of this actor.
func (c *Counter) Count() (n, this int) { return c.Actors, 0 }

// Sum counts a sum of a few numbers. It does not change the numbers.
func (c *Counter) Sum([]float64) error {
	c.Small++
	return nil
}

// Gather counts a gather of weights. It does not change the weights.
func (c *Counter) Gather([]float32, []int) error {
	c.Gathers++
	return nil
}

// Reset sets the counts to 0.
func (c *Counter) Reset() { *c = Counter{Actors: c.Actors, Bytes: c.Bytes} }

// Gradient counts a sum of gradients over the actors, and starts the clock for c.Backward. The gradient does not
// change.
func (c *Counter) Gradient(grad []float32) algo.GradientStream {
	c.Gradients++
	c.Bytes, c.open = 4*int64(len(grad)), time.Now()
	return &stream{c, len(grad)}
}

// A stream is the GradientStream of a Counter.
type stream struct {
	c *Counter
	n int
}

// Ready does nothing.
func (s *stream) Ready(int, int) {}

// Wait adds the time since Gradient to Counter.Backward. Then it calls final, unless it is nil, for the whole gradient.
func (s *stream) Wait(final func(lo, hi int)) error {
	s.c.Backward += time.Since(s.c.open)
	if final != nil {
		final(0, s.n)
	}
	return nil
}
