//go:build mujoco && !osmesa

package mujoco

import (
	"errors"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/env"
)

// TestWithoutMesa: the error of a renderer that is not compiled in names the build tag.
func TestWithoutMesa(t *testing.T) {
	v, _ := stage(t, shapes, 1)
	view := env.View{Width: 8, Height: 8, Renderer: "osmesa"}
	err := env.Render(v, view, nil, view.NewPictures(1))
	if !errors.Is(err, env.ErrNotBuilt) || !strings.Contains(err.Error(), `scripts/build --tags "mujoco osmesa"`) {
		t.Errorf("%v", err)
	}
}
