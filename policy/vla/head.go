package vla

import (
	"github.com/rlinf/rlinf/internal/philox"
	"github.com/rlinf/rlinf/policy"
)

// A head is an action head with its memory for one pass. A parallel head (tokens, l1) chooses a whole chunk from the
// hidden states of one pass over the prefix and the slots. An iterativeHead needs several passes. In training both
// kinds need one pass, with the slots of given actions.
//
// Slots and their hidden states are [n, slots, d]; actions, log-probs and entropies are [n, C·A].
type head interface {
	// choose sets action, logProb and chains, [n,K], after the forward pass x. For a parallel head, x.slots has the
	// hidden states of the slots. An iterative head appends its slots to the prefixes in x.cache.
	choose(x *pass, action, logProb, chains []float32, s sampling) error
	// evaluate sets logProb and entropy of action, given the hidden states of the slots.
	evaluate(logProb, entropy, hidden, action []float32, n int)
	// backward adds to the gradients of the head, and sets dHidden. dLogProb and dEntropy are the gradients of the
	// results of the last evaluate.
	backward(dHidden, dLogProb, dEntropy []float32, n int)
}

// An iterativeHead (tokens_autoregressive, flow) chooses actions in several passes over slots after a cached prefix.
// The inputs of its slots differ between rows: they depend on the tokens chosen so far, or on an action with noise.
type iterativeHead interface {
	head
	// encode adds to slots the part that depends on the row and on the given actions of b. Before the call, slots holds
	// the learnt embeddings.
	encode(slots []float32, b batch) error
	// backwardSlots adds to the gradients of the parameters that the method encode reads. dSlots is the gradient of
	// slots.
	backwardSlots(dSlots []float32, n int)
}

// A sampling has the options with which a head chooses actions. At temperature 0 the head chooses the most likely
// actions; otherwise it draws actions.
type sampling struct {
	temperature float64
	training    bool
	streams     []philox.Stream // one for each row
}

// pick returns one of the options of a row.
func (s *sampling) pick(row int, logp, prob []float32) int {
	if s.temperature == 0 {
		return policy.Argmax(logp)
	}
	return policy.Draw(prob, s.streams[row].Float64())
}
