package env

import "github.com/rlinf/rlinf/tensor"

// A wrapper is a Vec over a Vec that changes nothing; the wrappers embed it and change something.
// One without state of its own saves what is inside.
type wrapper struct{ Vec }

// Save returns the state of the Vec inside.
func (w wrapper) Save() (tensor.Dict, error) { return Save(w.Vec) }

// Load puts back what Save returned.
func (w wrapper) Load(state tensor.Dict) error { return Load(w.Vec, state) }

// Act fills action with what the expert inside does.
func (w wrapper) Act(action tensor.Tensor) error { return Act(w.Vec, action) }

// Render draws what is inside.
func (w wrapper) Render(view View, mask []bool, rgb tensor.Tensor) error {
	return Render(w.Vec, view, mask, rgb)
}
