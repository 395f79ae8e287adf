package algo

import (
	"math"
	"sync"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/tensor"
)

// Scores 1, 3, 5 and 2, 2, 2 in groups of three: deviations 2 and 0.
func TestGRPO(t *testing.T) {
	score := []float64{1, 3, 5, 2, 2, 2}
	GRPOAdvantages(score, 3)
	for i, want := range []float64{-2 / 2.000001, 0, 2 / 2.000001, 0, 0, 0} {
		near(t, "advantage", score[i], want, 1e-12)
	}
	one := []float64{7}
	GRPOAdvantages(one, 1)
	near(t, "advantage of a group of one", one[0], 0, 0)
}

// Two episodes of scores 4 and 1 in two environments, the second over after two of three steps, with
// log-ratios and β = 0.5.
func TestReinforce(t *testing.T) {
	of := []int32{0, 1, 0, 1, 0, -1}
	ret := make([]float32, 6)
	Reinforce(ret, of, []float64{4, 1}, nil, 0.5, 2)
	for i, want := range []float64{4, 1, 4, 1, 4, 0} {
		near(t, "return", float64(ret[i]), want, 0)
	}
	Reinforce(ret, of, []float64{4, 1}, []float32{1, -2, 0.5, 4, -1, 9}, 0.5, 2)
	for i, want := range []float64{4 - 0.5*(1+0.5-1), 1 - 0.5*(-2+4), 4 - 0.5*(0.5-1), 1 - 0.5*4, 4 + 0.5*1, 0} {
		near(t, "return with a penalty", float64(ret[i]), want, 1e-6)
	}
}

// episodic is a random rollout of two groups of two environments that end at steps of their own, begun together.
func episodic(seed uint64) tensor.Dict {
	r := randomRollout(seed, 16, 0, 4)
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

func groupSetup(adv string, change ...func(*Setup)) Setup {
	return setup(append([]func(*Setup){func(s *Setup) {
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
	prepare := func(s Setup) (tensor.Dict, *PPO) {
		a := test.Must(Builtin().New(s))(t)
		r := episodic(3)
		test.OK(t, a.Prepare(&r))
		return r, familyOf(a)
	}
	each := func(r tensor.Dict, want func(env int) (adv, weight float64)) {
		t.Helper()
		for i, m := range r.Must("mask").U8() {
			adv, weight := want(i % 4)
			near(t, "weight", float64(r.Must("weight").F32()[i]), weight*float64(m), 1e-6)
			if m == 1 && weight > 0 {
				near(t, "advantage", float64(r.Must("advantage").F32()[i]), adv, 1e-5)
			}
		}
	}
	r, _ := prepare(groupSetup("grpo"))
	s := score(r)
	each(r, func(env int) (float64, float64) { // of a pair the deviation is |s - s'|/√2
		return math.Copysign(math.Sqrt2/2, s[env]-s[env^1]), 1
	})
	lo, hi := (s[0]+s[1])/2-0.1, (s[0]+s[1])/2+0.1
	r, _ = prepare(groupSetup("grpo", func(s *Setup) {
		s.Config.FilterRewards, s.Config.RewardsLowerBound, s.Config.RewardsUpperBound = true, float32(lo), float32(hi)
	}))
	each(r, func(env int) (float64, float64) {
		if env >= 2 {
			return 0, 0
		}
		return math.Copysign(math.Sqrt2/2, s[env]-s[env^1]), 1
	})
	for _, baseline := range []bool{false, true} {
		r, _ = prepare(groupSetup("reinpp", func(s *Setup) { s.Config.UseReinppBaseline = baseline }))
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
		each(r, func(env int) (float64, float64) { return (raw[env] - mean) / (std + normEps), 1 })
	}
}

// TestNoGroupKept: an update without samples measures nothing. Its metrics are None, not the NaN of a computation.
func TestNoGroupKept(t *testing.T) {
	a := test.Must(Builtin().New(groupSetup("grpo", func(s *Setup) {
		s.Config.FilterRewards, s.Config.RewardsLowerBound, s.Config.RewardsUpperBound = true, 1e6, 1e7
	})))(t)
	r := episodic(3)
	test.OK(t, a.Prepare(&r))
	m := test.Must(a.Update(r))(t)
	for i, x := range m.Values {
		if x != x && !IsNone(x) {
			t.Errorf("%s is %v", m.Names[i], x)
		}
	}
	if x, _ := m.Get("actor/policy_loss"); !IsNone(x) {
		t.Errorf("a loss of %v without samples", x)
	}
	if loss, ok := Loss(a, m); !ok || !IsNone(loss) {
		t.Errorf("a loss of %v without samples", loss)
	}
}

// familyOf returns the part of an algorithm that trains as PPO does.
func familyOf(a Algorithm) *PPO {
	if g, ok := a.(*GRPO); ok {
		return g.PPO
	}
	return a.(*PPO)
}

// Two replicas, each with half of the groups, learn the same as one replica with all of them.
func TestGroupsOverReplicas(t *testing.T) {
	update := func(s Setup, lo, hi int) []float32 {
		a, err := Builtin().New(s)
		if err != nil {
			t.Error(err)
			return nil
		}
		whole, r := episodic(3), tensor.Dict{}
		for i := range whole.Len() {
			name, x := whole.Entry(i)
			shape := x.Shape()
			shape[1] = hi - lo
			half := tensor.New(x.DType(), shape...)
			for k := range 16 {
				half.At(k).CopyFrom(x.At(k).Slice(lo, hi))
			}
			r.Set(name, half)
		}
		test.Check(t, a.Prepare(&r))
		if _, err := a.Update(r); err != nil {
			t.Error(err)
		}
		return familyOf(a).train.params.Data
	}
	for _, adv := range []string{"grpo", "reinpp"} {
		change := func(s *Setup) {
			s.Config.LossAggFunc, s.Config.UpdateEpoch = SeqMeanTokenMean, 3
			s.Config.UseReinppBaseline = adv == "reinpp"
		}
		want := update(groupSetup(adv, change), 0, 4)
		members := newTeam(2)
		var wg sync.WaitGroup
		for i := range 2 {
			wg.Go(func() {
				got := update(groupSetup(adv, change, func(s *Setup) {
					s.Envs, s.Replicas = 2, &replica{team: members, member: i}
				}), 2*i, 2*i+2)
				for k, x := range got {
					near(t, adv+": parameter", float64(x), float64(want[k]), 1e-6)
				}
			})
		}
		wg.Wait()
	}
}

func TestGroupErrors(t *testing.T) {
	prepare := func(s Setup, r tensor.Dict) error {
		a, err := Builtin().New(s)
		if err != nil {
			return err
		}
		return a.Prepare(&r)
	}
	grpo := func(change ...func(*Setup)) Setup { return groupSetup("grpo", change...) }
	for _, c := range []struct {
		want   string
		setup  func(change ...func(*Setup)) Setup
		change func(*Setup)
	}{
		{"grpo: rollout: 4 environments on each replica: expected a multiple of the group_size 3", grpo,
			func(s *Setup) { s.GroupSize = 3 }},
		{"a2c: global_batch_size 32: expected the whole rollout, 128 samples", setup,
			func(s *Setup) { s.Config.LossType, s.Config.UpdateEpoch = "a2c", 1 }},
		{"algorithm.update_epoch: 2: expected 1", setup, func(s *Setup) { s.Config.LossType = "a2c" }},
		{"algorithm.filter_rewards: true: expected false (adv_type gae", setup,
			func(s *Setup) { s.Config.FilterRewards = true }},
		{"algorithm.use_reinpp_baseline: true: expected false", grpo,
			func(s *Setup) { s.Config.UseReinppBaseline = true }},
		{"algorithm.reinpp_kl_beta: 1: expected a number >= 0, with adv_type reinpp", grpo,
			func(s *Setup) { s.Config.ReinppKLBeta = 1 }},
		{"algorithm.recompute_advantages: true: expected false", grpo,
			func(s *Setup) { s.Config.RecomputeAdvantages = true }},
		{"algorithm.kl_penalty_type: k4: expected kl, abs", setup, func(s *Setup) { s.Config.KLPenaltyType = "k4" }},
		{"algorithm.loss_agg_func: mean: expected token-mean", setup, func(s *Setup) { s.Config.LossAggFunc = "mean" }},
		{"algorithm.rewards_upper_bound: -1: expected at least rewards_lower_bound, 0", grpo,
			func(s *Setup) { s.Config.FilterRewards, s.Config.RewardsUpperBound = true, -1 }},
		{"a reference policy: this policy's parameters cannot be exchanged (nn.Params", setup,
			func(s *Setup) { s.Config.KLBeta = 1 }},
	} {
		err := prepare(c.setup(c.change), episodic(1))
		test.Fails(t, err, c.want)
	}
	err := prepare(groupSetup("reinpp"), randomRollout(1, 16, 0, 4))
	test.Fails(t, err, "must begin together, as without auto_reset")
}

// Recomputed advantages are GAE's with the values of the present critic. Where an episode ended, the recorded value
// of the next observation stays.
func TestRecomputedAdvantages(t *testing.T) {
	p := mustPPO(t, setup(func(s *Setup) {
		s.Config.RecomputeAdvantages, s.Config.NormalizeAdvantages = true, NormalizeNone
	}))
	r := randomRollout(2, 16, 0, 8)
	test.OK(t, p.Prepare(&r))
	copy(p.train.params.Data[16:], []float32{0.5, -1, 2}) // the critic
	test.OK(t, p.recompute.recomputeAdvantages(r))
	value := func(i int) float32 {
		x := r.Must("observation.state").F32()[3*i:]
		return float32(0.5*float64(x[0]) - float64(x[1]) + 2*float64(x[2]))
	}
	tr, _, err := p.advantages.trajectory(r)
	test.OK(t, err)
	old := *tr
	tr.Value, tr.Next = make([]float32, 128), make([]float32, 128)
	for i := range tr.Value {
		tr.Value[i], tr.Next[i] = value(i), old.Next[i]
		if i+8 < 128 && tr.Terminated[i]|tr.Truncated[i] == 0 {
			tr.Next[i] = value(i + 8)
		}
	}
	adv, ret := make([]float32, 128), make([]float32, 128)
	GAE(adv, ret, tr, 0.9, 0.95)
	for i := range adv {
		near(t, "advantage", float64(r.Must("advantage").F32()[i]), float64(adv[i]), 1e-5)
		near(t, "return", float64(r.Must("return").F32()[i]), float64(ret[i]), 1e-5)
	}
	test.Must(p.Update(r))(t)
}
