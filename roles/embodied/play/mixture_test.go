package play

import (
	"math"
	"slices"
	"testing"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/tensor"
)

// TestMixture: the expert acts in a share β of the environments. The choice does not depend on which environments act
// together. β changes from rollout to rollout.
func TestMixture(t *testing.T) {
	const n, steps = 8, 500
	m := Mixture{Schedule: algo.DaggerConfig{InitBeta: 1, BetaDecay: 0.25}}
	expert, action := tensor.New(tensor.F32, n, 1, 2), tensor.New(tensor.F32, n, 1, 2)
	for i := range expert.F32() {
		expert.F32()[i] = float32(1 + i)
	}
	noise := func(first, n int, step uint64) policy.Noise {
		x := policy.Noise{Seed: 3, Env: make([]uint64, n), Step: slices.Repeat([]uint64{step}, n)}
		for i := range n {
			x.Env[i] = uint64(first + i)
		}
		return x
	}
	for iteration, share := range []float64{1, 0.25, 0.0625} {
		m.begin(uint64(iteration))
		taken := 0
		for step := range uint64(steps) {
			action.Zero()
			m.replace(policy.Act{Action: action}, expert, noise(0, n, step))
			whole := slices.Clone(action.F32())
			action.Zero()
			for _, part := range [][2]int{{0, 3}, {3, n}} {
				lo, hi := part[0], part[1]
				m.replace(policy.Act{Action: tensor.New(tensor.F32, hi-lo, 1, 2), Bounded: action.Slice(lo, hi)},
					expert.Slice(lo, hi), noise(lo, hi-lo, step))
			}
			if !slices.Equal(action.F32(), whole) {
				t.Fatalf("step %d: %v in two parts, %v in one", step, action.F32(), whole)
			}
			for i := range n {
				switch a := whole[2*i : 2*i+2]; {
				case slices.Equal(a, expert.F32()[2*i:2*i+2]):
					taken++
				case a[0] != 0 || a[1] != 0:
					t.Fatalf("step %d, environment %d: %v, which is neither's", step, i, a)
				}
			}
		}
		if got, sd := float64(taken)/(n*steps), math.Sqrt(share*(1-share)/(n*steps)); math.Abs(got-share) > 4*sd {
			t.Errorf("iteration %d: the expert acts in %v of the steps, want %v ± %v", iteration, got, share, 4*sd)
		}
	}
}
