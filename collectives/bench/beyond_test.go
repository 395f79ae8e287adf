package bench

import "unsafe"

// beyond writes to the byte behind b, which belongs to a guard.
func beyond(b []byte) {
	*(*byte)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(b)), len(b))) ^= 1
}
