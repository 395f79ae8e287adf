package algo_test

import (
	"fmt"
	"math"
	"sync"
	"testing"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/internal/philox"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/tensor"
)

// scaling returns PPO that divides rewards by the deviation of the discounted return. Without a critic and with λ = 0
// an advantage is the divided reward.
func scaling(t *testing.T, gamma, clip float32, steps, envs int, r algo.Replicas) ppoRun {
	t.Helper()
	replicas, _ := r.Count()
	return mustPPO(t, ppoSetup(func(s *algo.Setup) {
		s.Steps, s.Envs, s.GlobalBatch, s.Replicas = steps, envs, steps*envs*replicas, r
		s.Config.LossType, s.Config.Gamma, s.Config.GAELambda = "actor", gamma, 0
		s.Config.NormalizeRewards, s.Config.RewardClip = true, clip
		s.Config.NormalizeAdvantages = algo.NormalizeNone
	}))
}

// moments returns the number and the mean of the returns so far, and the running return of each environment.
func moments(t *testing.T, p ppoRun) (n, mean float64, running []float64) {
	t.Helper()
	d := test.Must(p.Save())(t)
	m := d.Must("reward.moments").F64()
	return m[0], m[1], d.Must("env.return").F64()
}

// The deviation is that of all discounted returns so far, computed in one pass in float64. A return starts anew after
// an end of either kind, and continues from one rollout to the next. The division of environments among replicas has no
// effect.
func TestRewardScale(t *testing.T) {
	const T, N, gamma, clip = 20, 6, 0.9, 1.5
	one, tight := scaling(t, gamma, clip, T, N, algo.Single{}), scaling(t, gamma, 0.1, T, N, algo.Single{})
	var two [2]ppoRun
	for m, r := range algo.NewTeam(2) {
		two[m] = scaling(t, gamma, clip, T, N/2, r)
	}
	var returns []float64 // all so far
	var running [N]float64
	for k := range 3 {
		r := paidRollout(uint64(k), T, N)
		reward := r.Must("reward").F32()
		for i, x := range reward {
			running[i%N] = gamma*running[i%N] + float64(x)
			returns = append(returns, running[i%N])
			if r.Must("terminated").U8()[i]|r.Must("truncated").U8()[i] == 1 {
				running[i%N] = 0
			}
		}
		halves := [2]tensor.Dict{environments(r, 0, N/2), environments(r, N/2, N)}
		test.OK(t, tight.Prepare(&r))
		checkScaled(t, fmt.Sprintf("rollout %d, clipped", k), r.Must("advantage").F32(), reward, returns, 0.1)
		test.OK(t, one.Prepare(&r))
		checkScaled(t, fmt.Sprintf("rollout %d, one replica", k), r.Must("advantage").F32(), reward, returns, clip)

		var wg sync.WaitGroup
		for m := range two {
			wg.Go(func() { test.Check(t, two[m].Prepare(&halves[m])) })
		}
		wg.Wait()
		for m, half := range halves {
			checkScaled(t, fmt.Sprintf("rollout %d, replica %d of two", k, m), half.Must("advantage").F32(),
				half.Must("reward").F32(), returns, clip)
		}
		a, b := test.Must(two[0].Save())(t), test.Must(two[1].Save())(t)
		test.Equal(t, algo.RewardScale(a), algo.RewardScale(b), "moments of the replicas")
	}
}

// A lost episode is left out of the moments from the rollout in which it was lost, and the return of the next episode
// begins with 0.
func TestRewardScaleAfterALostEpisode(t *testing.T) {
	p := scaling(t, 0.5, 10, 2, 2, algo.Single{})
	for _, x := range []struct {
		reward          []float32
		truncated, mask []uint8
	}{
		{[]float32{8, 1, 8, 1}, []uint8{0, 0, 0, 0}, []uint8{1, 1, 1, 1}},
		// the first environment's episode is lost in its first step, and its next episode has one step so far
		{[]float32{8, 1, 2, 1}, []uint8{1, 0, 0, 0}, []uint8{0, 1, 1, 1}},
	} {
		r := algo.NewRollout(2, 2, 3)
		r.Set("reward", tensor.FromF32(x.reward, 2, 2))
		r.Set("truncated", tensor.FromU8(x.truncated, 2, 2))
		r.Set("mask", tensor.FromU8(x.mask, 2, 2))
		test.OK(t, p.Prepare(&r))
	}
	// returns 8 and 12, then 2; returns 1, 1.5, 1.75 and 1.875
	n, mean, running := moments(t, p)
	if want := (8 + 12 + 2 + 1 + 1.5 + 1.75 + 1.875) / 7; n != 7 || math.Abs(mean-want) > 1e-12 {
		t.Errorf("%v returns with mean %v, want 7 with %v", n, mean, want)
	}
	test.EqualSlices(t, running, []float64{2, 1.875}, "running returns")
}

// paidRollout has random rewards far from 0, where sums lose digits, and random ends.
func paidRollout(number uint64, steps, envs int) tensor.Dict {
	r := algo.NewRollout(steps, envs, 3)
	s := philox.New(11, philox.Init, number, 0)
	for i := range steps * envs {
		r.Must("reward").F32()[i] = float32(100 + s.Uniform(-1, 5))
		r.Must("terminated").U8()[i], r.Must("truncated").U8()[i] = uint8(s.IntN(9)/8), uint8(s.IntN(9)/8)
	}
	return r
}

// environments returns a copy of the environments lo to hi-1 of a rollout.
func environments(whole tensor.Dict, lo, hi int) (part tensor.Dict) {
	for i := range whole.Len() {
		name, x := whole.Entry(i)
		shape := x.Shape()
		shape[1] = hi - lo
		y := tensor.New(x.DType(), shape...)
		for k := range shape[0] {
			y.At(k).CopyFrom(x.At(k).Slice(lo, hi))
		}
		part.Set(name, y)
	}
	return part
}

// checkScaled checks that got are the rewards divided by the deviation of returns, and clipped.
func checkScaled(t *testing.T, name string, got, reward []float32, returns []float64, clip float64) {
	t.Helper()
	var mean, variance float64
	for _, x := range returns {
		mean += x / float64(len(returns))
	}
	for _, x := range returns {
		variance += (x - mean) * (x - mean) / float64(len(returns))
	}
	for i, r := range reward {
		want := min(max(float64(r)/math.Sqrt(variance), -clip), clip)
		if math.Abs(float64(got[i])-want) > 1e-5*math.Abs(want) {
			t.Fatalf("%s: reward %v became %v, want %v", name, r, got[i], want)
		}
	}
}
