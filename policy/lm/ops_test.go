package lm

import (
	"maps"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/policy/nn/nntest"
	"github.com/rlinf/rlinf/tensor"
)

// TestCalls: the number of calls of Ops and of nn.Ops does not depend on the tokens of a batch.
func TestCalls(t *testing.T) {
	dense := Config{Family: Qwen3, Vocab: 23, Hidden: 24, Layers: 2, Heads: 4, KVHeads: 2, HeadDim: 16,
		Intermediate: 20, Eps: 1e-5, Rope: Rope{Theta: 1e4, Type: RopeDefault}, InitRange: 0.3,
		QKNorm: true, Tied: true}
	biased := dense
	biased.Family, biased.QKNorm, biased.Tied = Llama, false, false
	biased.QKVBias, biased.OutBias, biased.MLPBias = true, true, true
	experts := dense
	experts.Family, experts.Tied = Qwen3MoE, false
	experts.Experts = Experts{Count: 2, PerToken: 2, Intermediate: 12, AuxCoef: 0.1} // each token has all experts
	lora := &LoRA{Rank: 3, Alpha: 6, Targets: Targets}
	for name, c := range map[string]struct {
		config  Config
		options Options
		head    Head
	}{
		"dense":   {dense, Options{}, Head{Temperature: 0.5}},
		"biases":  {biased, Options{}, Head{Temperature: 1}},
		"lora":    {dense, Options{LoRA: lora}, Head{Temperature: 1}},
		"experts": {experts, Options{}, Head{Temperature: 1}},
		"values":  {dense, Options{Values: true}, Head{Values: true}},
	} {
		t.Run(name, func(t *testing.T) {
			m := test.Must(New(new(nn.Params[float32]), c.config, c.options))(t)
			test.OK(t, m.Alloc(tensor.Heap))
			m.Init(1)
			few, many := calls(t, m, c.head, 1, 2), calls(t, m, c.head, 7, 20)
			if !maps.Equal(few, many) {
				t.Errorf("calls %v, but with more tokens %v", few, many)
			}
			for _, name := range []string{"Product", "Gradient", "RMSNormGrad", "Rotate", "SwiGLUGrad", "AttendGrad"} {
				if few[name] == 0 {
					t.Errorf("no call of %s", name)
				}
			}
		})
	}
}

// calls returns the calls in a training step on some sequences of equal length.
func calls(t *testing.T, m *Model, h Head, sequences, length int) map[string]int {
	base := nntest.Count(m.Params)
	defer m.Params.Use(base.Ops)
	w := m.NewTraining(sequences * length)
	o := &counter{Ops: w.ops, calls: base.Calls}
	w.ops = o
	b := Batch{Starts: []int32{0}}
	for range sequences {
		for i := range length {
			b.IDs = append(b.IDs, int32(i))
		}
		b.Starts = append(b.Starts, int32(len(b.IDs)))
	}
	test.OK(t, m.Train(w, 1, h, &one{micro: Micro{Batch: b, Targets: b.NextTokens(nil)}}, nil))
	m.FinishGradients(w)
	return o.calls
}

// one is a Feed of one micro-batch, whose loss is the sum of the outputs.
type one struct {
	micro Micro
	got   *Outputs
}

func (s *one) Micro(int) Micro { return s.micro }

func (s *one) Got(_ int, o *Outputs) {
	s.got = o
	for i := range o.slopes {
		o.slopes[i] = 1
	}
}

// A counter counts the calls of its Ops.
type counter struct {
	Ops
	calls map[string]int
}

func (o *counter) Product(c []float32, m, n, blocks int, initial []float32, terms [3]Term) {
	o.calls["Product"]++
	o.Ops.Product(c, m, n, blocks, initial, terms)
}

func (o *counter) Gradient(c, a, b []float32, m, n, k int) {
	o.calls["Gradient"]++
	o.Ops.Gradient(c, a, b, m, n, k)
}

func (o *counter) RMSNorm(y, inv, x, w []float32, m, n int, eps float64) {
	o.calls["RMSNorm"]++
	o.Ops.RMSNorm(y, inv, x, w, m, n, eps)
}

func (o *counter) RMSNormGrad(dx, dw, dy, x, w, inv []float32, m, n, heads int, acc bool) {
	o.calls["RMSNormGrad"]++
	o.Ops.RMSNormGrad(dx, dw, dy, x, w, inv, m, n, heads, acc)
}

func (o *counter) Rotate(q, keys, cos, sin []float32, rows, heads, keyHeads, half int, scale float32, inverse bool) {
	o.calls["Rotate"]++
	o.Ops.Rotate(q, keys, cos, sin, rows, heads, keyHeads, half, scale, inverse)
}

func (o *counter) Embed(x, table []float32, ids []int32, width int, transposed bool) {
	o.calls["Embed"]++
	o.Ops.Embed(x, table, ids, width, transposed)
}

func (o *counter) AddEmbeddings(grad, x []float32, ids []int32, width int) {
	o.calls["AddEmbeddings"]++
	o.Ops.AddEmbeddings(grad, x, ids, width)
}

func (o *counter) SwiGLU(y, gate, up []float32) {
	o.calls["SwiGLU"]++
	o.Ops.SwiGLU(y, gate, up)
}

func (o *counter) SwiGLUGrad(y, gate, up, dy []float32) {
	o.calls["SwiGLUGrad"]++
	o.Ops.SwiGLUGrad(y, gate, up, dy)
}

func (o *counter) Attend(a *Attention) {
	o.calls["Attend"]++
	o.Ops.Attend(a)
}

func (o *counter) AttendGrad(a *Attention) {
	o.calls["AttendGrad"]++
	o.Ops.AttendGrad(a)
}

func (o *counter) CrossEntropy(sums, logits []float32, targets []Target, first, width, blocks, block int) {
	o.calls["CrossEntropy"]++
	o.Ops.CrossEntropy(sums, logits, targets, first, width, blocks, block)
}

func (o *counter) Values(values, hidden, weight, bias []float32, rows []int32) {
	o.calls["Values"]++
	o.Ops.Values(values, hidden, weight, bias, rows)
}

func (o *counter) CrossEntropyGrad(logits []float32, dists []Distribution, dlogp, dentropy []float32,
	targets []Target, first, width int) {
	o.calls["CrossEntropyGrad"]++
	o.Ops.CrossEntropyGrad(logits, dists, dlogp, dentropy, targets, first, width)
}
