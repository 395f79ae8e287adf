package play

import (
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/tensor"
)

// A HiddenState has the hidden states of a recurrent policy in some environments.
type HiddenState struct {
	rows tensor.Tensor // the hidden states, F32 [n,M]; the zero Tensor if the policy is not recurrent
	seen tensor.Dict   // the result of HiddenState.with
}

// NewHiddenState returns the hidden states of n environments at the start of their episodes.
func NewHiddenState(pol policy.Policy, n int) HiddenState {
	if m := policy.HiddenLen(pol); m > 0 {
		return HiddenState{rows: tensor.New(tensor.F32, n, m)}
	}
	return HiddenState{}
}

// with returns the observations obs together with the hidden states. The result is valid until the next call.
func (m *HiddenState) with(obs tensor.Dict) tensor.Dict {
	if m.rows.IsZero() {
		return obs
	}
	for i := range obs.Len() {
		m.seen.Set(obs.Entry(i))
	}
	m.seen.Set(policy.HiddenState, m.rows)
	return m.seen
}

// keep stores the hidden states for the next observations.
func (m *HiddenState) keep(act policy.Act) {
	if !m.rows.IsZero() {
		m.rows.CopyFrom(act.Hidden)
	}
}

// forget resets the hidden state of environment n, whose episode has ended.
func (m *HiddenState) forget(n int) {
	if !m.rows.IsZero() {
		m.rows.At(n).Zero()
	}
}

// Clear resets the hidden states of all environments.
func (m *HiddenState) Clear() { m.rows.Zero() }

// Rows returns the memory of the hidden states, F32 [n,M]. It is the zero Tensor if the policy is not recurrent.
func (m *HiddenState) Rows() tensor.Tensor { return m.rows }
