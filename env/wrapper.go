package env

import "github.com/rlinf/rlinf/tensor"

// A wrapper is a Vec that passes everything to the Vec inside. The wrappers of this package embed
// it and change something. A wrapper without state of its own saves the state of the Vec inside.
type wrapper struct{ Vec }

// Save returns the state of the Vec inside.
func (w wrapper) Save() (tensor.Dict, error) { return Save(w.Vec) }

// Load puts back what Save returned.
func (w wrapper) Load(state tensor.Dict) error { return Load(w.Vec, state) }

// Act fills action with the actions of the expert inside.
func (w wrapper) Act(action tensor.Tensor) error { return Act(w.Vec, action) }

// Render draws the environments of the Vec inside.
func (w wrapper) Render(view View, mask []bool, rgb tensor.Tensor) error {
	return Render(w.Vec, view, mask, rgb)
}
