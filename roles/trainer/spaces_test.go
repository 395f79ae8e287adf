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

// A panel shows some of these things, each of which says by itself which of its options is the right one; every step
// shows others. An action chooses an option for each, and the share of right ones is the reward. With smooth, actions
// are numbers, from -1 for the first option to 1 for the last, and the reward says how near they come.
type panel struct {
	things []string
	smooth bool
	right  [][]int
	rand   []philox.Stream
}

const panelPicture = 8 // pixels

func (p *panel) space(thing string) (s env.Space, options int) {
	unit := func(dtype tensor.DType, high float32, shape ...int) env.Space {
		s := env.Space{Kind: env.Box, DType: dtype, Shape: shape}
		for range s.Dim() {
			s.Low, s.High = append(s.Low, 0), append(s.High, high)
		}
		return s
	}
	switch thing {
	case "speed": // a scalar, far from 0: above 1000 or below
		return unit(tensor.F32, 2000), 2
	case "keys": // the one that is pressed
		return unit(tensor.U8, 1, 3), 3
	case "cell":
		return env.Space{Kind: env.Discrete, DType: tensor.I32, Shape: []int{1}, Nvec: []int{3}}, 3
	case "pair": // how many are not 0
		return env.Space{Kind: env.MultiDiscrete, DType: tensor.I32, Shape: []int{2}, Nvec: []int{3, 2}}, 3
	case "image": // the quadrant that is bright
		return unit(tensor.U8, 255, panelPicture, panelPicture, 1), 4
	}
	panic(thing)
}

func (p *panel) Spec() env.Spec {
	s := env.Spec{Name: "Panel-v0", MaxSteps: 8, Action: env.Space{Kind: env.MultiDiscrete, DType: tensor.I32,
		Shape: []int{len(p.things)}}}
	for _, thing := range p.things {
		space, options := p.space(thing)
		s.Obs = append(s.Obs, env.Field{Name: thing, Space: space})
		s.Action.Nvec = append(s.Action.Nvec, options)
		s.Action.Low, s.Action.High = append(s.Action.Low, -1), append(s.Action.High, 1)
	}
	switch {
	case p.smooth:
		s.Action.Kind, s.Action.DType, s.Action.Nvec = env.Box, tensor.F32, nil
	case len(p.things) == 1:
		s.Action.Kind = env.Discrete
	}
	return s
}

func (p *panel) Len() int { return len(p.right) }

func (p *panel) Reset(n int, seed uint64) error {
	p.rand[n] = philox.New(seed, philox.Reset, 0, 0)
	p.draw(n)
	return nil
}

func (p *panel) draw(n int) {
	p.right[n] = p.right[n][:0]
	for _, thing := range p.things {
		_, options := p.space(thing)
		p.right[n] = append(p.right[n], p.rand[n].IntN(options))
	}
}

func (p *panel) Step(action tensor.Tensor, turn []env.Turn, reward []float32, terminated []byte, _ []float32) error {
	for n, right := range p.right {
		if turn[n] == env.Idle {
			continue
		}
		reward[n], terminated[n] = 0, 0
		for i, r := range right {
			at := n*len(right) + i
			_, options := p.space(p.things[i])
			switch {
			case p.smooth:
				miss := action.F32()[at] - (2*float32(r)/float32(options-1) - 1)
				reward[n] += (1 - max(miss, -miss)) / float32(len(right))
			case int(action.I32()[at]) == r:
				reward[n] += 1 / float32(len(right))
			}
		}
		p.draw(n)
	}
	return nil
}

func (p *panel) Observe(mask []bool, obs tensor.Dict) {
	for n, right := range p.right {
		if mask != nil && !mask[n] {
			continue
		}
		for i, r := range right {
			t := obs.Must(p.things[i]).Slice(n, n+1)
			switch p.things[i] {
			case "speed":
				t.F32()[0] = float32(1000 + 2*(2*r-1))
			case "keys":
				t.Zero()
				t.U8()[r] = 1
			case "cell":
				t.I32()[0] = int32(r)
			case "pair":
				t.I32()[0], t.I32()[1] = int32(min(r, 1)*(1+n%2)), int32(max(r-1, 0))
			case "image":
				t.Zero()
				for k := range panelPicture * panelPicture / 4 {
					y, x := r/2*panelPicture/2+k/(panelPicture/2), r%2*panelPicture/2+k%(panelPicture/2)
					t.U8()[y*panelPicture+x] = 255
				}
			}
		}
	}
}

func (p *panel) Close() error { return nil }

// TestLearnsFromEverything: policies see every kind of observation, alone and beside others, and make several choices
// at a time.
func TestLearnsFromEverything(t *testing.T) {
	actor := func(s *algo.Setup, cfg *env.Config, net *policy.Config) {
		s.Config.LossType, s.GroupSize, s.Steps, s.Envs, s.GlobalBatch = "actor", 8, 8, 64, 128
		cfg.AutoReset, cfg.GroupSize, net.AddValueHead = false, 8, false
	}
	replay := func(s *algo.Setup, net *policy.Config, algorithm string) {
		s.Config.AdvType, s.Config.LossType = algorithm, algorithm
		s.Config.OffPolicy.ReplayBuffer = algo.ReplayConfig{SampleWindowSize: 50, MinBufferSize: 2}
		s.Steps, s.Envs, s.GlobalBatch = 8, 16, 64
		net.AddQHead, net.AddValueHead, net.NormalizeObservations, net.EpsilonSteps = true, false, false, 200
	}
	numbers := []string{"cell", "speed", "keys", "pair"}
	for _, c := range []struct {
		name   string
		things []string
		rounds int
		change func(*algo.Setup, *env.Config, *policy.Config)
	}{
		{"ppo", numbers, 20, func(*algo.Setup, *env.Config, *policy.Config) {}},
		{"ppo, two frames", numbers, 20, func(_ *algo.Setup, cfg *env.Config, _ *policy.Config) { cfg.FrameStack = 2 }},
		{"ppo that remembers", numbers, 20, func(_ *algo.Setup, _ *env.Config, net *policy.Config) {
			net.ModelType, net.ShareTrunk = "rnn_policy", true
		}},
		{"ppo, image among others", []string{"speed", "image", "keys", "cell"}, 20,
			func(s *algo.Setup, _ *env.Config, net *policy.Config) {
				s.Optim.LR = 3e-3
				net.ModelType, net.Encoder, net.ShareTrunk, net.Activation = "cnn_policy", policy.Keypoints, false,
					"relu"
			}},
		{"a2c", numbers, 100, func(s *algo.Setup, _ *env.Config, _ *policy.Config) {
			s.Config.LossType, s.Config.UpdateEpoch, s.GlobalBatch = "a2c", 1, s.Steps*s.Envs
		}},
		{"grpo", numbers, 60, func(s *algo.Setup, cfg *env.Config, net *policy.Config) {
			actor(s, cfg, net)
			s.Config.AdvType = "grpo"
		}},
		{"reinpp", numbers, 60, func(s *algo.Setup, cfg *env.Config, net *policy.Config) {
			actor(s, cfg, net)
			s.Config.AdvType = "reinpp"
		}},
		{"dqn", []string{"pair"}, 60, func(s *algo.Setup, cfg *env.Config, net *policy.Config) {
			replay(s, net, "embodied_dqn")
		}},
		{"sac", []string{"keys", "cell", "pair"}, 200, func(s *algo.Setup, _ *env.Config, net *policy.Config) {
			replay(s, net, "embodied_sac")
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			learnPanel(t, c.things, c.rounds, c.change)
		})
	}
}

// learnPanel trains a policy that sees these things of a panel, and evaluates it before and after.
func learnPanel(t *testing.T, things []string, rounds int, change func(*algo.Setup, *env.Config, *policy.Config)) {
	t.Helper()
	s := algo.Setup{Config: algo.DefaultConfig(), Optim: algo.DefaultOptimConfig(), Seed: 1, Steps: 16,
		Envs: 32, GlobalBatch: 128}
	s.Config.Gamma, s.Config.UpdateEpoch = 0, 4
	s.Optim.LR, s.Optim.WeightDecay, s.Optim.ClipGrad = 5e-3, 0, 0.5
	cfg, net := rolestest.EnvConfig("Panel-v0", 1), policy.DefaultConfig()
	net.HiddenSizes, net.NormalizeObservations = []int{32}, true
	change(&s, &cfg, &net)
	s.CriticOptim, s.Config.OffPolicy.EntropyTuning.Optim = s.Optim, s.Optim
	cfg.TotalNumEnvs = s.Envs
	smooth := s.Config.AdvType == "embodied_sac"
	reg := env.NewRegistry()
	reg.Add("Panel-v0", func(cfg env.Config, n int) (env.Vec, error) {
		return env.NewEpisodic(&panel{things: things, smooth: smooth, right: make([][]int, n),
			rand: make([]philox.Stream, n)}, cfg), nil
	})
	s.Policy = policyFor(t, reg, cfg, net)
	before, after := learn(t, reg, cfg, s, rounds)
	if before > 4 || after < 7 { // not to see one of the things costs more than 1
		t.Errorf("evaluation %.1f of 8 before, %.1f after: want at most 4, at least 7", before, after)
	}
}
