package lm_test

import (
	"testing"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy/lm"
	"github.com/rlinf/rlinf/policy/nn"
)

// The numbers of parameters are those of the published models. Nothing is allocated.
func TestParameterCounts(t *testing.T) {
	qwen := func(d, layers, heads, kv, e, f int) lm.Config {
		return lm.Config{
			Family: lm.Qwen2, Vocab: 151936, Hidden: d, Layers: layers, Heads: heads, KVHeads: kv, HeadDim: e,
			Intermediate: f,
			Eps:          1e-6, Rope: lm.Rope{Theta: 1e6, Type: lm.RopeDefault}, Tied: true, QKVBias: true,
		}
	}
	qwen3 := qwen(1024, 28, 16, 8, 128, 3072)
	qwen3.Family, qwen3.QKVBias, qwen3.QKNorm = lm.Qwen3, false, true
	llama := qwen(2048, 16, 32, 8, 64, 8192)
	llama.Family, llama.QKVBias, llama.Vocab = lm.Llama, false, 128256
	for _, c := range []struct {
		name   string
		c      lm.Config
		want   int
		blocks int
	}{
		{"Qwen2.5-0.5B", qwen(896, 24, 14, 2, 64, 4864), 494_032_768, 2},
		{"Qwen2.5-1.5B", qwen(1536, 28, 12, 2, 128, 8960), 1_543_714_304, 4},
		{"Qwen3-0.6B", qwen3, 596_049_920, 8},
		{"Llama-3.2-1B", llama, 1_235_814_400, 8},
	} {
		p := new(nn.Params[float32])
		m, err := lm.New(p, c.c, lm.Options{})
		test.OK(t, err)
		if m.Count() != c.want || p.Len() != c.want {
			t.Errorf("%s: %d parameters, %d of them trainable, want %d", c.name, m.Count(), p.Len(), c.want)
		}
		if b := c.c.Blocks(); b != c.blocks {
			t.Errorf("%s: %d blocks, want %d", c.name, b, c.blocks)
		}
		frozen := new(nn.Params[float32])
		if m, err = lm.New(frozen, c.c,
			lm.Options{LoRA: &lm.LoRA{Rank: 8, Alpha: 8, Targets: []string{"q_proj"}}}); err != nil {
			t.Fatal(err)
		}
		if want := c.c.Layers * 8 * (c.c.Hidden + c.c.Heads*c.c.HeadDim); frozen.Len() != want || m.Count() != c.want {
			t.Errorf("%s: adapters have %d parameters, want %d", c.name, frozen.Len(), want)
		}
	}
}
