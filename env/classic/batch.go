package classic

import (
	"errors"
	"fmt"
	"math"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/philox"
	"github.com/rlinf/rlinf/tensor"
)

// A task defines an environment with states of type S and actions of type A.
type task[S state, A int32 | float32] struct {
	spec    env.Spec
	reset   func(r *philox.Stream) S
	step    func(s *S, action A) (reward float64, terminated bool)
	observe func(s *S, obs []float32)
	sketch  func(s *S) sketch
	actions func(tensor.Tensor) []A // the elements of an action
	expert  func(s *S) A            // the expert's action; nil if there is no expert
	// success reports whether a step is a success. It is nil if the Spec has no figure "success".
	// timedOut is true if the time limit ends the episode.
	success func(terminated, timedOut bool) bool
}

// state is the type constraint for states.
type state interface{ ~[2]float64 | ~[4]float64 }

// A batch is N environments of one task.
type batch[S state, A int32 | float32] struct {
	task[S, A]
	state []S
	rand  philox.Stream // random numbers of the current Reset
}

func newVec[S state, A int32 | float32](t task[S, A], cfg env.Config, n int) (env.Vec, error) {
	if err := cfg.Plain(); err != nil {
		return nil, err
	}
	return env.NewEpisodic(&batch[S, A]{task: t, state: make([]S, n)}, cfg), nil
}

// Spec describes one environment.
func (b *batch[S, A]) Spec() env.Spec { return b.spec }

// Len returns N.
func (b *batch[S, A]) Len() int { return len(b.state) }

// Reset draws the initial state of environment n.
func (b *batch[S, A]) Reset(n int, seed uint64) error {
	b.rand = philox.New(seed, philox.Reset, 0, 0)
	b.state[n] = b.reset(&b.rand)
	return nil
}

// Step takes one step of every environment that is not idle.
func (b *batch[S, A]) Step(action tensor.Tensor, turn []env.Turn, reward []float32, terminated []byte,
	info []float32) error {
	act := b.actions(action)
	for n := range b.state {
		if turn[n] == env.Idle {
			continue
		}
		r, end := b.step(&b.state[n], act[n])
		reward[n] = float32(r)
		terminated[n] = bit(end)
		if b.success != nil {
			info[n] = float32(bit(b.success(end, turn[n] == env.Last)))
		}
	}
	return nil
}

// Act fills action with the actions of the task's expert. The error is errors.ErrUnsupported if the
// task has no expert.
func (b *batch[S, A]) Act(action tensor.Tensor) error {
	if b.expert == nil {
		return fmt.Errorf("%s has no expert (%w)", b.spec.Name, errors.ErrUnsupported)
	}
	act := b.actions(action)
	for n := range b.state {
		act[n] = b.expert(&b.state[n])
	}
	return nil
}

// Observe writes observations into the rows of "state".
func (b *batch[S, A]) Observe(mask []bool, obs tensor.Dict) {
	x := obs.Must("state").F32()
	dim := b.spec.Obs[0].Dim()
	for n := range b.state {
		if mask == nil || mask[n] {
			b.observe(&b.state[n], x[n*dim:(n+1)*dim])
		}
	}
}

// Close does nothing.
func (b *batch[S, A]) Close() error { return nil }

// Save returns the states as "state", F64 [N,S].
func (b *batch[S, A]) Save() (tensor.Dict, error) {
	dim := len(b.state[0])
	t := tensor.New(tensor.F64, len(b.state), dim)
	for n := range b.state {
		for i := range dim {
			t.F64()[n*dim+i] = b.state[n][i]
		}
	}
	var d tensor.Dict
	d.Set("state", t)
	return d, nil
}

// Load puts back what Save returned.
func (b *batch[S, A]) Load(d tensor.Dict) error {
	dim := len(b.state[0])
	t, ok := d.Get("state")
	if !ok || t.DType() != tensor.F64 || t.Rank() != 2 || t.Dim(0) != len(b.state) || t.Dim(1) != dim {
		return fmt.Errorf("%s: load: state is %v, expected F64[%d %d]", b.spec.Name, t, len(b.state), dim)
	}
	for n := range b.state {
		for i := range dim {
			b.state[n][i] = t.F64()[n*dim+i]
		}
	}
	return nil
}

func bit(b bool) byte {
	if b {
		return 1
	}
	return 0
}

// box returns a space of float32 vectors with a lower and an upper bound for each element.
func box(low, high []float32) env.Space {
	return env.Space{Kind: env.Box, DType: tensor.F32, Shape: []int{len(low)}, Low: low, High: high}
}

// within returns a space of float32 vectors whose element i lies within ±high[i].
func within(high ...float32) env.Space {
	low := make([]float32, len(high))
	for i := range high {
		low[i] = -high[i]
	}
	return box(low, high)
}

// choice returns a space of n choices.
func choice(n int) env.Space {
	return env.Space{Kind: env.Discrete, DType: tensor.I32, Shape: []int{1}, Nvec: []int{n}}
}

var inf = float32(math.Inf(1))

// clip keeps x within [lo, hi].
func clip(x, lo, hi float64) float64 { return min(max(x, lo), hi) }
