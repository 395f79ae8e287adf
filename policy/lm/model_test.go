package lm_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy/lm"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/tensor"
)

// small returns a model whose split sums have two blocks, and whose widths are no multiples of a vector.
func small(f lm.Family) lm.Config {
	c := lm.Config{
		Family: f, Vocab: 23, Hidden: 24, Layers: 2, Heads: 4, KVHeads: 2, HeadDim: 16, Intermediate: 20, Eps: 1e-5,
		Rope: lm.Rope{Theta: 1e4, Type: lm.RopeDefault}, InitRange: 0.3,
	}
	x := lm.Experts{Count: 5, PerToken: 2, Intermediate: 12, AuxCoef: 0.1}
	switch f {
	case lm.Qwen2:
		c.QKVBias, c.Tied = true, true
	case lm.Qwen3:
		c.QKNorm, c.Tied = true, true
	case lm.Llama:
		c.QKVBias, c.OutBias, c.MLPBias = true, true, true
	case lm.Qwen2MoE:
		c.QKVBias, c.Experts = true, x
		c.Experts.SharedIntermediate = 18
	case lm.Qwen3MoE:
		c.QKNorm, c.Experts = true, x
		c.Experts.Normalize, c.Experts.Dense = true, []bool{true, false}
	case lm.Mixtral:
		c.Experts = x
		c.Experts.Normalize, c.Experts.Intermediate = true, c.Intermediate
	}
	return c
}

// variants returns models of every family, with every kind of rotation, and with adapters.
func variants() map[string]struct {
	c lm.Config
	o lm.Options
} {
	type variant = struct {
		c lm.Config
		o lm.Options
	}
	all := map[string]variant{}
	for _, f := range lm.Families {
		all[string(f)] = variant{c: small(f)}
	}
	for _, r := range []lm.Rope{
		{Type: lm.RopeLinear, Factor: 4},
		{Type: lm.RopeLlama3, Factor: 8, LowFreqFactor: 1, HighFreqFactor: 4, Original: 32},
		{Type: lm.RopeYarn, Factor: 4, BetaFast: 32, BetaSlow: 1, Original: 64},
	} {
		c := small(lm.Llama)
		c.Rope = r
		c.Rope.Theta = 1e4
		all["rope "+string(r.Type)] = variant{c: c}
	}
	targets := &lm.LoRA{Rank: 3, Alpha: 6, Targets: lm.Targets}
	all["lora"] = variant{small(lm.Qwen2), lm.Options{LoRA: targets}}
	all["lora of experts"] = variant{small(lm.Qwen2MoE), lm.Options{LoRA: targets}}
	wide := small(lm.Llama) // sums in eight blocks
	wide.Heads, wide.KVHeads, wide.HeadDim, wide.Intermediate = 8, 1, 32, 40
	all["eight blocks"] = variant{c: wide}
	odd := small(lm.Qwen2) // one block
	odd.Heads, odd.KVHeads, odd.Intermediate = 7, 1, 21
	all["one block"] = variant{c: odd}
	return all
}

func newModel(t testing.TB, c lm.Config, o lm.Options) *lm.Model {
	t.Helper()
	m := test.Must(lm.New(new(nn.Params[float32]), c, o))(t)
	test.OK(t, m.Alloc(tensor.Heap))
	m.Init(1)
	rng := rand.New(rand.NewPCG(1, 2)) // no weight stays 0 or 1
	for _, x := range append(m.Tensors(), m.Adapters()...) {
		if len(x.Shape) == 1 || strings.Contains(x.Name, "lora") {
			for i := range x.Data {
				x.Data[i] += float32(0.2 * rng.NormFloat64())
			}
		}
	}
	return m
}

func randomIDs(n, vocab int, seed uint64) []int32 {
	rng := rand.New(rand.NewPCG(seed, 3))
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = int32(rng.IntN(vocab))
	}
	return ids
}

func pack(sequences ...[]int32) lm.Batch {
	b := lm.Batch{Starts: []int32{0}}
	for _, s := range sequences {
		b.IDs = append(b.IDs, s...)
		b.Starts = append(b.Starts, int32(len(b.IDs)))
	}
	return b
}

func lengths(c lm.Config, n ...int) (all [][]int32) {
	for i, l := range n {
		all = append(all, randomIDs(l, c.Vocab, uint64(i)))
	}
	return all
}

// The logits of every family are those of its definition, also for texts longer than a block of keys.
func TestForward(t *testing.T) {
	for name, v := range variants() {
		t.Run(name, func(t *testing.T) {
			m := newModel(t, v.c, v.o)
			r := newReference(m)
			if m.Config.Tied {
				r.weights["lm_head.weight"] = r.weights["model.embed_tokens.weight"]
			}
			w := m.NewTraining(100)
			sequences := lengths(v.c, 1, 5, 70)
			test.OK(t, m.Forward(w, pack(sequences...)))
			rows := make([]int32, w.Rows())
			for i := range rows {
				rows[i] = int32(i)
			}
			got := make([]float32, len(rows)*v.c.Vocab)
			m.Logits(w, got, rows)
			out := &reached{share: make([]float64, v.c.Experts.Count), probs: make([]float64, v.c.Experts.Count)}
			for _, s := range sequences {
				r.run(s, lora(v.o), out)
			}
			worst := 0.0
			for i, want := range slices.Concat(out.logits...) {
				worst = max(worst, math.Abs(float64(got[i])-want))
			}
			if worst > 5e-5 || len(got) != len(slices.Concat(out.logits...)) {
				t.Errorf("logits differ by up to %g", worst)
			}
			if v.c.Experts.Count > 0 {
				want := r.loss(sequences, make([]float64, 99), make([]float64, 99), 1, 1,
					lora(v.o)) / v.c.Experts.AuxCoef
				if got := w.AuxLoss(); math.Abs(got-want) > 1e-6 {
					t.Errorf("auxiliary loss %g, want %g", got, want)
				}
			}
		})
	}
}

func lora(o lm.Options) float64 {
	if o.LoRA == nil {
		return 0
	}
	return float64(o.LoRA.Scale())
}

// Gradients are equal to central differences of the definition, along a random direction and at one element of each
// tensor. The loss has entropies, a temperature and the auxiliary loss.
func TestGradients(t *testing.T) {
	for name, v := range variants() {
		if testing.Short() && name != "lora of experts" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			m := newModel(t, v.c, v.o)
			r := newReference(m)
			sequences := lengths(v.c, 2, 9, 6)
			b := pack(sequences...)
			targets := b.NextTokens(nil)
			const temperature, aux = 0.75, 1.5
			rng := rand.New(rand.NewPCG(4, 5))
			weight, bonus := make([]float64, len(targets)), make([]float64, len(targets))
			dlogp, dentropy := make([]float32, len(targets)), make([]float32, len(targets))
			for i := range targets {
				dlogp[i], dentropy[i] = float32(rng.NormFloat64()), float32(rng.NormFloat64())
				weight[i], bonus[i] = float64(dlogp[i]), float64(dentropy[i])
			}
			w := m.NewTraining(20)
			test.OK(t, m.Forward(w, b))
			m.LogProbs(w, make([]float32, len(targets)), make([]float32, len(targets)), targets, temperature)
			m.Backward(w, dlogp, dentropy, targets, temperature, aux)
			m.FinishGradients(w)

			loss := func() float64 { return r.loss(sequences, weight, bonus, temperature, aux, lora(v.o)) }
			checked, worst := 0, 0.0
			for _, x := range append(m.Tensors(), m.Adapters()...) {
				if x.Grad != nil {
					checked++
					worst = max(worst, compareGradient(t, x.Name, x.Grad, r.weights[x.Name], loss, rng))
				} else if v.o.LoRA == nil {
					t.Errorf("%s has no gradient", x.Name)
				}
			}
			if want := len(m.Params.Fields); checked != want {
				t.Errorf("%d tensors checked, %d are trainable", checked, want)
			}
			t.Logf("%d tensors, largest difference %.2g of the root mean square", checked, worst)
		})
	}
}

// compareGradient compares the gradient of a tensor with central differences of the loss, which depends on data. It
// returns the largest difference relative to the gradient's root mean square.
func compareGradient(t *testing.T, name string, grad []float32, data []float64, loss func() float64,
	rng *rand.Rand) (worst float64) {
	t.Helper()
	norm := 0.0
	for _, g := range grad {
		norm += float64(g) * float64(g)
	}
	scale := math.Sqrt(norm/float64(len(grad))) + 1e-3
	for try := range 2 {
		direction := make([]float64, len(data))
		if try == 0 {
			for i := range direction {
				direction[i] = rng.NormFloat64() / math.Sqrt(float64(len(data)))
			}
		} else {
			direction[rng.IntN(len(data))] = 1
		}
		const h = 1e-5
		at := func(step float64) float64 {
			for i, u := range direction {
				data[i] += step * u
			}
			defer func() {
				for i, u := range direction {
					data[i] -= step * u
				}
			}()
			return loss()
		}
		want := (at(h) - at(-h)) / (2 * h)
		got := 0.0
		for i, u := range direction {
			got += u * float64(grad[i])
		}
		worst = max(worst, math.Abs(got-want)/scale)
		if math.Abs(got-want) > 2e-4*scale+1e-4*math.Abs(want) {
			t.Errorf("%s, direction %d: %.7g, want %.7g", name, try, got, want)
		}
	}
	return worst
}

// A token's log-probability has the same bits in training, in any batch, and with a cache, in pieces of any size.
func TestSameBits(t *testing.T) {
	for name, v := range variants() {
		t.Run(name, func(t *testing.T) {
			m := newModel(t, v.c, v.o)
			sequences := lengths(v.c, 90, 3, 17, 64, 65, 16, 1, 33)
			var want []float32 // of each sequence alone, in training
			alone := m.NewTraining(90)
			for _, s := range sequences {
				test.OK(t, m.Forward(alone, pack(s)))
				want = append(want, logProbs(m, alone, pack(s))...)
			}

			packed := m.NewTraining(400)
			test.OK(t, m.Forward(packed, pack(sequences...)))
			equal(t, "packed", logProbs(m, packed, pack(sequences...)), want)

			w, cache := m.NewDecoding(400), m.NewCache(64)
			for _, size := range []int{1, 2, 7, 16, 50, 90} {
				equal(t, fmt.Sprint("pieces of ", size), inPieces(t, m, w, cache, sequences, size), want)
			}
		})
	}
}

// inPieces returns the log-probabilities of sequences that are extended in one batch. The pieces of sequence 0 have
// size tokens, those of the next sequences size+1, size+2, size, … tokens.
func inPieces(t *testing.T, m *lm.Model, w *lm.Work, cache *lm.Cache, sequences [][]int32, size int) []float32 {
	t.Helper()
	var all []*lm.CachedText
	got := make([][]float32, len(sequences))
	for range sequences {
		all = append(all, cache.NewText(90))
	}
	for {
		var pieces []lm.Piece
		var targets []lm.Target
		var owner []int // the sequence of each target
		row := 0
		for i, s := range sequences {
			from := all[i].Len()
			n := min(len(s)-from, size+i%3)
			if n == 0 {
				continue
			}
			pieces = append(pieces, lm.Piece{Seq: all[i], IDs: s[from : from+n]})
			for j := range n {
				if from+j+1 < len(s) {
					targets = append(targets, lm.Target{Row: int32(row + j), Token: s[from+j+1]})
					owner = append(owner, i)
				}
			}
			row += n
		}
		if len(pieces) == 0 {
			break
		}
		test.OK(t, m.Extend(w, pieces...))
		logp := make([]float32, len(targets))
		m.LogProbs(w, logp, nil, targets, 1)
		for i, x := range logp {
			got[owner[i]] = append(got[owner[i]], x)
		}
	}
	for _, s := range all {
		s.Truncate(0)
	}
	return slices.Concat(got...)
}

func logProbs(m *lm.Model, w *lm.Work, b lm.Batch) []float32 {
	targets := b.NextTokens(nil)
	logp := make([]float32, len(targets))
	m.LogProbs(w, logp, nil, targets, 1)
	return logp
}

func equal(t *testing.T, what string, got, want []float32) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d log-probs, want %d", what, len(got), len(want))
	}
	for i := range got {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
			t.Fatalf("%s: log-prob %d is %v, want %v", what, i, got[i], want[i])
		}
	}
}

// Decoding gives the same bits in batches of 1 to 64 sequences.
func TestBatchSizes(t *testing.T) {
	for _, f := range []lm.Family{lm.Qwen2, lm.Mixtral} {
		m := newModel(t, small(f), lm.Options{})
		const n, length = 64, 5
		w, cache := m.NewDecoding(n), m.NewCache(n)
		var want [n][length][]float32
		for _, size := range []int{1, 2, 3, 5, 8, 17, 31, 64} {
			for first := 0; first+size <= n; first += size {
				var seqs []*lm.CachedText
				for range size {
					seqs = append(seqs, cache.NewText(length))
				}
				for step := range length {
					var pieces []lm.Piece
					var rows []int32
					for i, s := range seqs {
						pieces = append(pieces,
							lm.Piece{Seq: s, IDs: randomIDs(length, m.Config.Vocab, uint64(first+i))[step : step+1]})
						rows = append(rows, int32(i))
					}
					test.OK(t, m.Extend(w, pieces...))
					out := make([]float32, size*m.Config.Vocab)
					m.Logits(w, out, rows)
					for i := range seqs {
						row := out[i*m.Config.Vocab : (i+1)*m.Config.Vocab]
						if size == 1 {
							want[first+i][step] = row
						} else {
							equal(t, fmt.Sprint(f, " batch of ", size), row, want[first+i][step])
						}
					}
				}
				for _, s := range seqs {
					s.Truncate(0)
				}
			}
		}
	}
}

// Gradients have the same bits for any division of the sequences into micro-batches.
func TestMicroBatches(t *testing.T) {
	for name, v := range variants() {
		t.Run(name, func(t *testing.T) {
			m := newModel(t, v.c, v.o)
			w := m.NewTraining(300)
			sequences := lengths(v.c, 70, 3, 17, 64, 2, 33)
			run := func(parts ...[][]int32) []float32 {
				clear(m.Params.Grad)
				for _, p := range parts {
					b := pack(p...)
					test.OK(t, m.Forward(w, b))
					targets := b.NextTokens(nil)
					dlogp := make([]float32, len(targets))
					for i, x := range targets {
						dlogp[i] = float32(x.Token%5) - 1.7
					}
					m.LogProbs(w, make([]float32, len(targets)), nil, targets, 1)
					m.Backward(w, dlogp, nil, targets, 1, 0)
				}
				m.FinishGradients(w)
				return slices.Clone(m.Params.Grad)
			}
			want := run(sequences)
			equal(t, "two", run(sequences[:2], sequences[2:]), want)
			equal(t, "one each", run(sequences[:1], sequences[1:2], sequences[2:3], sequences[3:4], sequences[4:5],
				sequences[5:]), want)
		})
	}
}
