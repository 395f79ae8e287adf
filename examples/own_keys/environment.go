package main

import (
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/tensor"
)

// sailKeys are the keys of Sail-v0, in the sections env.train.init_params and env.eval.init_params.
type sailKeys struct {
	Wind float32 `yaml:"wind" doc:"How far the wind drives the boat in a step; the rudder does 0.5."`
}

func (k sailKeys) Check(want func(ok bool, key string, value any, want string)) {
	want(k.Wind > -0.5 && k.Wind < 0.5, "wind", k.Wind, "a number in (-0.5, 0.5)")
}

// addSail adds Sail-v0 with a default wind of 0.1.
func addSail(r *env.Registry) {
	env.Register(r, "Sail-v0", sailKeys{Wind: 0.1}, func(cfg env.Config, keys sailKeys, n int) (env.Vec, error) {
		return env.NewEpisodic(&sail{keys.Wind, make([]float32, n)}, cfg), nil
	})
}

// A sail is n boats on a line. Each boat starts at a random place in [-1, 1] and should stay at 0.
type sail struct {
	wind float32
	x    []float32
}

func (s *sail) Spec() env.Spec {
	return env.Spec{
		Name: "Sail-v0",
		Obs: []env.Field{{Name: "state", Space: env.Space{Kind: env.Box, DType: tensor.F32, Shape: []int{1},
			Low: []float32{-100}, High: []float32{100}}}},
		Action:   env.Space{Kind: env.Box, DType: tensor.F32, Shape: []int{1}, Low: []float32{-1}, High: []float32{1}},
		MaxSteps: 32,
	}
}

func (s *sail) Len() int { return len(s.x) }

func (s *sail) Reset(n int, seed uint64) error {
	s.x[n] = float32(seed%201)/100 - 1
	return nil
}

func (s *sail) Step(action tensor.Tensor, turn []env.Turn, reward []float32, terminated []byte, info []float32) error {
	for n, a := range action.F32() {
		if turn[n] != env.Idle {
			s.x[n] += 0.5*min(max(a, -1), 1) + s.wind
			reward[n], terminated[n] = -s.x[n]*s.x[n], 0
		}
	}
	return nil
}

func (s *sail) Observe(mask []bool, obs tensor.Dict) {
	state := obs.Must("state").F32()
	for n, x := range s.x {
		if mask == nil || mask[n] {
			state[n] = x
		}
	}
}

func (s *sail) Close() error { return nil }
