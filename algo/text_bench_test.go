package algo_test

import (
	"testing"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy/lm"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/tensor"
)

// BenchmarkTextUpdate measures Prepare and Update of GRPO, and of PPO with a critic, on 32 answers of 24 tokens each.
func BenchmarkTextUpdate(b *testing.B) {
	for _, critic := range []bool{false, true} {
		name := "grpo"
		if critic {
			name = "ppo"
		}
		b.Run(name, func(b *testing.B) { benchmarkTextUpdate(b, critic) })
	}
}

func benchmarkTextUpdate(b *testing.B, critic bool) {
	m := benchModel(b)
	s := setup(m)
	s.MicroBatch.Tokens, s.Text.NMinibatches = 256, 4
	if critic {
		var err error
		if s.Critic, err = algo.NewTextCritic(m.Config, m.Part(), tensor.Heap, nil); err != nil {
			b.Fatal(err)
		}
		s.Critic.Model.Init(9)
		s.Config.AdvType, s.Config.LossType = "gae", "actor_critic"
	}
	p := test.Must(algo.NewTextPPO(s))(b)
	batch := benchBatch(32, 24)
	b.ReportAllocs()
	tokens := 0
	for b.Loop() {
		test.OK(b, p.Prepare(batch))
		test.Must(p.Update(batch))(b)
		tokens += len(batch.LogProb)
	}
	b.ReportMetric(float64(tokens)/b.Elapsed().Seconds(), "tokens/s")
}

func benchModel(b *testing.B) *lm.Model {
	b.Helper()
	c := lm.Config{Family: lm.Qwen2, Vocab: 64, Hidden: 64, Layers: 2, Heads: 4, KVHeads: 2, HeadDim: 16,
		Intermediate: 192, Eps: 1e-6, Rope: lm.Rope{Theta: 1e4, Type: lm.RopeDefault}, Tied: true, QKVBias: true,
		InitRange: 0.1}
	m, err := lm.New(new(nn.Params[float32]), c, lm.Options{})
	if err == nil {
		err = m.Alloc(tensor.Heap)
	}
	test.OK(b, err)
	m.Init(7)
	return m
}

// benchBatch has groups of two answers of so many tokens, with rewards 0 and 1.
func benchBatch(texts, tokens int) *algo.TextBatch {
	var b algo.TextBatch
	for i := range texts {
		var s algo.Sequence
		for j := range 4 + tokens {
			s.IDs, s.Learn = append(s.IDs, int32((7*i+3*j*j+1)%64)), append(s.Learn, j >= 4)
		}
		b.Texts, b.Reward = append(b.Texts, s), append(b.Reward, float32(i%2))
		b.Group, b.Ended = append(b.Group, int64(i/2)), append(b.Ended, true)
	}
	for range texts * tokens {
		b.LogProb = append(b.LogProb, -4.1)
	}
	return &b
}
