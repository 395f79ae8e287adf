//go:build !race

// The race detector makes arithmetic ten times as slow, and all goroutines of these tests run in others.

package trainer

import (
	"fmt"
	"testing"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/env/all"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/roles/internal/rolestest"
)

// PPO learns Pendulum with deviations that depend on the state, and with actions that are squashed into the bounds of
// the torque.
func TestSquashedDeviationByStateLearnsPendulum(t *testing.T) {
	s := algo.Setup{Config: algo.DefaultConfig(), Optim: algo.DefaultOptimConfig(), Seed: 1, Steps: 64, Envs: 16,
		GlobalBatch: 64}
	s.Config.Gamma, s.Config.GAELambda, s.Config.UpdateEpoch, s.Config.NormalizeRewards = 0.95, 0.95, 8, true
	s.Optim.LR, s.Optim.WeightDecay, s.Optim.ClipGrad = 2e-3, 0, 0.5
	cfg := rolestest.EnvConfig("Pendulum-v1", s.Envs)
	s.Policy = rolestest.NewPolicy(t, cfg, 1, func(net *policy.Config) {
		net.IndependentStd, net.ActionBound = false, policy.BoundTanh
	})
	before, after := learn(t, all.Registry(), cfg, s, 50)
	if before > -900 || after < -500 {
		t.Errorf("evaluation %.0f before, %.0f after: want at most -900, at least -500", before, after)
	}
}

// Only a policy with a hidden state learns CartPole without velocities.
func TestRecurrentLearnsMaskedCartPole(t *testing.T) {
	for model, want := range map[string][2]float64{"gru": {400, 500}, "lstm": {400, 500}, "mlp_policy": {0, 100}} {
		t.Run(model, func(t *testing.T) {
			t.Parallel()
			s := algo.Setup{Config: algo.DefaultConfig(), Optim: algo.DefaultOptimConfig(), Seed: 1, Steps: 64,
				Envs: 16, GlobalBatch: 256}
			s.Config.Gamma, s.Config.GAELambda, s.Config.UpdateEpoch, s.Config.NormalizeRewards,
				s.Config.ValueLossCoef = 0.98, 0.9, 8, true, 0.5
			s.Optim.LR, s.Optim.WeightDecay, s.Optim.ClipGrad = 2e-3, 0, 0.5
			cfg := maskedCartPole(s.Envs)
			s.Policy = newRecurrent(t, cfg, func(net *policy.Config) {
				net.HiddenSizes, net.RNNHiddenSize, net.NormalizeObservations = []int{32}, 32, true
				if net.RNNType = model; model == "mlp_policy" {
					net.ModelType, net.RNNType = model, "gru"
				} else {
					s.Config.SequenceLength = 32
				}
			})
			if _, after := learn(t, all.Registry(), cfg, s, 70); after < want[0] || after > want[1] {
				t.Errorf("evaluation %.1f after: want it in %v", after, want)
			}
		})
	}
}

// TestTrainerLearnsPendulum: SAC without ranks, 32 updates for every 32 samples, hangs the pendulum up within 6,400
// actions, single ones and chunks of two.
func TestTrainerLearnsPendulum(t *testing.T) {
	for _, chunk := range []int{1, 2} {
		t.Run(fmt.Sprint("chunks of ", chunk), func(t *testing.T) {
			t.Parallel()
			learnPendulum(t, chunk)
		})
	}
}

// All advantages and losses improve a policy for CartPole, in a few updates with a fixed seed.
func TestOnPolicyLearnsCartPole(t *testing.T) {
	episodes := func(s *algo.Setup) {
		s.Steps, s.Envs, s.GlobalBatch, s.GroupSize = 200, 32, 1600, 8
		s.Config.LossType, s.Config.UpdateEpoch = "actor", 4
	}
	for _, c := range []struct {
		name   string
		rounds int
		change func(*algo.Setup)
	}{
		{"grpo", 20, func(s *algo.Setup) { episodes(s); s.Config.AdvType = "grpo" }},
		{"dapo", 20, func(s *algo.Setup) {
			episodes(s)
			s.Config.AdvType, s.Config.ClipRatioHigh, s.Config.MaxNumGenBatches = "grpo", 0.28, 3
			s.Config.FilterRewards, s.Config.RewardsUpperBound = true, 199
			s.Config.LenRewardPenalty, s.Config.SafeLength, s.Config.MaxLength = 1, 190, 200
		}},
		{"grpo by episodes, with k3", 20, func(s *algo.Setup) {
			episodes(s)
			s.Config.AdvType, s.Config.LossAggFunc, s.Config.KLBeta = "grpo", algo.SeqMeanTokenMean, 1e-3
		}},
		{"reinpp", 25, func(s *algo.Setup) { episodes(s); s.Config.AdvType = "reinpp" }},
		{"reinpp with baseline and k1", 25, func(s *algo.Setup) {
			episodes(s)
			s.Config.AdvType, s.Config.UseReinppBaseline, s.Config.ReinppKLBeta = "reinpp", true, 1e-2
		}},
		{"a2c", 400, func(s *algo.Setup) {
			s.Steps, s.Envs, s.GlobalBatch = 16, 16, 256
			s.Config.LossType, s.Config.Gamma, s.Config.GAELambda, s.Config.ValueLossCoef = "a2c", 0.99, 0.95, 0.5
			s.Optim.LR = 4e-3
		}},
		{"ppo, advantages recomputed", 20, func(s *algo.Setup) {
			s.Steps, s.Envs, s.GlobalBatch = 64, 16, 256
			s.Config.Gamma, s.Config.GAELambda, s.Config.UpdateEpoch, s.Config.RecomputeAdvantages = 0.99, 0.95, 8, true
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := algo.Setup{Config: algo.DefaultConfig(), Optim: algo.DefaultOptimConfig(), Seed: 1}
			s.Optim.LR, s.Optim.WeightDecay, s.Optim.ClipGrad = 2e-3, 0, 0.5
			c.change(&s)
			cfg := rolestest.EnvConfig("CartPole-v1", s.Envs)
			cfg.AutoReset, cfg.GroupSize = s.GroupSize == 0, max(s.GroupSize, 1)
			s.Policy = rolestest.NewPolicy(t, cfg, 1, func(net *policy.Config) {
				net.AddValueHead = s.Config.LossType != "actor"
			})
			before, after := learn(t, all.Registry(), cfg, s, c.rounds)
			if before > 60 || after < 180 {
				t.Errorf("evaluation %.1f before, %.1f after: want at most 60, at least 180", before, after)
			}
		})
	}
}

// TestBCLearnsPendulum: every kind of policy swings the pendulum up after imitation of 30 episodes. A deviation that is
// not learnt stays as it was. Observation statistics are those of the demonstrations.
func TestBCLearnsPendulum(t *testing.T) {
	demos, mean := pendulumDemos(t, 30, 0)
	t.Logf("the expert's mean return: %.1f", mean)
	for name, change := range map[string]func(*policy.Config){
		"normal": func(c *policy.Config) {
			c.NormalizeObservations, c.LearnStd, c.InitLogStd = true, false, -1.5
		},
		"squashed":      func(c *policy.Config) { c.AddQHead, c.AddValueHead = true, false },
		"deterministic": func(c *policy.Config) { c.AddQHead, c.AddValueHead, c.ExplorationNoise = true, false, 0.1 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pol := rolestest.NewPolicy(t, rolestest.EnvConfig("Pendulum-v1", 1), 1, change)
			critic := criticOf(pol.Params())
			got, m := learnOffline(t, pol, demos, 25, func(s *algo.Setup) {
				s.Config.AdvType, s.Config.LossType, s.Config.UpdateEpoch, s.MicroBatch = "embodied_bc", "embodied_bc",
					100, 128
				s.Config.OffPolicy.Demos.ValidationShare = 0.1
			})
			t.Logf("return %.1f, losses %.3f, validated %.3f", got, metric(t, m, "bc/loss"),
				metric(t, m, "bc/val_loss"))
			if got < -300 { // an untrained policy has about -1300
				t.Errorf("return %.1f, the expert's %.1f: want it near", got, mean)
			}
			if size := metric(t, m, "demo_buffer/size"); size != 27*200 {
				t.Errorf("learnt from %v transitions, want those of 27 episodes", size)
			}
			for i, x := range criticOf(pol.Params()) {
				if x != critic[i] {
					t.Fatal("the critic's parameters moved")
				}
			}
			if name != "normal" {
				return
			}
			for i, f := range pol.Params().Fields {
				if f.Name == "actor.log_std" && pol.Params().Of(i)[0] != -1.5 {
					t.Errorf("log deviation %v, want that of the beginning, -1.5", pol.Params().Of(i)[0])
				}
			}
			if count := pol.Params().Buffers.Must("obs.count").F64()[0]; count != 27*200 {
				t.Errorf("statistics of %v observations, want 27·200", count)
			}
		})
	}
}

// TestDAggerLearnsPendulum: every kind of policy learns from labels of the states that it visits, and swings the
// pendulum up within 6,000 steps, in few of which the expert acts.
func TestDAggerLearnsPendulum(t *testing.T) {
	const T, N, epochs = 50, 8, 15
	for name, change := range map[string]func(*policy.Config){
		"normal":   func(c *policy.Config) { c.NormalizeObservations, c.LearnStd, c.InitLogStd = true, false, -1.5 },
		"squashed": func(c *policy.Config) { c.AddQHead, c.AddValueHead = true, false },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := rolestest.EnvConfig("Pendulum-v1", N)
			pol := rolestest.NewPolicy(t, cfg, 1, change)
			collector := newCollector(t, cfg, pol)
			s := algo.Setup{
				Config: algo.DefaultConfig(), Optim: algo.DefaultOptimConfig(), GlobalBatch: 256, Seed: 1, Steps: T,
				Envs: N, Policy: pol,
			}
			s.Config.AdvType, s.Config.LossType, s.Config.UpdateEpoch = "embodied_dagger", "embodied_dagger", 100
			s.Config.OffPolicy.ReplayBuffer = algo.ReplayConfig{SampleWindowSize: epochs}
			s.Config.OffPolicy.Dagger = algo.DaggerConfig{InitBeta: 1, BetaSchedule: algo.BetaExponential,
				BetaDecay: 0.5}
			s.Optim.LR, s.Optim.WeightDecay, s.Optim.ClipGrad = 1e-3, 0, 0
			s.CriticOptim, s.Config.OffPolicy.EntropyTuning.Optim = s.Optim, s.Optim
			test.OK(t, collector.CollectLabels(s.Config.OffPolicy.Dagger))
			s.Rollout = collector.Fields(T)
			got := trainPendulum(t, s, collector, epochs)
			t.Logf("return %.1f", got)
			if got < -250 { // an untrained policy has about -1300
				t.Errorf("return %.1f: want it near the expert's, about -150", got)
			}
		})
	}
}
