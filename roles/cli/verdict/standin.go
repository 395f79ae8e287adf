package verdict

import (
	"cmp"
	"slices"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/tensor"
)

// StandIn returns reg with a simulator that replaces external simulators. The simulator does nothing. It has the
// policy's observation and action spaces from cfg, and an expert, and it reports success.
func StandIn(reg config.Registries, cfg *config.Config) config.Registries {
	m := cfg.Actor.Model
	spec := env.Spec{Name: "the simulator", Action: space(tensor.F32, -1, 1, cmp.Or(m.ActionDim, 1)),
		Info: []string{env.Success},
		Obs:  []env.Field{{Name: "state", Space: space(tensor.F32, -1, 1, cmp.Or(m.StateDim, m.ObsDim, 1))}}}
	if m.ModelType == "cnn_policy" {
		image := []int{64, 64, 3}
		if s := m.ImageSize; len(s) == 3 { // [channels, height, width]
			image = []int{s[1], s[2], s[0]}
		}
		spec.Obs = append(spec.Obs, env.Field{Name: "main_images", Space: space(tensor.U8, 0, 255, image...)})
		if views := m.ImageNum - 1; views > 0 && m.AddQHead {
			spec.Obs = append(spec.Obs, env.Field{Name: "extra_view_images",
				Space: space(tensor.U8, 0, 255, append([]int{views}, image...)...)})
		}
	}
	if _, images := cfg.Reward.Images(); images && cfg.Reward.UseRewardModel && m.ModelType != "cnn_policy" {
		spec.Obs = append(spec.Obs, env.Field{Name: "main_images", Space: space(tensor.U8, 0, 255, 64, 64, 3)})
	}
	reg.Envs = reg.Envs.With(env.ExternalID, func(c env.Config, n int) (env.Vec, error) {
		return env.NewEpisodic(&idle{spec: spec, n: n}, c), nil
	})
	return reg
}

// space returns the space of tensors with elements in [low, high].
func space(t tensor.DType, low, high float32, shape ...int) env.Space {
	n := config.Product(shape...)
	return env.Space{Kind: env.Box, DType: t, Shape: shape, Low: slices.Repeat([]float32{low}, n),
		High: slices.Repeat([]float32{high}, n)}
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
