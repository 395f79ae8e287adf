package vla

import (
	"github.com/rlinf/rlinf/internal/philox"
	"github.com/rlinf/rlinf/policy"
)

// A head is an action head with its memory for one pass. A parallel head (tokens, l1) chooses a whole chunk from the
// hidden states of one pass over the prefix and the slots. An iterativeHead needs several passes. Both kinds learn in
// the same way: the slots of given actions go through the trunk together.
//
// Slots and their hidden states are [n, slots, d]; actions, log-probs and entropies are [n, C·A].
type head interface {
	// choose sets action, logProb and chains, [n,K], after a forward pass x. For a parallel head x.slots has the hidden
	// states of the slots. An iterative head appends its slots to the prefixes in x.cache.
	choose(x *pass, action, logProb, chains []float32, s sampling) error
	// evaluate sets logProb and entropy, and keeps what backward needs.
	evaluate(logProb, entropy, hidden, action []float32, n int)
	// backward gets the derivatives by the log-probs and entropies of the last evaluate. It adds to the gradients of
	// the head, and sets dHidden.
	backward(dHidden, dLogProb, dEntropy []float32, n int)
}

// An iterativeHead (tokens_autoregressive, flow) chooses in several passes over slots behind a cached
// prefix. Its slots depend on the row: on the tokens chosen so far, or on an action with noise.
type iterativeHead interface {
	head
	// encode completes slots, which hold their learnt embeddings. It adds the part that depends on the row and on the
	// given actions of b.
	encode(slots []float32, b batch) error
	// backwardSlots gets the derivative by slots, and adds to the gradients of the parameters that encode read.
	backwardSlots(dSlots []float32, n int)
}

// A sampling says how to choose actions: the most likely actions at temperature 0, otherwise random draws.
type sampling struct {
	temperature float64
	training    bool
	streams     []philox.Stream // of each row
}

// pick returns one of the options of a row.
func (s *sampling) pick(row int, logp, prob []float32) int {
	if s.temperature == 0 {
		return policy.Argmax(logp)
	}
	return policy.Draw(prob, s.streams[row].Float64())
}
