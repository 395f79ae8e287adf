package algo_test

import (
	"math"
	"slices"
	"testing"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy/lm"
	"github.com/rlinf/rlinf/policy/lm/engine"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/tensor"
)

// setup is the setup of a TextPPO in groups of 2, without a bound on the gradient.
func setup(m *lm.Model) algo.TextSetup {
	s := algo.TextSetup{Config: algo.DefaultConfig(), Text: algo.DefaultTextConfig(), Optim: algo.DefaultOptimConfig(),
		CriticOptim: algo.DefaultOptimConfig(), Model: m, GroupSize: 2, Iterations: 10,
		Sampling:   engine.Sampling{MaxTokens: 20, Temperature: 0.7, TopP: 1, RepetitionPenalty: 1, Seed: 3},
		MicroBatch: algo.MicroBatch{Tokens: 200}}
	s.Config.AdvType, s.Config.LossType, s.Config.ClipRatioC = "grpo", "actor", 0
	s.Optim.LR, s.Optim.ClipGrad, s.Optim.WeightDecay = 1e-3, 0, 0
	s.CriticOptim.LR, s.CriticOptim.ClipGrad, s.CriticOptim.WeightDecay = 1e-3, 0, 0
	return s
}

func newTextPPO(t *testing.T, s algo.TextSetup) *algo.TextPPO {
	t.Helper()
	p := test.Must(algo.NewTextPPO(s))(t)
	return p
}

// textsOf are answers of these lengths after prompts of 1 to 3 tokens.
func textsOf(lengths ...int) (all []algo.Sequence) {
	for i, n := range lengths {
		s := algo.Sequence{}
		for j := range 1 + i%3 + n {
			s.IDs = append(s.IDs, int32((7*i+3*j*j+1)%31))
			s.Learn = append(s.Learn, j > i%3)
		}
		all = append(all, s)
	}
	return all
}

// logProbsOf computes the log-probs of each text by itself.
func logProbsOf(t *testing.T, m *lm.Model, texts []algo.Sequence, temperature float32) (all [][]float64) {
	t.Helper()
	for _, s := range texts {
		w := m.NewTraining(len(s.IDs))
		test.OK(t, m.Forward(w, lm.Batch{IDs: s.IDs, Starts: []int32{0, int32(len(s.IDs))}}))
		var of []float64
		for i, learn := range s.Learn {
			if learn {
				logp := []float32{0}
				m.LogProbs(w, logp, nil, []lm.Target{{Row: int32(i - 1), Token: s.IDs[i]}}, temperature)
				of = append(of, float64(logp[0]))
			}
		}
		all = append(all, of)
	}
	return all
}

// batchOf is a batch of two groups of two. Its log-probs differ from the model's by -0.5 to 0.5, so that some
// ratios are clipped.
func batchOf(t *testing.T, m *lm.Model, reward ...float32) *algo.TextBatch {
	t.Helper()
	b := &algo.TextBatch{Texts: textsOf(3, 2, 4, 1), Reward: reward, Group: []int64{5, 5, 6, 6},
		Ended: []bool{true, true, false, true}}
	for k, of := range logProbsOf(t, m, b.Texts, 0.7) {
		for i, x := range of {
			b.LogProb = append(b.LogProb, float32(x+0.25*math.Mod(float64(3*k+2*i), 5)-0.55))
			b.Ref = append(b.Ref, float32(x+0.1*float64(i%3)-0.05))
		}
	}
	return b
}

func near(t *testing.T, what string, got []float32, want ...float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %v, want %v", what, got, want)
	}
	for i := range want {
		if math.Abs(float64(got[i])-want[i]) > 2e-5*max(1, math.Abs(want[i])) {
			t.Errorf("%s: %v, want %v", what, got, want)
			return
		}
	}
}

// TestTextAdvantages: the advantages of four answers of 3, 2, 4 and 1 tokens with rewards 1, 0, 3, 2, by hand.
func TestTextAdvantages(t *testing.T) {
	r := 0.5 / (math.Sqrt(0.5) + 1e-6)
	tokens := func(a, b, c, d float64) []float64 { return []float64{a, a, a, b, b, c, c, c, c, d} }
	for name, x := range map[string]struct {
		with func(*algo.TextSetup)
		want []float64
	}{
		"grpo":    {func(*algo.TextSetup) {}, tokens(r, -r, r, -r)},
		"dr grpo": {func(s *algo.TextSetup) { s.Text.NormByStd = false }, tokens(0.5, -0.5, 0.5, -0.5)},
		"rloo":    {func(s *algo.TextSetup) { s.Config.AdvType = "rloo" }, tokens(1, -1, 1, -1)},
		"rloo of four": {func(s *algo.TextSetup) { s.Config.AdvType, s.GroupSize = "rloo", 4 },
			tokens(1-5./3, -2, 3-1, 2-4./3)},
		// the longest answer gets 3 - 0.5·(4-2)/(4-2), so that its group is 2.5, 2
		"overlong": {func(s *algo.TextSetup) {
			s.Text.NormByStd = false
			s.Config.LenRewardPenalty, s.Config.SafeLength, s.Config.MaxLength = 0.5, 2, 4
		}, tokens(0.5-0.125, -0.5+0.125, 0.25, -0.25)},
		// mean 1.7 and variance (3·0.49 + 2·2.89 + 4·1.69 + 0.09)/9 of ten tokens
		"reinpp": {func(s *algo.TextSetup) { s.Config.AdvType = "reinpp" }, func() []float64 {
			std := math.Sqrt((3*0.49+2*2.89+4*1.69+0.09)/9) + 1e-5
			return tokens(-0.7/std, -1.7/std, 1.3/std, 0.3/std)
		}()},
		// 0.5, -0.5, 0.5, -0.5: mean 0.2, variance (7·0.09 + 3·0.49)/9
		"reinpp with baseline": {func(s *algo.TextSetup) {
			s.Config.AdvType, s.Config.UseReinppBaseline = "reinpp", true
		}, func() []float64 {
			std := math.Sqrt((7*0.09+3*0.49)/9) + 1e-5
			return tokens(0.3/std, -0.7/std, 0.3/std, -0.7/std)
		}()},
	} {
		m := tinyModel(t, lm.Options{})
		b := batchOf(t, m, 1, 0, 3, 2)
		if name == "rloo of four" {
			b.Group = []int64{5, 5, 5, 5}
		}
		s := setup(m)
		x.with(&s)
		test.OK(t, newTextPPO(t, s).Prepare(b))
		near(t, name, b.Adv, x.want...)
	}
}

// TestTextKLInReward: a token's return is the reward minus β times the estimates of this and later tokens. Then returns
// are normalised.
func TestTextKLInReward(t *testing.T) {
	for kind, estimate := range map[string]func(d float64) float64{
		"k1": func(d float64) float64 { return d },
		"k2": func(d float64) float64 { return d * d / 2 },
		"k3": func(d float64) float64 { return math.Exp(-d) - 1 + d },
	} {
		m := tinyModel(t, lm.Options{})
		b := batchOf(t, m, 1, 0, 3, 2)
		s := setup(m)
		s.Config.AdvType, s.Config.ReinppKLBeta, s.Text.ReinppKLPenaltyType = "reinpp", 0.3, kind
		test.OK(t, newTextPPO(t, s).Prepare(b))
		var want []float64
		at := 0
		for k, n := range []int{3, 2, 4, 1} {
			for i := range n {
				ret := float64(b.Reward[k])
				for j := at + i; j < at+n; j++ {
					ret -= 0.3 * estimate(float64(b.LogProb[j])-float64(b.Ref[j]))
				}
				want = append(want, ret)
			}
			at += n
		}
		near(t, kind+" returns", b.Ret, want...)
		sum, sq := 0.0, 0.0
		for _, x := range want {
			sum += x
		}
		for _, x := range want {
			sq += (x - sum/10) * (x - sum/10)
		}
		for i, x := range want {
			want[i] = (x - sum/10) / (math.Sqrt(sq/9) + 1e-5)
		}
		near(t, kind, b.Adv, want...)
	}
}

// A lossCase is a loss, written out for one token or text.
type lossCase struct {
	with func(*algo.TextSetup)
	loss func(logp [][]float64, b *algo.TextBatch) float64
}

// perToken sums f over the tokens that count, times weight(length of the answer).
func perToken(weight func(n int) float64,
	f func(logp, old, ref, adv float64) float64) func([][]float64, *algo.TextBatch) float64 {
	return func(logp [][]float64, b *algo.TextBatch) (sum float64) {
		at := 0
		for _, of := range logp {
			for i, x := range of {
				if b.Weight[at+i] != 0 {
					sum += weight(len(of)) * f(x, float64(b.Old[at+i]), float64(b.Ref[at+i]), float64(b.Adv[at+i]))
				}
			}
			at += len(of)
		}
		return sum
	}
}

func clipped(low, high, dual float64) func(logp, old, ref, adv float64) float64 {
	return func(logp, old, _, adv float64) float64 {
		ratio := math.Exp(logp - old)
		l := max(-adv*ratio, -adv*min(max(ratio, 1-low), 1+high))
		if dual > 0 && adv < 0 {
			l = min(l, -dual*adv)
		}
		return l
	}
}

// lossCases are the losses of ten tokens in four answers.
func lossCases() map[string]lossCase {
	tokenMean := func(int) float64 { return 0.1 }
	cases := map[string]lossCase{
		"grpo": {func(*algo.TextSetup) {}, perToken(tokenMean, clipped(0.2, 0.2, 0))},
		"dapo": {func(s *algo.TextSetup) { s.Config.ClipRatioHigh, s.Config.MaxNumGenBatches = 0.28, 3 },
			perToken(tokenMean, clipped(0.2, 0.28, 0))},
		"dual clip": {func(s *algo.TextSetup) { s.Config.ClipRatioC = 1.3 },
			perToken(tokenMean, clipped(0.2, 0.2, 1.3))},
		"dr grpo": {func(s *algo.TextSetup) {
			s.Text.NormByStd, s.Config.LossAggFunc = false, algo.SeqMeanTokenSumNorm
		}, perToken(func(int) float64 { return 1. / (4 * 20) }, clipped(0.2, 0.2, 0))},
		"sum of each answer": {func(s *algo.TextSetup) { s.Config.LossAggFunc = algo.SeqMeanTokenSum },
			perToken(func(int) float64 { return 1. / 4 }, clipped(0.2, 0.2, 0))},
		"mean of each answer": {func(s *algo.TextSetup) { s.Config.LossAggFunc = algo.SeqMeanTokenMean },
			perToken(func(n int) float64 { return 1. / (4 * float64(n)) }, clipped(0.2, 0.2, 0))},
		"rloo": {func(s *algo.TextSetup) { s.Config.AdvType, s.Config.LossType = "rloo", "policy_gradient" },
			perToken(tokenMean, func(logp, _, _, adv float64) float64 { return -adv * logp })},
		"reinpp": {func(s *algo.TextSetup) { s.Config.AdvType = "reinpp" }, perToken(tokenMean, clipped(0.2, 0.2, 0))},
		"cut off answers masked": {func(s *algo.TextSetup) { s.Text.MaskTruncated = true },
			perToken(func(int) float64 { return 1. / 6 }, clipped(0.2, 0.2, 0))},
		"gspo": {func(s *algo.TextSetup) {
			s.Config.LossType, s.Config.ClipRatioLow, s.Config.ClipRatioHigh = "gspo", 0.15, 0.3
		}, func(logp [][]float64, b *algo.TextBatch) (sum float64) {
			at := 0
			for _, of := range logp {
				mean := 0.0
				for i, x := range of {
					mean += (x - float64(b.Old[at+i])) / float64(len(of))
				}
				sum += clipped(0.15, 0.3, 0)(mean, 0, 0, float64(b.Adv[at])) / 4
				at += len(of)
			}
			return sum
		}},
	}
	for kind, estimate := range map[string]func(x float64) float64{ // x = ref - logp
		"k1": func(x float64) float64 { return -x },
		"k2": func(x float64) float64 { return x * x / 2 },
		"k3": func(x float64) float64 { return math.Exp(x) - x - 1 },
	} {
		cases["kl "+kind] = lossCase{func(s *algo.TextSetup) { s.Config.KLBeta, s.Config.KLPenaltyType = 0.4, kind },
			perToken(tokenMean, func(logp, old, ref, adv float64) float64 {
				return clipped(0.2, 0.2, 0)(logp, old, ref, adv) + 0.4*estimate(ref-logp)
			})}
	}
	return cases
}

// TestTextLosses: the loss of each algorithm is that of its formula. Its gradient is the difference of small steps,
// along the gradient and by single parameters.
func TestTextLosses(t *testing.T) {
	for name, x := range lossCases() {
		t.Run(name, func(t *testing.T) {
			m := tinyModel(t, lm.Options{})
			s := setup(m)
			x.with(&s)
			b := batchOf(t, m, 1, 0, 3, 2)
			p := newTextPPO(t, s)
			test.OK(t, p.Prepare(b))
			loss := func() float64 { return x.loss(logProbsOf(t, m, b.Texts, 0.7), b) }
			want, before := loss(), slices.Clone(m.Params.Data)
			got := test.Must(p.Update(b))(t)
			l, _ := got.Get("actor/policy_loss")
			if kl, ok := got.Get("actor/kl_loss"); ok {
				l += float64(s.Config.KLBeta) * kl
			}
			if math.Abs(l-want) > 1e-5 {
				t.Errorf("loss %v, want %v", l, want)
			}
			slopes(t, m.Params.Data, m.Params.Grad, before, loss)
		})
	}
}

// slopes compares a gradient with differences of loss around the parameters before, along the gradient and by single
// parameters.
func slopes(t *testing.T, data, grad, before []float32, loss func() float64, also ...int) {
	t.Helper()
	norm := alongGradient(t, data, grad, before, loss)
	top := 0
	for i, g := range grad {
		if math.Abs(float64(g)) > math.Abs(float64(grad[top])) {
			top = i
		}
	}
	for i := top % 97; i < len(data); i += 97 { // top is one of them
		also = append(also, i)
	}
	for _, i := range also {
		slope := difference(data, before, 2e-3, loss, func(by float64) { data[i] = before[i] + float32(by) })
		if want := float64(grad[i]); math.Abs(slope-want) > 0.02*norm {
			t.Errorf("by parameter %d the loss rises by %v, want %v of %v", i, slope, want, norm)
		}
	}
	if len(also) < 20 {
		t.Errorf("%d parameters compared", len(also))
	}
}

// alongGradient compares the norm of a gradient, which it returns, with the difference of loss along it.
func alongGradient(t *testing.T, data, grad, before []float32, loss func() float64) (norm float64) {
	t.Helper()
	for _, g := range grad {
		norm += float64(g) * float64(g)
	}
	if norm = math.Sqrt(norm); norm < 1e-3 {
		t.Fatalf("the gradient has norm %v", norm)
	}
	slope := difference(data, before, 1e-3, loss, func(by float64) {
		for i := range data {
			data[i] = before[i] + float32(by*float64(grad[i])/norm)
		}
	})
	if math.Abs(slope-norm) > 0.01*norm {
		t.Errorf("along the gradient the loss rises by %v, want %v", slope, norm)
	}
	return norm
}

// difference returns the slope of loss between a move by step and one by -step. It puts data back.
func difference(data, before []float32, step float64, loss func() float64, move func(by float64)) float64 {
	move(step)
	up := loss()
	move(-step)
	down := loss()
	copy(data, before)
	return (up - down) / (2 * step)
}

// TestTextExperts: the load-balancing loss of a mixture of experts adds to the gradient with its weight, as the mean
// over the tokens of a minibatch.
func TestTextExperts(t *testing.T) {
	c := lm.Config{Family: lm.Qwen3MoE, Vocab: 31, Hidden: 16, Layers: 2, Heads: 2, KVHeads: 1, HeadDim: 8,
		Intermediate: 24, Eps: 1e-6, Rope: lm.Rope{Theta: 1e4, Type: lm.RopeDefault}, Tied: true, QKNorm: true,
		InitRange: 0.2, Experts: lm.Experts{Count: 4, PerToken: 2, Intermediate: 12, Normalize: true, AuxCoef: 50}}
	m, err := lm.New(new(nn.Params[float32]), c, lm.Options{})
	if err == nil {
		err = m.Alloc(tensor.Heap)
	}
	test.OK(t, err)
	m.Init(7)
	s := setup(m)
	b := batchOf(t, m, 1, 0, 3, 2)
	p := newTextPPO(t, s)
	test.OK(t, p.Prepare(b))
	policyLoss := perToken(func(int) float64 { return 0.1 }, clipped(0.2, 0.2, 0))
	var all lm.Batch
	all.Starts = []int32{0}
	for _, text := range b.Texts {
		all.IDs = append(all.IDs, text.IDs...)
		all.Starts = append(all.Starts, int32(len(all.IDs)))
	}
	w := m.NewTraining(len(all.IDs))
	loss := func() float64 {
		test.OK(t, m.Forward(w, all))
		return policyLoss(logProbsOf(t, m, b.Texts, 0.7), b) + 50*w.AuxLoss()
	}
	before := slices.Clone(m.Params.Data)
	test.Must(p.Update(b))(t)
	// a single parameter may change the choice of experts
	alongGradient(t, m.Params.Data, m.Params.Grad, before, loss)
}
