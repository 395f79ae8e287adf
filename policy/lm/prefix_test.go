package lm_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy/lm"
)

// prefixed returns a batch of two sequences, some of whose rows are given: 70 tokens with a prefix of 66 tokens, and 9
// tokens with a prefix of 5.
func prefixed(c lm.Config, parallel bool) lm.Batch {
	b := pack(lengths(c, 70, 9)...)
	b.Prefix, b.Parallel = []int32{66, 5}, parallel
	rng := rand.New(rand.NewPCG(7, 8))
	for i := range b.IDs {
		if i%3 == 0 {
			b.IDs[i] = lm.Given
			for range c.Hidden {
				b.Given = append(b.Given, float32(0.3*rng.NormFloat64()))
			}
		}
	}
	return b
}

func hidden(t *testing.T, m *lm.Model, w *lm.Work, b lm.Batch) []float32 {
	t.Helper()
	test.OK(t, m.Forward(w, b))
	return slices.Clone(w.Hidden())
}

// A change of one token changes the hidden states of those tokens that see it, and of no other.
func TestPrefixMask(t *testing.T) {
	for _, parallel := range []bool{false, true} {
		c := small(lm.Llama)
		c.Layers = 1
		m := newModel(t, c, lm.Options{})
		w := m.NewTraining(100)
		b := prefixed(c, parallel)
		want := hidden(t, m, w, b)
		for _, j := range []int{0, 40, 65, 66, 67, 69, 70, 74, 75, 78} {
			changed := b
			changed.IDs, changed.Given = slices.Clone(b.IDs), slices.Clone(b.Given)
			if row := j / 3; b.IDs[j] == lm.Given {
				changed.Given[row*c.Hidden] += 1
			} else {
				changed.IDs[j] = (b.IDs[j] + 1) % int32(c.Vocab)
			}
			got := hidden(t, m, w, changed)
			first, n, prefix := 0, 70, 66
			if j >= 70 {
				first, n, prefix = 70, 9, 5
			}
			for i := range b.IDs {
				here, there := i-first, j-first
				sees := i == j || here >= 0 && here < n &&
					(there < prefix || here >= prefix && (parallel || there <= here))
				same := slices.Equal(got[i*c.Hidden:(i+1)*c.Hidden], want[i*c.Hidden:(i+1)*c.Hidden])
				if same == sees {
					t.Errorf("parallel %v: token %d changed: token %d sees it: %v, its hidden state is the same: %v",
						parallel, j, i, sees, same)
				}
			}
		}
	}
}

// Hidden states have the same bits in any batch, in inference, and with a cache.
func TestPrefixBits(t *testing.T) {
	for _, parallel := range []bool{false, true} {
		c := small(lm.Qwen3)
		m := newModel(t, c, lm.Options{Headless: true})
		b := prefixed(c, parallel)
		want := hidden(t, m, m.NewTraining(100), b)
		if got := hidden(t, m, m.NewInference(100), b); !slices.Equal(got, want) {
			t.Errorf("parallel %v: inference gives other hidden states", parallel)
		}
		given := 0
		for _, id := range b.IDs[:70] {
			if id == lm.Given {
				given += c.Hidden
			}
		}
		alone := lm.Batch{IDs: b.IDs[70:], Starts: []int32{0, 9}, Given: b.Given[given:], Prefix: b.Prefix[1:],
			Parallel: parallel}
		if got := hidden(t, m, m.NewInference(9), alone); !slices.Equal(got, want[70*c.Hidden:]) {
			t.Errorf("parallel %v: a sequence alone gives other hidden states", parallel)
		}
		if parallel {
			continue
		}
		w, cache := m.NewDecoding(100), m.NewCache(10)
		s, at, rows := cache.NewText(70), 0, b.Given
		for _, n := range []int{66, 1, 3} {
			p := lm.Piece{Seq: s, IDs: b.IDs[at : at+n], Prefix: 66}
			for _, id := range p.IDs {
				if id == lm.Given {
					p.Given, rows = append(p.Given, rows[:c.Hidden]...), rows[c.Hidden:]
				}
			}
			test.OK(t, m.Extend(w, p))
			if !slices.Equal(w.Hidden(), want[at*c.Hidden:(at+n)*c.Hidden]) {
				t.Errorf("tokens %d to %d have other hidden states with a cache", at, at+n)
			}
			at += n
		}
	}
}

// The derivatives by weights and by given rows are equal to central differences.
func TestPrefixGradients(t *testing.T) {
	for name, o := range map[string]lm.Options{
		"full": {Headless: true}, "lora": {Headless: true, Kept: true, LoRA: &lm.LoRA{Rank: 2, Alpha: 4,
			Targets: []string{"q_proj", "v_proj", "down_proj"}}},
	} {
		c := small(lm.Llama)
		m := newModel(t, c, o)
		w := m.NewTraining(100)
		b := prefixed(c, name == "full")
		rng := rand.New(rand.NewPCG(4, 9))
		dh := make([]float32, len(b.IDs)*c.Hidden)
		for i := range dh {
			dh[i] = float32(rng.NormFloat64())
		}
		loss := func() (sum float64) {
			for i, h := range hidden(t, m, w, b) {
				sum += float64(h) * float64(dh[i])
			}
			return sum
		}
		loss()
		m.BackwardHidden(w, slices.Clone(dh), 0)
		checked := 0
		check := func(what string, x, dx []float32) {
			direction := make([]float32, len(x))
			want := 0.0
			for i := range x {
				direction[i] = float32(rng.NormFloat64())
				want += float64(direction[i]) * float64(dx[i])
			}
			const h = 2e-3
			move := func(by float32) float64 {
				for i := range x {
					x[i] += by * direction[i]
				}
				return loss()
			}
			got := (move(h) - move(-2*h)) / (2 * h)
			move(h)
			if math.Abs(got-want) > 0.02*math.Abs(want)+0.05 {
				t.Errorf("%s: %s: derivative %g, difference %g", name, what, want, got)
			}
			checked++
		}
		var rows []float32
		for i, id := range b.IDs {
			if id == lm.Given {
				rows = append(rows, w.InputGrad()[i*c.Hidden:(i+1)*c.Hidden]...)
			}
		}
		for _, x := range append(m.Tensors(), m.Adapters()...) {
			if x.Grad != nil {
				check(x.Name, x.Data, x.Grad)
			}
		}
		check("rows given", b.Given, rows)
		if want := map[string]int{"full": 35, "lora": 13}[name]; checked != want {
			t.Errorf("%s: %d tensors checked, want %d", name, checked, want)
		}
	}
}

// An invalid batch is an error.
func TestPrefixRefused(t *testing.T) {
	c := small(lm.Llama)
	m := newModel(t, c, lm.Options{})
	for name, change := range map[string]func(b *lm.Batch){
		"no rows":        func(b *lm.Batch) { b.Given = nil },
		"too many rows":  func(b *lm.Batch) { b.Given = append(b.Given, 1) },
		"long prefix":    func(b *lm.Batch) { b.Prefix[1] = 10 },
		"prefix missing": func(b *lm.Batch) { b.Prefix = b.Prefix[:1] },
	} {
		b := prefixed(c, true)
		change(&b)
		if m.Forward(m.NewTraining(100), b) == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
