package algo_test

import (
	"bytes"
	"math"
	"sync"
	"testing"

	"golang.org/x/sys/cpu"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy/lm"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/policy/nn/kernel/device"
	"github.com/rlinf/rlinf/policy/nn/kernel/device/devicetest"
	"github.com/rlinf/rlinf/tensor"
)

// A textLearner trains a language model, on the CPU or on a device.
type textLearner struct {
	model   *lm.Model
	iterate func(i int) algo.Metrics
	save    func() tensor.Dict
}

// learnerOn returns a model on the CPU or on a device.
func modelOn(t *testing.T, on bool, o lm.Options) *lm.Model {
	t.Helper()
	p := new(nn.Params[float32])
	if on {
		p.UseDevice(test.Must(device.New(new(devicetest.Interpreter)))(t))
	}
	return newModelIn(t, p, 31, 0.2, o)
}

// sameLearners checks that two learners have the same metrics, parameters and states, bit for bit.
func sameLearners(t *testing.T, a, b *textLearner, x, y algo.Metrics) {
	t.Helper()
	test.EqualSlices(t, x.Names, y.Names)
	for i, v := range x.Values {
		if w := y.Values[i]; math.Float64bits(v) != math.Float64bits(w) && (v == v || w == w) {
			t.Errorf("%s: %v, want %v", x.Names[i], w, v)
		}
	}
	if !bytes.Equal(a.model.Params.State(), b.model.Params.State()) {
		t.Error("other parameters")
	}
	d, e := a.save(), b.save()
	for i := range d.Len() {
		name, v := d.Entry(i)
		if !bytes.Equal(v.Bytes(), e.Must(name).Bytes()) {
			t.Errorf("other %s", name)
		}
	}
}

// A language model learns on a device with the bits of the CPU: by fine-tuning, with adapters, and from rewards. The
// state of one goes on on the other.
func TestDeviceLearnsTexts(t *testing.T) {
	t.Parallel()
	if !cpu.X86.HasAVX2 || !cpu.X86.HasFMA {
		t.Skip("kernels have the bits of a processor with AVX2 and FMA, which this processor lacks")
	}
	texts, targets, tokens := someTexts(5)
	tune := func(t *testing.T, m *lm.Model, r algo.Replicas) *textLearner {
		s := newSFT(t, m, algo.MicroBatch{Tokens: 20}, r)
		return &textLearner{m, func(int) algo.Metrics {
			got := test.Must(s.Update(texts, targets, tokens))(t)
			e := test.Must(s.Evaluate(texts))(t)
			got.Names, got.Values = append(got.Names, e.Names...), append(got.Values, e.Values...)
			return got
		}, s.Save}
	}
	reason := func(t *testing.T, m *lm.Model, r algo.Replicas, change func(*algo.TextSetup)) *textLearner {
		s := setup(m)
		s.Replicas = r
		s.MicroBatch.Tokens, s.Optim.ClipGrad, s.Config.RecomputeLogprobs = 12, 0.5, true
		change(&s)
		p := newTextPPO(t, s)
		return &textLearner{m, func(i int) algo.Metrics {
			b := batchOf(t, tinyModel(t, lm.Options{}), 1, 0, 3, float32(i))
			b.Ref = nil
			test.OK(t, p.Prepare(b))
			return test.Must(p.Update(b))(t)
		}, p.Save}
	}
	referred := func(t *testing.T, m *lm.Model, r algo.Replicas) *textLearner {
		return reason(t, m, r, func(s *algo.TextSetup) {
			s.Config.KLBeta, s.Config.EntropyBonus = 0.1, 0.01
			s.Reference = test.Must(m.Reference(tensor.Heap))(t)
			s.Reference.Init(7)
		})
	}
	valued := func(t *testing.T, m *lm.Model, r algo.Replicas) *textLearner {
		return reason(t, m, r, func(s *algo.TextSetup) {
			s.Config.AdvType, s.Config.LossType, s.Config.GAELambda = "gae", "actor_critic", 0.8
			s.Critic = criticOf(t, m)
		})
	}
	alone := func(t *testing.T, m *lm.Model, r algo.Replicas) *textLearner {
		s := setup(m)
		s.Replicas = r
		s.Config.AdvType, s.Config.LossType, s.Critic, s.Model = "gae", "actor_critic", criticOf(t, m), nil
		c := test.Must(algo.NewTextCriticPPO(s))(t)
		return &textLearner{s.Critic.Model, func(i int) algo.Metrics {
			b := batchOf(t, tinyModel(t, lm.Options{}), 1, 0, 3, float32(i))
			b.Value = test.Must(c.Values(nil, b.Texts))(t)
			test.OK(t, c.Prepare(b))
			return test.Must(c.Update(b))(t)
		}, func() tensor.Dict {
			d := c.Save()
			d.Set("counters", c.Counters())
			return d
		}}
	}
	adapters := lm.Options{LoRA: &lm.LoRA{Rank: 2, Alpha: 4, Targets: lm.Targets}}
	for name, c := range map[string]struct {
		options lm.Options
		learner func(*testing.T, *lm.Model, algo.Replicas) *textLearner
	}{"fine-tuning": {lm.Options{}, tune}, "adapters": {adapters, tune}, "reasoning": {lm.Options{}, referred},
		"reasoning with adapters": {adapters, referred}, "actor-critic": {lm.Options{}, valued},
		"critic": {lm.Options{}, alone}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			host, dev := c.learner(t, modelOn(t, false, c.options), nil), c.learner(t, modelOn(t, true, c.options), nil)
			for i := range 2 {
				sameLearners(t, host, dev, host.iterate(i), dev.iterate(i))
			}
			for _, on := range []bool{false, true} { // the state of the other
				from, to := dev, c.learner(t, modelOn(t, on, c.options), nil)
				if on {
					from = host
					to.iterate(0) // a device must get the state, although it has learnt before
				}
				copy(to.model.Params.State(), from.model.Params.State())
				state := to.save()
				state.CopyFrom(from.save())
				sameLearners(t, from, to, from.iterate(2), to.iterate(2))
			}

			replicas := func(on bool) (of [2]*textLearner, got [2]algo.Metrics) { // one of them on a device
				var wait sync.WaitGroup
				for i, r := range algo.NewTeam(2) {
					of[i] = c.learner(t, modelOn(t, on && i == 1, c.options), r)
					wait.Go(func() {
						for k := range 2 {
							got[i] = of[i].iterate(k)
						}
					})
				}
				wait.Wait()
				return of, got
			}
			hosts, want := replicas(false)
			of, got := replicas(true)
			for i, l := range of {
				sameLearners(t, hosts[i], l, want[i], got[i])
			}
		})
	}
}
