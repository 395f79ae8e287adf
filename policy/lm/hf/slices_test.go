package hf_test

import (
	"slices"
	"testing"

	"github.com/rlinf/rlinf/policy/lm"
	"github.com/rlinf/rlinf/policy/lm/hf"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/tensor"
)

// Slices of every weight, along each axis, are what loading all of the weight gives there. The wide model has weights
// of several chunks.
func TestLoadSlices(t *testing.T) {
	wide := tiny(lm.Qwen2)
	wide.Vocab, wide.Hidden, wide.Intermediate = 70_000, 24, 90_000
	for _, c := range []lm.Config{tiny(lm.Qwen2), tiny(lm.Mixtral), wide} {
		for _, dtype := range []tensor.DType{tensor.F32, tensor.BF16} {
			m, dir := newModel(t, c, lm.Options{}), t.TempDir()
			if err := hf.Save(m, dir, hf.SaveOptions{DType: dtype, ShardBytes: 2000}); err != nil {
				t.Fatal(err)
			}
			if err := hf.Load(m, dir); err != nil {
				t.Fatal(err)
			}
			checked := 0
			for _, whole := range m.Tensors() {
				for axis, d := range whole.Shape {
					for _, cut := range [][2]int{{0, d / 2}, {d / 2, d}, {d / 3, d/3 + 1}, {d, d}} {
						part := whole
						part.Name = hf.FileName(c.Family, whole.Name)
						part.Slice = nn.Slice{Axis: axis, From: cut[0], To: cut[1], Whole: d}
						b := part.Slice.Block(whole.Shape)
						part.Shape, part.Data = slices.Clone(whole.Shape), make([]float32, b.Len*b.Count)
						part.Shape[axis] = cut[1] - cut[0]
						if err := hf.LoadTensors(dir, []lm.Tensor{part}); err != nil {
							t.Fatal(err)
						}
						nn.Overlap(b, nn.Slice{}.Block(whole.Shape), func(x, y, n int) {
							checked += n
							if !slices.Equal(part.Data[x:x+n], whole.Data[y:y+n]) {
								t.Fatalf("%v: slice %+v of %s %v differs at %d", dtype, part.Slice, whole.Name,
									whole.Shape, y)
							}
						})
					}
				}
			}
			if checked < 2*m.Count() {
				t.Errorf("compared %d elements, want at least %d", checked, 2*m.Count())
			}
		}
	}
}
