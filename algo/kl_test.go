package algo_test

import (
	"math"
	"slices"
	"testing"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/env/classic"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/tensor"
)

// The four estimates by hand: δ = 0.5 and -0.5, and far enough that k3 is bounded.
func TestKLLoss(t *testing.T) {
	for _, c := range []struct {
		kind                string
		delta, loss, dDelta float64
	}{
		{algo.KLK1, 0.5, 0.5, 1}, {algo.KLK1, -0.5, -0.5, 1},
		{algo.KLAbs, 0.5, 0.5, 1}, {algo.KLAbs, -0.5, 0.5, -1},
		{algo.KLK2, 0.5, 0.125, 0.5}, {algo.KLK2, -0.5, 0.125, -0.5},
		{algo.KLK3, 0.5, 0.10653066, 0.39346934},   // e^-½ - ½, 1 - e^-½
		{algo.KLK3, -0.5, 0.14872127, -0.64872127}, // e^½ - 1½, 1 - e^½
		{algo.KLK3, -3, 10, 0}, {algo.KLK3, -1000, 10, 0}, {algo.KLK3, 1000, 10, 0},
	} {
		d := []float32{7}
		sum, n := algo.KLLoss(d, []float32{float32(c.delta) - 1}, []float32{-1}, 1, nil, c.kind, 2)
		within(t, c.kind+": loss", sum, c.loss, 1e-6)
		within(t, c.kind+": gradient, added", float64(d[0]), 7+2*c.dDelta, 1e-6)
		within(t, c.kind+": count", n, 1, 0)
	}
	d := []float32{0}
	algo.KLLoss(d, []float32{float32(math.NaN())}, []float32{0}, 1, nil, algo.KLK3, 1)
	if d[0] == d[0] {
		t.Error("a NaN does not reach the gradient")
	}
}

// A strong penalty keeps the policy near the first policy, in spite of rewards. A weak penalty does not. The reference
// stays the first policy in later iterations and after a checkpoint.
func TestReferencePolicy(t *testing.T) {
	make1 := func(beta float32, kind string) (ppoRun, policy.Policy) {
		pol := cartPolePolicy(t)
		return mustPPO(t, ppoSetup(func(s *algo.Setup) {
			s.Policy, s.Config.KLBeta, s.Config.KLPenaltyType, s.Config.LossType = pol, beta, kind, "actor"
			s.Optim.WeightDecay, s.Optim.LR = 0, 0.02
		})), pol
	}
	iterate := func(p ppoRun, n int) (m algo.Metrics) {
		for range n {
			r := cartPoleLike(16, 8)
			m = p.learn(t, &r)
		}
		return m
	}
	for kind, alias := range map[string]string{algo.KLK2: "k2", algo.KLK3: "k3"} {
		free, _ := make1(1e-6, kind)
		held, pol := make1(30, kind)
		first := slices.Clone(pol.Params().Data)
		far, near0 := metric(t, iterate(free, 10), "actor/kl_loss"), metric(t, iterate(held, 10), "actor/kl_loss")
		if far < 0.01 || near0 > far/10 || near0 < 0 {
			t.Errorf("%s: divergence %v without and %v with a strong penalty", kind, far, near0)
		}
		state := test.Must(held.Save())(t)
		kept := tensor.FromU8(slices.Clone(state.Must("reference").U8()), state.Must("reference").Len())
		if !slices.Equal(tensor.Of(kept.Bytes()[:4*len(first)], tensor.F32, len(first)).F32(), first) {
			t.Errorf("%s: the reference is not the first policy", kind)
		}
		if slices.Equal(pol.Params().Data, first) {
			t.Errorf("%s: the policy did not move at all", kind)
		}

		// a run from the checkpoint has the same numbers, with the other name of the estimate
		again, other := make1(30, alias)
		copy(other.Params().Data, pol.Params().Data)
		test.OK(t, again.Load(state))
		a, b := iterate(held, 2), iterate(again, 2)
		if !slices.Equal(a.Values, b.Values) || !slices.Equal(other.Params().Data, pol.Params().Data) {
			t.Errorf("%s: resumed %v, undisturbed %v", kind, b, a)
		}
	}
}

// cartPolePolicy is a small network with a critic.
func cartPolePolicy(t *testing.T) policy.Policy {
	t.Helper()
	vec := test.Must(classic.NewCartPole(env.DefaultConfig(), 1))(t)
	defer vec.Close()
	cfg := policy.DefaultConfig()
	cfg.HiddenSizes = []int{8}
	pol := test.Must(policy.NewMLP(cfg, vec.Spec(), 1, tensor.Heap))(t)
	return pol
}

// cartPoleLike is a random rollout with observations of four numbers, in which action 1 pays.
func cartPoleLike(steps, envs int) tensor.Dict {
	r := algo.RandomRollout(5, steps, 0, envs)
	obs := tensor.New(tensor.F32, steps, envs, 4)
	for i := range obs.F32() {
		obs.F32()[i] = r.Must("value").F32()[i/4] * float32(i%4-1)
	}
	r.Set("observation.state", obs)
	for i, a := range r.Must("action").I32() {
		r.Must("reward").F32()[i] = float32(a)
		r.Must("sample_log_prob").F32()[i] = float32(-math.Ln2)
	}
	return r
}
