package algo

import (
	"fmt"
	"math"
	"sync"
	"testing"

	"github.com/rlinf/rlinf/internal/philox"
	"github.com/rlinf/rlinf/internal/test"
)

// The deviation is that of all discounted returns so far, computed in one pass in float64. A return starts anew after
// an end of either kind, and continues from one rollout to the next. The division of environments among replicas has no
// effect.
func TestRewardScale(t *testing.T) {
	const T, N, gamma, clip = 20, 6, 0.9, 1.5
	one := newRewardScale(gamma, clip, N)
	two := [2]*rewardScale{newRewardScale(gamma, clip, N/2), newRewardScale(gamma, clip, N/2)}
	members := newTeam(2)
	var returns []float64 // all so far
	var running [N]float64
	for k, tr := range paidTrajectories(3, T, N) {
		for i, r := range tr.Reward {
			running[i%N] = gamma*running[i%N] + float64(r)
			returns = append(returns, running[i%N])
			if tr.Terminated[i]|tr.Truncated[i] == 1 {
				running[i%N] = 0
			}
		}
		test.OK(t, one.learn(&tr, nil, Single{}))
		checkScaled(t, fmt.Sprintf("rollout %d, one replica", k), one, tr.Reward, returns)

		var wg sync.WaitGroup
		for m, s := range two {
			half := halfOf(&tr, m)
			wg.Go(func() {
				test.Check(t, s.learn(half, nil, &replica{team: members, member: m}))
			})
		}
		wg.Wait()
		if two[0].moments.F64()[2] != two[1].moments.F64()[2] {
			t.Error("replicas have different moments")
		}
		checkScaled(t, fmt.Sprintf("rollout %d, two replicas", k), two[0], tr.Reward, returns)
	}
}

// A lost episode is left out of the moments from the rollout in which it was lost, and the return of the next episode
// begins with 0.
func TestRewardScaleAfterALostEpisode(t *testing.T) {
	s := newRewardScale(0.5, 10, 2)
	for _, tr := range []struct {
		reward          []float32
		truncated, mask []uint8
	}{
		{[]float32{8, 1, 8, 1}, []uint8{0, 0, 0, 0}, []uint8{1, 1, 1, 1}},
		// the first environment's episode is lost in its first step, and its next episode has one step so far
		{[]float32{8, 1, 2, 1}, []uint8{1, 0, 0, 0}, []uint8{0, 1, 1, 1}},
	} {
		rollout := &Trajectory{T: 2, N: 2, Reward: tr.reward, Terminated: make([]uint8, 4), Truncated: tr.truncated}
		test.OK(t, s.learn(rollout, tr.mask, Single{}))
	}
	// returns 8 and 12, then 2; returns 1, 1.5, 1.75 and 1.875
	want, n := (8+12+2+1+1.5+1.75+1.875)/7, 7.0
	if m := s.moments.F64(); m[0] != n || math.Abs(m[1]-want) > 1e-12 {
		t.Errorf("%v returns with mean %v, want %v with %v", m[0], m[1], n, want)
	}
	if got := s.running.F64(); got[0] != 2 || got[1] != 1.875 {
		t.Errorf("running returns %v, want 2 and 1.875", got)
	}
}

// paidTrajectories have random rewards far from 0, where sums lose digits, and random ends.
func paidTrajectories(n, steps, envs int) []Trajectory {
	s := philox.New(11, philox.Init, 0, 0)
	all := make([]Trajectory, n)
	for k := range all {
		all[k] = Trajectory{T: steps, N: envs}
		for range steps * envs {
			all[k].Reward = append(all[k].Reward, float32(100+s.Uniform(-1, 5)))
			all[k].Terminated = append(all[k].Terminated, uint8(s.IntN(9)/8))
			all[k].Truncated = append(all[k].Truncated, uint8(s.IntN(9)/8))
		}
	}
	return all
}

// halfOf has half of the environments of tr: the first half, or for 1 the second.
func halfOf(tr *Trajectory, half int) *Trajectory {
	n := tr.N / 2
	part := &Trajectory{T: tr.T, N: n}
	for i := range tr.Reward {
		if i%tr.N/n == half {
			part.Reward = append(part.Reward, tr.Reward[i])
			part.Terminated = append(part.Terminated, tr.Terminated[i])
			part.Truncated = append(part.Truncated, tr.Truncated[i])
		}
	}
	return part
}

// checkScaled checks that s divides rewards by the deviation of returns, and clips them.
func checkScaled(t *testing.T, name string, s *rewardScale, reward []float32, returns []float64) {
	t.Helper()
	got := make([]float32, len(reward))
	s.scale(got, reward)
	var mean, variance float64
	for _, x := range returns {
		mean += x / float64(len(returns))
	}
	for _, x := range returns {
		variance += (x - mean) * (x - mean) / float64(len(returns))
	}
	clip := float64(s.clip)
	for i, r := range reward {
		want := min(max(float64(r)/math.Sqrt(variance), -clip), clip)
		if math.Abs(float64(got[i])-want) > 1e-5*math.Abs(want) {
			t.Fatalf("%s: reward %v became %v, want %v", name, r, got[i], want)
		}
	}
}
