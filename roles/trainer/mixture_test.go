package trainer

import (
	"errors"
	"math"
	"testing"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/roles/internal/rolestest"
	"github.com/rlinf/rlinf/tensor"
)

// TestCollectLabels: what is recorded is the expert's action for what was observed, and states follow from actions of both.
func TestCollectLabels(t *testing.T) {
	cfg := rolestest.EnvConfig("walker", 6)
	vec, err := rolestest.Walkers().New(cfg, 1)
	if err != nil {
		t.Fatal(err)
	}
	pol, err := policy.NewMLP(policy.DefaultConfig(), vec.Spec(), 1, tensor.Heap)
	if err != nil {
		t.Fatal(err)
	}
	for name, beta := range map[string]float64{"the expert": 1, "the policy": 0, "both": 0.5} {
		c, err := NewSyncCollector(rolestest.Walkers(), cfg, pol, 1)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.CollectLabels(algo.DaggerConfig{InitBeta: beta, BetaDecay: 1}); err != nil {
			t.Fatal(err)
		}
		rollout, err := c.Collect(100, true)
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := rollout.Get("observation." + env.ExpertAction); ok || len(c.Spec().Obs) != 1 {
			t.Error("the policy is shown what the expert would do")
		}
		obs, next, label := rollout.Must("observation.state").F32(), rollout.Must("next_observation.state").F32(), rollout.Must("action").F32()
		followed := 0
		for i, a := range label {
			if a != 1 && a != 2 { // the expert's speeds
				t.Fatalf("%s acts, sample %d: %v is recorded, want the expert's action", name, i, a)
			}
			if next[i] == obs[i]+a {
				followed++
			}
		}
		if share := float64(followed) / float64(len(label)); math.Abs(share-beta) > 0.1 || beta != 0.5 && share != beta {
			t.Errorf("%s acts: %v of the steps are the expert's", name, share)
		}
	}

	c := newCollector(t, rolestest.EnvConfig("CartPole-v1", 1), rolestest.NewPolicy(t, rolestest.EnvConfig("CartPole-v1", 1), 1, nil))
	if err := c.CollectLabels(algo.DefaultConfig().OffPolicy.Dagger); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Collect(1, true); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("without an expert: %v", err)
	}
	chunks := rolestest.NewPolicy(t, rolestest.EnvConfig("Pendulum-v1", 1), 1, func(c *policy.Config) { c.NumActionChunks = 2 })
	if err := newCollector(t, rolestest.EnvConfig("Pendulum-v1", 1), chunks).CollectLabels(algo.DaggerConfig{}); err == nil {
		t.Error("chunks of two actions: no error")
	}
}

// TestDAggerLearnsPendulum: from labels of states that policies get into, one of every kind swings the pendulum up within 6,000 steps, in which the expert
// acts seldom and never to the end.
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
				Config: algo.DefaultConfig(), Optim: algo.DefaultOptimConfig(), GlobalBatch: 256, Seed: 1, Steps: T, Envs: N, Policy: pol,
			}
			s.Config.AdvType, s.Config.LossType, s.Config.UpdateEpoch = "embodied_dagger", "embodied_dagger", 100
			s.Config.OffPolicy.ReplayBuffer = algo.ReplayConfig{SampleWindowSize: epochs}
			s.Config.OffPolicy.Dagger = algo.DaggerConfig{InitBeta: 1, BetaSchedule: algo.BetaExponential, BetaDecay: 0.5}
			s.Optim.LR, s.Optim.WeightDecay, s.Optim.ClipGrad = 1e-3, 0, 0
			s.CriticOptim, s.Config.OffPolicy.EntropyTuning.Optim = s.Optim, s.Optim
			if err := collector.CollectLabels(s.Config.OffPolicy.Dagger); err != nil {
				t.Fatal(err)
			}
			s.Rollout = collector.Fields(T)
			got := trainPendulum(t, s, collector, epochs)
			t.Logf("return %.1f", got)
			if got < -250 { // an untrained policy has about -1300
				t.Errorf("return %.1f: want it near the expert's, about -150", got)
			}
		})
	}
}
