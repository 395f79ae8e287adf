package vla

import (
	"fmt"

	"github.com/rlinf/rlinf/internal/philox"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/policy/graph"
)

// A head is an action head: its layers among the parameters of the policy. Another head is a type in a file of its own,
// a name in the list heads of config.go, and a line of newHead.
type head interface {
	// check returns an error if a key that the user has set has no effect with this head.
	check(*policy.Config) error
	// slots returns the number of slots of a row.
	slots() int
	// embed declares the parameters that the inputs of slots need beside their learnt embeddings.
	embed()
	// add declares the layers after the trunk.
	add()
	// graph describes these layers. end has the range of the actions. embeds are those parameters from embed that are
	// added to the embeddings of slots.
	graph(end graph.Node) (parts []graph.Node, embeds []graph.Param)
	// newWork returns the memory for one pass over at most the given number of rows.
	newWork(rows int) headWork

	causal() bool   // whether a slot attends only to the prefix and to earlier slots
	explores() bool // whether the policy can learn from its own actions
	latent() int    // see Policy.LatentLen
}

// newHead returns the action head of p. No other code depends on the name of the head.
func newHead(p *Policy) head {
	common := commonHead{p}
	switch p.own.ActionHead {
	case TokensAutoregressive:
		return &autoregressiveHead{tokensHead: tokensHead{commonHead: common}}
	case L1:
		return &l1Head{commonHead: common}
	case Flow:
		return &flowHead{commonHead: common}
	}
	return &tokensHead{commonHead: common}
}

// A commonHead has methods that most heads share. It has a slot for each dimension of a chunk.
type commonHead struct{ p *Policy }

func (commonHead) check(*policy.Config) error { return nil }
func (h commonHead) slots() int               { return h.p.dims }
func (commonHead) embed()                     {}
func (commonHead) causal() bool               { return false }
func (commonHead) explores() bool             { return true }
func (commonHead) latent() int                { return 0 }

// noLogits returns an error unless temperature_train is 1. Heads without logits call it, because a temperature would
// have no effect on them.
func (h commonHead) noLogits(c *policy.Config) error {
	if c.Temperature == 1 {
		return nil
	}
	return fmt.Errorf("rollout.sampling_params.temperature_train: %v: expected 1 (action_head %s has no logits)",
		c.Temperature, h.p.own.ActionHead)
}

// A headWork is the memory of an action head for one pass. A parallel head (tokens, l1) chooses a whole chunk from the
// hidden states of one pass over the prefix and the slots. An iterativeWork needs several passes. In training, both
// kinds need only one pass, because the actions are given.
//
// Slots and their hidden states are [n, slots, d]; actions, log-probs and entropies are [n, C·A].
type headWork interface {
	// choose sets action, logProb and chains, [n,K], after the forward pass x. For a parallel head, x.slots has the
	// hidden states of the slots. An iterative head appends its slots to the prefixes in x.cache.
	choose(x *pass, action, logProb, chains []float32, s sampling) error
	// evaluate sets logProb and entropy of action, given the hidden states of the slots.
	evaluate(logProb, entropy, hidden, action []float32, n int)
	// backward adds to the gradients of the head, and sets dHidden. dLogProb and dEntropy are the gradients of the
	// results of the last evaluate.
	backward(dHidden, dLogProb, dEntropy []float32, n int)
}

// An iterativeWork (tokens_autoregressive, flow) chooses actions in several passes over slots after a cached prefix.
// The inputs of its slots differ between rows: they depend on the tokens chosen so far, or on an action with noise.
type iterativeWork interface {
	headWork
	// encode adds to slots what depends on the row and on the given actions of b. Before the call, slots must hold the
	// learnt embeddings.
	encode(slots []float32, b batch) error
	// backwardSlots adds to the gradients of the parameters that encode reads. dSlots is the gradient of slots.
	backwardSlots(dSlots []float32, n int)
}

// A sampling tells a head how to choose actions. At temperature 0 the head chooses the most likely actions; otherwise
// it draws actions.
type sampling struct {
	temperature float64
	training    bool
	streams     []philox.Stream // one for each row
}

// pick returns the chosen option of a row. logp and prob have an element for each option.
func (s *sampling) pick(row int, logp, prob []float32) int {
	if s.temperature == 0 {
		return policy.Argmax(logp)
	}
	return policy.Draw(prob, s.streams[row].Float64())
}
