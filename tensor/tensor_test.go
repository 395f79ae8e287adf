package tensor

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/rlinf/rlinf/internal/test"
)

// panics reports whether f panics with a text that contains want.
func panics(t *testing.T, want string, f func()) {
	t.Helper()
	defer func() {
		t.Helper()
		if text, ok := recover().(string); !ok || !strings.Contains(text, want) {
			t.Errorf("panic with %q, want %q", text, want)
		}
	}()
	f()
}

func ramp(shape ...int) Tensor {
	t := New(F32, shape...)
	for i := range t.F32() {
		t.F32()[i] = float32(i)
	}
	return t
}

func TestViewsShareMemory(t *testing.T) {
	x := ramp(4, 3, 2)
	if got, want := x.At(1).F32(), []float32{6, 7, 8, 9, 10, 11}; !slices.Equal(got, want) {
		t.Errorf("At(1): %v, want %v", got, want)
	}
	if got, want := x.At(3).At(2).At(1).F32(), []float32{23}; !slices.Equal(got, want) {
		t.Errorf("At(3).At(2).At(1): %v, want %v", got, want)
	}
	s := x.Slice(1, 3)
	if got, want := s.Shape(), []int{2, 3, 2}; !slices.Equal(got, want) {
		t.Errorf("shape %v, want %v", got, want)
	}
	s.Reshape(12).F32()[0] = -1
	if x.F32()[6] != -1 {
		t.Error("a view of a view has memory of its own")
	}
	c := x.Clone()
	c.F32()[0] = 99
	if x.F32()[0] != 0 {
		t.Error("a clone shares memory")
	}
	if e := x.Slice(4, 4); e.Len() != 0 || len(e.Bytes()) != 0 || e.Dim(0) != 0 {
		t.Errorf("an empty view: %v", e)
	}
	if !x.At(0).SameShape(New(F32, 3, 2)) || x.At(0).SameShape(New(I32, 3, 2)) || x.At(0).SameShape(New(F32, 2, 3)) {
		t.Error("SameShape")
	}
}

func TestTypes(t *testing.T) {
	for _, c := range []struct {
		x    Tensor
		text string
		size int
	}{
		{FromF32([]float32{1, 2}, 2), "F32[2]", 8},
		{FromF64([]float64{1, 2}, 1, 2), "F64[1 2]", 16},
		{FromI32([]int32{1, 2}, 2, 1), "I32[2 1]", 8},
		{FromI64([]int64{1, 2}, 2), "I64[2]", 16},
		{FromU8([]byte{1, 2}, 2), "U8[2]", 2},
		{New(BF16, 3), "BF16[3]", 6},
		{New(F32), "F32[]", 4},
		{New(F32, 0, 5), "F32[0 5]", 0},
		{Tensor{}, "Tensor{}", 0},
	} {
		if c.x.String() != c.text || len(c.x.Bytes()) != c.size {
			t.Errorf("%v of %d bytes, want %s of %d", c.x, len(c.x.Bytes()), c.text, c.size)
		}
	}
	if x := FromI64([]int64{7, 8}, 2); x.I64()[1] != 8 || x.DType() != I64 || x.Rank() != 1 {
		t.Error("I64")
	}
	if (Tensor{}).F32() != nil || (Tensor{}).Len() != 0 || !(Tensor{}).IsZero() || !(Tensor{}).Clone().IsZero() {
		t.Error("the zero Tensor is not empty")
	}
}

func TestBrokenPromisesPanic(t *testing.T) {
	x := ramp(4, 3)
	panics(t, "F32[4 3] read as I32", func() { x.I32() })
	panics(t, "[3:5] of F32[4 3]", func() { x.Slice(3, 5) })
	panics(t, "[2:1] of F32[4 3]", func() { x.Slice(2, 1) })
	panics(t, "[4] of F32[4 3]", func() { x.At(4) })
	panics(t, "of F32[]", func() { New(F32).At(0) })
	panics(t, "dimension 2 of F32[4 3]", func() { x.Dim(2) })
	panics(t, "reshape F32[4 3] to [5]", func() { x.Reshape(5) })
	panics(t, "copy F32[4 3] from F32[3]", func() { x.CopyFrom(ramp(3)) })
	panics(t, "copy F32[4 3] from I32[4 3]", func() { x.CopyFrom(New(I32, 4, 3)) })
	panics(t, "8 bytes for F32[3], expected 12", func() { Of(make([]byte, 8), F32, 3) })
	panics(t, "not aligned", func() { Of(New(U8, 9).Bytes()[1:], F32, 2) })
	panics(t, "shape [-1]", func() { New(F32, -1) })
	panics(t, "7 dimensions, at most 6", func() { New(F32, 1, 1, 1, 1, 1, 1, 1) })
	panics(t, "no such dtype 0", func() { New(0, 1) })
}

func TestViewsDoNotAllocate(t *testing.T) {
	x, y := ramp(4, 3), ramp(4, 3)
	test.NoAllocs(t, 100, func() {
		x.At(1).CopyFrom(y.Slice(2, 3).Reshape(3))
		x.F32()[0] += y.F32()[x.Len()-1]
	})
}

func TestMemoryIsAligned(t *testing.T) {
	check := func(what string, b []byte) {
		t.Helper()
		if uintptr(unsafe.Pointer(unsafe.SliceData(b)))%Align != 0 {
			t.Errorf("%s is not on %d bytes", what, Align)
		}
	}
	l := NewLayout(Field{"a.b", U8, []int{3}}, Field{"empty", F32, []int{0, 4}}, Field{"c", F64, []int{2, 2}},
		Field{"scalar", I32, nil})
	if l.Size() != 192 {
		t.Errorf("layout of %d bytes, want 192", l.Size())
	}
	mem := New(U8, l.Size()).Bytes()
	d := l.Bind(mem)
	for i := range d.Len() {
		_, x := d.Entry(i)
		check("layout tensor", x.Bytes())
	}
	d.Must("c").F64()[3] = 1
	if bytes.Count(mem, []byte{0}) != len(mem)-2 { // 1.0 has two bytes that are not 0
		t.Error("a bound tensor is not in the memory it was bound to")
	}
	panics(t, `two "a"`, func() { NewLayout(Field{"a", U8, nil}, Field{"a", U8, nil}) })
	check("Heap(0)", func() []byte { b, _ := Heap(0); return b }())
}

func TestDict(t *testing.T) {
	var d Dict
	d.Set("observation.state", ramp(4, 2))
	d.Set("observation.image.left", New(U8, 4, 3))
	d.Set("observations", ramp(4))
	d.Set("reward", ramp(4))
	if got, want := d.Sub("observation").String(), "{state: F32[4 2], image.left: U8[4 3]}"; got != want {
		t.Errorf("Sub: %s, want %s", got, want)
	}
	want := "{observation.state: F32[2 2], observation.image.left: U8[2 3], observations: F32[2], reward: F32[2]}"
	test.Equal(t, d.Slice(1, 3).String(), want, "Slice")
	d.Set("reward", New(F32, 4, 1))
	if name, x := d.Entry(3); d.Len() != 4 || name != "reward" || x.Rank() != 2 {
		t.Errorf("Set did not replace: %v", d)
	}
	if _, ok := d.Get("value"); ok {
		t.Error("Get found what is not there")
	}
	panics(t, `no "value" among [observation.state`, func() { d.Must("value") })

	var part Dict
	part.Set("reward", New(F32, 4, 1))
	d.Must("reward").F32()[2] = 5
	part.CopyFrom(d)
	if part.Must("reward").F32()[2] != 5 {
		t.Error("CopyFrom did not copy")
	}
}
