package lm_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy/lm"
	"github.com/rlinf/rlinf/policy/lm/lmtest"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/tensor"
)

// A layout says how a model is divided, and for how many layers the backward pass repeats the forward pass.
type layout struct{ size, stages, again int }

// A trained has the results of a short training, which must not depend on the layout.
type trained struct {
	outputs []float32 // of training, and of inference
	norms   []float64
	aux     []float64
	weights map[string][]float32 // whole
	decoded []float32            // logits of a prefill, and of tokens one by one; nil if there are several stages
}

// train makes three steps on the parts of a model, and returns their common results.
func train(t *testing.T, c lm.Config, o lm.Options, l layout) trained {
	t.Helper()
	meshes := lmtest.NewMeshes(l.size, l.stages)
	results, parts := make([]trained, len(meshes)), make([]*lm.Model, len(meshes))
	if err := lmtest.Run(len(meshes), func(i int) error {
		o, stage := o, i/l.size
		o.Part = lm.Shard{Index: i % l.size, Size: l.size, First: stage * c.Layers / l.stages,
			End: (stage + 1) * c.Layers / l.stages}
		m, err := lm.New(new(nn.Params[float32]), c, o)
		if err == nil {
			err = m.Alloc(tensor.Heap)
		}
		if err != nil {
			return err
		}
		setWeights(m)
		parts[i] = m
		return results[i].train(m, meshes[i], l.again, o.Values)
	}); err != nil {
		t.Fatalf("%+v: %v", l, err)
	}
	for i := range results {
		r, first := &results[i], &results[0]
		if !sameFloats(r.outputs, first.outputs) || !sameFloats(r.decoded, first.decoded) ||
			!slices.Equal(r.norms, first.norms) || !slices.Equal(r.aux, first.aux) {
			t.Fatalf("%+v: rank %d has other results than rank 0", l, i)
		}
	}
	results[0].weights = joinWeights(t, parts)
	return results[0]
}

// setWeights draws weights so that no bias and no adapter is 0.
func setWeights(m *lm.Model) {
	m.Init(1)
	for _, x := range append(m.Tensors(), m.Adapters()...) {
		for i := range x.Data {
			row, column := 0, i+x.Slice.From
			switch {
			case len(x.Shape) == 1:
				x.Data[i] += 0.02 * float32(column%5)
			case strings.HasSuffix(x.Name, "lora_B.weight"):
				if row, column = i/x.Shape[1], i%x.Shape[1]; x.Slice.Axis == 1 {
					column += x.Slice.From
				}
				x.Data[i] = 0.03 * float32((3*row+column)%11-5)
			}
		}
	}
}

func (r *trained) train(m *lm.Model, mesh lm.Mesh, again int, values bool) error {
	c := &m.Config
	w := m.NewRecomputing(120, again)
	w.Join(mesh)
	micros := [][][]int32{lengths(*c, 3, 40, 70), lengths(*c, 9), lengths(*c, 31, 2), lengths(*c, 1, 50),
		lengths(*c, 8, 8)}
	source := &source{micros: micros, trained: r}
	// Another replica may have all micro-batches of a step.
	for step, n := range []int{len(micros), 0, len(micros) - 2} {
		if err := r.step(m, w, n, values, source); err != nil {
			return err
		}
		rate := float32(0.3 / math.Sqrt(max(r.norms[len(r.norms)-1], 1e-9)) / float64(step+1))
		for i, g := range m.Params.Grad {
			m.Params.Data[i] -= rate * g
		}
	}
	if err := m.Infer(w, 2, lm.Head{Likeliest: true, Temperature: 1}, source); err != nil {
		return err
	}
	if m.Part().First > 0 || m.Part().End < c.Layers {
		return nil
	}
	return r.decode(m, mesh, micros[0][1])
}

// step computes the gradient of the first n micro-batches, and adds its norm to r. It checks that ranges of the
// gradient become final from the end to the beginning.
func (r *trained) step(m *lm.Model, w *lm.Work, n int, values bool, source *source) error {
	clear(m.Params.Grad)
	final, below := map[int][]float32{}, len(m.Params.Grad)
	err := m.Train(w, n, lm.Head{Values: values, Temperature: 0.75}, source, func(lo, hi int) {
		if hi > below {
			err := fmt.Errorf("range %d to %d is final after that from %d on", lo, hi, below)
			panic(err)
		}
		final[lo], below = slices.Clone(m.Params.Grad[lo:hi]), lo
	})
	if err != nil {
		return err
	}
	m.FinishGradients(w)
	for lo, x := range final {
		if !sameFloats(x, m.Params.Grad[lo:lo+len(x)]) {
			return fmt.Errorf("the gradient from %d on has changed after it was final", lo)
		}
	}
	if len(final) < len(m.Tensors())/20 {
		return fmt.Errorf("only %d ranges were final in time", len(final))
	}
	squares, err := m.GradSquares(w)
	r.norms = append(r.norms, squares)
	return err
}

// decode extends a text by its likeliest token four times, and adds the logits to r.
func (r *trained) decode(m *lm.Model, mesh lm.Mesh, text []int32) error {
	d := m.NewDecoding(64)
	d.Join(mesh)
	s := m.NewCache(20).NewText(64)
	logits, next := make([]float32, m.Config.Vocab), text
	for range 4 {
		if err := m.Extend(d, lm.Piece{Seq: s, IDs: next}); err != nil {
			return err
		}
		m.Logits(d, logits, []int32{int32(len(next) - 1)})
		r.decoded = append(r.decoded, logits...)
		next = []int32{int32(slices.Index(logits, slices.Max(logits)))}
	}
	return d.Err()
}

// A source gives micro-batches, and keeps the outputs.
type source struct {
	micros [][][]int32
	*trained
}

func (s *source) Micro(k int) lm.Micro {
	b := pack(s.micros[k]...)
	return lm.Micro{Batch: b, Targets: b.NextTokens(nil), Aux: 1.5 / float32(k+1)}
}

func (s *source) Got(_ int, o *lm.Outputs) {
	s.outputs = slices.Concat(s.outputs, o.LogProb, o.Entropy, o.Likeliest, o.Value)
	s.aux = append(s.aux, o.AuxLoss)
	for i, x := range o.DLogProb {
		o.DLogProb[i], o.DEntropy[i] = x+o.LogProb[i]/3, 0.1*o.Entropy[i]
	}
	for i, x := range o.Value {
		o.DValue[i] = x - 0.01*float32(i%7)
	}
}

// joinWeights returns the whole weights of which the models have parts. Models with the same part must agree.
func joinWeights(t *testing.T, parts []*lm.Model) map[string][]float32 {
	whole := map[string][]float32{}
	for _, m := range parts {
		for _, x := range append(m.Tensors(), m.Adapters()...) {
			shape := x.Slice.WholeShape(x.Shape)
			n := 1
			for _, d := range shape {
				n *= d
			}
			if whole[x.Name] == nil {
				whole[x.Name] = slices.Repeat([]float32{float32(math.NaN())}, n) // not set yet
			}
			row, span, from := 1, 1, 0
			if x.Slice.Whole > 0 {
				span, from = x.Slice.To-x.Slice.From, x.Slice.From
				for _, d := range shape[x.Slice.Axis+1:] {
					row *= d
				}
			}
			for i, v := range x.Data {
				at := i
				if x.Slice.Whole > 0 {
					at = (i/(row*span)*x.Slice.Whole+from+i/row%span)*row + i%row
				}
				if old := whole[x.Name][at]; old == old && math.Float32bits(old) != math.Float32bits(v) {
					t.Fatalf("%s: parts have %v and %v at element %d", x.Name, old, v, at)
				}
				whole[x.Name][at] = v
			}
		}
	}
	return whole
}

func sameFloats(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool { return math.Float32bits(x) == math.Float32bits(y) })
}

// layouts returns models whose layers can be divided among ranks.
func layouts() map[string]struct {
	c lm.Config
	o lm.Options
} {
	all := variants()
	for name, v := range all {
		v.c.Vocab = 300 // blocks of 38 tokens, the last of 34
		if name == "eight blocks" {
			v.c.KVHeads, v.c.Vocab = 8, 9 // most blocks of the vocabulary are empty
		}
		all[name] = v
	}
	wide := all["eight blocks"]
	wide.c.QKNorm, wide.c.Tied, wide.c.Vocab, wide.c.Layers = true, true, 300, 4
	all["eight blocks, tied"] = wide
	deep := all["qwen3_moe"]
	deep.c.Layers, deep.c.Experts.Dense = 8, nil
	all["eight layers"] = deep
	critic := all["qwen3"]
	critic.o.Values = true
	all["values"] = critic
	return all
}

// TestLayout: every layout gives the same bits as one rank.
func TestLayout(t *testing.T) {
	for name, v := range layouts() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := train(t, v.c, v.o, layout{1, 1, 0})
			for _, l := range []layout{{1, 1, 1}, {1, 2, 0}, {1, 4, 1}, {2, 1, 0}, {2, 2, 9}, {2, 4, 0},
				{4, 1, 1}, {4, 2, 0}, {8, 1, 0}, {1, 8, 3}} {
				if !slices.Contains(v.c.Sizes(), l.size) || l.stages > v.c.Layers {
					continue
				}
				got := train(t, v.c, v.o, l)
				if !sameFloats(got.outputs, want.outputs) || !slices.Equal(got.aux, want.aux) {
					t.Errorf("%+v: other outputs", l)
				}
				test.EqualSlices(t, got.norms, want.norms, "%+v: norms", l)
				if l.stages == 1 && !sameFloats(got.decoded, want.decoded) {
					t.Errorf("%+v: other logits of generation", l)
				}
				for tensor, x := range want.weights {
					if !sameFloats(got.weights[tensor], x) {
						t.Errorf("%+v: other %s", l, tensor)
					}
				}
			}
		})
	}
}
