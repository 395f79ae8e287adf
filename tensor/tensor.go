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
//
// A Tensor has only four words, so that the compiler can keep it in registers.
type Tensor struct {
	ptr  unsafe.Pointer
	len  int   // number of elements
	n    int   // first dimension; 1 if there are no dimensions
	form *form // nil in the zero Tensor
}

// A form is the type and the shape of a tensor t, without its first dimension. Tensors share forms, and a form never
// changes.
type form struct {
	dtype DType
	rank  int   // number of dimensions, with the first
	row   int   // number of elements of t[i]
	n     int   // first dimension of t[i]; 1 if it has no dimensions
	part  *form // form of t[i]; nil if t has no dimensions
}

// scalars and vectors are the forms of all tensors with no and with one dimension, by type.
var (
	scalars = forms(func(d DType) form { return form{dtype: d, row: 1} })
	vectors = forms(func(d DType) form { return form{dtype: d, rank: 1, row: 1, n: 1, part: &scalars[d]} })
)

func forms(of func(DType) form) (table [len(dtypes)]form) {
	for d := range table {
		table[d] = of(DType(d))
	}
	return table
}

// newForm returns the form of tensors with the given shape. It allocates if there are at least two dimensions.
func newForm(dtype DType, shape []int) *form {
	switch len(shape) {
	case 0:
		return &scalars[dtype]
	case 1:
		return &vectors[dtype]
	}
	part := newForm(dtype, shape[1:])
	return &form{dtype: dtype, rank: len(shape), row: shape[1] * part.row, n: shape[1], part: part}
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
	t := Tensor{ptr: unsafe.Pointer(unsafe.SliceData(b)), len: n, n: first(shape), form: newForm(dtype, shape)}
	if uintptr(t.ptr)%uintptr(dtype.Size()) != 0 && len(b) > 0 {
		panic(fmt.Sprintf("tensor: %v memory is not aligned", dtype))
	}
	return t
}

// first returns the first dimension of a shape, or 1 if it has none.
func first(shape []int) int {
	if len(shape) == 0 {
		return 1
	}
	return shape[0]
}

// FromF32 returns a tensor of the given shape over the memory of x.
func FromF32(x []float32, shape ...int) Tensor { return Of(BytesOf(x), F32, shape...) }

// FromF64 returns a tensor of the given shape over the memory of x.
func FromF64(x []float64, shape ...int) Tensor { return Of(BytesOf(x), F64, shape...) }

// FromI32 returns a tensor of the given shape over the memory of x.
func FromI32(x []int32, shape ...int) Tensor { return Of(BytesOf(x), I32, shape...) }

// FromI64 returns a tensor of the given shape over the memory of x.
func FromI64(x []int64, shape ...int) Tensor { return Of(BytesOf(x), I64, shape...) }

// FromU8 returns a tensor of the given shape over the memory of x.
func FromU8(x []byte, shape ...int) Tensor { return Of(x, U8, shape...) }

// DType returns the element type.
func (t Tensor) DType() DType {
	if t.form == nil {
		return 0
	}
	return t.form.dtype
}

// Rank returns the number of dimensions.
func (t Tensor) Rank() int {
	if t.form == nil {
		return 0
	}
	return t.form.rank
}

// Dim returns the size of dimension i.
func (t Tensor) Dim(i int) int {
	if i >= t.Rank() {
		panic(fmt.Sprintf("tensor: dimension %d of %v", i, t))
	}
	n := t.n
	for f := t.form; i > 0; i-- {
		n, f = f.n, f.part
	}
	return n
}

// Shape returns a copy of the shape.
func (t Tensor) Shape() []int {
	var shape []int
	for i := range t.Rank() {
		shape = append(shape, t.Dim(i))
	}
	return shape
}

// SameShape reports whether t and u have the same type and shape.
func (t Tensor) SameShape(u Tensor) bool {
	if t.n != u.n {
		return false
	}
	f, g := t.form, u.form
	for f != g {
		if f == nil || g == nil || f.dtype != g.dtype || f.n != g.n {
			return false
		}
		f, g = f.part, g.part
	}
	return true
}

// Len returns the number of elements.
func (t Tensor) Len() int { return t.len }

// IsZero reports whether t is the zero Tensor.
func (t Tensor) IsZero() bool { return t.form == nil }

// String returns type and shape, such as F32[16 4].
func (t Tensor) String() string {
	if t.IsZero() {
		return "Tensor{}"
	}
	return fmt.Sprintf("%v%v", t.form.dtype, t.Shape())
}

// Bytes returns the memory of t.
func (t Tensor) Bytes() []byte {
	return unsafe.Slice((*byte)(t.ptr), t.len*dtypes[t.DType()].size)
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
	if t.Rank() == 0 || uint(i) >= uint(t.n) {
		panic(fmt.Sprintf("tensor: [%d] of %v", i, t))
	}
	f := t.form
	return Tensor{ptr: unsafe.Add(t.ptr, i*f.row*dtypes[f.dtype].size), len: f.row, n: f.n, form: f.part}
}

// Slice returns the view t[lo:hi], along the first dimension.
func (t Tensor) Slice(lo, hi int) Tensor {
	if t.Rank() == 0 || lo < 0 || hi < lo || hi > t.n {
		panic(fmt.Sprintf("tensor: [%d:%d] of %v", lo, hi, t))
	}
	if hi > lo { // the pointer of an empty view could leave the memory of t
		t.ptr = unsafe.Add(t.ptr, lo*t.form.row*dtypes[t.form.dtype].size)
	}
	t.n, t.len = hi-lo, (hi-lo)*t.form.row
	return t
}

// Reshape returns a view of t with the given shape. Both shapes must have the same number of elements. Reshape
// allocates if the shape has at least two dimensions.
func (t Tensor) Reshape(shape ...int) Tensor {
	if count(shape) != t.Len() || len(shape) > MaxRank {
		panic(fmt.Sprintf("tensor: reshape %v to %v", t, slices.Clone(shape)))
	}
	return Tensor{ptr: t.ptr, len: t.len, n: first(shape), form: newForm(t.DType(), shape)}
}

// CopyFrom copies the elements of src to t. Both must have the same type and the same number of elements.
func (t Tensor) CopyFrom(src Tensor) {
	if t.DType() != src.DType() || t.Len() != src.Len() {
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
	c := New(t.form.dtype, t.Shape()...)
	copy(c.Bytes(), t.Bytes())
	return c
}

func data[T any](t Tensor, want DType) []T {
	if t.form == nil || t.form.dtype != want {
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

// BytesOf returns the memory of x as bytes, without a copy.
func BytesOf[T any](x []T) []byte {
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
