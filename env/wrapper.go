package env

import "github.com/rlinf/rlinf/tensor"

// A wrapper is a Vec that passes every call on to the Vec inside. The wrappers of this package embed one and replace
// some methods.
type wrapper struct {
	Vec
	own memory // state of the wrapper, besides that of the Vec inside
}

var _ interface {
	Vec
	Saver
	Expert
	Renderer
} = wrapper{}

// Save returns the state of the Vec inside and of the wrapper.
func (w wrapper) Save() (tensor.Dict, error) {
	state, err := Save(w.Vec)
	if err == nil {
		w.own.save(&state)
	}
	return state, err
}

// Load puts back what Save returned.
func (w wrapper) Load(state tensor.Dict) error {
	if err := w.own.load(state); err != nil {
		return err
	}
	return Load(w.Vec, state)
}

// Act fills action with the actions of the expert inside.
func (w wrapper) Act(action tensor.Tensor) error { return Act(w.Vec, action) }

// Render draws the environments of the Vec inside.
func (w wrapper) Render(view View, mask []bool, rgb tensor.Tensor) error {
	return Render(w.Vec, view, mask, rgb)
}
