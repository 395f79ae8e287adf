package measure

import (
	"time"

	"github.com/rlinf/rlinf/algo"
)

// A counter stands for the sums over the actors of a job: it counts them, and adds nothing. So an update takes as long
// as without other actors, on the share of one of them.
type counter struct {
	actors    int
	small     int // sums of a few numbers
	gradients int
	bytes     int64         // of the last gradient
	open      time.Time     // when the present gradient was opened
	backward  time.Duration // while gradients were open, before they were waited for
}

var _ algo.Replicas = (*counter)(nil)

// Count returns the number of actors, of which this is the first.
func (c *counter) Count() (n, this int) { return c.actors, 0 }

// Sum counts a sum.
func (c *counter) Sum([]float64) error {
	c.small++
	return nil
}

// Gradient counts the sum of a gradient.
func (c *counter) Gradient(grad []float32) algo.GradientStream {
	c.gradients++
	c.bytes, c.open = 4*int64(len(grad)), time.Now()
	return &stream{c, len(grad)}
}

// A stream is a gradient that is being counted.
type stream struct {
	c *counter
	n int
}

// Ready does nothing.
func (s *stream) Ready(int, int) {}

// Wait ends the gradient.
func (s *stream) Wait(final func(lo, hi int)) error {
	s.c.backward += time.Since(s.c.open)
	if final != nil {
		final(0, s.n)
	}
	return nil
}
