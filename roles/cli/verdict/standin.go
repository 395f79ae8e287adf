package verdict

import (
	"cmp"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/tensor"
)

// StandIn returns reg with a simulator that replaces external simulators. The simulator has the spaces that cfg gives
// the policy, does nothing, and has an expert.
func StandIn(reg config.Registries, cfg *config.Config) config.Registries {
	m := cfg.Actor.Model
	spec := env.Spec{Name: "the simulator", Action: box(cmp.Or(m.ActionDim, 1)),
		Obs: []env.Field{{Name: "state", Space: box(cmp.Or(m.ObsDim, 1))}}}
	if m.ModelType == "cnn_policy" {
		spec.Obs = append(spec.Obs, env.Field{Name: "image", Space: pixels(64)})
	}
	reg.Envs = reg.Envs.With(env.ExternalID, func(c env.Config, n int) (env.Vec, error) {
		return env.NewEpisodic(&idle{spec: spec, n: n}, c), nil
	})
	return reg
}

// box returns a box of n numbers in [-1, 1].
func box(n int) env.Space {
	s := env.Space{Kind: env.Box, DType: tensor.F32, Shape: []int{n}, Low: make([]float32, n), High: make([]float32, n)}
	for i := range n {
		s.Low[i], s.High[i] = -1, 1
	}
	return s
}

// pixels returns the space of a square image in colour.
func pixels(side int) env.Space {
	n := side * side * 3
	s := env.Space{Kind: env.Box, DType: tensor.U8, Shape: []int{side, side, 3}, Low: make([]float32, n),
		High: make([]float32, n)}
	for i := range n {
		s.High[i] = 255
	}
	return s
}

// idle has n environments in which nothing happens.
type idle struct {
	spec env.Spec
	n    int
}

var _ env.Simulator = (*idle)(nil)

func (s *idle) Spec() env.Spec              { return s.spec }
func (s *idle) Len() int                    { return s.n }
func (s *idle) Reset(int, uint64) error     { return nil }
func (s *idle) Observe([]bool, tensor.Dict) {}
func (s *idle) Act(tensor.Tensor) error     { return nil }
func (s *idle) Close() error                { return nil }

func (s *idle) Step(tensor.Tensor, []env.Turn, []float32, []byte, []float32) error { return nil }
