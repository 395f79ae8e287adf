package algo

import (
	"slices"
	"strings"

	"github.com/rlinf/rlinf/tensor"
)

// An Algorithm turns rollouts into better parameters. It has the Policy that it trains, and knows nothing of ranks.
type Algorithm interface {
	// Prepare adds to rollout the tensors that Update needs: advantage and return, [T,N] for T
	// steps of N environments. It may read statistics of all replicas.
	Prepare(rollout *tensor.Dict) error
	// Update trains on a prepared rollout and returns metrics, already the same on every replica.
	Update(rollout tensor.Dict) (Metrics, error)
	// Save returns views of the state, except for the policy's parameters: optimiser moments, counters, reward
	// statistics. Tensors with names under env. have one row for each of this replica's environments. All others are
	// the same on every replica.
	Save() (tensor.Dict, error)
	// Load restores the state that Save returned.
	Load(tensor.Dict) error
}

// Metrics are the named figures of one update, in a fixed order. The names are RLinf's, where RLinf
// has them (actor/policy_loss, critic/value_loss, …).
type Metrics struct {
	Names  []string
	Values []float64
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

// Loss returns the loss that algorithm a minimised in the update with the metrics m, as a mean over the update. ok is
// false if m has no loss. An algorithm that weighs its losses has a method Loss(Metrics) float64. For others the loss
// is the sum of the metrics NAME/loss and NAME/…_loss, without those of a validation (NAME/val_loss).
func Loss(a Algorithm, m Metrics) (loss float64, ok bool) {
	if w, weighs := a.(interface{ Loss(Metrics) float64 }); weighs {
		return w.Loss(m), true
	}
	for i, name := range m.Names {
		_, last, _ := strings.Cut(name, "/")
		if last == "loss" || strings.HasSuffix(last, "_loss") && last != "val_loss" {
			loss, ok = loss+m.Values[i], true
		}
	}
	return loss, ok
}

// Replicas are the data-parallel copies of a model, seen from one of them. Sums always add the replicas in the same
// order. An algorithm needs nothing else from other ranks. A job passes the actor group, a test passes a fake, and
// Single is one replica alone. Every replica must call the same methods in the same order.
type Replicas interface {
	// Count returns the number of replicas, and the index of this replica.
	Count() (n, this int)
	// Sum adds x over the replicas, in place.
	Sum(x []float64) error
	// Gradient begins the sum of a flat gradient over the replicas; see GradientStream.
	Gradient(grad []float32) GradientStream
	// Gather fills x with the blocks of all replicas, one after the other. counts are the lengths of the blocks. Before
	// the call x holds this replica's block, in its final place.
	Gather(x []float32, counts []int) error
}

// A GradientStream sums one flat gradient over the replicas while the backward pass still fills it.
type GradientStream interface {
	// Ready marks grad[lo:hi] as final on this replica, so that the sum of this range may start.
	Ready(lo, hi int)
	// Wait returns when all of grad holds the sum. It also sums the ranges for which Ready was not called. If final is
	// not nil, Wait calls final for each range that holds the sum, usually while the range is still in the cache.
	Wait(final func(lo, hi int)) error
}

// Single is one replica alone: sums leave their input as it is.
type Single struct{}

var _ Replicas = Single{}

// Count returns 1 replica, of index 0.
func (Single) Count() (n, this int) { return 1, 0 }

// Sum leaves x as it is.
func (Single) Sum([]float64) error { return nil }

// Gradient leaves the gradient as it is.
func (Single) Gradient(grad []float32) GradientStream { return summed(len(grad)) }

// Gather leaves x as it is.
func (Single) Gather([]float32, []int) error { return nil }

// summed is the GradientStream of a single replica, whose gradient already is the sum. The value of a summed is the
// number of elements of the gradient.
type summed int

func (summed) Ready(lo, hi int) {}

func (n summed) Wait(final func(lo, hi int)) error {
	if final != nil {
		final(0, int(n))
	}
	return nil
}

// A Progress function gets reports of long work: done units of total are finished. The argument what names the work. A
// working goroutine calls the function often, so the function must not wait, and should allocate nothing. A nil
// Progress ignores all calls.
type Progress func(what string, done, total int)

// Report calls p, unless p is nil.
func (p Progress) Report(what string, done, total int) {
	if p != nil {
		p(what, done, total)
	}
}

// The names of work that algorithms report. An update is counted in micro-batches or texts, an evaluation in texts, a
// validation in demonstrations.
const (
	workUpdate     = "update"
	workEvaluation = "evaluation"
	workValidation = "validation"
)
