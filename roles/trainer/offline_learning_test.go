//go:build !race

// The race detector makes arithmetic ten times as slow, and all goroutines of these tests run in others.

package trainer

import (
	"testing"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/roles/internal/rolestest"
	"github.com/rlinf/rlinf/tensor"
)

// TestIQLBeatsTheMean: the data are a few episodes of the expert, and many with noise, most of which fail. IQL gets
// better than the mean of the data, and better than cloning of all data.
func TestIQLBeatsTheMean(t *testing.T) {
	good, best := pendulumDemos(t, 10, 0)
	poor, worst := pendulumDemos(t, 30, 6)
	demos, mean := joinDemos(poor, good), (10*best+30*worst)/40
	learn := func(kind string, temperature float32) float64 {
		pol := rolestest.NewPolicy(t, rolestest.EnvConfig("Pendulum-v1", 1), 1, func(c *policy.Config) {
			c.AddQHead, c.AddValueHead, c.Activation = true, false, "relu"
		})
		got, _ := learnOffline(t, pol, demos, 30, func(s *algo.Setup) {
			s.Config.AdvType, s.Config.LossType, s.Config.UpdateEpoch, s.Config.Gamma = kind, kind, 100, 0.98
			s.Config.OffPolicy.Temperature, s.Config.OffPolicy.Expectile = temperature, 0.9
		})
		return got
	}
	iql, bc := learn("offline_iql", 1), learn("embodied_bc", 1)
	t.Logf("IQL %.1f, cloning %.1f, demonstrations %.1f (%.1f and %.1f)", iql, bc, mean, best, worst)
	if iql < mean+100 || iql < bc {
		t.Errorf("IQL %.1f: want it above cloning, %.1f, and well above the demonstrations, %.1f", iql, bc, mean)
	}
}

// joinDemos returns the transitions of a, then those of b.
func joinDemos(a, b tensor.Dict) (both tensor.Dict) {
	for i := range a.Len() {
		name, x := a.Entry(i)
		y := b.Must(name)
		shape := x.Shape()
		shape[0] += y.Dim(0)
		z := tensor.New(x.DType(), shape...)
		copy(z.Bytes()[copy(z.Bytes(), x.Bytes()):], y.Bytes())
		both.Set(name, z)
	}
	return both
}

// TestDemonstrationsSpeedUpSAC: with half of each batch from ten of the expert's episodes (RLPD), SAC hangs the
// pendulum up within 1,536 steps of its own, in which it learns little without.
func TestDemonstrationsSpeedUpSAC(t *testing.T) {
	const T, N, epochs = 16, 2, 48
	demos, _ := pendulumDemos(t, 10, 0)
	learn := func(demos tensor.Dict) float64 {
		cfg := rolestest.EnvConfig("Pendulum-v1", N)
		pol := rolestest.NewPolicy(t, cfg, 1, func(c *policy.Config) {
			c.AddQHead, c.AddValueHead, c.Activation = true, false, "relu"
		})
		collector := newCollector(t, cfg, pol)
		collector.CollectTransitions()
		s := algo.Setup{
			Config: algo.DefaultConfig(), Optim: algo.DefaultOptimConfig(), GlobalBatch: 128, Seed: 1, Steps: T,
			Envs: N, Policy: pol,
			Rollout: collector.Fields(T), Demos: demos,
		}
		s.Config.AdvType, s.Config.LossType, s.Config.Gamma, s.Config.UpdateEpoch = "embodied_sac", "embodied_sac",
			0.98, 2*T*N
		s.Config.OffPolicy.ReplayBuffer = algo.ReplayConfig{SampleWindowSize: epochs, MinBufferSize: 2}
		s.Config.OffPolicy.EntropyTuning.AlphaType, s.Config.OffPolicy.EntropyTuning.InitialAlpha = algo.AlphaExp, 0.3
		s.Optim.LR, s.Optim.WeightDecay, s.Optim.ClipGrad = 2e-3, 0, 0
		s.CriticOptim, s.Config.OffPolicy.EntropyTuning.Optim = s.Optim, s.Optim
		return trainPendulum(t, s, collector, epochs)
	}
	with, without := learn(demos), learn(tensor.Dict{})
	t.Logf("with demonstrations %.1f, without %.1f", with, without)
	if with < -300 || with < without+100 {
		t.Errorf("with demonstrations %.1f, without %.1f: want them to help", with, without)
	}
}
