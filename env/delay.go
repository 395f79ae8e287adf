package env

import (
	"time"

	"github.com/rlinf/rlinf/internal/philox"
	"github.com/rlinf/rlinf/tensor"
)

// Delay makes steps last longer, to imitate a slow simulator on another machine. Step sleeps and does not spin, so that
// other goroutines can use the core.
type Delay struct {
	wrapper
	shortest, longest time.Duration
	seed              uint64 // seed of the durations: the seed of the first environment at the first Reset
	steps             uint64 // number of actions so far
}

// NewDelay wraps v so that a Step with chunks of K actions lasts at least K·shortest. If longest >
// shortest, the duration of an action is drawn from a bounded Pareto distribution on [shortest,
// longest], with exponent 1: P(d > t) = (shortest/t - shortest/longest) / (1 - shortest/longest).
// Equal initial seeds give equal durations.
func NewDelay(v Vec, shortest, longest time.Duration) *Delay {
	return &Delay{wrapper: wrapper{Vec: v}, shortest: shortest, longest: max(shortest, longest)}
}

// Reset starts episodes; see Vec.
func (w *Delay) Reset(mask []bool, seeds []uint64, out *Step) error {
	if w.seed == 0 && len(seeds) > 0 {
		w.seed = seeds[0]
	}
	return w.Vec.Reset(mask, seeds, out)
}

// Step takes the actions of one chunk; see Vec.
func (w *Delay) Step(action tensor.Dict, seeds []uint64, out *Step) error {
	end := time.Now()
	if err := w.Vec.Step(action, seeds, out); err != nil {
		return err
	}
	for range out.Reward.Dim(1) {
		end = end.Add(w.duration(w.steps))
		w.steps++
	}
	time.Sleep(time.Until(end))
	return nil
}

// duration returns the duration of the action with the given index, counted from 0.
func (w *Delay) duration(index uint64) time.Duration {
	if w.longest == w.shortest {
		return w.shortest
	}
	s := philox.New(w.seed, philox.Delay, 0, index)
	return time.Duration(float64(w.shortest) / (1 - s.Uniform(0, 1)*(1-float64(w.shortest)/float64(w.longest))))
}
