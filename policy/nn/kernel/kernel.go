package kernel

import (
	"fmt"
	"unsafe"
)

// Float is what the kernels compute in: float32 with vector instructions, float64 in plain loops,
// for gradient checks.
type Float interface{ float32 | float64 }

// A level is a way to compute: what the exported functions take from best, tests set themselves.
type level uint8

const (
	portable level = iota // plain loops
	avx2                  // AVX2 and FMA
	avx512                // AVX-512 F and DQ, with AVX2 and FMA
)

// isFloat32 reports whether T is float32; the compiler knows the answer for each instance.
func isFloat32[T Float]() bool { return unsafe.Sizeof(T(0)) == 4 }

// float32s is x as numbers of four bytes; only for T of that size.
func float32s[T Float | int32](x []T) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(x))), len(x))
}

// checkLen panics unless a slice has the length that its shape asks for.
func checkLen(op, name string, got, rows, cols int) {
	if rows < 0 || cols < 0 || got != rows*cols {
		panic(fmt.Sprintf("kernel: %s: %d elements in %s, expected %d×%d", op, got, name, rows, cols))
	}
}

// checkSame panics unless a slice is as long as the destination.
func checkSame(op, name string, got, want int) {
	if got != want {
		panic(fmt.Sprintf("kernel: %s: %d elements in %s, %d in the destination", op, got, name, want))
	}
}
