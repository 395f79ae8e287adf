package algo

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/rlinf/rlinf/tensor"
)

// Demonstrations of single actions become chunks, which end with their episodes.
func TestChunkedDemonstrations(t *testing.T) {
	const m = 6
	var file tensor.Dict
	file.Set("action", tensor.FromF32([]float32{0, 1, 2, 3, 4, 5}, m, 1, 1))
	file.Set("reward", tensor.FromF32([]float32{1, 2, 4, 8, 16, 32}, m))
	file.Set("terminated", tensor.Of([]byte{0, 0, 0, 1, 0, 0}, tensor.U8, m))
	file.Set("truncated", tensor.Of([]byte{0, 0, 0, 0, 0, 1}, tensor.U8, m))
	file.Set("observation.x", tensor.FromF32([]float32{0, 1, 2, 3, 4, 5}, m, 1))
	file.Set("next_observation.x", tensor.FromF32([]float32{1, 2, 3, 9, 5, 6}, m, 1))
	path := filepath.Join(t.TempDir(), "demos.safetensors")
	b, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if err := tensor.WriteSafetensors(b, file, nil); err != nil {
		t.Fatal(err)
	}
	field := func(name string, dtype tensor.DType, shape ...int) tensor.Field {
		return tensor.Field{Name: name, DType: dtype, Shape: append([]int{7, 2}, shape...)}
	}
	d, err := ReadDemos(path, []tensor.Field{field("action", tensor.F32, 3, 1), field("reward", tensor.F32), field("terminated", tensor.U8),
		field("truncated", tensor.U8), field("observation.x", tensor.F32, 1), field("next_observation.x", tensor.F32, 1)})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]float32{
		"action": {0, 1, 2, 1, 2, 3, 2, 3, 3, 3, 3, 3, 4, 5, 5, 5, 5, 5}, "reward": {7, 14, 12, 8, 48, 32},
		"observation.x": {0, 1, 2, 3, 4, 5}, "next_observation.x": {3, 9, 9, 9, 6, 6},
	} {
		if got := d.Must(name).F32(); !slices.Equal(got, want) {
			t.Errorf("%s %v, want %v", name, got, want)
		}
	}
	if got := d.Must("terminated").U8(); !slices.Equal(got, []byte{0, 1, 1, 1, 0, 0}) {
		t.Errorf("terminated %v", got)
	}
}
