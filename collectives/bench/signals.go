package bench

import (
	"unsafe"

	"github.com/rlinf/rlinf/spmd"
)

const signalSize = int(unsafe.Sizeof(spmd.Signal{}))

// signalsIn returns the two signals that lie in communication memory.
func signalsIn(b []byte) *[2]spmd.Signal {
	if len(b) < 2*signalSize {
		panic("bench: no room for two signals")
	}
	return (*[2]spmd.Signal)(unsafe.Pointer(unsafe.SliceData(b)))
}
