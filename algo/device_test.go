package algo

import (
	"bytes"
	"math"
	"math/rand/v2"
	"sync"
	"testing"

	"golang.org/x/sys/cpu"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/policy/nn/kernel/device"
	"github.com/rlinf/rlinf/policy/nn/kernel/device/devicetest"
	"github.com/rlinf/rlinf/tensor"
)

// A learner is PPO of an MLP or of a CNN, on the CPU or on a device.
type learner struct {
	*PPO
	interpreter *devicetest.Interpreter // nil on the CPU
	sees        bool
}

func newLearner(t *testing.T, on bool, cfg policy.Config, action env.Space, change ...func(*Setup)) *learner {
	t.Helper()
	spec := env.Spec{Name: "test", Action: action, Obs: []env.Field{{Name: "state", Space: env.Space{Kind: env.Box,
		DType: tensor.F32, Shape: []int{3}}}}}
	l := &learner{}
	if on {
		l.interpreter = new(devicetest.Interpreter)
		cfg.Device = test.Must(device.New(l.interpreter))(t)
	}
	build := policy.NewMLP
	if l.sees = cfg.ModelType == "cnn_policy"; l.sees {
		build = policy.NewCNN
		spec.Obs = append(spec.Obs, env.Field{Name: "image", Space: env.Space{Kind: env.Box, DType: tensor.U8,
			Shape: []int{nn.NatureSize, nn.NatureSize, 1}}})
	}
	pol := test.Must(build(cfg, spec, 3, tensor.Heap))(t)
	l.PPO = mustPPO(t, setup(append(change, func(s *Setup) {
		if s.Policy, s.Optim.ClipGrad = pol, 0.1; l.sees {
			s.Steps, s.Envs, s.GlobalBatch, s.Config.UpdateEpoch = 2, 2, 2, 1
		}
	})...))
	return l
}

// iterate makes the iterations first..last-1 and returns the metrics of the last.
func (l *learner) iterate(t *testing.T, first, last int) (m Metrics) {
	t.Helper()
	_, replica := l.replicas.Count()
	for i := first; i < last; i++ {
		r := randomRollout(uint64(i), l.advantages.steps, replica*l.advantages.envs, (replica+1)*l.advantages.envs)
		if _, space := l.policy.Spaces(); space.Kind == env.Box {
			choices := r.Must(FieldAction).I32()
			action := tensor.New(tensor.F32, l.advantages.steps, l.advantages.envs, 1, 1)
			for i, c := range choices {
				action.F32()[i] = float32(c) - 0.3
			}
			r.Set(FieldAction, action)
		}
		if l.sees {
			const size = nn.NatureSize
			images := tensor.New(tensor.U8, l.advantages.steps, l.advantages.envs, size, size, 1)
			random := rand.New(rand.NewPCG(uint64(i), 1))
			for k := range images.U8() {
				images.U8()[k] = uint8(random.Uint32())
			}
			r.Set("observation.image", images)
		}
		test.OK(t, l.Prepare(&r))
		m = test.Must(l.Update(r))(t)
	}
	return m
}

// same checks that two learners have the same metrics, parameters and moments, bit for bit.
func same(t *testing.T, a, b *learner, x, y Metrics) {
	t.Helper()
	test.EqualSlices(t, x.Names, y.Names)
	for i, v := range x.Values {
		if w := y.Values[i]; math.Float64bits(v) != math.Float64bits(w) && (v == v || w == w) {
			t.Errorf("%s: %v, want %v", x.Names[i], w, v)
		}
	}
	if !bytes.Equal(a.policy.Params().State(), b.policy.Params().State()) {
		t.Error("other parameters")
	}
	d, e := test.Must(a.Save())(t), test.Must(b.Save())(t)
	for i := range d.Len() {
		name, v := d.Entry(i)
		if !bytes.Equal(v.Bytes(), e.Must(name).Bytes()) {
			t.Errorf("other %s", name)
		}
	}
}

// PPO of an MLP or a CNN on a device has the bits of PPO on the CPU. The state of one goes on on the other.
func TestDeviceLearnsAlike(t *testing.T) {
	t.Parallel()
	if !cpu.X86.HasAVX2 || !cpu.X86.HasFMA {
		t.Skip("kernels have the bits of a processor with AVX2 and FMA, which this processor lacks")
	}
	choice := env.Space{Kind: env.Discrete, DType: tensor.I32, Shape: []int{1}, Nvec: []int{2}}
	number := env.Space{Kind: env.Box, DType: tensor.F32, Shape: []int{1}, Low: []float32{-1}, High: []float32{1}}
	for name, c := range map[string]struct {
		action env.Space
		change func(*policy.Config)
		warmUp int // steps in which only the critic learns
	}{
		"choices":        {choice, func(c *policy.Config) {}, 3},
		"numbers":        {number, func(c *policy.Config) { c.NormalizeObservations = true }, 0},
		"shared layers":  {choice, func(c *policy.Config) { c.ShareTrunk, c.Activation = true, "relu" }, 0},
		"deviations":     {number, func(c *policy.Config) { c.IndependentStd = false }, 0},
		"no hidden ones": {number, func(c *policy.Config) { c.HiddenSizes = nil }, 0},
		"images":         {number, func(c *policy.Config) { c.ModelType = "cnn_policy" }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := policy.DefaultConfig()
			cfg.HiddenSizes = []int{33, 9}
			c.change(&cfg)
			warmUp := func(s *Setup) { s.Optim.CriticWarmupSteps = c.warmUp }
			host, dev := newLearner(t, false, cfg, c.action, warmUp), newLearner(t, true, cfg, c.action, warmUp)
			taken := dev.interpreter.Bytes
			same(t, host, dev, host.iterate(t, 0, 2), dev.iterate(t, 0, 2))

			test.Equal(t, dev.interpreter.Bytes, taken, "memory after two iterations")
			for _, on := range []bool{false, true} { // the state of the other
				from, to := dev, newLearner(t, on, cfg, c.action, warmUp)
				if on {
					from = host
				}
				copy(to.policy.Params().State(), from.policy.Params().State())
				test.OK(t, to.Load(test.Must(from.Save())(t)))
				same(t, from, to, from.iterate(t, 2, 3), to.iterate(t, 2, 3))
			}
		})
	}
}

// Replicas learn alike on CPUs, on devices and on both. A device computes while a part of its gradient is on the way.
func TestDeviceReplicas(t *testing.T) {
	t.Parallel()
	if !cpu.X86.HasAVX2 || !cpu.X86.HasFMA {
		t.Skip("kernels have the bits of a processor with AVX2 and FMA, which this processor lacks")
	}
	cfg := policy.DefaultConfig()
	cfg.HiddenSizes = []int{33, 9}
	action := env.Space{Kind: env.Box, DType: tensor.F32, Shape: []int{1}, Low: []float32{-1}, High: []float32{1}}
	train := func(on ...bool) (of [2]*learner, got [2]Metrics) {
		var wait sync.WaitGroup
		for i, r := range NewTeam(2) {
			of[i] = newLearner(t, on[i], cfg, action, func(s *Setup) { s.Envs, s.Replicas = 4, r })
			wait.Go(func() { got[i] = of[i].iterate(t, 0, 2) })
		}
		wait.Wait()
		return of, got
	}
	hosts, want := train(false, false)
	for _, on := range [][]bool{{true, false}, {true, true}} {
		of, got := train(on...)
		for i, l := range of {
			same(t, hosts[i], l, want[i], got[i])
			if on[i] && (l.interpreter.Beside == 0 || l.interpreter.Beside == l.interpreter.Launches) {
				t.Errorf("%d launches beside copies, of %d", l.interpreter.Beside, l.interpreter.Launches)
			}
		}
	}
}

// The number of launches of an optimiser step does not depend on the batch, and is at most 70 with two hidden layers.
func TestLaunches(t *testing.T) {
	t.Parallel()
	cfg := policy.DefaultConfig()
	cfg.HiddenSizes = []int{8, 8}
	l := newLearner(t, true, cfg, env.Space{Kind: env.Discrete, DType: tensor.I32, Shape: []int{1}, Nvec: []int{2}})
	l.iterate(t, 0, 1)
	steps := l.cfg.UpdateEpoch * len(l.plans)
	if n := l.interpreter.Launches; n%steps != 0 || n/steps > 70 {
		t.Errorf("%d launches in %d steps, expected at most 70 in each", n, steps)
	}
	t.Logf("%d launches in an optimiser step", l.interpreter.Launches/steps)
}
