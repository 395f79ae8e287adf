package algo

import "github.com/rlinf/rlinf/tensor"

// An Algorithm turns rollouts into better parameters. It is made with the Policy that it trains,
// and knows nothing of ranks.
type Algorithm interface {
	// Prepare adds what Update needs to rollout: advantage and return, [T,N]. It may read
	// statistics of all replicas.
	Prepare(rollout *tensor.Dict) error
	// Update trains on a prepared rollout and returns metrics, already the same on every replica.
	Update(rollout tensor.Dict) (Metrics, error)
	// Save returns views of the state beside the policy's parameters: optimiser moments, counters,
	// reward statistics. What stands under env. has one row for each of this replica's
	// environments; all else is the same on every replica.
	Save() (tensor.Dict, error)
	// Load puts back what Save returned.
	Load(tensor.Dict) error
}

// Metrics are named figures of one update, in a fixed order: names under RLinf's
// (actor/policy_loss, critic/value_loss, …).
type Metrics struct {
	Names  []string
	Values []float64
}

// A Reducer sums over the data-parallel replicas, always in the same order. It is all that an
// algorithm asks of the outside world: roles passes the actor group's, a test passes a fake, and
// Single stands for one replica. Every replica calls the same methods in the same order.
type Reducer interface {
	// Replicas returns how many there are, and which one this is.
	Replicas() (n, this int)
	// Sum adds x over the replicas, in place.
	Sum(x []float64) error
	// Gradient opens the summing of a flat gradient; see GradientSum.
	Gradient(grad []float32) GradientSum
}

// A GradientSum sums one flat gradient over the replicas while the backward pass still fills it.
type GradientSum interface {
	// Ready says that grad[lo:hi] is final here; its sum may start.
	Ready(lo, hi int)
	// Wait returns when all of grad holds the sum. Ranges never made ready are summed too. final is
	// told each range once it holds the sum, and as a rule while it is still in the cache; nil:
	// nobody is.
	Wait(final func(lo, hi int)) error
}
