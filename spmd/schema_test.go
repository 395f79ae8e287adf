package spmd

import (
	"slices"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/tensor"
)

func TestSchemaRoundTrip(t *testing.T) {
	for _, fields := range [][]tensor.Field{
		nil,
		{{Name: "reward", DType: tensor.F32, Shape: []int{16}}},
		{{Name: "", DType: tensor.F64},
			{Name: strings.Repeat("x", 255), DType: tensor.BF16, Shape: []int{1, 2, 3, 4, 5, 0}},
			{Name: "a.b", DType: tensor.U8, Shape: []int{7}}},
	} {
		want := tensor.NewLayout(fields...)
		b := test.Must(appendSchema(nil, want))(t)
		got := test.Must(parseSchema(b))(t)
		if got.Size() != want.Size() || !slices.EqualFunc(got.Fields(), want.Fields(), func(a, b tensor.Field) bool {
			return a.Name == b.Name && a.DType == b.DType && slices.Equal(a.Shape, b.Shape)
		}) {
			t.Errorf("%+v came back as %+v", want.Fields(), got.Fields())
		}
	}
	if _, err := appendSchema(nil,
		tensor.NewLayout(tensor.Field{Name: strings.Repeat("x", 256), DType: tensor.U8})); err == nil {
		t.Error("a name of 256 bytes was taken")
	}
}

// Any bytes are either refused, or parsed to a layout whose schema gives that layout again. Nothing panics.
func FuzzSchema(f *testing.F) {
	for _, fields := range [][]tensor.Field{nil,
		{{Name: "a", DType: tensor.F32, Shape: []int{2, 3}}, {Name: "b", DType: tensor.I64}}} {
		b, err := appendSchema(nil, tensor.NewLayout(fields...))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
		f.Add(b[:len(b)-1])
	}
	f.Add([]byte{1, 0, 0, 1, 2, 255, 255, 255, 127, 255, 255, 255, 127})
	f.Fuzz(func(t *testing.T, b []byte) {
		l, err := parseSchema(b)
		if err != nil {
			return
		}
		again, err := appendSchema(nil, l)
		if err != nil || string(again) != string(b) {
			t.Errorf("%x was read, and written as %x, %v", b, again, err)
		}
	})
}

// Any message is either refused, or decoded to an item within the slab.
func FuzzUnpack(f *testing.F) {
	sl, err := newSlab(tensor.Heap, 64)
	if err != nil {
		f.Fatal(err)
	}
	sl.bind(tensor.NewLayout(tensor.Field{Name: "x", DType: tensor.F32, Shape: []int{4}}))
	msg, err := sl.pack(true)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(slices.Clone(msg))
	f.Add(slices.Clone(msg[:headerBytes]))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, msg []byte) {
		sl := test.Must(newSlab(tensor.Heap, 64))(t)
		n := copy(sl.mem, msg)
		var known []knownLayout
		d := decoder{known: &known}
		if h, err := d.unpack(sl, n); err == nil && h.kind == isItem {
			for i := range sl.item.Dict.Len() {
				_, x := sl.item.Dict.Entry(i)
				clear(x.Bytes())
			}
		}
	})
}
