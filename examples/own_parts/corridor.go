package main

import (
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/tensor"
)

// A corridor has 11 cells. Each step moves one cell to the left or right and has the reward -1. The
// goal is the cell at the right end.
type corridor struct{ at []int } // current cell of each environment

func newCorridor(cfg env.Config, n int) (env.Vec, error) {
	return env.NewEpisodic(&corridor{make([]int, n)}, cfg), nil
}

func (c *corridor) Spec() env.Spec {
	cell := env.Space{Kind: env.Box, DType: tensor.F32, Shape: []int{1}, Low: []float32{0}, High: []float32{1}}
	return env.Spec{
		Name:     "Corridor-v0",
		Obs:      []env.Field{{Name: "state", Space: cell}},
		Action:   env.Space{Kind: env.Discrete, DType: tensor.I32, Shape: []int{1}, Nvec: []int{2}},
		MaxSteps: 50,
	}
}

func (c *corridor) Len() int { return len(c.at) }

func (c *corridor) Reset(n int, seed uint64) error {
	c.at[n] = int(seed % 10) // equal seeds, equal states
	return nil
}

func (c *corridor) Step(action tensor.Tensor, turn []env.Turn, reward []float32, terminated []byte,
	info []float32) error {
	for n, a := range action.I32() {
		if turn[n] == env.Idle {
			continue
		}
		c.at[n] = max(c.at[n]+2*int(a)-1, 0)
		reward[n], terminated[n] = -1, 0
		if c.at[n] == 10 {
			terminated[n] = 1
		}
	}
	return nil
}

func (c *corridor) Observe(mask []bool, obs tensor.Dict) {
	x := obs.Must("state").F32()
	for n, at := range c.at {
		if mask == nil || mask[n] {
			x[n] = float32(at) / 10
		}
	}
}

func (c *corridor) Close() error { return nil }
