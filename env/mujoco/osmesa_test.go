//go:build mujoco && osmesa

package mujoco

import (
	"bytes"
	"strings"
	"sync"
	"testing"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/test"
)

// TestMesaSees: the renderers osmesa and caster show the same shapes at the same places.
func TestMesaSees(t *testing.T) {
	v, _ := stage(t, shapes, 2)
	for _, camera := range []string{"one", "two"} {
		view := env.View{Width: 160, Height: 120, Camera: camera, Shadows: true}
		cast := pictures(t, v, view, nil).U8()
		view.Renderer = "osmesa"
		mesa := pictures(t, v, view, nil).U8()
		wrong := 0
		for i := 0; i < len(mesa); i += 3 {
			if shapeOf(mesa[i:]) != shapeOf(cast[i:]) {
				wrong++
			}
		}
		if pixels := len(mesa) / 3; wrong > pixels/200 { // OpenGL draws round shapes as polygons
			t.Errorf("camera %s: %d of %d pixels show other shapes", camera, wrong, pixels)
		}
	}
}

// TestMesaMesh draws a mesh, which the caster refuses.
func TestMesaMesh(t *testing.T) {
	text := strings.Replace(shapes, "<worldbody>",
		`<asset><mesh name="tent" vertex="0 0 0 2 0 0 0 2 0 0 0 2"/></asset><worldbody>
		<geom type="mesh" mesh="tent" rgba="0 1 0 1"/>`, 1)
	v, _ := stage(t, text, 1)
	rgb := pictures(t, v, env.View{Width: 64, Height: 64, Camera: "one", Renderer: "osmesa"}, nil).U8()
	green := 0
	for i := 0; i < len(rgb); i += 3 {
		if bytes.Equal(rgb[i:i+3], []byte{0, 255, 0}) {
			green++
		}
	}
	if green < 100 {
		t.Errorf("%d pixels of the mesh", green)
	}
}

// TestMesaContexts: several contexts on changing threads draw the same pictures as one context.
func TestMesaContexts(t *testing.T) {
	view := env.View{Width: 48, Height: 32, Camera: "one", Renderer: "osmesa", Shadows: true}
	v, _ := stage(t, shapes, 1)
	want := pictures(t, v, view, nil).U8()
	var all sync.WaitGroup
	for range 3 {
		other, _ := stage(t, shapes, 1)
		all.Go(func() {
			rgb := view.NewPictures(1)
			for range 10 {
				test.Check(t, env.Render(other, view, nil, rgb))
				if !bytes.Equal(rgb.U8(), want) {
					t.Error("another picture")
				}
			}
		})
	}
	all.Wait()
}
