package algo_test

import (
	"slices"
	"testing"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/tensor"
)

// twoEpochs is a rollout of two epochs of four steps in two environments: the first ends its episodes after 2 and 4
// steps, the second after 3 and 1. A step pays 1 in the first epoch and 2 in the second.
func twoEpochs() tensor.Dict {
	r := algo.RandomRollout(1, 8, 0, 2)
	mask := tensor.New(tensor.U8, 8, 2)
	r.Set("mask", mask)
	reward, terminated, truncated := r.Must("reward").F32(), r.Must("terminated").U8(), r.Must("truncated").U8()
	for env, lengths := range [][]int{{2, 4}, {3, 1}} {
		for epoch, n := range lengths {
			for t := range 4 {
				i := (4*epoch+t)*2 + env
				reward[i], terminated[i], truncated[i] = 100, 0, 0 // rewards of idle environments must not count
				if t < n {
					reward[i], mask.U8()[i] = float32(1+epoch), 1
				}
				if t == n-1 {
					terminated[i] = 1
				}
				if t == 3 && n < 4 {
					truncated[i] = 1
				}
			}
		}
	}
	return r
}

// episodeOf has the episode of each sample of twoEpochs, or -1. stepsOf has the lengths of its episodes.
var (
	episodeOf = []int{0, 1, 0, 1, -1, 1, -1, -1, 2, 3, 2, -1, 2, -1, 2, -1}
	stepsOf   = []float64{2, 3, 4, 1}
)

// pairs returns GRPO for rollouts like twoEpochs. It compares the first environment with the second.
func pairs(t *testing.T, change func(*algo.Setup)) (*algo.GRPO, algo.Setup) {
	t.Helper()
	s := groupSetup("grpo", func(s *algo.Setup) { s.Steps, s.Envs, s.GlobalBatch = 8, 2, 16 }, change)
	return test.Must(algo.NewGRPO(s))(t), s
}

// The return of a sample is the score of its episode: 2, 3, 8 and 2.
func TestEpisodes(t *testing.T) {
	a, _ := pairs(t, func(*algo.Setup) {})
	for range 2 { // the second time in the same memory
		r := twoEpochs()
		test.OK(t, a.Prepare(&r))
		test.EqualSlices(t, r.Must("return").F32(), []float32{2, 3, 2, 3, 0, 3, 0, 0, 8, 2, 8, 0, 8, 0, 8, 0})
	}
	r := twoEpochs()
	for i := range 16 { // episodes that fill their epochs end by a flag alone
		r.Must("mask").U8()[i], r.Must("reward").F32()[i], r.Must("truncated").U8()[i] = 1, 1, 0
		r.Must("terminated").U8()[i] = uint8(i / 2 % 4 / 3)
	}
	test.OK(t, a.Prepare(&r))
	test.EqualSlices(t, r.Must("return").F32(), slices.Repeat([]float32{4}, 16))
	r = twoEpochs()
	r.Must("truncated").U8()[0] = 1 // now the first environment begins another episode by itself
	test.Fails(t, a.Prepare(&r), "episode 2 begins at step 1 of environment 0")
}

// The group with the mean score 2.5 is kept, not the one with 5.
func TestGroupsWithinBounds(t *testing.T) {
	a, _ := pairs(t, func(s *algo.Setup) {
		s.Config.FilterRewards, s.Config.RewardsLowerBound, s.Config.RewardsUpperBound = true, 2.5, 4
	})
	r := twoEpochs()
	test.OK(t, a.Prepare(&r))
	test.EqualSlices(t, r.Must("weight").F32(), []float32{1, 1, 1, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0})
}

// The weights make the mean over samples the named aggregate, for losses that differ in every sample.
func TestAggregates(t *testing.T) {
	loss := func(i int) float64 { return float64(i*i) + 1 }
	perEpisode := make([]float64, 4)
	var total, sums, means float64
	for i, k := range episodeOf {
		if k >= 0 {
			perEpisode[k] += loss(i)
			total += loss(i)
		}
	}
	for k, sum := range perEpisode {
		sums += sum / 4
		means += sum / stepsOf[k] / 4
	}
	for how, want := range map[string]float64{algo.TokenMean: total / 10, algo.SeqMeanTokenSum: sums,
		algo.SeqMeanTokenMean: means} {
		a, _ := pairs(t, func(s *algo.Setup) { s.Config.LossAggFunc = how })
		r := twoEpochs()
		test.OK(t, a.Prepare(&r))
		var got float64
		for i, w := range r.Must("weight").F32() {
			got += float64(w) * loss(i) / 10
		}
		within(t, how, got, want, 1e-4)
	}
}

// In an update of the whole rollout at once the gradient is that of the aggregate: by samples or by episodes. By hand:
// the policy starts with even odds, where ∇ of the ratio by the logits is [a=k] - ½. For the scores 2, 3 and 8, 2 the
// advantages are A = ∓½/(0.5√2 + 1e-6) and ±3/(3√2 + 1e-6).
func TestAggregateInUpdate(t *testing.T) {
	adv := []float64{-0.7071058, 0.7071058, 0.7071066, -0.7071066}
	for how, weight := range map[string]func(k int) float64{
		algo.TokenMean:        func(int) float64 { return 1.0 / 10 },
		algo.SeqMeanTokenMean: func(k int) float64 { return 1 / stepsOf[k] / 4 },
		algo.SeqMeanTokenSum:  func(int) float64 { return 1.0 / 4 },
	} {
		a, s := pairs(t, func(s *algo.Setup) {
			s.Config.LossAggFunc, s.Config.UpdateEpoch, s.Optim.ClipGrad = how, 1, 0
		})
		r := twoEpochs()
		for i := range r.Must("sample_log_prob").F32() {
			r.Must("sample_log_prob").F32()[i] = -0.6931472
		}
		test.OK(t, a.Prepare(&r))
		test.Must(a.Update(r))(t)
		want := make([]float64, 6)
		for i, k := range episodeOf {
			if k < 0 {
				continue
			}
			for x := range 3 {
				for a := range 2 {
					d := -0.5
					if int(r.Must("action").I32()[i]) == a {
						d = 0.5
					}
					want[2*x+a] -= weight(k) * adv[k] * d * float64(r.Must("observation.state").F32()[3*i+x])
				}
			}
		}
		for i, g := range want {
			within(t, how+": gradient", float64(s.Policy.Params().Grad[i]), g, 1e-5)
		}
	}
}

func TestOverlongByHand(t *testing.T) {
	o := algo.Overlong{Weight: 2, Safe: 10, Max: 14}
	for n, want := range map[int]float64{1: 0, 10: 0, 11: -0.5, 13: -1.5, 14: -2, 20: -2} {
		test.Equal(t, o.Penalty(n), want, "%d steps", n)
	}
	test.Equal(t, algo.Overlong{}.Penalty(5), 0, "without a weight")
}

// The scores 2, 3, 8, 2 of episodes of 2, 3, 4 and 1 steps become 2, 1, 4, 2 by the penalty on their lengths. The
// scores before the penalty decide which groups are out of bounds: the means are 2.5 and 5 before it, 1.5 and 3 after.
func TestOverlongEpisodesScoreLess(t *testing.T) {
	a, _ := pairs(t, func(s *algo.Setup) {
		s.Config.LenRewardPenalty, s.Config.SafeLength, s.Config.MaxLength = 4, 2, 4
		s.Config.FilterRewards, s.Config.RewardsLowerBound, s.Config.RewardsUpperBound = true, 2.5, 4
	})
	r := twoEpochs()
	test.OK(t, a.Prepare(&r))
	test.EqualSlices(t, r.Must("return").F32(), []float32{2, 1, 2, 1, 0, 1, 0, 0, 4, 2, 4, 0, 4, 0, 4, 0})
	if w := r.Must("weight").F32(); slices.Contains(w[:4], 0) || w[8] != 0 {
		t.Errorf("weights %v, want those of the first group alone", w)
	}
}
