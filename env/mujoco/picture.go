//go:build mujoco

package mujoco

/*
#cgo noescape rl_cast
#cgo nocallback rl_cast
#include <stdlib.h>
#include "view.h"
*/
import "C"

import (
	"fmt"
	"slices"
	"strings"
	"unsafe"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/tensor"
)

// A painter draws the environments of a batch through one camera.
type painter struct {
	view  *C.rl_view
	batch *batch
	frame int    // bytes of one picture
	brush brush  // draws the pictures; if nil, rl_cast draws them
	free  func() // frees the brush; may be nil
}

// A brush draws n environments. Its arguments and result are those of rl_cast.
type brush func(n C.int, mask *C.uint8_t, colour *C.float, rgb *C.uint8_t) C.int

// newPainter returns a painter that draws the environments of b with the view v.
func newPainter(b *batch, v env.View) (*painter, error) {
	if v.Width <= 0 || v.Height <= 0 || v.Width > 1<<14 || v.Height > 1<<14 {
		return nil, fmt.Errorf("a picture of %d × %d pixels, expected 1 to %d each", v.Width, v.Height, 1<<14)
	}
	if v.Renderer != "" && v.Renderer != "caster" && v.Renderer != "osmesa" {
		return nil, fmt.Errorf("renderer %q, expected caster or osmesa", v.Renderer)
	}
	camera := -1
	if v.Camera != "" {
		known := names(b.model, int(b.model.ncam), b.model.name_camadr)
		if camera = slices.Index(known, v.Camera); camera < 0 {
			return nil, fmt.Errorf("no camera is called %q: the model has [%s]", v.Camera, strings.Join(known, " "))
		}
	}
	said := (*C.char)(C.calloc(1, C.RL_SAID))
	defer C.free(unsafe.Pointer(said))
	view := C.rl_open_view(b.model, C.int(camera), C.int(v.Width), C.int(v.Height), C.int(count(v.Shadows)), said)
	if view == nil {
		return nil, fmt.Errorf("make a view: %s", C.GoString(said))
	}
	p := &painter{view: view, batch: b, frame: 3 * v.Width * v.Height}
	var err error
	if v.Renderer == "osmesa" {
		p.brush, p.free, err = p.mesa()
	} else if C.rl_casts(b.model, said) == 0 {
		err = fmt.Errorf("the renderer caster draws no meshes and no height fields, osmesa does: %s", C.GoString(said))
	}
	if err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// pictureSpace returns the space of pictures with the size of v.
func pictureSpace(v env.View) env.Space {
	space := box(tensor.U8, 3*v.Width*v.Height, 255)
	space.Shape = []int{v.Height, v.Width, 3}
	clear(space.Low)
	return space
}

// draw draws the environments where mask is true, or all if mask is nil, into their pictures in rgb,
// [N,Height,Width,3]. If colour is not nil, it replaces the model's colours of the geoms. It is [N,geoms,4]: red,
// green, blue and opacity from 0 to 1. Geoms with opacity 0 are not drawn.
func (p *painter) draw(mask []bool, colour []float32, rgb []byte) error {
	n := len(p.batch.physics)
	if len(rgb) != n*p.frame || mask != nil && len(mask) != n || colour != nil &&
		len(colour) != n*4*int(p.batch.model.ngeom) {
		return fmt.Errorf("draw %d environments with a mask of %d, %d colours, %d bytes for pictures of %d", n,
			len(mask), len(colour), len(rgb), p.frame)
	}
	some, colours, pixels := (*C.uint8_t)(unsafe.Pointer(unsafe.SliceData(mask))), (*C.float)(unsafe.SliceData(colour)),
		(*C.uint8_t)(unsafe.SliceData(rgb))
	var i C.int
	if p.brush != nil {
		i = p.brush(C.int(n), some, colours, pixels)
	} else {
		i = C.rl_cast(p.view, p.batch.c.data, C.int(n), some, colours, pixels)
	}
	if int(i) < n {
		return fmt.Errorf("draw environment %d: %s", i, C.GoString(&p.view.said[0]))
	}
	return nil
}

// close frees the brush and the view.
func (p *painter) close() {
	if p.free != nil {
		p.free()
	}
	C.rl_close_view(p.view)
}
