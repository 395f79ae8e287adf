package hf_test

import (
	"slices"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy/lm"
	"github.com/rlinf/rlinf/policy/lm/hf"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/tensor"
)

// Loading a slice of a weight, along any axis, gives the numbers that loading the whole weight gives there. The wide
// model has weights of several chunks.
func TestLoadSlices(t *testing.T) {
	wide := tiny(lm.Qwen2)
	wide.Vocab, wide.Hidden, wide.Intermediate = 70_000, 24, 90_000
	for _, c := range []lm.Config{tiny(lm.Qwen2), tiny(lm.Mixtral), wide} {
		for _, dtype := range []tensor.DType{tensor.F32, tensor.BF16} {
			m, dir := newModel(t, c, lm.Options{}), t.TempDir()
			test.OK(t, hf.Save(m, dir, hf.SaveOptions{DType: dtype, ShardBytes: 2000}))
			test.OK(t, hf.Load(m, dir))
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
						test.OK(t, hf.LoadTensors(dir, []lm.Weight{part}))
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

// partsOf returns the parts of a model of c in two stages, each divided among n ranks.
func partsOf(t *testing.T, c lm.Config, o lm.Options, n int) (parts []*lm.Model) {
	t.Helper()
	for stage := range 2 {
		for i := range n {
			o.Part = lm.Shard{Index: i, Size: n, First: stage, End: stage + 1}
			parts = append(parts, newModel(t, c, o))
		}
	}
	return parts
}

// checkPart compares the tensors of a part of a model with those of the whole model. It returns the number of elements
// that it compared.
func checkPart(t *testing.T, got, want []lm.Weight) (checked int) {
	t.Helper()
	for _, part := range got {
		whole := want[slices.IndexFunc(want, func(x lm.Weight) bool { return x.Name == part.Name })]
		b := part.Slice.Block(whole.Shape)
		if b.Len*b.Count != len(part.Data) {
			t.Fatalf("%s has %d elements, want %d", part.Name, len(part.Data), b.Len*b.Count)
		}
		nn.Overlap(b, nn.Slice{}.Block(whole.Shape), func(x, y, n int) {
			checked += n
			if !slices.Equal(part.Data[x:x+n], whole.Data[y:y+n]) {
				t.Fatalf("slice %+v of %s differs at %d", part.Slice, part.Name, y)
			}
		})
	}
	return checked
}

// The parts of a model have the initial weights of the whole model, and load their slices of its files and adapters.
func TestLoadParts(t *testing.T) {
	for _, f := range lm.Families {
		c := tiny(f)
		c.Heads, c.KVHeads, c.HeadDim, c.Intermediate, c.Vocab = 8, 4, 16, 24, 39
		c.Experts.Intermediate = 24
		if c.Experts.SharedIntermediate > 0 {
			c.Experts.SharedIntermediate = 24
		}
		lora := &lm.LoRA{Rank: 3, Alpha: 5, Targets: lm.Targets}
		whole, tuned := newModel(t, c, lm.Options{}), newModel(t, c, lm.Options{LoRA: lora})
		dir, adapters := t.TempDir(), t.TempDir()
		for _, size := range []int{1, 2, 4} {
			n := 0
			for _, part := range partsOf(t, c, lm.Options{}, size) {
				n += checkPart(t, part.Tensors(), whole.Tensors())
			}
			for _, part := range partsOf(t, c, lm.Options{LoRA: lora}, size) {
				n += checkPart(t, part.Adapters(), tuned.Adapters())
			}
			if least := whole.Count() + tuned.Params.Len(); n < least {
				t.Errorf("%s, %d parts: compared %d initial weights, want at least %d", f, size, n, least)
			}
		}
		for _, x := range tuned.Adapters() {
			for i := range x.Data {
				x.Data[i] = float32(i + len(x.Name))
			}
		}
		test.OK(t, hf.Save(whole, dir, hf.SaveOptions{ShardBytes: 9000}))
		test.OK(t, hf.SaveAdapter(tuned, adapters, dir, hf.Tokens{}))
		for _, size := range []int{1, 2, 4} {
			for _, part := range partsOf(t, c, lm.Options{LoRA: lora}, size) {
				part.Init(99)
				test.OK(t, hf.Load(part, dir))
				test.OK(t, hf.LoadAdapter(part, adapters))
				checkPart(t, part.Tensors(), whole.Tensors())
				checkPart(t, part.Adapters(), tuned.Adapters())
			}
		}
	}
}
