package play

import (
	"fmt"

	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/tensor"
)

// A HiddenState is what a policy remembers of the episodes of some environments, for as long as one
// user plays them.
type HiddenState struct {
	rows tensor.Tensor // F32 [n,M]; the zero Tensor: the policy remembers nothing
	seen tensor.Dict   // observations, and the rows beside them
}

// NewHiddenState returns the memory of n environments at the beginning of their episodes.
func NewHiddenState(pol policy.Policy, n int) HiddenState {
	if m := policy.HiddenLen(pol); m > 0 {
		return HiddenState{rows: tensor.New(tensor.F32, n, m)}
	}
	return HiddenState{}
}

// with returns obs, of all environments, as the policy takes it; valid until the next call.
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

// keep remembers what goes with the next observations.
func (m *HiddenState) keep(act policy.Act) {
	if !m.rows.IsZero() {
		m.rows.CopyFrom(act.Hidden)
	}
}

// forget begins a new episode in environment n.
func (m *HiddenState) forget(n int) {
	if !m.rows.IsZero() {
		m.rows.At(n).Zero()
	}
}

// Clear begins new episodes everywhere.
func (m *HiddenState) Clear() { m.rows.Zero() }

// Save returns what is remembered; nothing of a policy that remembers nothing.
func (m *HiddenState) Save() (d tensor.Dict) {
	if !m.rows.IsZero() {
		d.Set("memory", m.rows)
	}
	return d
}

// Load puts back what save returned.
func (m *HiddenState) Load(d tensor.Dict) error {
	if m.rows.IsZero() {
		return nil
	}
	from, ok := d.Get("memory")
	if !ok || !from.SameShape(m.rows) {
		return fmt.Errorf("saved memory %v, want %v", from, m.rows)
	}
	m.rows.CopyFrom(from)
	return nil
}
