package hf_test

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy/lm"
	"github.com/rlinf/rlinf/policy/nn/kernel"
)

// backward computes the gradients of the mean loss over all tokens of the batches, plus aux times the auxiliary loss.
// Each batch is a micro-batch.
func backward(t *testing.T, m *lm.Model, w *lm.Work, aux float32, batches ...lm.Batch) (loss float64) {
	t.Helper()
	clear(m.Params.Grad)
	total := 0
	for _, b := range batches {
		total += len(b.NextTokens(nil))
	}
	for _, b := range batches {
		test.OK(t, m.Forward(w, b))
		targets := b.NextTokens(nil)
		logp, dlogp := make([]float32, len(targets)), make([]float32, len(targets))
		m.LogProbs(w, logp, nil, targets, 1)
		for i, x := range logp {
			loss -= float64(x) / float64(total)
			dlogp[i] = -1 / float32(total)
		}
		m.Backward(w, dlogp, nil, targets, 1, aux)
	}
	m.FinishGradients(w)
	return loss
}

func TestGoldenGradients(t *testing.T) {
	for _, dir := range append(goldenFolders(t, "config.json"), goldenFolders(t, "adapter_config.json")...) {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			g, m := readGolden(t, dir), open(t, dir)
			w := m.NewTraining(184)
			backward(t, m, w, 0, pack(g.Sequences...))
			checkGradients(t, m, g.Gradients.Tensors)
			if l := l2(m.Params.Grad); math.Abs(l-g.Gradients.GlobalL2) > gradientTolerance*g.Gradients.GlobalL2 {
				t.Errorf("global L2 %g, want %g", l, g.Gradients.GlobalL2)
			}
			if len(g.GradientsSingle.Tensors) > 0 {
				backward(t, m, w, 0, pack(g.Sequences[1]))
				checkGradients(t, m, g.GradientsSingle.Tensors)
			}
		})
	}
}

func checkGradients(t *testing.T, m *lm.Model, want map[string]goldenGradient) {
	t.Helper()
	checked, worst, worstValue := 0, 0.0, 0.0
	for name, x := range fileTensors(m) {
		if x.Grad == nil {
			continue
		}
		checked++
		g, ok := want[name]
		if !ok {
			t.Errorf("no golden gradient of %q", name)
			continue
		}
		got := inFile(x, x.Grad)
		norm := g.L264
		if norm == 0 {
			norm = g.L2
		}
		worst = max(worst, math.Abs(l2(got)-norm)/norm)
		if math.Abs(l2(got)-norm) > gradientTolerance*norm {
			t.Errorf("%s: L2 %.9g, want %.9g", name, l2(got), norm)
		}
		index := slices.Clone(g.SpreadIndex)
		for i := range g.First16 {
			index = append(index, i)
		}
		for i, v := range slices.Concat(g.Spread, g.First16) {
			d := math.Abs(float64(got[index[i]]) - v)
			worstValue = max(worstValue, d)
			if d > valueTolerance {
				t.Errorf("%s[%d]: %g, want %g", name, index[i], got[index[i]], v)
			}
		}
	}
	test.Equal(t, checked, len(want), "gradients")
	t.Logf("%d tensors: L2 within %.2g, values within %.2g", checked, worst, worstValue)
}

func TestGoldenAdamW(t *testing.T) {
	for _, dir := range append(goldenFolders(t, "config.json"), goldenFolders(t, "adapter_config.json")...) {
		g := readGolden(t, dir)
		for name, a := range map[string]goldenAdam{"all": g.AdamW, "matrices": g.AdamWNo1D} {
			if len(a.Losses) == 0 {
				continue
			}
			t.Run(filepath.Base(dir)+"/"+name, func(t *testing.T) {
				m := open(t, dir)
				w, b := m.NewTraining(184), pack(g.Sequences...)
				first, second := make([]float32, len(m.Params.Data)), make([]float32, len(m.Params.Data))
				losses := near{t: t, name: "loss"}
				for step, want := range a.Losses {
					losses.check(fmt.Sprint("after ", step), backward(t, m, w, 0, b), want, stepTolerance)
					if step == len(a.Losses)-1 {
						break
					}
					if l := l2(m.Params.Grad); math.Abs(l-a.GradL2[step]) > 1e-4*a.GradL2[step] {
						t.Errorf("gradient %d: L2 %g, want %g", step, l, a.GradL2[step])
					}
					n := float64(step + 1)
					c1, c2 := float32(1-math.Pow(a.Beta1, n)), float32(1-math.Pow(a.Beta2, n))
					for _, f := range m.Params.Fields {
						decay := float32(a.WeightDecay)
						if name == "matrices" && len(f.Shape) < 2 {
							decay = 0
						}
						lo, hi := f.Off, f.Off+f.Len()
						kernel.AdamStep(m.Params.Data[lo:hi], m.Params.Grad[lo:hi], first[lo:hi], second[lo:hi],
							float32(a.LR), float32(a.Beta1), float32(a.Beta2), float32(a.Eps), decay, c1, c2, 1)
					}
				}
				losses.log()
				for name, x := range fileTensors(m) {
					want, ok := a.ParamsAfter3[name]
					if x.Grad == nil {
						continue
					}
					if !ok {
						t.Errorf("no golden parameters %q", name)
						continue
					}
					got := inFile(x, x.Data)
					if math.Abs(l2(got)-want.L2) > 1e-4*want.L2 {
						t.Errorf("%s: L2 %g, want %g", name, l2(got), want.L2)
					}
					for i, v := range want.First8 {
						if math.Abs(float64(got[i])-v) > 1e-4 {
							t.Errorf("%s[%d]: %g, want %g", name, i, got[i], v)
						}
					}
				}
			})
		}
	}
}

// The tokens of greedy generation, with a cache and by a forward pass over the whole sequence for
// each token.
func TestGoldenGreedy(t *testing.T) {
	for _, dir := range append(goldenFolders(t, "config.json"), goldenFolders(t, "adapter_config.json")...) {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			g, m := readGolden(t, dir), open(t, dir)
			w, cache := m.NewDecoding(16), m.NewCache(16)
			whole := m.NewTraining(64)
			v := m.Config.Vocab
			logits, again := make([]float32, v), make([]float32, v)
			values, logprobs := near{t: t, name: "chosen logits"}, near{t: t, name: "log-probs"}
			for _, run := range g.Greedy.Runs {
				s, ids, next := cache.NewText(64), slices.Clone(run.Prompt), run.Prompt
				for i, want := range run.NewTokens {
					test.OK(t, m.Extend(w, lm.Piece{Seq: s, IDs: next}))
					m.Logits(w, logits, []int32{int32(w.Rows() - 1)})
					test.OK(t, m.Forward(whole, pack(ids)))
					m.Logits(whole, again, []int32{int32(len(ids) - 1)})
					if !slices.Equal(logits, again) {
						t.Fatal("logits with the cache differ from those without")
					}
					best := 0
					for j, x := range logits {
						if x > logits[best] {
							best = j
						}
					}
					if int32(best) != want {
						t.Fatalf("token %d is %d, want %d", i, best, want)
					}
					if len(run.ChosenLogits) > 0 {
						values.check("token", float64(logits[best]), run.ChosenLogits[i], logitTolerance)
					}
					if len(run.ChosenLogprobs) > 0 {
						logprobs.check("token", float64(m.Distribution(logits).LogProb(logits[best])),
							run.ChosenLogprobs[i], logitTolerance)
					}
					ids, next = append(ids, want), []int32{want}
				}
				for j, x := range run.LastLogits {
					values.check("last", float64(logits[j]), x, logitTolerance)
				}
				s.Truncate(0)
			}
			test.Equal(t, cache.Free(), 16, "pages free at the end")
			values.log()
			logprobs.log()
		})
	}
}
