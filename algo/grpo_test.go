package algo_test

import (
	"math"
	"slices"
	"sync"
	"testing"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/tensor"
)

// Scores 1, 3, 5 and 2, 2, 2 in groups of three: deviations 2 and 0.
func TestGRPO(t *testing.T) {
	score := []float64{1, 3, 5, 2, 2, 2}
	algo.GRPOAdvantages(score, 3)
	for i, want := range []float64{-2 / 2.000001, 0, 2 / 2.000001, 0, 0, 0} {
		within(t, "advantage", score[i], want, 1e-12)
	}
	one := []float64{7}
	algo.GRPOAdvantages(one, 1)
	within(t, "advantage of a group of one", one[0], 0, 0)
}

// Two episodes of scores 4 and 1 in two environments, the second over after two of three steps, with
// log-ratios and β = 0.5.
func TestReinforce(t *testing.T) {
	of := []int32{0, 1, 0, 1, 0, -1}
	ret := make([]float32, 6)
	algo.Reinforce(ret, of, []float64{4, 1}, nil, 0.5, 2)
	for i, want := range []float64{4, 1, 4, 1, 4, 0} {
		within(t, "return", float64(ret[i]), want, 0)
	}
	algo.Reinforce(ret, of, []float64{4, 1}, []float32{1, -2, 0.5, 4, -1, 9}, 0.5, 2)
	for i, want := range []float64{4 - 0.5*(1+0.5-1), 1 - 0.5*(-2+4), 4 - 0.5*(0.5-1), 1 - 0.5*4, 4 + 0.5*1, 0} {
		within(t, "return with a penalty", float64(ret[i]), want, 1e-6)
	}
}

// episodic is a random rollout of two groups of two environments that end at steps of their own, begun together.
func episodic(seed uint64) tensor.Dict {
	r := algo.RandomRollout(seed, 16, 0, 4)
	mask := tensor.New(tensor.U8, 16, 4)
	r.Must("terminated").Zero()
	r.Must("truncated").Zero()
	for env, length := range []int{5, 16, 9, 2} {
		for k := range length {
			mask.U8()[4*k+env] = 1
		}
		r.Must("terminated").U8()[4*(length-1)+env] = 1
	}
	r.Set("mask", mask)
	return r
}

func groupSetup(adv string, change ...func(*algo.Setup)) algo.Setup {
	return ppoSetup(append([]func(*algo.Setup){func(s *algo.Setup) {
		s.Envs, s.GlobalBatch, s.GroupSize, s.Config.AdvType, s.Config.LossType = 4, 64, 2, adv, "actor"
	}}, change...)...)
}

// Prepare adds advantages of the whole episode, relative to the group or to all samples, and weights that are 0 for
// samples that do not count.
func TestScoredRollouts(t *testing.T) {
	score := func(r tensor.Dict) (s [4]float64) {
		for i, m := range r.Must("mask").U8() {
			s[i%4] += float64(m) * float64(r.Must("reward").F32()[i])
		}
		return s
	}
	prepare := func(s algo.Setup) tensor.Dict {
		a := test.Must(algo.Builtin().New(s))(t)
		r := episodic(3)
		test.OK(t, a.Prepare(&r))
		return r
	}
	each := func(r tensor.Dict, want func(env int) (adv, weight float64)) {
		t.Helper()
		for i, m := range r.Must("mask").U8() {
			adv, weight := want(i % 4)
			within(t, "weight", float64(r.Must("weight").F32()[i]), weight*float64(m), 1e-6)
			if m == 1 && weight > 0 {
				within(t, "advantage", float64(r.Must("advantage").F32()[i]), adv, 1e-5)
			}
		}
	}
	r := prepare(groupSetup("grpo"))
	s := score(r)
	each(r, func(env int) (float64, float64) { // of a pair the deviation is |s - s'|/√2
		return math.Copysign(math.Sqrt2/2, s[env]-s[env^1]), 1
	})
	lo, hi := (s[0]+s[1])/2-0.1, (s[0]+s[1])/2+0.1
	r = prepare(groupSetup("grpo", func(s *algo.Setup) {
		s.Config.FilterRewards, s.Config.RewardsLowerBound, s.Config.RewardsUpperBound = true, float32(lo), float32(hi)
	}))
	each(r, func(env int) (float64, float64) {
		if env >= 2 {
			return 0, 0
		}
		return math.Copysign(math.Sqrt2/2, s[env]-s[env^1]), 1
	})
	for _, baseline := range []bool{false, true} {
		r = prepare(groupSetup("reinpp", func(s *algo.Setup) { s.Config.UseReinppBaseline = baseline }))
		var raw, sum, sq [4]float64
		lengths := [4]float64{5, 16, 9, 2}
		for env := range raw {
			if raw[env] = s[env]; baseline {
				raw[env] -= (s[env] + s[env^1]) / 2
			}
			sum[0] += lengths[env] * raw[env]
			sq[0] += lengths[env] * raw[env] * raw[env]
		}
		mean := sum[0] / 32
		std := math.Sqrt((sq[0] - 32*mean*mean) / 31)
		each(r, func(env int) (float64, float64) { return (raw[env] - mean) / (std + 1e-5), 1 })
	}
}

// TestNoGroupKept: an update without samples measures nothing. Its metrics are None, not the NaN of a computation.
func TestNoGroupKept(t *testing.T) {
	a := test.Must(algo.Builtin().New(groupSetup("grpo", func(s *algo.Setup) {
		s.Config.FilterRewards, s.Config.RewardsLowerBound, s.Config.RewardsUpperBound = true, 1e6, 1e7
	})))(t)
	r := episodic(3)
	test.OK(t, a.Prepare(&r))
	m := test.Must(a.Update(r))(t)
	for i, x := range m.Values {
		if x != x && !algo.IsNone(x) {
			t.Errorf("%s is %v", m.Names[i], x)
		}
	}
	if x, _ := m.Get("actor/policy_loss"); !algo.IsNone(x) {
		t.Errorf("a loss of %v without samples", x)
	}
	if loss, ok := algo.Loss(a, m); !ok || !algo.IsNone(loss) {
		t.Errorf("a loss of %v without samples", loss)
	}
}

// Two replicas, each with half of the groups, learn the same as one replica with all of them.
func TestGroupsOverReplicas(t *testing.T) {
	update := func(s algo.Setup, lo, hi int) []float32 {
		a, err := algo.Builtin().New(s)
		if err != nil {
			t.Error(err)
			return nil
		}
		r := environments(episodic(3), lo, hi)
		test.Check(t, a.Prepare(&r))
		if _, err := a.Update(r); err != nil {
			t.Error(err)
		}
		return s.Policy.Params().Data
	}
	for _, adv := range []string{"grpo", "reinpp"} {
		change := func(s *algo.Setup) {
			s.Config.LossAggFunc, s.Config.UpdateEpoch = algo.SeqMeanTokenMean, 3
			s.Config.UseReinppBaseline = adv == "reinpp"
		}
		want := update(groupSetup(adv, change), 0, 4)
		members := algo.NewTeam(2)
		var wg sync.WaitGroup
		for i := range 2 {
			wg.Go(func() {
				got := update(groupSetup(adv, change, func(s *algo.Setup) {
					s.Envs, s.Replicas = 2, members[i]
				}), 2*i, 2*i+2)
				for k, x := range got {
					within(t, adv+": parameter", float64(x), float64(want[k]), 1e-6)
				}
			})
		}
		wg.Wait()
	}
}

func TestGroupErrors(t *testing.T) {
	prepare := func(s algo.Setup, r tensor.Dict) error {
		a, err := algo.Builtin().New(s)
		if err != nil {
			return err
		}
		return a.Prepare(&r)
	}
	grpo := func(change ...func(*algo.Setup)) algo.Setup { return groupSetup("grpo", change...) }
	for _, c := range []struct {
		want   string
		setup  func(change ...func(*algo.Setup)) algo.Setup
		change func(*algo.Setup)
	}{
		{"grpo: rollout: 4 environments on each replica: expected a multiple of the group_size 3", grpo,
			func(s *algo.Setup) { s.GroupSize = 3 }},
		{"a2c: global_batch_size 32: expected the whole rollout, 128 samples", ppoSetup,
			func(s *algo.Setup) { s.Config.LossType, s.Config.UpdateEpoch = "a2c", 1 }},
		{"algorithm.update_epoch: 2: expected 1", ppoSetup, func(s *algo.Setup) { s.Config.LossType = "a2c" }},
		{"algorithm.filter_rewards: true: expected false (adv_type gae", ppoSetup,
			func(s *algo.Setup) { s.Config.FilterRewards = true }},
		{"algorithm.use_reinpp_baseline: true: expected false", grpo,
			func(s *algo.Setup) { s.Config.UseReinppBaseline = true }},
		{"algorithm.reinpp_kl_beta: 1: expected a number >= 0, with adv_type reinpp", grpo,
			func(s *algo.Setup) { s.Config.ReinppKLBeta = 1 }},
		{"algorithm.recompute_advantages: true: expected false", grpo,
			func(s *algo.Setup) { s.Config.RecomputeAdvantages = true }},
		{"algorithm.kl_penalty_type: k4: expected kl, abs", ppoSetup,
			func(s *algo.Setup) { s.Config.KLPenaltyType = "k4" }},
		{"algorithm.loss_agg_func: mean: expected token-mean", ppoSetup,
			func(s *algo.Setup) { s.Config.LossAggFunc = "mean" }},
		{"algorithm.rewards_upper_bound: -1: expected at least rewards_lower_bound, 0", grpo,
			func(s *algo.Setup) { s.Config.FilterRewards, s.Config.RewardsUpperBound = true, -1 }},
		{"a reference policy: this policy's parameters cannot be exchanged (nn.Params", ppoSetup,
			func(s *algo.Setup) { s.Config.KLBeta = 1 }},
	} {
		err := prepare(c.setup(c.change), episodic(1))
		test.Fails(t, err, c.want)
	}
	err := prepare(groupSetup("reinpp"), algo.RandomRollout(1, 16, 0, 4))
	test.Fails(t, err, "must begin together, as without auto_reset")
}

// Recomputed advantages are GAE's with the values of the present critic, which does not move here. Where an episode
// ended, the recorded value of the next observation stays.
func TestRecomputedAdvantages(t *testing.T) {
	p := mustPPO(t, ppoSetup(func(s *algo.Setup) {
		s.Config.RecomputeAdvantages, s.Config.NormalizeAdvantages = true, algo.NormalizeNone
		s.Config.ValueLossCoef, s.Optim.WeightDecay = 0, 0
	}))
	r := algo.RandomRollout(2, 16, 0, 8)
	test.OK(t, p.Prepare(&r))
	critic := []float32{0.5, -1, 2}
	copy(p.params()[16:], critic)
	test.Must(p.Update(r))(t)
	test.EqualSlices(t, p.params()[16:19], critic)
	value := func(i int) float32 {
		x := r.Must("observation.state").F32()[3*i:]
		return float32(0.5*float64(x[0]) - float64(x[1]) + 2*float64(x[2]))
	}
	tr := &algo.Trajectory{T: 16, N: 8, Reward: r.Must("reward").F32(), Terminated: r.Must("terminated").U8(),
		Truncated: r.Must("truncated").U8(), Value: make([]float32, 128),
		Next: slices.Clone(r.Must("next_value").F32())}
	for i := range tr.Value {
		tr.Value[i] = value(i)
		if i+8 < 128 && tr.Terminated[i]|tr.Truncated[i] == 0 {
			tr.Next[i] = value(i + 8)
		}
	}
	adv, ret := make([]float32, 128), make([]float32, 128)
	algo.GAE(adv, ret, tr, 0.9, 0.95)
	for i := range adv {
		within(t, "advantage", float64(r.Must("advantage").F32()[i]), float64(adv[i]), 1e-5)
		within(t, "return", float64(r.Must("return").F32()[i]), float64(ret[i]), 1e-5)
	}
}
