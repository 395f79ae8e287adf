package algo_test

import (
	"math"
	"slices"
	"testing"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/tensor"
)

// One sample for each branch, with ε⁻ = 0.2, ε⁺ = 0.3, c = 3 and a threshold of 2: the loss is the
// surrogate's of ρ, times w.
func TestDecoupledLossBranches(t *testing.T) {
	clip := algo.Clip{Low: 0.2, High: 0.3, Dual: 3}
	for _, c := range []struct {
		name       string
		rho, w     float64
		adv        float64
		loss, grad float64
		dropped    float64
	}{
		{"inside, good", 1.1, 0.5, 2, -1.1, -1.1, 0},
		{"inside, bad, likelier by now", 0.9, 1.5, -2, 2.7, 2.7, 0},
		{"above, good: clipped, though the whole ratio is 1", 2, 0.5, 2, -1.3, 0, 0},
		{"below, bad: clipped", 0.5, 1.5, -2, 2.4, 0, 0},
		{"far above, bad: dual clip before the weight", 5, 0.5, -2, 3, 0, 0},
		{"at the threshold", 1, 1.9999, 1, -1.9999, -1.9999, 0},
		{"above the threshold", 1, 2.0001, 1, 0, 0, 1},
	} {
		old, d := []float32{-0.7}, []float32{99}
		prox := []float32{old[0] + float32(math.Log(c.w))}
		s := decoupledLoss(d, []float32{prox[0] + float32(math.Log(c.rho))}, old, prox, []float32{float32(c.adv)},
			nil, clip, 2, 0.5)
		within(t, c.name+": loss", s.Loss, c.loss, 1e-5)
		within(t, c.name+": loss_abs", s.LossAbs, math.Abs(c.loss), 1e-5)
		within(t, c.name+": gradient", float64(d[0]), 0.5*c.grad, 1e-5)
		within(t, c.name+": proximal ratio", s.Ratio, c.rho, 1e-5)
		within(t, c.name+": proximal KL", s.KL, c.rho-1-math.Log(c.rho), 1e-5)
		within(t, c.name+": w", s.Behave, c.w, 1e-5)
		within(t, c.name+": behaviour KL", s.BehaveKL, c.w-1-math.Log(c.w), 1e-5)
		within(t, c.name+": dropped", s.BehaveClipped, c.dropped, 0)
		within(t, c.name+": count", s.Count, 1, 0)
	}
}

// Masked samples are in no sum and have no gradient. Weights multiply the gradient, and a NaN reaches it.
func TestDecoupledLossMasks(t *testing.T) {
	d := []float32{9, 9, 9}
	zero, nan := make([]float32, 3), float32(math.NaN())
	clip := algo.Clip{Low: 0.2, High: 0.2}
	s := decoupledLoss(d, zero, zero, zero, []float32{2, nan, 4}, []float32{1, 0, 0.5}, clip, 0, 1)
	within(t, "loss", s.Loss, -6, 0)
	within(t, "count", s.Count, 2, 0)
	for i, want := range []float32{-2, 0, -2} {
		within(t, "gradient", float64(d[i]), float64(want), 0)
	}
	decoupledLoss(d, zero, zero, []float32{nan, 0, 0}, []float32{1, 1, 1}, nil, clip, 2, 1)
	if d[0] == d[0] {
		t.Errorf("a NaN of the proximal policy gave gradient %v", d[0])
	}
}

// From rollouts by the present policy the decoupled loss learns the same as PPO, to the bit.
func TestDecoupledIsPPOWhenFresh(t *testing.T) {
	want := mustPPO(t, ppoSetup())
	got := mustPPO(t, ppoSetup(func(s *algo.Setup) { s.Config.LossType = "decoupled_actor_critic" }))
	iterate(t, want, 0, 3)
	m := iterate(t, got, 0, 3)
	if !slices.Equal(got.params(), want.params()) {
		t.Error("other parameters than PPO's")
	}
	within(t, "behaviour KL", metric(t, m, "actor/behav_approx_kl"), 0, 0)
	within(t, "version", metric(t, m, "actor/average_version"), 2, 0)
	within(t, "current version", metric(t, m, "actor/current_version"), 2, 0)
}

// A rollout that is d iterations old has its proximal policy at d/(d+1) of the way from the old to the present policy.
func TestProximalPolicy(t *testing.T) {
	p := decoupled(t, func(s *algo.Setup) { s.Steps, s.Envs, s.GlobalBatch = 3, 2, 6 })
	r := algo.RandomRollout(1, 3, 0, 2)
	r.Set("version", tensor.FromI64([]int64{7, 6, 4, 7, 9, 7}, 3, 2)) // that of 9 cannot be
	m := p.learn(t, &r)
	within(t, "versions", metric(t, m, "actor/average_version"), (7+6+4+7+7+7)/6.0, 1e-12)
	for i, want := range []float64{0, 0.5, 0.75, 0, 0, 0} {
		within(t, "share", float64(r.Must("prox_share").F32()[i]), want, 1e-6)
	}
	r.Set("version", tensor.New(tensor.I64, 1))
	test.Fails(t, p.Prepare(&r), "version is I64[1], expected I64[3 2]")
}

// The log-probs of the proximal policy are interpolated. By hand: of old log-probs -2, -1 and 1, -1 and present ones
// -1, -3 and 0, 1 with the shares ½ and ¾ they are -1.5, -2 and 0.25, 0.5.
func TestProximalLogProbs(t *testing.T) {
	p := decoupled(t, func(s *algo.Setup) {
		s.Steps, s.Envs, s.GlobalBatch, s.Config.UpdateEpoch = 1, 2, 2, 1
		s.Config.ShuffleRollout, s.Config.BehaveWeightThreshold = false, 100
		s.Policy = says{s.Policy.(*linear), tensor.FromF32([]float32{-1, -3, 0, 1}, 2, 2)}
	})
	r := algo.RandomRollout(1, 1, 0, 2)
	r.Set("sample_log_prob", tensor.FromF32([]float32{-2, -1, 1, -1}, 1, 2, 2))
	r.Set("version", tensor.FromI64([]int64{6, 4}, 1, 2))
	m := p.learn(t, &r)
	within(t, "ratios", metric(t, m, "actor/proximal_ratio"),
		(math.Exp(-1+1.5)+math.Exp(-3+2)+math.Exp(0-0.25)+math.Exp(1-0.5))/4, 1e-6)
	kl := func(logW float64) float64 { return math.Exp(logW) - 1 - logW }
	within(t, "behaviour KL", metric(t, m, "actor/behav_approx_kl"),
		(kl(-1.5+2)+kl(-2+1)+kl(0.25-1)+kl(0.5+1))/4, 1e-6)
}

// decoupled returns PPO with the decoupled loss, after seven iterations.
func decoupled(t *testing.T, change func(*algo.Setup)) ppoRun {
	t.Helper()
	p := mustPPO(t, ppoSetup(func(s *algo.Setup) { s.Config.LossType = "decoupled_actor_critic" }, change))
	state := test.Must(p.Save())(t).Clone()
	state.Must("counters").I64()[0] = 7
	test.OK(t, p.Load(state))
	return p
}

// says is a policy that gives these log-probs to any actions, and does not learn.
type says struct {
	*linear
	logProb tensor.Tensor
}

func (s says) Evaluate(_ policy.Work, _ tensor.Dict, action tensor.Tensor) (policy.Eval, error) {
	return policy.Eval{LogProb: s.logProb, Entropy: s.logProb, Value: tensor.New(tensor.F32, action.Dim(0), 1)}, nil
}

func (says) Backward(policy.Work, policy.Grad, func(lo, hi int)) error { return nil }

// Recomputed, the proximal policy is the policy before the update.
func TestRecomputedProximalPolicy(t *testing.T) {
	pol := cartPolePolicy(t)
	p := decoupled(t, func(s *algo.Setup) {
		s.Policy, s.Steps, s.Envs, s.GlobalBatch, s.Config.RecomputeLogprobs = pol, 3, 2, 6, true
	})
	r := cartPoleLike(3, 2)
	test.OK(t, p.Prepare(&r))
	var obs tensor.Dict
	obs.Set("state", tensor.FromF32(r.Must("observation.state").F32(), 6, 4))
	eval := test.Must(pol.Evaluate(pol.NewWork(6), obs, tensor.FromI32(r.Must("action").I32(), 6, 1, 1)))(t)
	test.EqualSlices(t, r.Must("prox_log_prob").F32(), eval.LogProb.F32())
}

// The decoupled loss learns as well from rollouts of a policy four iterations old as from rollouts of the present
// policy. PPO learns less, because its clip is around the old policy.
func TestDecoupledLearnsFromOldRollouts(t *testing.T) {
	gain := func(loss string, recompute bool) float64 {
		s := ppoSetup(func(s *algo.Setup) {
			s.Config.LossType, s.Config.RecomputeLogprobs = loss, recompute
			s.Config.NormalizeAdvantages = algo.NormalizeNone
			s.Optim.LR, s.Optim.WeightDecay = 0.05, 0
		})
		p := mustPPO(t, s)
		var before, after float64
		for i := range 12 {
			r := algo.RandomRollout(3, p.of.Steps, 0, p.of.Envs) // always the same: reward for action 1
			version := tensor.New(tensor.I64, p.of.Steps, p.of.Envs)
			for j := range version.I64() {
				version.I64()[j] = int64(max(0, i-4))
				r.Must("reward").F32()[j] = float32(r.Must("action").I32()[j])
				r.Must("value").F32()[j], r.Must("next_value").F32()[j] = 0.5, 0
				r.Must("sample_log_prob").F32()[j] = float32(math.Log(0.5))
				r.Must("terminated").U8()[j] = 1
			}
			for j := range r.Must("observation.state").F32() {
				r.Must("observation.state").F32()[j] = 1
			}
			r.Set("version", version)
			p.learn(t, &r)
			obs := tensor.Dict{}
			obs.Set("state", tensor.FromF32(r.Must("observation.state").F32(), p.of.Steps*p.of.Envs, 3))
			ones := tensor.New(tensor.I32, p.of.Steps*p.of.Envs, 1, 1)
			for j := range ones.I32() {
				ones.I32()[j] = 1
			}
			eval := test.Must(s.Policy.Evaluate(s.Policy.NewWork(p.of.Steps*p.of.Envs), obs, ones))(t)
			sum := 0.0
			for _, l := range eval.LogProb.F32() {
				sum += math.Exp(float64(l)) / float64(p.of.Steps*p.of.Envs)
			}
			if i == 0 {
				before = sum
			}
			after = sum
		}
		return after - before
	}
	plain := gain("actor_critic", false)
	between, again := gain("decoupled_actor_critic", false), gain("decoupled_actor_critic", true)
	t.Logf("probability of the better action up by %.3f (actor_critic), %.3f (interpolated), %.3f (recomputed)",
		plain, between, again)
	if between < plain+0.02 || again < plain+0.02 {
		t.Errorf("probability of the better action up by %.3f, and with the decoupled loss by %.3f and %.3f: want more",
			plain, between, again)
	}
}
