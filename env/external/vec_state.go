package external

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/tensor"
)

// Save returns the states of the environments and the flags of ended episodes; see env.Saver.
func (v *Vec) Save() (tensor.Dict, error) {
	size := v.greeting.State
	if size == 0 {
		return tensor.Dict{}, fmt.Errorf("save %s, whose simulators have no state to save: %w", v.spec.Name,
			errors.ErrUnsupported)
	}
	states := tensor.New(tensor.U8, v.n, size)
	for _, c := range v.children {
		if c.conversation == nil {
			return tensor.Dict{}, fmt.Errorf("save %s, environments %d-%d, which have no simulator: %w", v.spec.Name,
				c.lo, c.hi-1, errors.ErrUnsupported)
		}
		got, err := c.save(v.by())
		if err != nil { // the next step will replace the child
			why := v.explain(c, err)
			c.close(true)
			c.conversation = nil
			return tensor.Dict{}, fmt.Errorf("save %s: %s: %w", v.spec.Name, why, errors.ErrUnsupported)
		}
		copy(states.U8()[c.lo*size:], got)
	}
	var d tensor.Dict
	d.Set("external.state", states)
	d.Set("external.over", tensor.FromU8(bytes.Clone(v.over), v.n))
	return d, nil
}

// Load restores a state that Save returned.
func (v *Vec) Load(state tensor.Dict) error {
	states, _ := state.Get("external.state")
	over, _ := state.Get("external.over")
	size := v.greeting.State
	if size == 0 {
		return fmt.Errorf("load %s, whose simulators have no state to save: %w", v.spec.Name, errors.ErrUnsupported)
	}
	if !states.SameShape(tensor.New(tensor.U8, v.n, size)) || !over.SameShape(tensor.New(tensor.U8, v.n)) {
		return fmt.Errorf("saved state of %s: %v and %v, expected U8[%d %d] and U8[%d]", v.spec.Name, states, over, v.n,
			size, v.n)
	}
	if err := v.start(); err != nil {
		return err
	}
	for _, c := range v.children {
		switch {
		case c.conversation != nil:
		case v.hub.shutdown.requested(): // the first step will report it
			continue
		default:
			return fmt.Errorf("load %s: environments %d-%d: %w", v.spec.Name, c.lo, c.hi-1, errNoChild)
		}
		if err := c.load(states.U8()[c.lo*size:c.hi*size], v.by()); err != nil {
			return fmt.Errorf("load %s: %s: %w", v.spec.Name, c.who, err)
		}
	}
	copy(v.over, over.U8())
	return nil
}

// Render draws the environments; see env.Renderer. It ignores the view's camera, renderer and
// shadows.
func (v *Vec) Render(view env.View, mask []bool, rgb tensor.Tensor) error {
	if !v.greeting.Render {
		return fmt.Errorf("render %s, whose simulators cannot render: %w", v.spec.Name, errors.ErrUnsupported)
	}
	if mask != nil && !slices.Contains(mask, true) { // only tests whether the simulator can draw
		return nil
	}
	if err := v.start(); err != nil {
		return err
	}
	size := view.Width * view.Height * 3
	for _, c := range v.children {
		wanted := make([]bool, c.hi-c.lo)
		for i := range wanted {
			wanted[i] = mask == nil || mask[c.lo+i]
		}
		if !slices.Contains(wanted, true) || c.conversation == nil {
			continue
		}
		pixels, err := c.render(view.Width, view.Height, wanted, v.by())
		if err != nil {
			return fmt.Errorf("render %s: %s: %w", v.spec.Name, c.who, err)
		}
		for i, w := range wanted {
			if w {
				copy(rgb.U8()[(c.lo+i)*size:(c.lo+i+1)*size], pixels)
				pixels = pixels[size:]
			}
		}
	}
	return nil
}
