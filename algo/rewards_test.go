package algo

import (
	"math"
	"sync"
	"testing"

	"github.com/rlinf/rlinf/internal/philox"
)

// The deviation is that of all discounted returns seen so far, in one pass over them in float64; returns start anew after an end of either
// kind and go on from one rollout to the next; however the environments are spread over replicas.
func TestRewardScale(t *testing.T) {
	const T, N, rollouts, gamma, clip = 20, 6, 3, 0.9, 1.5
	s := philox.New(11, philox.Init, 0, 0)
	all := make([]Trajectory, rollouts)
	for k := range all {
		all[k] = Trajectory{T: T, N: N}
		for range T * N {
			all[k].Reward = append(all[k].Reward, float32(100+s.Uniform(-1, 5))) // far from 0: sums must not lose digits
			all[k].Terminated = append(all[k].Terminated, uint8(s.IntN(9)/8))
			all[k].Truncated = append(all[k].Truncated, uint8(s.IntN(9)/8))
		}
	}
	var returns []float64
	var running [N]float64
	check := func(name string, k int, got, reward []float32) {
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
				t.Fatalf("%s: rollout %d: reward %v became %v, want %v", name, k, r, got[i], want)
			}
		}
	}
	one := newRewardScale(gamma, clip, N)
	two := [2]*rewardScale{newRewardScale(gamma, clip, N/2), newRewardScale(gamma, clip, N/2)}
	members := newTeam(2)
	for k := range all {
		tr := &all[k]
		for i, r := range tr.Reward {
			running[i%N] = gamma*running[i%N] + float64(r)
			returns = append(returns, running[i%N])
			if tr.Terminated[i]|tr.Truncated[i] == 1 {
				running[i%N] = 0
			}
		}
		dst := make([]float32, T*N)
		if err := one.learn(tr, nil, Single{}); err != nil {
			t.Fatal(err)
		}
		one.scale(dst, tr.Reward)
		check("one replica", k, dst, tr.Reward)

		var wg sync.WaitGroup
		for m, s := range two {
			part := &Trajectory{T: T, N: N / 2}
			for i := range tr.Reward {
				if i%N/(N/2) == m {
					part.Reward = append(part.Reward, tr.Reward[i])
					part.Terminated = append(part.Terminated, tr.Terminated[i])
					part.Truncated = append(part.Truncated, tr.Truncated[i])
				}
			}
			wg.Go(func() {
				if err := s.learn(part, nil, &replica{team: members, member: m}); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if two[0].moments.F64()[2] != two[1].moments.F64()[2] {
			t.Error("replicas have different moments")
		}
		two[0].scale(dst, tr.Reward)
		check("two replicas", k, dst, tr.Reward)
	}
}
