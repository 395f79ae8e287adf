package algo

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/philox"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/tensor"
)

// setup is a small problem: rollouts of 16 steps in 8 environments, minibatches of 32.
func setup(change ...func(*Setup)) Setup {
	s := Setup{
		Config: DefaultConfig(), Optim: DefaultOptimConfig(), GlobalBatch: 32, Seed: 7, Steps: 16, Envs: 8,
		Policy: newLinear(3, 2),
	}
	s.Config.Gamma, s.Config.GAELambda, s.Config.UpdateEpoch = 0.9, 0.95, 2
	s.Optim.LR = 0.01
	for _, c := range change {
		c(&s)
	}
	return s
}

func mustPPO(t testing.TB, s Setup) *PPO {
	t.Helper()
	p := test.Must(NewPPO(s))(t)
	return p
}

// newRollout returns a rollout of zeros, with the given numbers of steps, environments and observed numbers.
func newRollout(steps, envs, obs int) tensor.Dict {
	d := tensor.NewLayout(
		tensor.Field{Name: "observation.state", DType: tensor.F32, Shape: []int{steps, envs, obs}},
		tensor.Field{Name: "action", DType: tensor.I32, Shape: []int{steps, envs, 1, 1}},
		tensor.Field{Name: "sample_log_prob", DType: tensor.F32, Shape: []int{steps, envs, 1}},
		tensor.Field{Name: "value", DType: tensor.F32, Shape: []int{steps, envs, 1}},
		tensor.Field{Name: "next_value", DType: tensor.F32, Shape: []int{steps, envs}},
		tensor.Field{Name: "reward", DType: tensor.F32, Shape: []int{steps, envs}},
		tensor.Field{Name: "terminated", DType: tensor.U8, Shape: []int{steps, envs}},
		tensor.Field{Name: "truncated", DType: tensor.U8, Shape: []int{steps, envs}},
	)
	return d.Bind(tensor.New(tensor.U8, d.Size()).Bytes())
}

// randomRollout returns a rollout of random numbers. Environments lo to hi-1 depend only on their own index.
func randomRollout(seed uint64, steps, lo, hi int) tensor.Dict {
	n := hi - lo
	r := newRollout(steps, n, 3)
	for e := range n {
		s := philox.New(seed, philox.Init, uint64(lo+e), 0)
		for t := range steps {
			i := t*n + e
			for k := range 3 {
				r.Must("observation.state").F32()[3*i+k] = float32(s.Uniform(-1, 1))
			}
			r.Must("action").I32()[i] = int32(s.IntN(2))
			r.Must("sample_log_prob").F32()[i] = float32(math.Log(s.Uniform(0.3, 0.7)))
			r.Must("value").F32()[i] = float32(s.Uniform(-1, 1))
			r.Must("next_value").F32()[i] = float32(s.Uniform(-1, 1))
			r.Must("reward").F32()[i] = float32(s.Uniform(-1, 1))
			r.Must("terminated").U8()[i] = uint8(s.IntN(8) / 7)
			r.Must("truncated").U8()[i] = uint8(s.IntN(8) / 7)
		}
	}
	return r
}

// iterate prepares and updates on random rollouts first..last-1.
func iterate(t testing.TB, p *PPO, first, last int) Metrics {
	t.Helper()
	var m Metrics
	for i := first; i < last; i++ {
		r := randomRollout(uint64(i), p.advantages.steps, p.replica*p.advantages.envs, (p.replica+1)*p.advantages.envs)
		if err := p.Prepare(&r); err != nil {
			t.Error(err)
			return m
		}
		var err error
		if m, err = p.Update(r); err != nil {
			t.Error(err)
			return m
		}
	}
	return m
}

func metric(t testing.TB, m Metrics, name string) float64 {
	t.Helper()
	i := slices.Index(m.Names, name)
	if i < 0 || i >= len(m.Values) {
		t.Fatalf("no %s in %v", name, m.Names)
	}
	return m.Values[i]
}

// PPO learns twoStates, with the critic's values and the policy of the better actions.
func TestPPOLearns(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Setup)
	}{
		{"batch", func(*Setup) {}},
		{"minibatch, anneal, entropy, huber", func(s *Setup) {
			s.Config.NormalizeAdvantages = NormalizeMinibatch
			s.Optim.LRScheduler, s.Iterations, s.Optim.MinLR = ScheduleLinear, 150, 0.002
			s.Config.EntropyBonus, s.Config.HuberDelta, s.Optim.ClipGrad = 0.001, 5, 0
		}},
		{"micro-batches, value clip, target_kl, warm-up", func(s *Setup) {
			s.MicroBatch, s.Config.ValueClip, s.Config.TargetKL, s.Optim.CriticWarmupSteps = 16, 2, 0.1, 8
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLinear(2, 2)
			w := newTwoStates(l, 32, 16)
			p := mustPPO(t, setup(func(s *Setup) {
				s.Policy, s.Steps, s.Envs, s.GlobalBatch, s.Config.UpdateEpoch = l, 32, 16, 128, 4
				s.Optim.LR, s.Optim.ValueLR, s.Optim.WeightDecay, s.Optim.ClipGrad = 0.02, 0.1, 0, 10
			}, c.change))
			var m Metrics
			for range 150 {
				w.play(t)
				test.OK(t, p.Prepare(&w.rollout))
				var err error
				if m, err = p.Update(w.rollout); err != nil {
					t.Fatal(err)
				}
			}
			w.checkPolicy(t)
			if ev := metric(t, m, "critic/explained_variance"); !(ev > 0.5) {
				t.Errorf("explained variance %v", ev)
			}
		})
	}
}

// twoStates is a world of two states, entered at random. Action 1 changes the state, at a cost of 0.1; action 0 stays,
// which pays 1 in state 1. Episodes are cut off after 5 steps, and never terminate. The best policy changes in 0 and
// stays in 1, and with γ = 0.9
//
//	v(1) = 1 + γ v(1) = 10,    v(0) = -0.1 + γ v(1) = 8.9
//
// A critic that takes the limit for an end estimates 2.6 on average.
type twoStates struct {
	policy     *linear
	work       policy.Work
	rollout    tensor.Dict
	state, age []int       // of each environment
	env, step  []uint64    // of each environment: number, and steps taken
	obs        tensor.Dict // one 1 for each environment, at its state
}

func newTwoStates(l *linear, steps, envs int) *twoStates {
	w := &twoStates{policy: l, work: l.NewWork(envs), rollout: newRollout(steps, envs, 2), state: make([]int, envs),
		age: make([]int, envs), env: make([]uint64, envs), step: make([]uint64, envs)}
	for e := range w.env {
		w.env[e], w.state[e] = uint64(e), e%2
	}
	w.obs.Set("state", tensor.New(tensor.F32, envs, 2))
	return w
}

// observe sets the observations, and returns them.
func (w *twoStates) observe() tensor.Tensor {
	obs := w.obs.Must("state")
	obs.Zero()
	for e, s := range w.state {
		obs.F32()[2*e+s] = 1
	}
	return obs
}

// play fills the rollout.
func (w *twoStates) play(t *testing.T) {
	t.Helper()
	r := w.rollout
	r.Must("truncated").Zero()
	for k := range r.Must("reward").Dim(0) {
		r.Must("observation.state").At(k).CopyFrom(w.observe())
		act, err := w.policy.Forward(w.work, w.obs, policy.Sample, policy.Noise{Seed: 5, Env: w.env, Step: w.step})
		test.OK(t, err)
		r.Must("action").At(k).CopyFrom(act.Action)
		r.Must("sample_log_prob").At(k).CopyFrom(act.LogProb)
		r.Must("value").At(k).CopyFrom(act.Value)
		for e, a := range act.Action.I32() {
			reward := float32(w.state[e])
			if a == 1 {
				w.state[e], reward = 1-w.state[e], -0.1
			}
			r.Must("reward").At(k).F32()[e] = reward
			w.step[e]++
		}
		w.observe()
		next, _ := w.policy.Value(w.work, w.obs)
		r.Must("next_value").At(k).CopyFrom(next)
		for e := range w.age {
			if w.age[e]++; w.age[e] == 5 {
				r.Must("truncated").At(k).U8()[e] = 1
				w.age[e], w.state[e] = 0, int(w.step[e]/5)%2
			}
		}
	}
}

// checkPolicy checks that the policy takes the better action in both states, and knows their values.
func (w *twoStates) checkPolicy(t *testing.T) {
	t.Helper()
	for s, best := range []int32{1, 0} {
		w.state[0] = s
		w.observe()
		eval, _ := w.policy.Evaluate(w.work, w.obs.Slice(0, 1), tensor.FromI32([]int32{best}, 1, 1, 1))
		prob := math.Exp(float64(eval.LogProb.F32()[0]))
		value, want := float64(eval.Value.F32()[0]), []float64{8.9, 10}[s]
		if prob < 0.95 || math.Abs(value-want) > 0.1*want {
			t.Errorf("state %d: probability of the better action %.3f, value %.2f, want ≥ 0.95, %.1f", s, prob, value,
				want)
		}
	}
}

// Two replicas with half of the environments each take the same step as one replica with all: means and statistics
// are over all samples.
func TestReplicasTakeOneStep(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Setup)
	}{
		{"batch", func(*Setup) {}},
		{"minibatch, rewards", func(s *Setup) {
			s.Config.NormalizeAdvantages, s.Config.NormalizeRewards = NormalizeMinibatch, true
		}},
		{"none, early stop", func(s *Setup) { s.Config.NormalizeAdvantages, s.Config.TargetKL = NormalizeNone, 1e-4 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			// the whole rollout in one minibatch: then the placement of samples does not matter
			whole := func(s *Setup) {
				s.GlobalBatch, s.Config.ShuffleRollout = 128, false
				s.Config.UpdateEpoch, s.Config.EntropyBonus = 3, 0.01
			}
			one := mustPPO(t, setup(whole, c.change))
			want := iterate(t, one, 0, 3)

			members := newTeam(2)
			var two [2]*PPO
			var got [2]Metrics
			var wg sync.WaitGroup
			for i := range two {
				two[i] = mustPPO(t, setup(whole, c.change,
					func(s *Setup) { s.Envs, s.Replicas = 4, &replica{team: members, member: i} }))
				wg.Go(func() { got[i] = iterate(t, two[i], 0, 3) })
			}
			wg.Wait()
			if !slices.Equal(two[0].train.params.Data, two[1].train.params.Data) {
				t.Error("the two replicas have different parameters")
			}
			for k, name := range want.Names {
				if got[0].Values[k] != got[1].Values[k] {
					t.Errorf("%s: %v on one replica, %v on the other", name, got[0].Values[k], got[1].Values[k])
				}
				near(t, name, got[0].Values[k], want.Values[k], 1e-4*max(1, math.Abs(want.Values[k])))
			}
			for k, x := range one.train.params.Data {
				near(t, "parameter", float64(two[0].train.params.Data[k]), float64(x), 1e-5)
			}
			if c.name == "none, early stop" {
				if e := metric(t, want, "actor/update_epochs"); e >= 3 {
					t.Errorf("no early stop: %v epochs", e)
				}
			}
		})
	}
}

// A resumed run has the same numbers as a run that was not interrupted.
func TestSaveLoad(t *testing.T) {
	change := func(s *Setup) {
		s.Config.NormalizeRewards, s.Optim.CriticWarmupSteps, s.Optim.LRWarmupSteps = true, 10, 3
	}
	a := mustPPO(t, setup(change))
	iterate(t, a, 0, 2)
	saved := test.Must(a.Save())(t).Clone()
	b := mustPPO(t, setup(change))
	copy(b.train.params.Data, a.train.params.Data)
	test.OK(t, b.Load(saved))
	want, got := iterate(t, a, 2, 4), iterate(t, b, 2, 4)
	if !slices.Equal(a.train.params.Data, b.train.params.Data) {
		t.Error("parameters differ")
	}
	for i, x := range want.Values {
		test.Equal(t, got.Values[i], x, "%s", want.Names[i])
	}
	end, _ := b.Save()
	for i := range end.Len() {
		name, x := end.Entry(i)
		if bytes.Equal(x.Bytes(), saved.Must(name).Bytes()) && name != "optim.steps" {
			t.Errorf("%s did not change: is it saved?", name)
		}
	}

	test.Fails(t, b.Load(tensor.Dict{}), "no counters", "load of nothing")
	saved.Set("optim.m", tensor.New(tensor.F32, 3))
	test.Fails(t, b.Load(saved), "optim.m is F32[3], expected F32[32]", "load of another model")
}

// Micro-batches add up to the minibatch, and only the last one marks gradients as final.
func TestMicroBatches(t *testing.T) {
	whole := mustPPO(t, setup())
	r := &replica{team: newTeam(1)}
	micro := mustPPO(t, setup(func(s *Setup) { s.MicroBatch, s.Replicas = 8, r }))
	want, got := iterate(t, whole, 0, 2), iterate(t, micro, 0, 2)
	for i, x := range want.Values {
		near(t, want.Names[i], got.Values[i], x, 1e-4*max(1, math.Abs(x)))
	}
	for i, x := range whole.train.params.Data {
		near(t, "parameter", float64(micro.train.params.Data[i]), float64(x), 1e-5)
	}
	if want := [][2]int{{16, 32}, {0, 16}}; !slices.Equal(r.ready, want) {
		t.Errorf("ranges made ready: %v, want %v", r.ready, want)
	}
}

// Masked samples have no effect on parameters and statistics.
func TestMask(t *testing.T) {
	for _, norm := range []Normalization{NormalizeBatch, NormalizeMinibatch, NormalizeNone} {
		run := func(garbage float32) (*PPO, Metrics) {
			p := mustPPO(t, setup(func(s *Setup) {
				s.Config.NormalizeAdvantages, s.Config.NormalizeRewards, s.Config.EntropyBonus = norm, true, 0.01
				s.Policy.(*linear).stats = make([]float64, 4)
			}))
			r := randomRollout(1, 16, 0, 8)
			mask := tensor.New(tensor.U8, 16, 8)
			for i := range mask.U8() {
				// half of the environments end at step 9 and idle from then on
				if mask.U8()[i] = 1; i/8 >= 10 && i%8 < 4 {
					mask.U8()[i] = 0
					r.Must("reward").F32()[i], r.Must("value").F32()[i] = garbage, garbage
					r.Must("sample_log_prob").F32()[i] = garbage / 10
					r.Must("observation.state").F32()[3*i] = garbage
				}
				r.Must("terminated").U8()[i] = 0
				if i/8 == 9 {
					r.Must("terminated").U8()[i] = 1
				}
			}
			r.Set("mask", mask)
			test.OK(t, p.Prepare(&r))
			m := test.Must(p.Update(r))(t)
			return p, m
		}
		a, ma := run(0)
		b, mb := run(7)
		if !slices.Equal(a.train.params.Data, b.train.params.Data) || !slices.Equal(ma.Values, mb.Values) {
			t.Errorf("%s: masked samples had an effect:\n%v\n%v", norm, ma.Values, mb.Values)
		}
		if seen := a.policy.(*linear).stats; seen[0] != 16*8-6*4 || !slices.Equal(seen, b.policy.(*linear).stats) {
			t.Errorf("%s: observation statistics %v and %v, want %d rows", norm, seen, b.policy.(*linear).stats,
				16*8-6*4)
		}
	}
}

// The metrics of one update with a single minibatch and one epoch are those of the rollout: the ratio is
// still that of the sample.
func TestMetrics(t *testing.T) {
	p := mustPPO(t, setup(func(s *Setup) {
		s.GlobalBatch, s.Config.UpdateEpoch, s.Config.NormalizeAdvantages = 128, 1, NormalizeNone
		s.Policy.(*linear).stats = make([]float64, 4)
	}))
	r := randomRollout(3, 16, 0, 8)
	test.OK(t, p.Prepare(&r))
	m := test.Must(p.Update(r))(t)
	var n, reward, adv, ret, ratio, kl, outside, policyLoss, valueLoss, sumE, sumE2, sumR2 float64
	most, least := math.Inf(-1), math.Inf(1)
	for i, a := range r.Must("advantage").F32() {
		rho := 0.5 / math.Exp(float64(r.Must("sample_log_prob").F32()[i])) // the linear policy starts with even odds
		v, target := float64(r.Must("value").F32()[i]), float64(r.Must("return").F32()[i])
		n++
		reward += float64(r.Must("reward").F32()[i])
		adv += float64(a)
		ret += target
		ratio += rho
		kl += rho - 1 - math.Log(rho)
		if rho < 0.8 || rho > 1.2 {
			outside++
		}
		policyLoss += max(-float64(a)*rho, -float64(a)*min(max(rho, 0.8), 1.2))
		valueLoss += target * target / 2 // and values 0
		sumE += target - v
		sumE2 += (target - v) * (target - v)
		sumR2 += target * target
		most, least = max(most, float64(a)), min(least, float64(a))
	}
	for name, want := range map[string]float64{
		"rollout/rewards": reward / n, "rollout/advantages_mean": adv / n, "rollout/returns_mean": ret / n,
		"rollout/advantages_max": most, "rollout/advantages_min": least,
		"actor/ratio": ratio / n, "actor/approx_kl": kl / n, "actor/clip_fraction": outside / n,
		"actor/policy_loss":  policyLoss / n,
		"actor/entropy_loss": math.Ln2, "critic/value_loss": valueLoss / n,
		"critic/explained_variance": 1 - (sumE2/n-sumE/n*sumE/n)/(sumR2/n-ret/n*ret/n),
		"actor/lr":                  0.01, "critic/lr": 0.01, "actor/update_epochs": 1,
	} {
		near(t, name, metric(t, m, name), want, 1e-5)
	}
	if len(m.Names) != len(m.Values) {
		t.Errorf("%d names, %d values", len(m.Names), len(m.Values))
	}
	if seen := p.policy.(*linear).stats; seen[0] != n {
		t.Errorf("the policy got statistics of %v observations, want %v", seen[0], n)
	}
}

// Normalised advantages have mean 0 and, except for the guard against none, unbiased deviation 1: over the
// rollout, or each minibatch.
func TestAdvantagesAreNormalised(t *testing.T) {
	standardised := func(what string, adv []float32) {
		t.Helper()
		var mean, variance float64
		for _, a := range adv {
			mean += float64(a) / float64(len(adv))
		}
		for _, a := range adv {
			variance += (float64(a) - mean) * (float64(a) - mean) / float64(len(adv)-1)
		}
		near(t, what+": mean", mean, 0, 1e-6)
		near(t, what+": deviation", math.Sqrt(variance), 1, 1e-4)
	}
	for _, norm := range []Normalization{NormalizeBatch, NormalizeMinibatch} {
		p := mustPPO(t, setup(func(s *Setup) { s.Config.NormalizeAdvantages, s.Config.UpdateEpoch = norm, 1 }))
		r := randomRollout(4, 16, 0, 8)
		test.OK(t, p.Prepare(&r))
		if norm == NormalizeBatch {
			standardised("batch", r.Must("advantage").F32())
			continue
		}
		test.Must(p.Update(r))(t)
		standardised("minibatch", p.batch.adv) // of the last one
	}
}

// With normalised rewards the policy learns the same from rewards that are a thousand times larger. The metric has the
// rewards before normalisation.
func TestNormalisedRewardsHaveNoScale(t *testing.T) {
	run := func(scale float32) (*PPO, Metrics) {
		p := mustPPO(t, setup(func(s *Setup) { s.Config.NormalizeRewards = true }))
		r := randomRollout(2, 16, 0, 8)
		for i := range r.Must("reward").F32() {
			r.Must("reward").F32()[i] *= scale
		}
		test.OK(t, p.Prepare(&r))
		m := test.Must(p.Update(r))(t)
		return p, m
	}
	a, ma := run(1)
	b, mb := run(1000)
	for i, x := range a.train.params.Data {
		near(t, "parameter", float64(b.train.params.Data[i]), float64(x), 1e-5)
	}
	near(t, "rollout/rewards", metric(t, mb, "rollout/rewards"), 1000*metric(t, ma, "rollout/rewards"), 1e-3)
	near(t, "rollout/returns_max", metric(t, mb, "rollout/returns_max"), metric(t, ma, "rollout/returns_max"), 1e-4)
}

// If all advantages are 0, the entropy bonus alone moves the policy, towards even odds.
func TestEntropyBonus(t *testing.T) {
	entropies := func(bonus float32) (first, last float64) {
		p := mustPPO(t, setup(func(s *Setup) {
			s.Config.EntropyBonus, s.Config.NormalizeAdvantages = bonus, NormalizeNone
			s.Config.Gamma, s.Optim.WeightDecay = 0, 0
		}))
		copy(p.train.params.Data, []float32{1, -1, 0.5, 0, -1, 1})
		for i := range 5 {
			r := randomRollout(6, 16, 0, 8)
			r.Must("reward").CopyFrom(r.Must("value")) // so that every advantage is 0
			test.OK(t, p.Prepare(&r))
			m := test.Must(p.Update(r))(t)
			if last = metric(t, m, "actor/entropy_loss"); i == 0 {
				first = last
			}
		}
		return first, last
	}
	if first, last := entropies(0); first != last {
		t.Errorf("without a bonus the entropy went from %v to %v", first, last)
	}
	if first, last := entropies(0.1); last < first+0.05 {
		t.Errorf("the entropy went from %v to %v only", first, last)
	}
}

// Each replica shuffles its own samples, and each epoch's divergence is its own.
func TestReplicasShuffleApart(t *testing.T) {
	members := newTeam(2)
	var two [2]*PPO
	var wg sync.WaitGroup
	for i := range two {
		two[i] = mustPPO(t, setup(func(s *Setup) {
			s.Envs, s.Replicas, s.Config.TargetKL, s.Config.UpdateEpoch = 4, &replica{team: members, member: i}, 1e6, 3
		}))
		wg.Go(func() { iterate(t, two[i], 0, 1) })
	}
	wg.Wait()
	if slices.Equal(two[0].order, two[1].order) {
		t.Error("both replicas drew the same order")
	}
	if n := two[0].planSums[1]; n != 64 {
		t.Errorf("the divergence of the last epoch is over %v samples, want this replica's 64", n)
	}
}

// Schedules depend on the number of iterations that are done.
func TestSchedulesMove(t *testing.T) {
	p := mustPPO(t, setup(func(s *Setup) {
		s.Iterations, s.Optim.LRScheduler, s.Config.ClipRatioSchedule = 4, ScheduleLinear, ScheduleLinear
	}))
	for i, left := range []float64{1, 0.75, 0.5, 0.25} {
		near(t, "clip", float64(p.cfg.clip(i, p.train.adam.sched.Total).Low), 0.2*left, 1e-7)
		near(t, "clip", float64(p.cfg.clip(i, p.train.adam.sched.Total).High), 0.2*left, 1e-7)
		near(t, "lr", metric(t, iterate(t, p, i, i+1), "actor/lr"), 0.01*left, 1e-8)
	}
}

// A gradient longer than the limit is shortened to it. The first moment of Adam's first step shows the gradient.
func TestGradientIsClipped(t *testing.T) {
	moment := func(limit float32) (norm, got float64) {
		p := mustPPO(t, setup(func(s *Setup) { s.Optim.ClipGrad, s.GlobalBatch, s.Config.UpdateEpoch = limit, 128, 1 }))
		m := iterate(t, p, 0, 1)
		for _, x := range p.train.adam.m.F32() {
			got += float64(x) * float64(x)
		}
		return metric(t, m, "actor/grad_norm"), math.Sqrt(got) / 0.1
	}
	norm, free := moment(0)
	near(t, "free", free, norm, 1e-6)
	_, clipped := moment(float32(norm / 4))
	near(t, "clipped", clipped, norm/4, 1e-6)
}

func TestCriticWarmup(t *testing.T) {
	// 2 epochs of 4 minibatches: the first iteration
	p := mustPPO(t, setup(func(s *Setup) { s.Optim.CriticWarmupSteps = 8 }))
	actor, critic := p.train.params.Data[:6], p.train.params.Data[16:19]
	iterate(t, p, 0, 1)
	if slices.ContainsFunc(actor, func(x float32) bool { return x != 0 }) || critic[0] == 0 {
		t.Errorf("after the warm-up actor %v, critic %v; want the critic alone to have moved", actor, critic)
	}
	if p.train.adam.Steps() != 0 {
		t.Errorf("the moments are %d steps old, want new ones", p.train.adam.Steps())
	}
	iterate(t, p, 1, 2)
	if actor[0] == 0 {
		t.Error("the actor did not move after the warm-up")
	}
}

// The critic's warm-up does not change layers that actor and critic share.
func TestCriticWarmupOfSharedTrunk(t *testing.T) {
	cfg := policy.DefaultConfig()
	cfg.HiddenSizes, cfg.ShareTrunk = []int{4}, true
	spec := env.Spec{Name: "fake",
		Obs:    []env.Field{{Name: "state", Space: env.Space{Kind: env.Box, DType: tensor.F32, Shape: []int{3}}}},
		Action: env.Space{Kind: env.Discrete, DType: tensor.I32, Shape: []int{1}, Nvec: []int{2}}}
	pol := test.Must(policy.NewMLP(cfg, spec, 1, tensor.Heap))(t)
	p := mustPPO(t, setup(func(s *Setup) { s.Policy, s.Optim.CriticWarmupSteps, s.Optim.WeightDecay = pol, 8, 0.1 }))
	params := pol.Params()
	before := slices.Clone(params.Data)
	iterate(t, p, 0, 1)
	moved := func() (names []string) {
		for _, g := range params.Groups {
			if !slices.Equal(params.Data[g.Lo:g.Hi], before[g.Lo:g.Hi]) {
				names = append(names, g.Name)
			}
		}
		return names
	}
	if got := moved(); !slices.Equal(got, []string{"critic"}) {
		t.Errorf("the warm-up moved %v, want the critic alone", got)
	}
	iterate(t, p, 1, 2)
	if got := moved(); len(got) != 3 {
		t.Errorf("after the warm-up %v moved, want all", got)
	}
}

// A number that is not finite gives an error that names it, and changes no state.
func TestNotFinite(t *testing.T) {
	p := mustPPO(t, setup())
	for _, c := range []struct{ name, want string }{
		{"reward", "reward is NaN at step 2 of environment 3"},
		{"value", "value is NaN at step 2 of environment 3"},
		{"next_value", "next_value is NaN at step 2 of environment 3"},
	} {
		r := randomRollout(1, 16, 0, 8)
		clear(r.Must("terminated").U8())
		r.Must(c.name).F32()[2*8+3] = float32(math.NaN())
		test.Fails(t, p.Prepare(&r), c.want)
	}
	for _, c := range []struct{ name, want string }{
		{"observation.state", "epoch 0: minibatch 0: gradient of actor.weight[3 2]: NaN at element 0"},
		{"sample_log_prob", "epoch 0: minibatch 0: gradient of actor.weight[3 2]: NaN at element 0"},
		{"return", "epoch 0: minibatch 0: gradient of critic.weight[3 1]: NaN at element 0"},
	} {
		p := mustPPO(t, setup(func(s *Setup) { s.Config.ShuffleRollout = false }))
		before := slices.Clone(p.train.params.Data)
		r := randomRollout(1, 16, 0, 8)
		test.OK(t, p.Prepare(&r))
		r.Must(c.name).F32()[1] = float32(math.NaN())
		test.Fails(t, test.Err(p.Update(r)), c.want, "%s", c.name)
		if !slices.Equal(before, p.train.params.Data) || p.train.adam.Steps() != 0 {
			t.Errorf("%s: the parameters moved", c.name)
		}
	}
}

func TestNewPPOErrors(t *testing.T) {
	for _, c := range []struct {
		want   string
		change func(*Setup)
	}{
		{"global_batch_size 0: expected a divisor of the rollout of 128 samples", func(s *Setup) { s.GlobalBatch = 0 }},
		{"expected a divisor of the rollout of 0 samples", func(s *Setup) { s.Steps = 0 }},
		{"global_batch_size 48: expected a divisor", func(s *Setup) { s.GlobalBatch = 48 }},
		{"global_batch_size 256: expected a divisor", func(s *Setup) { s.GlobalBatch = 256 }},
		{"micro_batch_size 12: expected a divisor of the 32 samples", func(s *Setup) { s.MicroBatch = 12 }},
		{"algorithm.gamma: 1.5: expected a number in [0, 1]", func(s *Setup) { s.Config.Gamma = 1.5 }},
		{"optim.lr: 0: expected a number > 0", func(s *Setup) { s.Optim.LR = 0 }},
		{"optim.total_training_steps: not set", func(s *Setup) { s.Optim.LRScheduler = ScheduleCosine }},
		{"no adv_type gea with loss_type actor_critic, expected one of: gae with actor_critic, gae with actor, " +
			"gae with decoupled_actor_critic, gae with a2c, grpo with actor",
			func(s *Setup) { s.Config.AdvType = "gea" }},
	} {
		test.Fails(t, test.Err(Builtin().New(setup(c.change))), c.want)
	}
	if _, err := Builtin().New(setup()); err != nil {
		t.Error(err)
	}
}

func TestRolloutErrors(t *testing.T) {
	p := mustPPO(t, setup())
	var r tensor.Dict
	test.Fails(t, p.Prepare(&r), "no reward", "an empty rollout")
	r = randomRollout(0, 16, 0, 8)
	r.Set("truncated", tensor.New(tensor.U8, 16, 7))
	test.Fails(t, p.Prepare(&r), "truncated is U8[16 7], expected U8[16 8]", "another shape")
	r = randomRollout(0, 16, 0, 8)
	test.Fails(t, test.Err(p.Update(r)), "no advantage", "not prepared")
}

// Without a critic the advantage is the discounted return, and values are not needed.
func TestActorAlone(t *testing.T) {
	p := mustPPO(t, setup(func(s *Setup) {
		s.Config.LossType, s.Config.GAELambda, s.Config.NormalizeAdvantages = "actor", 1, NormalizeNone
	}))
	full := randomRollout(0, 16, 0, 8)
	var r tensor.Dict
	for i := range full.Len() {
		if name, x := full.Entry(i); name != "value" && name != "next_value" {
			r.Set(name, x)
		}
	}
	test.OK(t, p.Prepare(&r))
	want, i := 0.0, 15*8
	for ; i >= 0; i -= 8 {
		if r.Must("terminated").U8()[i]|r.Must("truncated").U8()[i] == 1 {
			want = 0
		}
		want = float64(r.Must("reward").F32()[i]) + float64(p.cfg.Gamma)*want
	}
	near(t, "advantage", float64(r.Must("advantage").F32()[0]), want, 1e-5)
	m := test.Must(p.Update(r))(t)
	if p.train.params.Data[0] == 0 || p.train.params.Data[16] != 0 {
		t.Errorf("parameters %v: want the actor alone to move", p.train.params.Data)
	}
	if len(m.Names) != len(m.Values) || slices.ContainsFunc(m.Names,
		func(name string) bool { return strings.HasPrefix(name, "critic/") }) {
		t.Errorf("metrics %v, %d values, without a critic", m.Names, len(m.Values))
	}
	near(t, "actor/lr", metric(t, m, "actor/lr"), 0.01, 1e-8)
}

// An update allocates nothing per minibatch: 64 minibatches allocate no more than 8.
func TestUpdateAllocations(t *testing.T) {
	allocs := func(epochs int) float64 {
		p := mustPPO(t, setup(func(s *Setup) { s.Config.UpdateEpoch, s.MicroBatch = epochs, 16 }))
		r := randomRollout(0, 16, 0, 8)
		return testing.AllocsPerRun(5, func() {
			test.OK(t, p.Prepare(&r))
			test.Must(p.Update(r))(t)
		})
	}
	few, many := allocs(2), allocs(16)
	if few != many || many > 10 {
		t.Errorf("%v allocations with 2 epochs, %v with 16", few, many)
	}
}

func BenchmarkUpdate(b *testing.B) {
	p := mustPPO(b, setup(func(s *Setup) { s.Steps, s.Envs, s.GlobalBatch, s.Config.UpdateEpoch = 128, 4, 128, 4 }))
	r := randomRollout(0, 128, 0, 4)
	b.ReportAllocs()
	for b.Loop() {
		test.OK(b, p.Prepare(&r))
		test.Must(p.Update(r))(b)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*512), "ns/env-step")
}
