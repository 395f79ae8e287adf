package kernel

import (
	"fmt"
	"unsafe"
)

// Float is the element type of kernels: float32 with vector instructions, or float64 in plain
// loops, for gradient checks.
type Float interface{ float32 | float64 }

// A level is an instruction set. Functions use the highest level of the machine, except in some tests.
type level uint8

const (
	portable level = iota // plain loops
	avx2                  // AVX2 and FMA
	avx512                // AVX-512 F and DQ, with AVX2 and FMA
)

// vectors reports whether functions use vector code for x. It is false if x has no elements.
func vectors[T Float | int32](x []T) bool {
	return unsafe.Sizeof(T(0)) == 4 && best != portable && len(x) > 0
}

// address returns the address of the first element of x, for element types of 4 bytes.
func address[T Float | int32](x []T) *float32 { return (*float32)(unsafe.Pointer(unsafe.SliceData(x))) }

// float32s reinterprets the bits of x as float32, for element types of 4 bytes.
func float32s[T Float](x []T) []float32 { return unsafe.Slice(address(x), len(x)) }

// checkLen panics unless length is rows·cols.
func checkLen(op, name string, length, rows, cols int) {
	if rows < 0 || cols < 0 || length != rows*cols {
		panic(fmt.Sprintf("kernel: %s: %d elements in %s, expected %d×%d", op, length, name, rows, cols))
	}
}

// checkSame panics unless a slice has the length of the destination.
func checkSame(op, name string, got, want int) {
	if got != want {
		panic(fmt.Sprintf("kernel: %s: %d elements in %s, %d in the destination", op, got, name, want))
	}
}
