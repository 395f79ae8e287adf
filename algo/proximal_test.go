package algo

import (
	"math"
	"slices"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/tensor"
)

// One sample for each branch, with ε⁻ = 0.2, ε⁺ = 0.3, c = 3 and a threshold of 2: the loss is the
// surrogate's of ρ, times w.
func TestDecoupledLossBranches(t *testing.T) {
	clip := Clip{Low: 0.2, High: 0.3, Dual: 3}
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
		near(t, c.name+": loss", s.Loss, c.loss, 1e-5)
		near(t, c.name+": loss_abs", s.LossAbs, math.Abs(c.loss), 1e-5)
		near(t, c.name+": gradient", float64(d[0]), 0.5*c.grad, 1e-5)
		near(t, c.name+": proximal ratio", s.Ratio, c.rho, 1e-5)
		near(t, c.name+": proximal KL", s.KL, c.rho-1-math.Log(c.rho), 1e-5)
		near(t, c.name+": w", s.Behave, c.w, 1e-5)
		near(t, c.name+": behaviour KL", s.BehaveKL, c.w-1-math.Log(c.w), 1e-5)
		near(t, c.name+": dropped", s.BehaveClipped, c.dropped, 0)
		near(t, c.name+": count", s.Count, 1, 0)
	}
}

// Masked samples are in no sum and have no gradient. Weights multiply the gradient, and a NaN reaches it.
func TestDecoupledLossMasks(t *testing.T) {
	d := []float32{9, 9, 9}
	zero, nan := make([]float32, 3), float32(math.NaN())
	s := decoupledLoss(d, zero, zero, zero, []float32{2, nan, 4}, []float32{1, 0, 0.5}, Clip{Low: 0.2, High: 0.2}, 0, 1)
	near(t, "loss", s.Loss, -6, 0)
	near(t, "count", s.Count, 2, 0)
	for i, want := range []float32{-2, 0, -2} {
		near(t, "gradient", float64(d[i]), float64(want), 0)
	}
	decoupledLoss(d, zero, zero, []float32{nan, 0, 0}, []float32{1, 1, 1}, nil, Clip{Low: 0.2, High: 0.2}, 2, 1)
	if d[0] == d[0] {
		t.Errorf("a NaN of the proximal policy gave gradient %v", d[0])
	}
}

// From rollouts by the present policy the decoupled loss learns the same as PPO, to the bit.
func TestDecoupledIsPPOWhenFresh(t *testing.T) {
	want, got := mustPPO(t, setup()), mustPPO(t, setup(func(s *Setup) { s.Config.LossType = decoupledActorCritic }))
	iterate(t, want, 0, 3)
	m := iterate(t, got, 0, 3)
	if !slices.Equal(got.train.params.Data, want.train.params.Data) {
		t.Error("other parameters than PPO's")
	}
	near(t, "behaviour KL", metric(t, m, "actor/behav_approx_kl"), 0, 0)
	near(t, "version", metric(t, m, "actor/average_version"), 2, 0)
	near(t, "current version", metric(t, m, "actor/current_version"), 2, 0)
}

// The proximal policy of a rollout that is d iterations old is at d/(d+1) of the way, or, if recomputed, the policy
// before the update.
func TestProximalPolicy(t *testing.T) {
	pol := cartPolePolicy(t)
	const T, N = 3, 2
	rollout := tensor.Dict{}
	obs, action := tensor.New(tensor.F32, T, N, 4), tensor.New(tensor.I32, T, N, 1, 1)
	for i := range obs.F32() {
		obs.F32()[i] = float32(i%5) - 2
	}
	for i := range action.I32() {
		action.I32()[i] = int32(i % 2)
	}
	rollout.Set("observation.state", obs)
	rollout.Set("action", action)
	rollout.Set("reward", tensor.New(tensor.F32, T, N))
	rollout.Set("sample_log_prob", tensor.New(tensor.F32, T, N, 1))
	rollout.Set("version", tensor.FromI64([]int64{7, 6, 4, 7, 9, 7}, T, N)) // that of 9 cannot be

	x := newProximal(&Setup{Steps: T, Envs: N})
	versions := test.Must(x.prepare(pol, &rollout, 7))(t)
	near(t, "versions", versions, 7+6+4+7+7+7, 0)
	share := rollout.Must("prox_share").F32()
	for i, want := range []float64{0, 0.5, 0.75, 0, 0, 0} {
		near(t, "share", float64(share[i]), want, 1e-6)
	}
	prox := make([]float32, 4)
	interpolate(prox, []float32{-1, -3, 0, 1}, []float32{-2, -1, 1, -1}, []float32{0.5, 0.75})
	for i, want := range []float64{-1.5, -2, 0.25, 0.5} {
		near(t, "interpolated", float64(prox[i]), want, 1e-6)
	}

	x = newProximal(&Setup{Policy: pol, Steps: T, Envs: N, Config: Config{RecomputeLogprobs: true}})
	test.Must(x.prepare(pol, &rollout, 7))(t)
	flat := tensor.Dict{}
	flat.Set("state", tensor.FromF32(obs.F32(), T*N, 4))
	eval := test.Must(pol.Evaluate(pol.NewWork(T*N), flat, tensor.FromI32(action.I32(), T*N, 1, 1)))(t)
	if got := rollout.Must("prox_log_prob").F32(); !slices.Equal(got, eval.LogProb.F32()) {
		t.Errorf("proximal log-probs %v, the policy says %v", got, eval.LogProb.F32())
	}

	rollout.Set("version", tensor.New(tensor.I64, 1))
	if _, err := x.prepare(pol, &rollout, 7); err == nil {
		t.Error("one version for six samples")
	}
}

// The decoupled loss learns as well from rollouts of a policy four iterations old as from rollouts of the present
// policy. PPO learns less, because its clip is around the old policy.
func TestDecoupledLearnsFromOldRollouts(t *testing.T) {
	gain := func(loss string, recompute bool) float64 {
		s := setup(func(s *Setup) {
			s.Config.LossType, s.Config.RecomputeLogprobs, s.Config.NormalizeAdvantages = loss, recompute, NormalizeNone
			s.Optim.LR, s.Optim.WeightDecay = 0.05, 0
		})
		p := mustPPO(t, s)
		var before, after float64
		for i := range 12 {
			r := randomRollout(3, p.advantages.steps, 0, p.advantages.envs) // always the same: reward for action 1
			version := tensor.New(tensor.I64, p.advantages.steps, p.advantages.envs)
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
			test.OK(t, p.Prepare(&r))
			test.Must(p.Update(r))(t)
			obs := tensor.Dict{}
			obs.Set("state", tensor.FromF32(r.Must("observation.state").F32(), p.advantages.steps*p.advantages.envs, 3))
			ones := tensor.New(tensor.I32, p.advantages.steps*p.advantages.envs, 1, 1)
			for j := range ones.I32() {
				ones.I32()[j] = 1
			}
			eval := test.Must(s.Policy.Evaluate(s.Policy.NewWork(p.advantages.steps*p.advantages.envs), obs, ones))(t)
			sum := 0.0
			for _, l := range eval.LogProb.F32() {
				sum += math.Exp(float64(l)) / float64(p.advantages.steps*p.advantages.envs)
			}
			if i == 0 {
				before = sum
			}
			after = sum
		}
		return after - before
	}
	plain := gain("actor_critic", false)
	between, again := gain(decoupledActorCritic, false), gain(decoupledActorCritic, true)
	t.Logf("probability of the better action up by %.3f (actor_critic), %.3f (interpolated), %.3f (recomputed)",
		plain, between, again)
	if between < plain+0.02 || again < plain+0.02 {
		t.Errorf("probability of the better action up by %.3f, and with the decoupled loss by %.3f and %.3f: want more",
			plain, between, again)
	}
}
