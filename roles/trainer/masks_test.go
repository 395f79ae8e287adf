package trainer

import (
	"testing"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/roles/internal/rolestest"
)

// TestLearnsWithMasks: the policy learns to choose the highest rung that is allowed. Neither training nor evaluation
// chooses a rung that is not allowed.
func TestLearnsWithMasks(t *testing.T) {
	for _, c := range []struct {
		name   string
		rungs  []int
		frames int
		rounds int
		change func(*algo.Setup, *env.Config, *policy.Config)
	}{
		{"ppo", []int{6}, 1, 20, func(*algo.Setup, *env.Config, *policy.Config) {}},
		{"ppo, two choices and frames", []int{5, 3}, 2, 30, func(*algo.Setup, *env.Config, *policy.Config) {}},
		{"ppo, chunks of two", []int{5, 3}, 1, 30, func(_ *algo.Setup, _ *env.Config, net *policy.Config) {
			net.NumActionChunks = 2
		}},
		{"ppo that remembers", []int{6}, 1, 20, func(_ *algo.Setup, _ *env.Config, net *policy.Config) {
			net.ModelType, net.ShareTrunk, net.RNNHiddenSize = "rnn_policy", true, 8
		}},
		{"grpo without auto-reset", []int{5, 3}, 1, 60, func(s *algo.Setup, cfg *env.Config, net *policy.Config) {
			s.Config.AdvType, s.Config.LossType, s.GroupSize, s.Steps, s.Envs = "grpo", "actor", 8, 10, 32
			s.GlobalBatch = 160
			cfg.AutoReset, cfg.GroupSize, net.AddValueHead = false, 8, false
		}},
		{"dqn", []int{6}, 1, 60, func(s *algo.Setup, _ *env.Config, net *policy.Config) {
			s.Config.AdvType, s.Config.LossType = "embodied_dqn", "embodied_dqn"
			s.Config.OffPolicy.ReplayBuffer = algo.ReplayConfig{SampleWindowSize: 50, MinBufferSize: 2}
			s.Config.Gamma, s.Steps, s.Envs, s.GlobalBatch = 0.5, 8, 8, 64
			net.AddQHead, net.AddValueHead, net.EpsilonSteps = true, false, 200
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := algo.Setup{Config: algo.DefaultConfig(), Optim: algo.DefaultOptimConfig(), Seed: 1, Steps: 16,
				Envs: 16, GlobalBatch: 64}
			s.Config.Gamma, s.Config.UpdateEpoch = 0, 4
			s.Optim.LR, s.Optim.WeightDecay = 5e-3, 0
			cfg, net := rolestest.EnvConfig("Ladders-v0", 1), policy.DefaultConfig()
			cfg.FrameStack, net.HiddenSizes = c.frames, []int{8}
			c.change(&s, &cfg, &net)
			s.Chunk = net.NumActionChunks
			reg := rolestest.Ladders(s.Chunk, c.rungs...)
			s.CriticOptim, s.Config.OffPolicy.EntropyTuning.Optim = s.Optim, s.Optim
			cfg.TotalNumEnvs = s.Envs
			s.Policy = policyFor(t, reg, cfg, net)
			before, after := learn(t, reg, cfg, s, c.rounds)
			if before > 6 || after < 7.5 {
				t.Errorf("evaluation %.1f of 8 before, %.1f after: want at most 6, at least 7.5", before, after)
			}
		})
	}
}
