package algo

import (
	"slices"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/tensor"
)

// Four steps of two environments, twice: the first ends its episodes after 2 and 4 steps, the second after 3 and 1.
func twoEpochs() (*Trajectory, []uint8) {
	tr := &Trajectory{T: 8, N: 2, Reward: make([]float32, 16), Terminated: make([]uint8, 16),
		Truncated: make([]uint8, 16)}
	mask := make([]uint8, 16)
	for env, lengths := range [][]int{{2, 4}, {3, 1}} {
		for epoch, n := range lengths {
			for t := range 4 {
				i := (4*epoch+t)*2 + env
				tr.Reward[i] = 100 // rewards of idle environments must not count
				if t < n {
					tr.Reward[i], mask[i] = float32(1+epoch), 1
				}
				if t == n-1 {
					tr.Terminated[i] = 1
				}
				if t == 3 && n < 4 {
					tr.Truncated[i] = 1
				}
			}
		}
	}
	return tr, mask
}

func TestEpisodes(t *testing.T) {
	tr, mask := twoEpochs()
	e := newEpisodes(16)
	for range 2 { // the second time in the same memory
		e.find(tr, mask)
	}
	if want := []int32{0, 1, 0, 1, -1, 1, -1, -1, 2, 3, 2, -1, 2, -1, 2, -1}; !slices.Equal(e.of, want) {
		t.Errorf("samples are of episodes %v, want %v", e.of, want)
	}
	if !slices.Equal(e.score, []float64{2, 3, 8, 2}) || !slices.Equal(e.steps, []int{2, 3, 4, 1}) {
		t.Errorf("scores %v, steps %v", e.score, e.steps)
	}
	// the group with the mean 2.5 is kept, not the one with 5
	weight := settled(t, tr, mask, groups{size: 2, envs: 2, filter: true, lower: 2.5, upper: 4})
	for i, k := range e.of {
		if want := float32(0); k == 0 || k == 1 {
			near(t, "weight of a kept group", float64(weight[i]), 1, 0)
		} else if weight[i] != want {
			t.Errorf("weight %v of a sample of episode %d", weight[i], k)
		}
	}

	tr.Truncated[0] = 1 // now the first environment begins another episode by itself
	e.find(tr, mask)
	if err := e.divide(2, 2); err == nil || !strings.Contains(err.Error(),
		"episode 2 begins at step 1 of environment 0") {
		t.Errorf("%v", err)
	}
}

// settled returns the weights of samples after g has dropped groups.
func settled(t *testing.T, tr *Trajectory, mask []uint8, g groups) []float32 {
	t.Helper()
	x := &experience{Trajectory: tr, Weight: make([]float32, len(mask)), Episodes: newEpisodes(len(mask))}
	for i, m := range mask {
		x.Weight[i] = float32(m)
	}
	x.Episodes.find(tr, mask)
	test.OK(t, g.settle(x))
	return x.Weight
}

// The weights make the mean over samples the named aggregate, for losses that differ in every sample.
func TestAggregates(t *testing.T) {
	tr, mask := twoEpochs()
	e := newEpisodes(16)
	loss := func(i int) float64 { return float64(i*i) + 1 }
	perEpisode := make([]float64, 4)
	steps := []float64{2, 3, 4, 1}
	e.find(tr, mask)
	var total float64
	for i, k := range e.of {
		if k >= 0 {
			perEpisode[k] += loss(i)
			total += loss(i)
		}
	}
	var sums, means float64
	for k, sum := range perEpisode {
		sums += sum / 4
		means += sum / steps[k] / 4
	}
	for how, want := range map[string]float64{TokenMean: total / 10, SeqMeanTokenSum: sums, SeqMeanTokenMean: means} {
		e.find(tr, mask)
		weight := make([]float32, 16)
		for i, m := range mask {
			weight[i] = float32(m)
		}
		test.OK(t, e.spread(weight, how, Single{}))
		var got float64
		for i, w := range weight {
			got += float64(w) * loss(i) / 10
		}
		near(t, how, got, want, 1e-4)
	}
}

// In an update of the whole rollout at once the gradient is that of the aggregate: by samples or by episodes,
// over all replicas.
func TestAggregateInUpdate(t *testing.T) {
	step := func(how string) []float32 {
		p := test.Must(NewGRPO(setup(func(s *Setup) {
			s.Steps, s.Envs, s.GlobalBatch, s.GroupSize = 8, 2, 16, 2
			s.Config.AdvType, s.Config.LossType, s.Config.LossAggFunc, s.Config.UpdateEpoch = "grpo", "actor", how, 1
			s.Optim.ClipGrad = 0
		})))(t)
		tr, mask := twoEpochs()
		r := randomRollout(1, 8, 0, 2)
		r.Set("reward", tensor.FromF32(tr.Reward, 8, 2))
		r.Set("terminated", tensor.FromU8(tr.Terminated, 8, 2))
		r.Set("truncated", tensor.FromU8(tr.Truncated, 8, 2))
		r.Set("mask", tensor.FromU8(mask, 8, 2))
		for i := range r.Must("sample_log_prob").F32() {
			r.Must("sample_log_prob").F32()[i] = -0.6931472
		}
		test.OK(t, p.Prepare(&r))
		test.Must(p.Update(r))(t)
		// by hand: the policy starts with even odds, where ∇ of the ratio by the logits is [a=k] - ½
		want := make([]float64, 6)
		// scores 2, 3 and 8, 2: A = ∓½/(0.5√2 + 1e-6), ±3/(3√2 + 1e-6)
		adv := []float64{-0.7071058, 0.7071058, 0.7071066, -0.7071066}
		steps := []float64{2, 3, 4, 1}
		of := []int{0, 1, 0, 1, -1, 1, -1, -1, 2, 3, 2, -1, 2, -1, 2, -1}
		for i, k := range of {
			if k < 0 {
				continue
			}
			w := map[string]float64{TokenMean: 1.0 / 10, SeqMeanTokenMean: 1 / steps[k] / 4,
				SeqMeanTokenSum: 1.0 / 4}[how]
			for x := range 3 {
				for a := range 2 {
					d := -0.5
					if int(r.Must("action").I32()[i]) == a {
						d = 0.5
					}
					want[2*x+a] -= w * adv[k] * d * float64(r.Must("observation.state").F32()[3*i+x])
				}
			}
		}
		for i, g := range want {
			near(t, how+": gradient", float64(p.train.params.Grad[i]), g, 1e-5)
		}
		return p.train.params.Grad
	}
	for _, how := range []string{TokenMean, SeqMeanTokenMean, SeqMeanTokenSum} {
		step(how)
	}
}
