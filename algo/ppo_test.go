package algo_test

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/tensor"
)

// ppoSetup is a small problem: rollouts of 16 steps in 8 environments, minibatches of 32, and a linear policy that
// observes three numbers and chooses between two actions.
func ppoSetup(change ...func(*algo.Setup)) algo.Setup {
	s := algo.SmallSetup(func(s *algo.Setup) { s.Policy = newLinear(3, 2) })
	for _, c := range change {
		c(&s)
	}
	return s
}

// A ppoRun is PPO and what it was made from.
type ppoRun struct {
	*algo.PPO
	of algo.Setup
}

func mustPPO(t testing.TB, s algo.Setup) ppoRun {
	t.Helper()
	return ppoRun{test.Must(algo.NewPPO(s))(t), s}
}

// params returns the parameters of the policy in training.
func (p ppoRun) params() []float32 { return p.of.Policy.Params().Data }

// optimiser returns a tensor of the optimiser's state: its moments m and v, or the number of its steps.
func (p ppoRun) optimiser(t testing.TB, name string) tensor.Tensor {
	t.Helper()
	return test.Must(p.Save())(t).Must("optim." + name)
}

// learn prepares a rollout and trains on it.
func (p ppoRun) learn(t testing.TB, r *tensor.Dict) algo.Metrics {
	t.Helper()
	test.OK(t, p.Prepare(r))
	return test.Must(p.Update(*r))(t)
}

// iterate learns from the random rollouts first to last-1, and returns the last metrics.
func iterate(t testing.TB, p ppoRun, first, last int) (m algo.Metrics) {
	t.Helper()
	lo := 0
	if p.of.Replicas != nil {
		_, member := p.of.Replicas.Count()
		lo = member * p.of.Envs
	}
	for i := first; i < last; i++ {
		r := algo.RandomRollout(uint64(i), p.of.Steps, lo, lo+p.of.Envs)
		err := p.Prepare(&r)
		if err == nil {
			m, err = p.Update(r)
		}
		if err != nil {
			t.Error(err) // also of a goroutine
			return m
		}
	}
	return m
}

// PPO learns twoStates, with the critic's values and the policy of the better actions.
func TestPPOLearns(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*algo.Setup)
	}{
		{"batch", func(*algo.Setup) {}},
		{"minibatch, anneal, entropy, huber", func(s *algo.Setup) {
			s.Config.NormalizeAdvantages = algo.NormalizeMinibatch
			s.Optim.LRScheduler, s.Iterations, s.Optim.MinLR = algo.ScheduleLinear, 150, 0.002
			s.Config.EntropyBonus, s.Config.HuberDelta, s.Optim.ClipGrad = 0.001, 5, 0
		}},
		{"micro-batches, value clip, target_kl, warm-up", func(s *algo.Setup) {
			s.MicroBatch, s.Config.ValueClip, s.Config.TargetKL, s.Optim.CriticWarmupSteps = 16, 2, 0.1, 8
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLinear(2, 2)
			w := newTwoStates(l, 32, 16)
			p := mustPPO(t, ppoSetup(func(s *algo.Setup) {
				s.Policy, s.Steps, s.Envs, s.GlobalBatch, s.Config.UpdateEpoch = l, 32, 16, 128, 4
				s.Optim.LR, s.Optim.ValueLR, s.Optim.WeightDecay, s.Optim.ClipGrad = 0.02, 0.1, 0, 10
			}, c.change))
			var m algo.Metrics
			for range 150 {
				w.play(t)
				m = p.learn(t, &w.rollout)
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
	w := &twoStates{policy: l, work: l.NewWork(envs), rollout: algo.NewRollout(steps, envs, 2),
		state: make([]int, envs), age: make([]int, envs), env: make([]uint64, envs), step: make([]uint64, envs)}
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

// A resumed run has the same numbers as a run that was not interrupted.
func TestSaveLoad(t *testing.T) {
	change := func(s *algo.Setup) {
		s.Config.NormalizeRewards, s.Optim.CriticWarmupSteps, s.Optim.LRWarmupSteps = true, 10, 3
	}
	a := mustPPO(t, ppoSetup(change))
	iterate(t, a, 0, 2)
	saved := test.Must(a.Save())(t).Clone()
	b := mustPPO(t, ppoSetup(change))
	copy(b.params(), a.params())
	test.OK(t, b.Load(saved))
	want, got := iterate(t, a, 2, 4), iterate(t, b, 2, 4)
	if !slices.Equal(a.params(), b.params()) {
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

// Masked samples have no effect on parameters and statistics.
func TestMask(t *testing.T) {
	for _, norm := range []algo.Normalization{algo.NormalizeBatch, algo.NormalizeMinibatch, algo.NormalizeNone} {
		run := func(garbage float32) (ppoRun, algo.Metrics) {
			p := mustPPO(t, ppoSetup(func(s *algo.Setup) {
				s.Config.NormalizeAdvantages, s.Config.NormalizeRewards, s.Config.EntropyBonus = norm, true, 0.01
				s.Policy.(*linear).stats = make([]float64, 4)
			}))
			r := algo.RandomRollout(1, 16, 0, 8)
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
			return p, p.learn(t, &r)
		}
		a, ma := run(0)
		b, mb := run(7)
		if !slices.Equal(a.params(), b.params()) || !slices.Equal(ma.Values, mb.Values) {
			t.Errorf("%s: masked samples had an effect:\n%v\n%v", norm, ma.Values, mb.Values)
		}
		seen, alike := a.of.Policy.(*linear).stats, b.of.Policy.(*linear).stats
		if seen[0] != 16*8-6*4 || !slices.Equal(seen, alike) {
			t.Errorf("%s: observation statistics %v and %v, want %d rows", norm, seen, alike, 16*8-6*4)
		}
	}
}

// The metrics of one update with a single minibatch and one epoch are those of the rollout: the ratio is
// still that of the sample.
func TestMetrics(t *testing.T) {
	p := mustPPO(t, ppoSetup(func(s *algo.Setup) {
		s.GlobalBatch, s.Config.UpdateEpoch, s.Config.NormalizeAdvantages = 128, 1, algo.NormalizeNone
		s.Policy.(*linear).stats = make([]float64, 4)
	}))
	r := algo.RandomRollout(3, 16, 0, 8)
	m := p.learn(t, &r)
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
		within(t, name, metric(t, m, name), want, 1e-5)
	}
	if len(m.Names) != len(m.Values) {
		t.Errorf("%d names, %d values", len(m.Names), len(m.Values))
	}
	if seen := p.of.Policy.(*linear).stats; seen[0] != n {
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
		within(t, what+": mean", mean, 0, 1e-6)
		within(t, what+": deviation", math.Sqrt(variance), 1, 1e-4)
	}
	p := mustPPO(t, ppoSetup(func(s *algo.Setup) { s.Config.NormalizeAdvantages = algo.NormalizeBatch }))
	r := algo.RandomRollout(4, 16, 0, 8)
	test.OK(t, p.Prepare(&r))
	standardised("batch", r.Must("advantage").F32())

	// With ratios of 1 the loss of a minibatch of 32 has the gradient -A/32 by each log-prob.
	var seen spy
	p = mustPPO(t, ppoSetup(func(s *algo.Setup) {
		s.Config.NormalizeAdvantages, s.Config.UpdateEpoch = algo.NormalizeMinibatch, 1
		seen.linear, s.Policy = s.Policy.(*linear), &seen
	}))
	evenOdds(r)
	p.learn(t, &r)
	test.Equal(t, len(seen.gradients), 4, "minibatches")
	for _, g := range seen.gradients {
		for i := range g {
			g[i] *= -32
		}
		standardised("minibatch", g)
	}
}

// A spy records what its policy gets in an update: the first number of each observation, and each micro-batch's
// gradient by the log-probs.
type spy struct {
	*linear
	observed  []float32
	gradients [][]float32
}

func (s *spy) Evaluate(w policy.Work, obs tensor.Dict, action tensor.Tensor) (policy.Eval, error) {
	for i, x := range obs.Must("state").F32() {
		if i%s.in == 0 {
			s.observed = append(s.observed, x)
		}
	}
	return s.linear.Evaluate(w, obs, action)
}

func (s *spy) Backward(w policy.Work, g policy.Grad, ready func(lo, hi int)) error {
	s.gradients = append(s.gradients, slices.Clone(g.LogProb.F32()))
	return s.linear.Backward(w, g, ready)
}

// evenOdds makes a linear policy choose each action with probability ½, in r and ever after.
func evenOdds(r tensor.Dict) {
	r.Must("observation.state").Zero()
	for i := range r.Must("sample_log_prob").F32() {
		r.Must("sample_log_prob").F32()[i] = -math.Ln2
	}
}

// With normalised rewards the policy learns the same from rewards that are a thousand times larger. The metric has the
// rewards before normalisation.
func TestNormalisedRewardsHaveNoScale(t *testing.T) {
	run := func(scale float32) (ppoRun, algo.Metrics) {
		p := mustPPO(t, ppoSetup(func(s *algo.Setup) { s.Config.NormalizeRewards = true }))
		r := algo.RandomRollout(2, 16, 0, 8)
		for i := range r.Must("reward").F32() {
			r.Must("reward").F32()[i] *= scale
		}
		return p, p.learn(t, &r)
	}
	a, ma := run(1)
	b, mb := run(1000)
	for i, x := range a.params() {
		within(t, "parameter", float64(b.params()[i]), float64(x), 1e-5)
	}
	within(t, "rollout/rewards", metric(t, mb, "rollout/rewards"), 1000*metric(t, ma, "rollout/rewards"), 1e-3)
	within(t, "rollout/returns_max", metric(t, mb, "rollout/returns_max"), metric(t, ma, "rollout/returns_max"), 1e-4)
}

// If all advantages are 0, the entropy bonus alone moves the policy, towards even odds.
func TestEntropyBonus(t *testing.T) {
	entropies := func(bonus float32) (first, last float64) {
		p := mustPPO(t, ppoSetup(func(s *algo.Setup) {
			s.Config.EntropyBonus, s.Config.NormalizeAdvantages = bonus, algo.NormalizeNone
			s.Config.Gamma, s.Optim.WeightDecay = 0, 0
		}))
		copy(p.params(), []float32{1, -1, 0.5, 0, -1, 1})
		for i := range 5 {
			r := algo.RandomRollout(6, 16, 0, 8)
			r.Must("reward").CopyFrom(r.Must("value")) // so that every advantage is 0
			if last = metric(t, p.learn(t, &r), "actor/entropy_loss"); i == 0 {
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

// The learning rate and the clip range depend on the number of iterations that are done. A ratio of 2 is clipped to the
// upper end of the range, and a ratio of ½ to its lower end.
func TestSchedulesMove(t *testing.T) {
	for ratio, sign := range map[float64]float64{2: 1, 0.5: -1} {
		p := mustPPO(t, ppoSetup(func(s *algo.Setup) {
			s.Iterations, s.Optim.LRScheduler, s.Config.ClipRatioSchedule = 4, algo.ScheduleLinear, algo.ScheduleLinear
		}))
		for i, left := range []float64{1, 0.75, 0.5, 0.25} {
			r := algo.RandomRollout(uint64(i), 16, 0, 8)
			evenOdds(r)
			for k := range r.Must("sample_log_prob").F32() {
				r.Must("sample_log_prob").F32()[k] -= float32(math.Log(ratio))
			}
			m := p.learn(t, &r)
			within(t, "clip", metric(t, m, "actor/clipped_ratio"), 1+sign*0.2*left, 1e-6)
			within(t, "lr", metric(t, m, "actor/lr"), 0.01*left, 1e-8)
		}
	}
}

// A gradient longer than the limit is shortened to it. The first moment of Adam's first step shows the gradient.
func TestGradientIsClipped(t *testing.T) {
	moment := func(limit float32) (norm, got float64) {
		p := mustPPO(t, ppoSetup(func(s *algo.Setup) {
			s.Optim.ClipGrad, s.GlobalBatch, s.Config.UpdateEpoch = limit, 128, 1
		}))
		m := iterate(t, p, 0, 1)
		for _, x := range p.optimiser(t, "m").F32() {
			got += float64(x) * float64(x)
		}
		return metric(t, m, "actor/grad_norm"), math.Sqrt(got) / 0.1
	}
	norm, free := moment(0)
	within(t, "free", free, norm, 1e-6)
	_, clipped := moment(float32(norm / 4))
	within(t, "clipped", clipped, norm/4, 1e-6)
}

func TestCriticWarmup(t *testing.T) {
	// 2 epochs of 4 minibatches: the first iteration
	p := mustPPO(t, ppoSetup(func(s *algo.Setup) { s.Optim.CriticWarmupSteps = 8 }))
	actor, critic := p.params()[:6], p.params()[16:19]
	iterate(t, p, 0, 1)
	if slices.ContainsFunc(actor, func(x float32) bool { return x != 0 }) || critic[0] == 0 {
		t.Errorf("after the warm-up actor %v, critic %v; want the critic alone to have moved", actor, critic)
	}
	test.Equal(t, p.optimiser(t, "steps").I64()[0], 0, "steps of the moments")
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
	p := mustPPO(t, ppoSetup(func(s *algo.Setup) {
		s.Policy, s.Optim.CriticWarmupSteps, s.Optim.WeightDecay = pol, 8, 0.1
	}))
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

// Without a critic the advantage is the discounted return, and values are not needed.
func TestActorAlone(t *testing.T) {
	p := mustPPO(t, ppoSetup(func(s *algo.Setup) {
		s.Config.LossType, s.Config.GAELambda, s.Config.NormalizeAdvantages = "actor", 1, algo.NormalizeNone
	}))
	full := algo.RandomRollout(0, 16, 0, 8)
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
		want = float64(r.Must("reward").F32()[i]) + float64(p.of.Config.Gamma)*want
	}
	within(t, "advantage", float64(r.Must("advantage").F32()[0]), want, 1e-5)
	m := test.Must(p.Update(r))(t)
	if p.params()[0] == 0 || p.params()[16] != 0 {
		t.Errorf("parameters %v: want the actor alone to move", p.params())
	}
	if len(m.Names) != len(m.Values) || slices.ContainsFunc(m.Names,
		func(name string) bool { return strings.HasPrefix(name, "critic/") }) {
		t.Errorf("metrics %v, %d values, without a critic", m.Names, len(m.Values))
	}
	within(t, "actor/lr", metric(t, m, "actor/lr"), 0.01, 1e-8)
}
