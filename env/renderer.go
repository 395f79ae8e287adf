package env

import (
	"errors"
	"fmt"

	"github.com/rlinf/rlinf/tensor"
)

// Render draws environments of v. It returns an error that is errors.ErrUnsupported if v, or a Vec
// inside v, is no Renderer.
func Render(v any, view View, mask []bool, rgb tensor.Tensor) error {
	if r, ok := v.(Renderer); ok {
		return r.Render(view, mask, rgb)
	}
	return fmt.Errorf("draw %T: %w", v, errors.ErrUnsupported)
}

// NewPictures returns room for pictures of n environments.
func (v View) NewPictures(n int) tensor.Tensor { return tensor.New(tensor.U8, n, v.Height, v.Width, 3) }
