package tensor

import (
	"bytes"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
)

// The reader reads the same tensors as ReadSafetensors, and returns an error for files that are cut off.
func TestSafetensorsReader(t *testing.T) {
	b, err := os.ReadFile("testdata/golden.safetensors")
	test.OK(t, err)
	want, meta, err := ReadSafetensors(b)
	test.OK(t, err)
	r := test.Must(NewSafetensorsReader(bytes.NewReader(b), int64(len(b))))(t)
	if !maps.Equal(r.Metadata, meta) || len(r.Fields) != want.Len() {
		t.Errorf("%d tensors, metadata %v; want %d, %v", len(r.Fields), r.Metadata, want.Len(), meta)
	}
	for i, f := range r.Fields {
		name, tensor := want.Entry(i)
		got := make([]byte, f.Bytes())
		for half, at := range []int{0, len(got) / 2} {
			test.OK(t, r.ReadTensor(i, got[at:len(got)/2+half*(len(got)-len(got)/2)], at))
		}
		if f.Name != name || f.DType != tensor.DType() || !slices.Equal(f.Shape, tensor.Shape()) ||
			!bytes.Equal(got, tensor.Bytes()) {
			t.Errorf("tensor %d: %v, want %q %v", i, f, name, tensor)
		}
	}
	for n := range len(b) {
		if _, err := NewSafetensorsReader(bytes.NewReader(b[:n]), int64(n)); err == nil ||
			!strings.Contains(err.Error(), "read safetensors from") {
			t.Fatalf("cut to %d bytes: %v", n, err)
		}
	}
}
