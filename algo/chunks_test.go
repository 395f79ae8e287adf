package algo_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/tensor"
)

// chunked returns PPO for two chunks of two actions in two environments, with γ = λ = ½. Actions have two numbers in
// a box.
func chunked(t *testing.T, change func(*algo.Config)) ppoRun {
	t.Helper()
	s := ppoSetup(func(s *algo.Setup) {
		s.Config.Gamma, s.Config.GAELambda = 0.5, 0.5
		s.Config.UpdateEpoch, s.Config.NormalizeAdvantages, s.Optim.WeightDecay = 1, algo.NormalizeNone, 0
		s.Steps, s.Envs, s.Chunk, s.GlobalBatch = 2, 2, 2, 4
		change(&s.Config)
	})
	net := policy.DefaultConfig()
	net.NumActionChunks, net.LogProbType = 2, s.Config.LogProbType
	net.ActionValues = s.Config.RewardType == algo.ActionLevel
	inf := float32(math.Inf(1))
	box := env.Space{Kind: env.Box, DType: tensor.F32, Shape: []int{2}, Low: []float32{-inf, -inf},
		High: []float32{inf, inf}}
	var err error
	s.Policy, err = policy.NewMLP(net, env.Spec{Name: "box", Obs: []env.Field{{Name: "state", Space: box}},
		Action: box}, 1, tensor.Heap)
	test.OK(t, err)
	return mustPPO(t, s)
}

// chunkedRollout is, for environment 0, four steps within an episode; for environment 1 an episode that
// terminates with the first action of a chunk, and one that is cut off by the second of the next.
func chunkedRollout(level string) tensor.Dict {
	var d tensor.Dict
	d.Set("observation.state", tensor.FromF32([]float32{.1, .2, -.3, .4, .5, -.6, .7, .8}, 2, 2, 2))
	d.Set("action", tensor.FromF32([]float32{.1, -.2, .3, .4, .5, .6, -.7, .8, .9, 1, -1.1, 1.2, 1.3, -1.4, 1.5, 1.6},
		2, 2, 2, 2))
	d.Set("next_value", tensor.FromF32([]float32{30, 7, 50, 12}, 2, 2))
	if level == algo.ActionLevel {
		d.Set("reward", tensor.FromF32([]float32{1, 2, 5, 0, 3, 4, 1, 2}, 2, 2, 2))
		d.Set("value", tensor.FromF32([]float32{10, 20, 8, 9, 30, 40, 4, 6}, 2, 2, 2))
		d.Set("terminated", tensor.FromU8([]uint8{0, 0, 1, 0, 0, 0, 0, 0}, 2, 2, 2))
		d.Set("truncated", tensor.FromU8([]uint8{0, 0, 0, 0, 0, 0, 0, 1}, 2, 2, 2))
		return d
	}
	d.Set("reward", tensor.FromF32([]float32{3, 5, 7, 3}, 2, 2))
	d.Set("value", tensor.FromF32([]float32{10, 8, 30, 4}, 2, 2, 1))
	d.Set("terminated", tensor.FromU8([]uint8{0, 1, 0, 0}, 2, 2))
	d.Set("truncated", tensor.FromU8([]uint8{0, 0, 0, 1}, 2, 2))
	return d
}

// By hand. Environment 0 by actions: δ = 1+½·20-10, 2+½·30-20, 3+½·40-30, 4+½·50-40 = 1, -3, -7, -11, and A =
// δ + ¼ A of the next. Environment 1: 5-8; nothing; 1+½·6-4 + ¼·2; 2+½·12-6. By chunks: 7+½·50-30 = 2 and
// 3+½·30-10 + ¼·2; 5-8 and 3+½·12-4.
var (
	advantagesByAction = []float32{-0.359375, -5.4375, -3, 0, -9.75, -11, 0.5, 2}
	returnsByAction    = []float32{9.640625, 14.5625, 5, 0, 20.25, 29, 4.5, 8}
	countByAction      = []float32{1, 1, 1, 0, 1, 1, 1, 1}
	advantagesByChunk  = []float32{8.5, -3, 2, 5}
	returnsByChunk     = []float32{18.5, 5, 32, 9}
)

func TestAdvantagesByHandAtEachLevel(t *testing.T) {
	for _, level := range []string{algo.ChunkLevel, algo.ActionLevel} {
		p := chunked(t, func(c *algo.Config) { c.RewardType = level })
		r := chunkedRollout(level)
		r.Set("sample_log_prob", tensor.New(tensor.F32, 2, 2, 2))
		test.OK(t, p.Prepare(&r))
		adv, ret := r.Must("advantage"), r.Must("return")
		wantAdv, wantRet := advantagesByChunk, returnsByChunk
		if level == algo.ActionLevel {
			wantAdv, wantRet = advantagesByAction, returnsByAction
			if weight := r.Must("weight"); !slices.Equal(weight.F32(), countByAction) || !weight.SameShape(adv) {
				t.Errorf("%s: weights %v %v, want %v", level, weight, weight.F32(), countByAction)
			}
			adv.F32()[3], ret.F32()[3] = 0, 0 // of an action that was not taken: any
		}
		if !slices.Equal(adv.F32(), wantAdv) || !slices.Equal(ret.F32(), wantRet) {
			t.Errorf("%s: advantages %v, returns %v, want %v, %v", level, adv.F32(), ret.F32(), wantAdv, wantRet)
		}
	}
}

// At every level of rewards, log-probs and entropies, the loss of an update is the mean over the log-probs that
// count of the surrogate with the advantage of their action or chunk. The critic's loss compares each value with
// its return.
func TestLossAtEachLevel(t *testing.T) {
	const chunk, action, token = algo.ChunkLevel, algo.ActionLevel, algo.TokenLevel
	for _, c := range []struct {
		reward, logProb, entropy string
		each                     int     // log-probs of an advantage
		entropies                float64 // dimensions of an action's noise in one sum of entropies
	}{
		{chunk, chunk, chunk, 1, 4}, {chunk, action, action, 2, 2},
		{chunk, token, token, 4, 1},
		{action, action, action, 1, 2}, {action, token, token, 2, 1},
		{chunk, token, chunk, 4, 4}, {chunk, chunk, token, 1, 1},
		{action, token, action, 2, 2},
	} {
		t.Run(fmt.Sprint("reward ", c.reward, ", log-prob ", c.logProb, ", entropy ", c.entropy), func(t *testing.T) {
			p := chunked(t, func(cfg *algo.Config) {
				cfg.RewardType, cfg.LogProbType, cfg.EntropyType = c.reward, c.logProb, c.entropy
				cfg.ClipRatioLow, cfg.ClipRatioHigh, cfg.ClipRatioC = 1, 10, 0 // none
			})
			pol, r := p.of.Policy, chunkedRollout(c.reward)
			adv, ret, count := advantagesByChunk, returnsByChunk, []float32{1, 1, 1, 1}
			if c.reward == algo.ActionLevel {
				adv, ret, count = advantagesByAction, returnsByAction, countByAction
			}
			sampled := tensor.New(tensor.F32, 2, 2, len(adv)*c.each/4)
			test.OK(t, algo.LogProbs(sampled, pol, pol.NewWork(2), r, 0))
			policyLoss := movedLoss(sampled.F32(), adv, count, c.each)
			valueLoss := lossOfValues(t, pol, r, ret, count)
			r.Set("sample_log_prob", sampled)
			m := p.learn(t, &r)
			within(t, "policy loss", metric(t, m, "actor/policy_loss"), policyLoss, 1e-5)
			within(t, "value loss", metric(t, m, "critic/value_loss"), valueLoss, 1e-4)
			gauss := 0.5*math.Log(2*math.Pi*math.E) - 0.5 // of each dimension, with the log of its deviation at -0.5
			within(t, "entropy", metric(t, m, "actor/entropy_loss"), c.entropies*gauss, 1e-5)
		})
	}
}

// movedLoss lowers log-probs, as if the policy had moved since, and returns the policy's loss. Each advantage has each
// log-probs.
func movedLoss(logProb, adv, count []float32, each int) (loss float64) {
	n := 0.0
	for i := range logProb {
		off := 0.02 * float64(i%5)
		logProb[i] -= float32(off)
		if k := i / each; count[k] != 0 {
			loss -= float64(adv[k]) * math.Exp(off)
			n++
		}
	}
	return loss / n
}

// lossOfValues returns the loss of pol's values of r's two steps.
func lossOfValues(t *testing.T, pol policy.Policy, r tensor.Dict, ret, count []float32) (loss float64) {
	t.Helper()
	work, n := pol.NewWork(2), 0.0
	for i := range 2 {
		v := test.Must(pol.Value(work, statesOf(r, i)))(t)
		for j, x := range v.F32() {
			if k := i*len(v.F32()) + j; count[k] != 0 {
				loss += math.Pow(float64(x)-float64(ret[k]), 2) / 2
				n++
			}
		}
	}
	return loss / n
}

// statesOf returns the observations of step t of a rollout.
func statesOf(r tensor.Dict, t int) (obs tensor.Dict) {
	obs.Set("state", r.Must("observation.state").At(t))
	return obs
}

// With rewards of single actions, each action that was taken has the advantage of its episode in the group. Other
// actions have none.
func TestGRPOByActions(t *testing.T) {
	s := ppoSetup(func(s *algo.Setup) {
		s.Config.AdvType, s.Config.LossType, s.Config.RewardType = "grpo", "actor", algo.ActionLevel
		s.Steps, s.Envs, s.Chunk, s.GlobalBatch, s.GroupSize = 2, 2, 2, 4, 2
		s.Policy = chunked(t, func(*algo.Config) {}).of.Policy
	})
	g := test.Must(algo.NewGRPO(s))(t)
	r := chunkedRollout(algo.ActionLevel)
	r.Set("sample_log_prob", tensor.New(tensor.F32, 2, 2, 2))
	r.Set("mask", tensor.FromU8([]uint8{1, 1, 1, 0}, 2, 2)) // environment 1 idles when its episode is over
	test.OK(t, g.Prepare(&r))
	// Scores 10 and 5: ±2.5 off their mean, with deviation √12.5.
	a := float32(2.5 / (math.Sqrt(12.5) + 1e-6))
	if got, want := r.Must("advantage").F32(), []float32{a, a, -a, 0, a, a, 0, 0}; !slices.Equal(got, want) {
		t.Errorf("advantages %v, want %v", got, want)
	}
	if got, want := r.Must("weight").F32(), []float32{1, 1, 1, 0, 1, 1, 0, 0}; !slices.Equal(got, want) {
		t.Errorf("weights %v, want %v", got, want)
	}
}

// Advantages that are recomputed with the same critic are the same. The critic does not move.
func TestRecomputedAdvantagesOfActions(t *testing.T) {
	p := chunked(t, func(c *algo.Config) {
		c.RewardType, c.RecomputeAdvantages, c.UpdateEpoch, c.ValueLossCoef = algo.ActionLevel, true, 2, 0
	})
	pol, r := p.of.Policy, chunkedRollout(algo.ActionLevel)
	r.Set("sample_log_prob", tensor.New(tensor.F32, 2, 2, 2))
	value, next := r.Must("value"), r.Must("next_value").F32()
	for i := range 2 {
		v := test.Must(pol.Value(pol.NewWork(2), statesOf(r, i)))(t)
		value.At(i).CopyFrom(v)
	}
	next[0] = value.F32()[4] // environment 0 goes on with its next chunk
	test.OK(t, p.Prepare(&r))
	want := slices.Clone(r.Must("advantage").F32())
	clear(r.Must("advantage").F32())
	test.Must(p.Update(r))(t)
	if got := r.Must("advantage").F32(); !slices.Equal(got, want) {
		t.Errorf("anew %v, at first %v", got, want)
	}
}
