package play

import (
	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/internal/philox"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/tensor"
)

// A Mixture lets the environments' expert act instead of the policy in some steps, as in DAgger. In iteration i the
// policy is π_i = β_i π* + (1-β_i) π̂_i, a mixture of the expert π* and the trained policy π̂_i.
type Mixture struct {
	Schedule algo.DaggerConfig // gives the β of each rollout
	beta     float64           // the β of the present rollout
}

// begin sets β for a rollout.
func (m *Mixture) begin(iteration uint64) { m.beta = m.Schedule.Beta(iteration) }

// replace copies the expert's actions into act, for the environments in which the expert acts. expert has the shape
// [n,1,A]. The choice depends on β, the seed, the number of the environment, and the number of its step.
func (m *Mixture) replace(act policy.Act, expert tensor.Tensor, noise policy.Noise) {
	taken := act.Bounded
	if taken.IsZero() {
		taken = act.Action
	}
	row := len(taken.Bytes()) / taken.Dim(0)
	for i, number := range noise.Env {
		s := philox.New(noise.Seed, philox.Mixture, number, noise.Step[i])
		if s.Float64() < m.beta {
			copy(taken.Bytes()[i*row:(i+1)*row], expert.Bytes()[i*row:])
		}
	}
}
