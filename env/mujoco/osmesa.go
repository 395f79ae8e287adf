//go:build mujoco && osmesa

package mujoco

/*
#cgo LDFLAGS: -lOSMesa
#include <stdlib.h>
#include "osmesa.h"
*/
import "C"

import (
	"fmt"
	"os"
	"unsafe"
)

// mesa returns a brush that draws with MuJoCo's own renderer, and a function that frees the brush.
func (p *painter) mesa() (brush, func(), error) {
	if os.Getenv("LP_NUM_THREADS") == "" {
		if err := os.Setenv("LP_NUM_THREADS", "0"); err != nil { // otherwise drawing uses every core
			return nil, nil, err
		}
	}
	said := (*C.char)(C.calloc(1, C.RL_SAID))
	defer C.free(unsafe.Pointer(said))
	o := C.rl_open_mesa(p.view, p.batch.model, said)
	if o == nil {
		return nil, nil, fmt.Errorf("the renderer osmesa: %s", C.GoString(said))
	}
	draw := func(n C.int, mask *C.uint8_t, colour *C.float, rgb *C.uint8_t) C.int {
		return C.rl_mesa_draw(o, p.view, p.batch.c.data, n, mask, colour, rgb)
	}
	return draw, func() { C.rl_close_mesa(o) }, nil
}
