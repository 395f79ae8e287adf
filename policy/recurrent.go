package policy

import (
	"fmt"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/tensor"
)

// A Recurrent is a Policy that can have a hidden state. The output for an observation then depends on the earlier
// observations of the episode. The caller keeps the hidden state of each row, and passes it with the observations under
// two names:
//
//	HiddenState   F32 [N,M]: zeros where an episode begins, else Act.Hidden of the row's last Forward
//	Begins        U8 [T·N], for T > 1: not 0 where an episode begins; if absent, no episode begins after step 0
//
// Observations have T·N rows: row t·N + n is step t of sequence n. Row n of HiddenState is the hidden state of sequence
// n at step 0. Forward takes T = 1. Evaluate takes sequences, and Backward propagates gradients through their steps.
// Eval.Hidden is the hidden state after the last step. Value takes any T. The value of an episode's final observation
// needs the hidden state after the episode's last step.
type Recurrent interface {
	Policy
	// HiddenLen returns M, or 0 if the policy has no hidden state. A policy without a hidden state takes neither
	// HiddenState nor Begins.
	HiddenLen() int
}

// Names of the inputs that a Recurrent takes in addition to the environment's observations.
const (
	HiddenState = "memory"
	Begins      = "begins"
)

// HiddenLen returns M, the size of the hidden state of p, or 0 if p has no hidden state.
func HiddenLen(p Policy) int {
	if r, ok := p.(Recurrent); ok {
		return r.HiddenLen()
	}
	return 0
}

const rnnPolicy = "rnn_policy" // a value of Config.ModelType

// NewRNN is the Builder of rnn_policy, for observations of numbers and choices. It makes an ActorCritic with a hidden
// state.
func NewRNN(cfg Config, spec env.Spec, seed uint64, alloc tensor.Allocator) (Policy, error) {
	cfg.ModelType = rnnPolicy
	if err := cfg.Valid(); err != nil {
		return nil, err
	}
	return build(cfg, spec, nil, seed, alloc)
}

// recurrent describes the recurrent layer of rnn_policy.
func (c *Config) recurrent() nn.Layer {
	if c.RNNType == "lstm" {
		return nn.LSTM(c.RNNHiddenSize)
	}
	return nn.GRU(c.RNNHiddenSize)
}

// hiddenState returns HiddenState and Begins from obs. m is the size of a hidden state, and rows is the number of rows
// of observations.
func hiddenState(obs tensor.Dict, rows, m int) (hidden tensor.Tensor, begins []byte, err error) {
	hidden, _ = obs.Get(HiddenState)
	if hidden.DType() != tensor.F32 || hidden.Rank() != 2 || hidden.Dim(1) != m || hidden.Dim(0) == 0 ||
		rows%hidden.Dim(0) != 0 {
		return hidden, nil, fmt.Errorf("%s %v beside %d rows of observations: expected F32[N %d], and rows for each "+
			"of N sequences", HiddenState, hidden, rows, m)
	}
	if b, ok := obs.Get(Begins); ok {
		if b.DType() != tensor.U8 || b.Len() != rows {
			return hidden, nil, fmt.Errorf("%s %v: expected U8[%d]", Begins, b, rows)
		}
		begins = b.U8()
	}
	return hidden, begins, nil
}
