//go:build !race

// The race detector makes arithmetic ten times as slow, and all goroutines of this test run in others.

package trainer

import (
	"testing"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/philox"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/roles/internal/rolestest"
	"github.com/rlinf/rlinf/tensor"
)

// spots are environments that show two squares, one bright and one dim, in an image of 8×8 pixels. Choosing the right
// one of four actions pays 1. Without motion that is the quadrant of the one square that the instruction means, and
// each step shows others. With motion both squares move into one of four directions, which is the right action, and
// which the second frame shows.
type spots struct {
	motion bool
	at     [][2][2]int
	means  []int // 0 the bright square, 1 the dim one; with motion the direction
	rand   []philox.Stream
}

const spotsSize = 8

func (s *spots) Spec() env.Spec {
	obs := []env.Field{{Name: "image", Space: env.Space{
		Kind: env.Box, DType: tensor.U8, Shape: []int{spotsSize, spotsSize, 1},
		Low: make([]float32, spotsSize*spotsSize), High: make([]float32, spotsSize*spotsSize),
	}}}
	for i := range obs[0].High {
		obs[0].High[i] = 255
	}
	if !s.motion {
		obs = append(obs,
			env.Field{Name: "instruction", Space: env.Space{Kind: env.MultiDiscrete, DType: tensor.I32, Shape: []int{1},
				Nvec: []int{2}}})
	}
	return env.Spec{
		Name: "Spots-v0", Obs: obs, Action: env.Space{Kind: env.Discrete, DType: tensor.I32, Shape: []int{1},
			Nvec: []int{4}}, MaxSteps: 8,
	}
}

func (s *spots) Len() int { return len(s.at) }

func (s *spots) Reset(n int, seed uint64) error {
	s.rand[n] = philox.New(seed, philox.Reset, 0, 0)
	s.draw(n)
	return nil
}

func (s *spots) draw(n int) {
	for i := range 2 {
		s.at[n][i] = [2]int{s.rand[n].IntN(spotsSize), s.rand[n].IntN(spotsSize)}
	}
	if s.means[n] = s.rand[n].IntN(2); s.motion {
		s.means[n] = s.rand[n].IntN(4)
	}
}

func (s *spots) Step(action tensor.Tensor, turn []env.Turn, reward []float32, terminated []byte, _ []float32) error {
	for n := range s.at {
		if turn[n] == env.Idle {
			continue
		}
		right := s.means[n]
		if !s.motion {
			at := s.at[n][s.means[n]]
			right = at[0]/(spotsSize/2)*2 + at[1]/(spotsSize/2)
		}
		reward[n], terminated[n] = 0, 0
		if int(action.I32()[n]) == right {
			reward[n] = 1
		}
		if !s.motion {
			s.draw(n)
			continue
		}
		for i := range 2 {
			axis, way := right/2, 2*(right%2)-1
			s.at[n][i][axis] = (s.at[n][i][axis] + way + spotsSize) % spotsSize
		}
	}
	return nil
}

func (s *spots) Observe(mask []bool, obs tensor.Dict) {
	for n := range s.at {
		if mask != nil && !mask[n] {
			continue
		}
		img := obs.Must("image").U8()[n*spotsSize*spotsSize:][:spotsSize*spotsSize]
		clear(img)
		for i, at := range s.at[n] {
			for k := range 4 { // 2×2 pixels, across the edges
				img[(at[0]+k/2)%spotsSize*spotsSize+(at[1]+k%2)%spotsSize] = uint8(255 - 155*i)
			}
		}
		if !s.motion {
			obs.Must("instruction").I32()[n] = int32(s.means[n])
		}
	}
}

func (s *spots) Close() error { return nil }

// TestLearnsFromImages: PPO finds the square that a word means, and DQN sees from two frames where squares move to.
// Random choices get 2 of 8 right. With motion the first choice of an episode is random, because both frames are alike.
func TestLearnsFromImages(t *testing.T) {
	for _, c := range []struct {
		name   string
		frames int
		rounds int
		want   float64
		change func(*algo.Setup, *policy.Config)
	}{
		{"ppo, image and word", 1, 28, 6, func(s *algo.Setup, net *policy.Config) {
			s.Steps, s.Envs, s.GlobalBatch = 16, 32, 128
			s.Config.Gamma, s.Config.UpdateEpoch, s.Optim.LR = 0, 3, 2e-3
			net.HiddenSizes, net.Activation = []int{64}, "relu"
		}},
		{"dqn, two frames", 2, 100, 6, func(s *algo.Setup, net *policy.Config) {
			s.Config.AdvType, s.Config.LossType = "embodied_dqn", "embodied_dqn"
			s.Config.OffPolicy.ReplayBuffer = algo.ReplayConfig{SampleWindowSize: 50, MinBufferSize: 5}
			s.Steps, s.Envs, s.GlobalBatch = 8, 8, 64
			s.Config.Gamma, s.Config.UpdateEpoch, s.Optim.LR = 0, 4, 1e-3
			net.AddQHead, net.AddValueHead, net.EpsilonSteps, net.HiddenSizes = true, false, 200, nil
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			reg := env.NewRegistry()
			reg.Add("Spots-v0", func(cfg env.Config, n int) (env.Vec, error) {
				sim := &spots{motion: c.frames > 1, at: make([][2][2]int, n), means: make([]int, n),
					rand: make([]philox.Stream, n)}
				return env.NewEpisodic(sim, cfg), nil
			})
			s := algo.Setup{Config: algo.DefaultConfig(), Optim: algo.DefaultOptimConfig(), Seed: 1}
			s.Optim.WeightDecay, s.Optim.ClipGrad = 0, 0.5
			net := policy.DefaultConfig()
			net.ModelType, net.Encoder, net.ShareTrunk = "cnn_policy", policy.ImpalaCNN, c.frames == 1
			c.change(&s, &net)
			cfg := rolestest.EnvConfig("Spots-v0", s.Envs)
			cfg.FrameStack = c.frames
			s.CriticOptim, s.Config.OffPolicy.EntropyTuning.Optim = s.Optim, s.Optim
			s.Policy = policyFor(t, reg, cfg, net)
			if _, after := learn(t, reg, cfg, s, c.rounds); after < c.want {
				t.Errorf("%.2f of 8 choices right, want %v", after, c.want)
			}
		})
	}
}
