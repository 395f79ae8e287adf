package tensor

import (
	"fmt"
	"slices"
	"unsafe"
)

// A DType is the type of a tensor's elements. Only the zero Tensor has the zero DType.
type DType uint8

const (
	F32  DType = 1 + iota // IEEE float32, for networks
	F64                   // IEEE float64, for statistics
	I32                   // int32, for discrete actions and tokens
	I64                   // int64, for counters
	U8                    // byte, for images and flags
	BF16                  // the upper half of a float32, for messages and storage
	F16                   // IEEE float16, only for storage: collectives do not sum it
)

// dtypes holds the safetensors name and the element size, in bytes, of each DType.
var dtypes = [...]struct {
	name string
	size int
}{F32: {"F32", 4}, F64: {"F64", 8}, I32: {"I32", 4}, I64: {"I64", 8}, U8: {"U8", 1}, BF16: {"BF16", 2}, F16: {"F16", 2}}

func (d DType) valid() bool { return d > 0 && int(d) < len(dtypes) }

// Size returns the size of one element in bytes.
func (d DType) Size() int {
	if !d.valid() {
		d.refuse()
	}
	return dtypes[d].size
}

// refuse panics. It is a separate function so that Size can be inlined.
//
//go:noinline
func (d DType) refuse() { panic(fmt.Sprintf("tensor: no such dtype %d", uint8(d))) }

// String returns the name that safetensors uses: F32, F64, I32, I64, U8, BF16, F16.
func (d DType) String() string {
	if !d.valid() {
		return fmt.Sprintf("DType(%d)", uint8(d))
	}
	return dtypes[d].name
}

// MaxRank is the largest number of dimensions of a Tensor.
const MaxRank = 6

// Align is the alignment, in bytes, of the tensors of a Layout and of the memory of an Allocator.
const Align = 64

// A Tensor is a dense row-major array over memory that it does not own. The zero Tensor has no elements and no type.
// Copying a Tensor copies the view, not the elements.
type Tensor struct {
	ptr   unsafe.Pointer
	shape [MaxRank]int
	len   int // number of elements
	rank  int8
	dtype DType
}

// New returns a zeroed tensor on the Go heap, aligned to Align bytes.
func New(dtype DType, shape ...int) Tensor {
	n := count(shape) * dtype.Size()
	buf := make([]byte, n+Align)
	off := -int(uintptr(unsafe.Pointer(unsafe.SliceData(buf)))) & (Align - 1)
	return Of(buf[off:off+n], dtype, shape...)
}

// Of returns a tensor over b. The length of b must be the size of the whole tensor in bytes, and b must be aligned to
// the size of one element.
func Of(b []byte, dtype DType, shape ...int) Tensor {
	if len(shape) > MaxRank {
		panic(fmt.Sprintf("tensor: %d dimensions, at most %d", len(shape), MaxRank))
	}
	n := count(shape)
	if want := n * dtype.Size(); want != len(b) {
		panic(fmt.Sprintf("tensor: %d bytes for %v%v, expected %d", len(b), dtype, shape, want))
	}
	t := Tensor{ptr: unsafe.Pointer(unsafe.SliceData(b)), len: n, rank: int8(len(shape)), dtype: dtype}
	if uintptr(t.ptr)%uintptr(dtype.Size()) != 0 && len(b) > 0 {
		panic(fmt.Sprintf("tensor: %v memory is not aligned", dtype))
	}
	copy(t.shape[:], shape)
	return t
}

// FromF32 returns a tensor over x.
func FromF32(x []float32, shape ...int) Tensor { return Of(bytesOf(x), F32, shape...) }

// FromF64 returns a tensor over x.
func FromF64(x []float64, shape ...int) Tensor { return Of(bytesOf(x), F64, shape...) }

// FromI32 returns a tensor over x.
func FromI32(x []int32, shape ...int) Tensor { return Of(bytesOf(x), I32, shape...) }

// FromI64 returns a tensor over x.
func FromI64(x []int64, shape ...int) Tensor { return Of(bytesOf(x), I64, shape...) }

// FromU8 returns a tensor over x.
func FromU8(x []byte, shape ...int) Tensor { return Of(x, U8, shape...) }

// DType returns the element type.
func (t Tensor) DType() DType { return t.dtype }

// Rank returns the number of dimensions.
func (t Tensor) Rank() int { return int(t.rank) }

// Dim returns the size of dimension i.
func (t Tensor) Dim(i int) int {
	if i >= int(t.rank) {
		panic(fmt.Sprintf("tensor: dimension %d of %v", i, t))
	}
	return t.shape[i]
}

// Shape returns a copy of the shape.
func (t Tensor) Shape() []int { return append([]int(nil), t.shape[:t.rank]...) }

// SameShape reports whether t and u have the same type and shape.
func (t Tensor) SameShape(u Tensor) bool {
	return t.dtype == u.dtype && t.rank == u.rank && t.shape == u.shape
}

// Len returns the number of elements.
func (t Tensor) Len() int { return t.len }

// IsZero reports whether t is the zero Tensor.
func (t Tensor) IsZero() bool { return t.dtype == 0 }

// String returns type and shape, such as F32[16 4].
func (t Tensor) String() string {
	if t.IsZero() {
		return "Tensor{}"
	}
	return fmt.Sprintf("%v%v", t.dtype, t.shape[:t.rank])
}

// Bytes returns the memory of t.
func (t Tensor) Bytes() []byte {
	return unsafe.Slice((*byte)(t.ptr), t.len*dtypes[t.dtype].size)
}

// F32 returns the elements of a float32 tensor, as a view.
func (t Tensor) F32() []float32 { return data[float32](t, F32) }

// F64 returns the elements of a float64 tensor, as a view.
func (t Tensor) F64() []float64 { return data[float64](t, F64) }

// I32 returns the elements of an int32 tensor, as a view.
func (t Tensor) I32() []int32 { return data[int32](t, I32) }

// I64 returns the elements of an int64 tensor, as a view.
func (t Tensor) I64() []int64 { return data[int64](t, I64) }

// U8 returns the elements of a byte tensor, as a view.
func (t Tensor) U8() []byte { return data[byte](t, U8) }

// BF16 returns the bits of the elements of a bfloat16 tensor, as a view.
func (t Tensor) BF16() []uint16 { return data[uint16](t, BF16) }

// F16 returns the bits of the elements of a float16 tensor, as a view.
func (t Tensor) F16() []uint16 { return data[uint16](t, F16) }

// At returns the view t[i]. The view has one dimension less than t.
func (t Tensor) At(i int) Tensor {
	if t.rank == 0 || uint(i) >= uint(t.shape[0]) {
		panic(fmt.Sprintf("tensor: [%d] of %v", i, t))
	}
	v := Tensor{ptr: t.ptr, len: t.len / t.shape[0], rank: t.rank - 1, dtype: t.dtype}
	copy(v.shape[:], t.shape[1:])
	v.ptr = unsafe.Add(t.ptr, i*v.len*dtypes[t.dtype].size)
	return v
}

// Slice returns the view t[lo:hi], along the first dimension.
func (t Tensor) Slice(lo, hi int) Tensor {
	if t.rank == 0 || lo < 0 || hi < lo || hi > t.shape[0] {
		panic(fmt.Sprintf("tensor: [%d:%d] of %v", lo, hi, t))
	}
	row := count(t.shape[1:t.rank])
	v := t
	v.shape[0], v.len = hi-lo, row*(hi-lo)
	if v.len > 0 { // the pointer of an empty view could leave the memory of t
		v.ptr = unsafe.Add(t.ptr, lo*row*t.dtype.Size())
	}
	return v
}

// Reshape returns a view of t with the given shape. Both shapes must have the same number of elements.
func (t Tensor) Reshape(shape ...int) Tensor {
	if count(shape) != t.Len() || len(shape) > MaxRank {
		panic(fmt.Sprintf("tensor: reshape %v to %v", t, slices.Clone(shape)))
	}
	v := Tensor{ptr: t.ptr, len: t.len, dtype: t.dtype, rank: int8(len(shape))}
	copy(v.shape[:], shape)
	return v
}

// CopyFrom copies the elements of src to t. Both must have the same type and the same number of elements.
func (t Tensor) CopyFrom(src Tensor) {
	if t.dtype != src.dtype || t.Len() != src.Len() {
		panic(fmt.Sprintf("tensor: copy %v from %v", t, src))
	}
	copy(t.Bytes(), src.Bytes())
}

// Zero sets every element to 0.
func (t Tensor) Zero() { clear(t.Bytes()) }

// Clone returns a copy of t on the Go heap.
func (t Tensor) Clone() Tensor {
	if t.IsZero() {
		return t
	}
	c := New(t.dtype, t.shape[:t.rank]...)
	copy(c.Bytes(), t.Bytes())
	return c
}

func data[T any](t Tensor, want DType) []T {
	if t.dtype != want {
		t.refuse(want)
	}
	return unsafe.Slice((*T)(t.ptr), t.len)
}

// refuse panics unless t is the zero Tensor. It is a separate function so that data can be inlined.
//
//go:noinline
func (t Tensor) refuse(want DType) {
	if !t.IsZero() {
		panic(fmt.Sprintf("tensor: %v read as %v", t, want))
	}
}

func bytesOf[T any](x []T) []byte {
	var e T
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), len(x)*int(unsafe.Sizeof(e)))
}

func count(shape []int) int {
	n := 1
	for _, d := range shape {
		if d < 0 {
			// Print a clone: if shape itself were printed, every call would allocate it on the heap.
			panic(fmt.Sprintf("tensor: shape %v", slices.Clone(shape)))
		}
		n *= d
	}
	return n
}
