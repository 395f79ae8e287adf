package env

import "github.com/rlinf/rlinf/tensor"

// A wrapper is a Vec that forwards every call to another Vec. Each wrapper type of this package embeds a wrapper and
// overrides some methods.
type wrapper struct {
	Vec
	own memory // state of the wrapper itself, without the wrapped Vec
}

var _ interface {
	Vec
	Saver
	Expert
	Renderer
} = wrapper{}

// Save returns the state of the wrapped Vec and of the wrapper.
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

// Act fills action with the actions of the wrapped Vec's expert.
func (w wrapper) Act(action tensor.Tensor) error { return Act(w.Vec, action) }

// Render draws the environments of the wrapped Vec.
func (w wrapper) Render(view View, mask []bool, rgb tensor.Tensor) error {
	return Render(w.Vec, view, mask, rgb)
}
