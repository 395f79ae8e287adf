package algo

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/tensor"
)

// A row's goals are the numbers some steps later and at the end, both of its own episode.
func TestGoals(t *testing.T) {
	const m = policy.GoalSteps + 4
	var d tensor.Dict
	terminated, truncated := make([]byte, m), make([]byte, m)
	truncated[1], terminated[m-1] = 1, 1
	x, y := tensor.New(tensor.F32, m, 1), tensor.New(tensor.F32, m, 2)
	for i := range m {
		x.F32()[i], y.F32()[2*i], y.F32()[2*i+1] = float32(i), float32(100+i), float32(200+i)
	}
	d.Set("terminated", tensor.Of(terminated, tensor.U8, m))
	d.Set("truncated", tensor.Of(truncated, tensor.U8, m))
	d.Set("observation.x", x)
	d.Set("observation.y", y)
	g := goals(d, []string{"y", "x"})
	for row, want := range map[int][2]int{0: {1, 1}, 1: {1, 1}, 2: {2 + policy.GoalSteps, m - 1}, 3: {m - 1, m - 1}} {
		soon, end := float32(want[0]), float32(want[1])
		if got, want := g.At(row).F32(), []float32{100 + soon, 200 + soon, soon, 100 + end, 200 + end,
			end}; !slices.Equal(got, want) {
			t.Errorf("row %d: %v, want %v", row, got, want)
		}
	}
}

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
	field := func(name string, dtype tensor.DType, shape ...int) tensor.Field {
		return tensor.Field{Name: name, DType: dtype, Shape: append([]int{7, 2}, shape...)}
	}
	d, err := ReadDemos(writeDemos(t, file), []tensor.Field{field("action", tensor.F32, 3, 1),
		field("reward", tensor.F32), field("terminated", tensor.U8), field("truncated", tensor.U8),
		field("observation.x", tensor.F32, 1),
		field("next_observation.x", tensor.F32, 1)})
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

// TestReturnsOfChunkedDemonstrations: in a return of several steps no action's reward counts twice. The step after a
// chunk is the chunk that begins where it ends. By hand: the rewards are 1, 2, 4, …, an episode ends after the fifth
// action, and the file ends within the second episode.
func TestReturnsOfChunkedDemonstrations(t *testing.T) {
	const m, half = 8, 0.5
	fields := transitions(1, 1, 1)
	fields[2].Shape = []int{1, 1, 2, 1} // chunks of two actions
	var file tensor.Dict
	file.Set("action", tensor.New(tensor.F32, m, 1, 1))
	file.Set("reward", tensor.FromF32([]float32{1, 2, 4, 8, 16, 32, 64, 128}, m))
	file.Set("terminated", tensor.Of([]byte{0, 0, 0, 0, 1, 0, 0, 0}, tensor.U8, m))
	file.Set("truncated", tensor.New(tensor.U8, m))
	file.Set("observation.state", tensor.New(tensor.F32, m, 1))
	file.Set("next_observation.state", tensor.FromF32([]float32{1, 2, 3, 4, 5, 6, 7, 8}, m, 1))
	d, err := ReadDemos(writeDemos(t, file), fields)
	if err != nil {
		t.Fatal(err)
	}
	r, err := newDemos(fields, d.Slice(0, m), tensor.Heap)
	if err != nil {
		t.Fatal(err)
	}
	rows := []int32{0, 1, 2, 3, 4, 5, 6, 7}
	b := r.NewBatch(m)
	for nStep, want := range map[int]struct{ reward, discount, next []float32 }{
		1: {[]float32{3, 6, 12, 24, 16, 96, 192, 128}, []float32{half, half, half, 0, 0, half, half, half},
			[]float32{2, 3, 4, 5, 5, 7, 8, 8}},
		2: {[]float32{3 + 12*half, 6 + 24*half, 12 + 16*half, 24, 16, 96 + 128*half, 192, 128},
			[]float32{half * half, 0, 0, 0, 0, half * half, half, half}, []float32{4, 5, 5, 5, 5, 8, 8, 8}},
		math.MaxInt: {[]float32{3 + 12*half + 16*half*half, 6 + 24*half, 12 + 16*half, 24, 16, 96 + 128*half, 192,
			128},
			[]float32{0, 0, 0, 0, 0, half * half, half, half}, []float32{5, 5, 5, 5, 5, 8, 8, 8}},
	} {
		r.Gather(b, rows, nStep, half, false)
		if !slices.Equal(b.Reward, want.reward) || !slices.Equal(b.Discount, want.discount) ||
			!slices.Equal(b.Next.Must("state").F32(), want.next) {
			t.Errorf("n_step %d: rewards %v, discounts %v, next %v, want %v", nStep, b.Reward, b.Discount,
				b.Next.Must("state").F32(), want)
		}
	}
}

// writeDemos writes demonstrations to a file, and returns its path.
func writeDemos(t *testing.T, d tensor.Dict) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "demos.safetensors")
	var b bytes.Buffer
	if err := tensor.WriteSafetensors(&b, d, nil); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}
