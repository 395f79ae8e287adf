package policy

import (
	"github.com/rlinf/rlinf/internal/philox"
	"github.com/rlinf/rlinf/policy/graph"
	"github.com/rlinf/rlinf/policy/nn"
)

// A distribution turns the outputs of the actor's head into a probability distribution of actions. A chunk of actions
// has D dimensions, which are independent given the observation. So the log-prob and the entropy of a chunk are sums
// over its dimensions.
type distribution[T nn.Float] interface {
	// Outputs is the width of the actor's head.
	Outputs() int
	// Graph describes how the most likely action is computed from the head's outputs.
	Graph() graph.Node
	// Init sets the distribution's own parameters.
	Init()
	// NewWork returns one user's state, for batches of at most maxRows rows.
	NewWork(maxRows int) distributionWork[T]
}

// A distributionWork is the state of one user of a distribution. Slices have n rows. Slices of log-probs and entropies
// have the shape [n,D].
type distributionWork[T nn.Float] interface {
	// Choose sets dst to actions, and logProb to their log-probs. In mode Sample it draws the actions. In mode
	// Deterministic it takes the most likely actions. Evaluate gives the same log-probs, bit for bit.
	Choose(dst actions[T], logProb []T, in inputs[T], mode Mode, noise Noise)
	// Evaluate sets logProb and entropy for the given actions, and keeps what Backward needs.
	Evaluate(logProb, entropy []T, a actions[T], in inputs[T])
	// Backward must follow Evaluate. dLogProb and dEntropy are the gradients with respect to the results of Evaluate.
	// Backward sets dOut to the gradient with respect to in.out, and adds to the gradients of the distribution's own
	// parameters.
	Backward(dOut, dLogProb, dEntropy []T, a actions[T], in inputs[T])
	// BackwardFeatures must follow Backward. It adds to dFeatures, [n,F], the part of the gradient with respect to
	// in.features that does not flow through in.out.
	BackwardFeatures(dFeatures []T, in inputs[T])
}

// inputs are the inputs of a distribution, for n rows.
type inputs[T nn.Float] struct {
	n        int
	out      []T // the outputs of the actor's head
	features []T // the inputs of the actor's head
	// [n,m], only for choices: 1 where an option is allowed. The mask of a row applies to all actions of a chunk. A nil
	// mask allows every option.
	mask []uint8
}

// actions has the actions of n rows, [n,D]: numbers of a box, or indices of choices. One of the two slices is nil.
type actions[T nn.Float] struct {
	box    []T
	choice []int32
}

const halfLog2Pi = 0.918938533204672741780329736406 // ½ log 2π

// normalLogProb returns the log density of a normal distribution whose log standard deviation is
// logStd. u is the deviation from the mean, in standard deviations.
func normalLogProb[T nn.Float](u, logStd T) T { return -0.5*u*u - logStd - halfLog2Pi }

// normalEntropy returns the entropy of a normal distribution whose log standard deviation is logStd.
func normalEntropy[T nn.Float](logStd T) T { return 0.5 + halfLog2Pi + logStd }

// Normals sets eps to standard normal numbers from s.
func Normals[T nn.Float](eps []T, s *philox.Stream) {
	for k := 0; k < len(eps); k += 2 {
		z0, z1 := s.Normal()
		eps[k] = T(z0)
		if k+1 < len(eps) {
			eps[k+1] = T(z1)
		}
	}
}

// addNoise adds σε to the rows of x, [n,D]. std holds σ, [D] or [n,D]. ε are standard normal numbers from the stream of
// the row.
func addNoise[T nn.Float](x, std []T, dims int, noise Noise) {
	for at := 0; at < len(x); at += dims {
		row, x, std := at/dims, x[at:at+dims], std[at%len(std):]
		s := noise.Stream(row)
		for k := 0; k < len(x); k += 2 {
			z0, z1 := s.Normal()
			x[k] += std[k] * T(z0)
			if k+1 < len(x) {
				x[k+1] += std[k+1] * T(z1)
			}
		}
	}
}
