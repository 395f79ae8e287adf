package algo_test

import (
	"math"
	"testing"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/internal/philox"
)

// Two environments, three steps; worked out by hand with γ = 0.5, λ = 0.5.
//
//	env 0: nothing ends.  δ = (1 + .5·4 - 2, 2 + .5·6 - 4, 3 + .5·8 - 6) = (1, 1, 1)
//	       A_2 = 1, A_1 = 1 + .25, A_0 = 1 + .25·1.25
//	env 1: cut off at step 0 with a next value of 10, terminated at step 1 with a next value of 100 that must not
//	       count.
//	       δ = (1 + .5·10 - 2, 2 - 4, 3 + .5·8 - 6) = (4, -2, 1);  A_0 = 4, A_1 = -2, A_2 = 1
func TestGAEByHand(t *testing.T) {
	tr := &algo.Trajectory{
		T: 3, N: 2,
		Reward:     []float32{1, 1, 2, 2, 3, 3},
		Value:      []float32{2, 2, 4, 4, 6, 6},
		Next:       []float32{4, 10, 6, 100, 8, 8},
		Terminated: []uint8{0, 0, 0, 1, 0, 0},
		Truncated:  []uint8{0, 1, 0, 0, 0, 0},
	}
	check := func(name string, want []float32) {
		t.Helper()
		adv, ret := make([]float32, 6), make([]float32, 6)
		algo.GAE(adv, ret, tr, 0.5, 0.5)
		for i := range want {
			if adv[i] != want[i] || ret[i] != want[i]+tr.Value[i] {
				t.Errorf("%s: step %d of environment %d: advantage %v, return %v; want %v, %v", name, i/2, i%2,
					adv[i], ret[i], want[i], want[i]+tr.Value[i])
			}
		}
	}
	check("standard", []float32{1.3125, 4, 1.25, -2, 1, 1})
	tr.BootstrapAlways = true // the termination goes on with .5·100, but still carries nothing from the next episode
	check("always", []float32{1.3125, 4, 1.25, 48, 1, 1})
	tr.BootstrapAlways, tr.Terminated[1] = false, 1 // both flags: the task ended at the step of the limit
	check("both", []float32{1.3125, -1, 1.25, -2, 1, 1})
}

// GAE is the sum Σ (γλ)^k δ_{t+k} over the rest of the episode.
func TestGAEIsTheSumOfDeltas(t *testing.T) {
	const T, N, gamma, lambda = 37, 5, 0.97, 0.9
	s := philox.New(1, philox.Init, 0, 0)
	tr := &algo.Trajectory{T: T, N: N}
	for range T * N {
		tr.Reward = append(tr.Reward, float32(s.Uniform(-1, 1)))
		tr.Value = append(tr.Value, float32(s.Uniform(-1, 1)))
		tr.Next = append(tr.Next, float32(s.Uniform(-1, 1)))
		tr.Terminated = append(tr.Terminated, uint8(s.IntN(8)/7))
		tr.Truncated = append(tr.Truncated, uint8(s.IntN(8)/7))
	}
	adv, ret := make([]float32, T*N), make([]float32, T*N)
	algo.GAE(adv, ret, tr, gamma, lambda)
	ends := 0
	for n := range N {
		for t0 := range T {
			want, weight := 0.0, 1.0
			for k := t0; k < T; k++ {
				i := k*N + n
				delta := float64(tr.Reward[i]) - float64(tr.Value[i])
				if tr.Terminated[i] == 0 {
					delta += gamma * float64(tr.Next[i])
				}
				want += weight * delta
				weight *= gamma * lambda
				if tr.Terminated[i] == 1 || tr.Truncated[i] == 1 {
					ends++
					break
				}
			}
			if i := t0*N + n; math.Abs(float64(adv[i])-want) > 1e-5 ||
				math.Abs(float64(ret[i])-want-float64(tr.Value[i])) > 1e-5 {
				t.Fatalf("step %d of environment %d: %v, want %v", t0, n, adv[i], want)
			}
		}
	}
	if ends < T { // else too few episodes ended for a test
		t.Fatalf("%d ends", ends)
	}
}
