package lm_test

import (
	"math"
	"slices"
	"sync"
	"testing"

	"github.com/rlinf/rlinf/policy/lm"
	"github.com/rlinf/rlinf/policy/lm/lmtest"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/tensor"
)

// A trained has all results of a short training that a layout may change.
type trained struct {
	logp, entropy []float32
	norms         []float64
	aux           []float64
	weights       map[string][]float32 // whole
	likely        []bool
	decoded       []float32 // logits of a prefill, and of tokens that follow one by one
	calls         int
}

// train makes three steps on parts of a model, and returns the results of part 0. All parts' slices are joined.
func train(t *testing.T, c lm.Config, o lm.Options, size int) trained {
	t.Helper()
	axes := lmtest.NewAxes(size)
	results := make([]trained, size)
	parts := make([]*lm.Model, size)
	var ranks sync.WaitGroup
	for i := range size {
		ranks.Go(func() {
			o := o
			o.Part = lm.Part{Index: i, Size: size}
			parts[i], results[i] = trainPart(t, c, o, axes[i])
		})
	}
	ranks.Wait()
	if t.Failed() {
		t.FailNow()
	}
	for i := range results[1:] {
		r, first := &results[i+1], &results[0]
		if !sameFloats(r.logp, first.logp) || !sameFloats(r.decoded, first.decoded) || !slices.Equal(r.norms, first.norms) {
			t.Fatalf("part %d has other results than part 0", i+1)
		}
	}
	results[0].weights = joinWeights(t, parts)
	results[0].calls = axes[0].Calls
	return results[0]
}

func trainPart(t *testing.T, c lm.Config, o lm.Options, a *lmtest.Axis) (*lm.Model, trained) {
	m, err := lm.New(new(nn.Params[float32]), c, o)
	if err == nil {
		err = m.Alloc(tensor.Heap)
	}
	if err != nil {
		t.Error(err)
		return nil, trained{}
	}
	m.Init(1)
	for _, x := range append(m.Tensors(), m.Adapters()...) {
		for i := range x.Data { // no adapter and no bias is 0
			if len(x.Shape) == 1 && x.Slice.Whole == 0 {
				x.Data[i] += 0.01 * float32(i%7)
			} else if x.Slice.Axis == 0 && len(x.Shape) == 1 {
				x.Data[i] += 0.02 * float32((i+x.Slice.From)%5)
			}
		}
	}
	for _, x := range m.Adapters() {
		if x.Name[len(x.Name)-len("B.weight")] == 'B' {
			for i := range x.Data {
				row, column := i/x.Shape[1], i%x.Shape[1]
				if x.Slice.Whole > 0 {
					column += x.Slice.From
				}
				x.Data[i] = 0.03 * float32((3*row+column)%11-5)
			}
		}
	}
	var r trained
	w := m.NewTraining(120)
	w.Join(a)
	sequences := lengths(c, 3, 40, 70)
	b := pack(sequences...)
	targets := b.NextTokens(nil)
	for step := range 3 {
		clear(m.Params.Grad)
		for _, part := range []lm.Batch{b, pack(lengths(c, 9)...)} {
			if err := m.Forward(w, part); err != nil {
				t.Error(err)
				return m, r
			}
			targets = part.NextTokens(targets[:0])
			logp, entropy := make([]float32, len(targets)), make([]float32, len(targets))
			dlogp, dentropy := make([]float32, len(targets)), make([]float32, len(targets))
			m.LogProbs(w, logp, entropy, targets, 0.75)
			for i := range dlogp {
				dlogp[i], dentropy[i] = logp[i]/3, 0.1*entropy[i]
			}
			r.likely = m.Likeliest(w, r.likely, targets)
			m.Backward(w, dlogp, dentropy, targets, 0.75, 1.5)
			r.logp, r.entropy = append(r.logp, logp...), append(r.entropy, entropy...)
			r.aux = append(r.aux, w.AuxLoss())
		}
		m.FinishGradients(w)
		squares, err := m.GradSquares(w)
		if err != nil {
			t.Error(err)
			return m, r
		}
		r.norms = append(r.norms, squares)
		rate := float32(0.3 / math.Sqrt(squares))
		for i, g := range m.Params.Grad {
			m.Params.Data[i] -= rate * g * float32(step+1)
		}
	}
	d := m.NewDecoding(64)
	d.Join(a)
	s := m.NewCache(20).NewSequence(64)
	logits := make([]float32, c.Vocab)
	next := sequences[1]
	for range 4 {
		if err := m.Extend(d, lm.Piece{Seq: s, IDs: next}); err != nil {
			t.Error(err)
			return m, r
		}
		m.Logits(d, logits, []int32{int32(len(next) - 1)})
		r.decoded = append(r.decoded, logits...)
		best := 0
		for id, x := range logits {
			if x > logits[best] {
				best = id
			}
		}
		next = []int32{int32(best)}
	}
	if err := d.Err(); err != nil {
		t.Error(err)
	}
	return m, r
}

// joinWeights returns the whole weights of which the models have parts. Parts of the same range must be equal.
func joinWeights(t *testing.T, parts []*lm.Model) map[string][]float32 {
	whole := map[string][]float32{}
	for _, m := range parts {
		for _, x := range append(m.Tensors(), m.Adapters()...) {
			shape := x.Slice.WholeShape(x.Shape)
			n := 1
			for _, d := range shape {
				n *= d
			}
			old := whole[x.Name]
			if old == nil {
				whole[x.Name] = make([]float32, n)
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
				} else if old != nil && math.Float32bits(old[i]) != math.Float32bits(v) {
					t.Fatalf("%s: parts have %v and %v at element %d", x.Name, old[i], v, i)
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

// layouts are models whose layers can be divided among ranks.
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
	wide.c.QKNorm, wide.c.Tied, wide.c.Vocab = true, true, 300
	all["eight blocks, tied"] = wide
	return all
}

// TestLayout: every layout gives the bits of one rank.
func TestLayout(t *testing.T) {
	for name, v := range layouts() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := train(t, v.c, v.o, 1)
			for _, size := range v.c.Sizes()[1:] {
				got := train(t, v.c, v.o, size)
				same := func(what string, got, want []float32) {
					if !sameFloats(got, want) {
						t.Errorf("%d ranks: other %s", size, what)
					}
				}
				same("log-probs", got.logp, want.logp)
				same("entropies", got.entropy, want.entropy)
				same("logits", got.decoded, want.decoded)
				if !slices.Equal(got.norms, want.norms) || !slices.Equal(got.aux, want.aux) ||
					!slices.Equal(got.likely, want.likely) {
					t.Errorf("%d ranks: norms %v, want %v; auxiliary losses %v, want %v", size, got.norms, want.norms,
						got.aux, want.aux)
				}
				for tensor, x := range want.weights {
					same(tensor, got.weights[tensor], x)
				}
				if got.calls == 0 {
					t.Errorf("%d ranks: no messages", size)
				}
			}
			if len(v.c.Sizes()) == 1 && name != "one block" {
				t.Errorf("one rank alone: %d blocks, %d key heads", v.c.Blocks(), v.c.KVHeads)
			}
		})
	}
}
