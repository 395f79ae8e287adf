package lm_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy/lm"
)

// wide returns a model whose products and attention are large enough to be shared by threads.
func wide(f lm.Family) lm.Config {
	c := small(f)
	c.Hidden, c.Heads, c.KVHeads, c.HeadDim, c.Intermediate, c.Vocab = 64, 8, 2, 16, 96, 200
	if c.Experts.Count > 0 {
		c.Experts.Intermediate = 96
	}
	return c
}

// Log-probs, gradients and decoding have the same bits with any number of threads.
func TestThreads(t *testing.T) {
	for _, v := range []struct {
		f lm.Family
		o lm.Options
	}{{lm.Qwen2, lm.Options{}}, {lm.Qwen3MoE, lm.Options{}},
		{lm.Llama, lm.Options{LoRA: &lm.LoRA{Rank: 3, Alpha: 6, Targets: lm.Targets}}}} {
		m := newModel(t, wide(v.f), v.o)
		for name, sequences := range map[string][][]int32{
			"one": lengths(m.Config, 300), "many": lengths(m.Config, 70, 3, 90, 64, 33, 17, 40, 22, 80, 12),
		} {
			var want []float32
			for _, threads := range []int{1, 2, 3} {
				w := m.NewTraining(450)
				w.SetThreads(threads)
				clear(m.Params.Grad)
				b := pack(sequences...)
				test.OK(t, m.Forward(w, b))
				got := logProbs(m, w, b)
				targets := b.NextTokens(nil)
				m.Backward(w, got, nil, targets, 1, 0)
				m.FinishGradients(w)
				got = slices.Concat(got, m.Params.Grad)
				w.SetThreads(1)

				d, cache := m.NewDecoding(450), m.NewCache(80)
				d.SetThreads(threads)
				var pieces []lm.Piece
				for _, s := range sequences {
					pieces = append(pieces, lm.Piece{Seq: cache.NewText(len(s)), IDs: s[:len(s)-1]})
				}
				for range 2 { // the prompts, then a token of each
					test.OK(t, m.Extend(d, pieces...))
					got = append(got, d.Hidden()...)
					for i, s := range sequences {
						pieces[i].IDs = s[len(s)-1:]
					}
				}
				d.SetThreads(1)
				if threads == 1 {
					want = got
				}
				equal(t, fmt.Sprintf("%s, %s sequences, %d threads", v.f, name, threads), got, want)
			}
		}
	}
}

// A pass by several threads allocates nothing.
func TestThreadsAllocateNothing(t *testing.T) {
	m := newModel(t, wide(lm.Qwen2), lm.Options{})
	w := m.NewTraining(300)
	w.SetThreads(2)
	defer w.SetThreads(1)
	b := pack(lengths(m.Config, 300)...)
	targets := b.NextTokens(nil)
	logp := make([]float32, len(targets))
	test.NoAllocs(t, 3, func() {
		test.OK(t, m.Forward(w, b))
		m.LogProbs(w, logp, nil, targets, 1)
		m.Backward(w, logp, nil, targets, 1, 0)
		m.FinishGradients(w)
	})
}

// Two goroutines may use one Model at once, each with a Work of its own, for sequences of growing length.
func TestTwoUsers(t *testing.T) {
	m := newModel(t, small(lm.Qwen3), lm.Options{Frozen: true})
	sequences := lengths(m.Config, 5, 90, 300)
	results := make(chan []float32, 2)
	for range 2 {
		go func() {
			w := m.NewTraining(300)
			var got []float32
			for _, s := range sequences {
				test.Check(t, m.Forward(w, pack(s)))
				got = append(got, logProbs(m, w, pack(s))...)
			}
			results <- got
		}()
	}
	equal(t, "two users", <-results, <-results)
}
