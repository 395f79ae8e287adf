package algo

import (
	"math"
	"slices"
	"strings"

	"github.com/rlinf/rlinf/tensor"
)

// An Algorithm trains a policy on rollouts. It communicates with other ranks only through Replicas.
type Algorithm interface {
	// Prepare adds to rollout the tensors that Update needs: advantage and return, [T,N] for T steps of N environments.
	// It can sum statistics over all replicas.
	Prepare(rollout *tensor.Dict) error
	// Update trains on a prepared rollout. It returns metrics, which are the same on every replica.
	Update(rollout tensor.Dict) (Metrics, error)
	// Save returns views of the state: optimiser moments, counters and reward statistics, but not the policy's
	// parameters. Tensors whose names begin with "env." have one row for each environment of this replica. All other
	// tensors are the same on every replica.
	Save() (tensor.Dict, error)
	// Load restores the state that Save returned.
	Load(tensor.Dict) error
}

// An Interruptible is an Algorithm whose state includes running episodes.
type Interruptible interface {
	// Interrupt ends the running episodes of all environments: the next rollout begins with new episodes. Call it after
	// Load, if the environments could not save their states.
	Interrupt()
}

var (
	_ Interruptible = (*PPO)(nil)
	_ Interruptible = (*offPolicy)(nil)
	_ Replayer      = (*offPolicy)(nil)
)

// A Replayer is an Algorithm with a replay buffer, which may fill most of the memory.
type Replayer interface {
	// SaveInPlace is Save without a copy of the experience. The tensors named in used are the replay buffer's own
	// rings, [envs, capacity, ...]. For each ring, used has the number of places in use, which are the first places of
	// the ring. This number is the same on every replica. Load also accepts these rings, after the caller has written
	// the saved places into them.
	SaveInPlace() (d tensor.Dict, used map[string]int)
}

// A Follower is an Algorithm with networks that follow the policy, such as target networks.
type Follower interface {
	// Follow makes these networks equal to the policy. It is called when a run begins with given weights.
	Follow()
}

// Metrics are the named values of one update, in a fixed order. If RLinf has the same metric, its name here is RLinf's
// (actor/policy_loss, critic/value_loss, …).
type Metrics struct {
	Names  []string
	Values []float64
}

// None returns the value of a metric that an update has not measured, such as the loss of an actor that did not learn.
// The name of the metric stays in the update's metrics. None is a special NaN that no computation gives; see IsNone.
func None() float64 { return math.Float64frombits(noneBits) }

// IsNone reports whether x is None.
func IsNone(x float64) bool { return math.Float64bits(x) == noneBits }

// noneBits are the bits of a quiet NaN. Its payload is the text "None", which no NaN from a computation has.
const noneBits = 0x7ff8_0000_4e6f_6e65

// quotient returns sum/count, or None if count is 0.
func quotient(sum, count float64) float64 {
	if count == 0 {
		return None()
	}
	return sum / count
}

func (m *Metrics) add(name string, value float64) {
	m.Names, m.Values = append(m.Names, name), append(m.Values, value)
}

// Get returns the metric called name, and whether there is one.
func (m Metrics) Get(name string) (value float64, ok bool) {
	i := slices.Index(m.Names, name)
	if i < 0 {
		return 0, false
	}
	return m.Values[i], true
}

// Loss returns the mean loss of algorithm a in the update with the metrics m. If a has a method Loss(Metrics) float64,
// this method computes the loss. Otherwise the loss is the sum of the metrics NAME/loss and NAME/…_loss. The sum leaves
// out NAME/val_loss and metrics that are None. If nothing is left to sum, ok is false.
func Loss(a Algorithm, m Metrics) (loss float64, ok bool) {
	if w, weighs := a.(interface{ Loss(Metrics) float64 }); weighs {
		return w.Loss(m), true
	}
	for i, name := range m.Names {
		_, last, _ := strings.Cut(name, "/")
		isLoss := last == "loss" || strings.HasSuffix(last, "_loss") && last != "val_loss"
		if isLoss && !IsNone(m.Values[i]) {
			loss, ok = loss+m.Values[i], true
		}
	}
	return loss, ok
}

// Replicas connects one data-parallel copy of a model with the other copies. Sums add the replicas in a fixed order.
// Every replica must call the same methods in the same order. In a job, Replicas is the actor group; Single is for jobs
// with one replica.
type Replicas interface {
	// Count returns the number of replicas, and the index of this replica.
	Count() (n, this int)
	// Sum replaces x with its sum over the replicas.
	Sum(x []float64) error
	// Gradient starts to sum a flat gradient over the replicas; see GradientStream.
	Gradient(grad []float32) GradientStream
	// Gather fills x with the blocks of all replicas, in the order of their indices. counts holds the lengths of the
	// blocks. The caller puts this replica's block in its final place in x.
	Gather(x []float32, counts []int) error
}

// A GradientStream sums one flat gradient over the replicas while the backward pass still fills it.
type GradientStream interface {
	// Ready marks grad[lo:hi] as final on this replica, so that the sum of this range can start.
	Ready(lo, hi int)
	// Wait returns when all of grad holds the sum. It also sums the ranges for which Ready was not called. Wait calls
	// onSummed for each summed range, usually while the range is in the cache. onSummed may be nil.
	Wait(onSummed func(lo, hi int)) error
}

// Single is the Replicas of a job with one replica. Sums do not change their input.
type Single struct{}

var _ Replicas = Single{}

// Count returns 1 replica, of index 0.
func (Single) Count() (n, this int) { return 1, 0 }

// Sum does nothing.
func (Single) Sum([]float64) error { return nil }

// Gradient returns a GradientStream that does not change the gradient.
func (Single) Gradient(grad []float32) GradientStream { return summed(len(grad)) }

// Gather does nothing.
func (Single) Gather([]float32, []int) error { return nil }

// summed is the GradientStream of Single. Its value is the number of elements of the gradient.
type summed int

func (summed) Ready(lo, hi int) {}

func (n summed) Wait(final func(lo, hi int)) error {
	if final != nil {
		final(0, int(n))
	}
	return nil
}

// A Progress function receives progress reports of long work: the name of the work, the number of finished units, and
// the total number of units. It is called often, so it must not block, and should allocate nothing. A nil Progress
// ignores all calls.
type Progress func(work string, done, total int)

// Report calls p, unless p is nil.
func (p Progress) Report(work string, done, total int) {
	if p != nil {
		p(work, done, total)
	}
}

// Names of kinds of work, as Progress receives them. The comment of each name is its unit.
const (
	workUpdate     = "update"     // micro-batches or texts
	workEvaluation = "evaluation" // texts
	workValidation = "validation" // demonstrations
)
