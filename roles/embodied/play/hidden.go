package play

import (
	"fmt"

	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/tensor"
)

// A HiddenState is the hidden state of a recurrent policy in some environments. Each player of
// episodes has its own.
type HiddenState struct {
	rows tensor.Tensor // F32 [n,M]; the zero Tensor: the policy is not recurrent
	seen tensor.Dict   // observations with the rows
}

// NewHiddenState returns the hidden state of n environments at the beginning of their episodes.
func NewHiddenState(pol policy.Policy, n int) HiddenState {
	if m := policy.HiddenLen(pol); m > 0 {
		return HiddenState{rows: tensor.New(tensor.F32, n, m)}
	}
	return HiddenState{}
}

// with returns obs, of all environments, together with the hidden state. The result is valid until
// the next call.
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

// keep takes the hidden state that goes with the next observations.
func (m *HiddenState) keep(act policy.Act) {
	if !m.rows.IsZero() {
		m.rows.CopyFrom(act.Hidden)
	}
}

// forget resets environment n, whose episode has ended.
func (m *HiddenState) forget(n int) {
	if !m.rows.IsZero() {
		m.rows.At(n).Zero()
	}
}

// Clear resets all environments.
func (m *HiddenState) Clear() { m.rows.Zero() }

// Save returns the hidden state; an empty Dict for a policy that has none.
func (m *HiddenState) Save() (d tensor.Dict) {
	if !m.rows.IsZero() {
		d.Set("memory", m.rows)
	}
	return d
}

// Load restores what Save returned.
func (m *HiddenState) Load(d tensor.Dict) error {
	if m.rows.IsZero() {
		return nil
	}
	from, ok := d.Get("memory")
	if !ok || !from.SameShape(m.rows) {
		return fmt.Errorf("saved memory %v, expected %v", from, m.rows)
	}
	m.rows.CopyFrom(from)
	return nil
}
