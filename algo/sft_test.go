package algo_test

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy/lm"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/tensor"
)

func tinyModel(t *testing.T, o lm.Options) *lm.Model { t.Helper(); return newModel(t, 31, 0.2, o) }

// textModel is small enough to learn from a few answers.
func textModel(t *testing.T, o lm.Options) *lm.Model { t.Helper(); return newModel(t, 13, 0.3, o) }

func newModel(t *testing.T, vocabulary int, initRange float64, o lm.Options) *lm.Model {
	t.Helper()
	return newModelIn(t, new(nn.Params[float32]), vocabulary, initRange, o)
}

// newModelIn is newModel with the parameters p, which may be on a device.
func newModelIn(t *testing.T, p *nn.Params[float32], vocabulary int, initRange float64, o lm.Options) *lm.Model {
	t.Helper()
	c := lm.Config{Family: lm.Qwen2, Vocab: vocabulary, Hidden: 16, Layers: 2, Heads: 2, KVHeads: 1, HeadDim: 8,
		Intermediate: 24, Eps: 1e-6, Rope: lm.Rope{Theta: 1e4, Type: lm.RopeDefault}, Tied: true, QKVBias: true,
		InitRange: initRange}
	m, err := lm.New(p, c, o)
	if err == nil {
		err = m.Alloc(tensor.Heap)
	}
	test.OK(t, err)
	m.Init(7)
	return m
}

// someTexts are sequences of several lengths, whose second halves are learnt.
func someTexts(n int) (all []algo.Sequence, targets, tokens int) {
	for i := range n {
		s := algo.Sequence{}
		for j := range 3 + i*5%11 {
			s.IDs = append(s.IDs, int32((7*i+3*j*j+1)%31))
			s.Learn = append(s.Learn, j > 0 && 2*j >= 3+i*5%11)
			if s.Learn[j] {
				targets++
			}
		}
		tokens += len(s.IDs)
		all = append(all, s)
	}
	return all, targets, tokens
}

func newSFT(t *testing.T, m *lm.Model, limit algo.MicroBatch, r algo.Replicas) *algo.SFT {
	t.Helper()
	o := algo.DefaultOptimConfig()
	o.LR = 1e-2
	s := test.Must(algo.NewSFT(algo.SFTSetup{Model: m, Optim: o, Iterations: 10, MicroBatch: limit, Replicas: r}))(t)
	return s
}

// TestSFTLoss: the loss is the mean over all tokens to be learnt, computed one by one from the model's own
// log-probabilities. The gradient is that of this mean, by the difference of a small step.
func TestSFTLoss(t *testing.T) {
	m := tinyModel(t, lm.Options{})
	texts, targets, tokens := someTexts(5)
	loss := func() float64 {
		sum := 0.0
		for _, s := range texts {
			w := m.NewTraining(len(s.IDs))
			test.OK(t, m.Forward(w, lm.Batch{IDs: s.IDs, Starts: []int32{0, int32(len(s.IDs))}}))
			for i, learn := range s.Learn {
				if learn {
					logp := []float32{0}
					m.LogProbs(w, logp, nil, []lm.Target{{Row: int32(i - 1), Token: s.IDs[i]}}, 1)
					sum -= float64(logp[0])
				}
			}
		}
		return sum / float64(targets)
	}
	want, before := loss(), slices.Clone(m.Params.Data)
	got, err := newSFT(t, m, algo.MicroBatch{Tokens: 64}, nil).Update(texts, targets, tokens)
	if err != nil || math.Abs(got.Values[0]-want) > 1e-6 {
		t.Fatalf("loss %v, want %v: %v", got.Values[0], want, err)
	}
	alongGradient(t, m.Params.Data, slices.Clone(m.Params.Grad), before, loss)
}

// TestSFTPacking: neither the number of tokens nor that of sequences in a micro-batch changes a bit.
func TestSFTPacking(t *testing.T) {
	texts, targets, tokens := someTexts(9)
	run := func(limit algo.MicroBatch) (data []float32, metrics string) {
		m := tinyModel(t, lm.Options{})
		s := newSFT(t, m, limit, nil)
		for range 3 {
			got := test.Must(s.Update(texts, targets, tokens))(t)
			metrics += fmt.Sprint(got.Values)
		}
		e := test.Must(s.Evaluate(texts))(t)
		return m.Params.Data, metrics + fmt.Sprint(e)
	}
	want, metrics := run(algo.MicroBatch{Tokens: tokens})
	for _, limit := range []algo.MicroBatch{{Tokens: 13}, {Tokens: 30}, {Tokens: tokens, Sequences: 1},
		{Tokens: tokens, Sequences: 4}} {
		if got, said := run(limit); !slices.Equal(got, want) || said != metrics {
			t.Errorf("%+v: %s\nwant %s", limit, said, metrics)
		}
	}
}

// TestSFTEvaluate counts the right tokens and texts of greedy decoding.
func TestSFTEvaluate(t *testing.T) {
	m := tinyModel(t, lm.Options{})
	texts, targets, tokens := someTexts(4)
	s := newSFT(t, m, algo.MicroBatch{Tokens: 40}, nil)
	for range 150 {
		test.Must(s.Update(texts, targets, tokens))(t)
	}
	last := len(texts[3].IDs) - 1
	texts[3].IDs[last] ^= 1 // not the last token that was learnt
	got, err := s.Evaluate(texts)
	test.OK(t, err)
	want := float64(targets-1) / float64(targets)
	if got.Values[1] != want || got.Values[2] != 0.75 || got.Values[0] <= 0 {
		t.Errorf("got %+v, want token_accuracy %v and exact_match 0.75", got, want)
	}
	// a wrong token in the middle counts, too
	texts[3].IDs[last] ^= 1
	texts[3].IDs[last-1] ^= 1
	alone, err := s.Evaluate(texts[3:])
	if err != nil || alone.Values[1] == 0 || alone.Values[1] == 1 || alone.Values[2] != 0 {
		t.Errorf("got %+v, %v, want token_accuracy between 0 and 1, and exact_match 0", alone, err)
	}
}

// TestSFTAdapters: only adapters are trained, and have a gradient and optimiser state.
func TestSFTAdapters(t *testing.T) {
	m := tinyModel(t, lm.Options{LoRA: &lm.LoRA{Rank: 2, Alpha: 4, Targets: []string{"q_proj", "down_proj"}}})
	base := slices.Clone(m.Frozen())
	texts, targets, tokens := someTexts(4)
	s := newSFT(t, m, algo.MicroBatch{Tokens: 40}, nil)
	first, err := s.Update(texts, targets, tokens)
	test.OK(t, err)
	for range 20 {
		test.Must(s.Update(texts, targets, tokens))(t)
	}
	last, err := s.Evaluate(texts)
	if err != nil || !(last.Values[0] < first.Values[0]-0.1) {
		t.Errorf("loss from %v to %v: %v", first.Values[0], last.Values[0], err)
	}
	if !slices.Equal(m.Frozen(), base) {
		t.Error("frozen weights have changed")
	}
	want := 2 * (16*2 + 2*16 + 24*2 + 2*16)
	if n := m.Params.Len(); n != want {
		t.Errorf("%d parameters are trained, want %d", n, want)
	}
	if n := s.Save().Must("actor.optim.m").Len(); n != len(m.Params.Data) {
		t.Errorf("%d first moments, want %d", n, len(m.Params.Data))
	}
}

// TestSharedOptimiser: replicas that divide the optimiser have the parameters and metrics of replicas that do not, to
// the bit, and each has the moments of its range.
func TestSharedOptimiser(t *testing.T) {
	const replicas = 3
	texts, targets, tokens := someTexts(9)
	run := func(shared bool) (metrics string, data, moments []float32) {
		var all [replicas]tensor.Dict
		var models [replicas]*lm.Model
		var said [replicas]string
		var wait sync.WaitGroup
		for i, r := range algo.NewTeam(replicas) {
			wait.Go(func() {
				o := algo.DefaultOptimConfig()
				o.LR, o.UseDistributedOptimizer = 1e-2, shared
				models[i] = tinyModel(t, lm.Options{})
				s, err := algo.NewSFT(algo.SFTSetup{Model: models[i], Optim: o, Iterations: 10,
					MicroBatch: algo.MicroBatch{Tokens: 50}, Replicas: r})
				if err != nil {
					t.Error(err)
					return
				}
				for range 3 {
					m, err := s.Update(texts[3*i:3*i+3], targets, tokens)
					test.Check(t, err)
					said[i] += fmt.Sprint(m.Values)
				}
				all[i] = s.Save()
			})
		}
		wait.Wait()
		for i := range replicas {
			m := all[i].Must("actor.optim.m").F32()
			if n := len(models[0].Params.Data); shared && (len(m) > n/replicas+16 || len(m) == 0) {
				t.Errorf("replica %d has %d moments of %d", i, len(m), n)
			}
			if !slices.Equal(models[i].Params.Data, models[0].Params.Data) || said[i] != said[0] {
				t.Errorf("shared %v: replica %d differs", shared, i)
			}
			if moments = append(moments, m...); !shared {
				moments = m
			}
		}
		return said[0], models[0].Params.Data, moments
	}
	metrics, data, moments := run(false)
	got, gotData, gotMoments := run(true)
	if got != metrics || !slices.Equal(gotData, data) || !slices.Equal(gotMoments, moments) {
		t.Errorf("with a shared optimiser %s, want %s", got, metrics)
	}
}
