package hf_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy/lm"
	"github.com/rlinf/rlinf/policy/lm/hf"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/tensor"
)

// minimal returns a config.json with these further keys.
func minimal(family, more string) string {
	return `{"model_type": "` + family +
		`", "vocab_size": 31, "hidden_size": 16, "intermediate_size": 12, "num_hidden_layers": 2,
		"num_attention_heads": 4, "num_key_value_heads": 4, "max_position_embeddings": 64` + more + `}`
}

// A form is the text of a config.json, and the configuration that it means.
type form struct {
	text string
	want lm.Config
}

// parseAll parses each form, writes it and parses it again.
func parseAll(t *testing.T, forms []form) {
	t.Helper()
	for _, c := range forms {
		got, err := hf.ParseConfig([]byte(c.text))
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		if fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%s\ngot  %+v\nwant %+v", c.text, got, c.want)
		}
		text := test.Must(hf.FormatConfig(got, tensor.BF16, hf.Tokens{BOS: -1, Pad: -1, EOS: []int{2, 3}}))(t)
		if again, err := hf.ParseConfig(text); err != nil || fmt.Sprint(again) != fmt.Sprint(got) {
			t.Errorf("written and read again: %+v, %v\nwant %+v", again, err, got)
		}
	}
}

// with returns the configuration that a minimal config.json of a family means, after a change.
func with(f lm.Family, change func(c *lm.Config)) lm.Config {
	c := lm.Config{Family: f, Vocab: 31, Hidden: 16, Layers: 2, Heads: 4, KVHeads: 4, HeadDim: 4, Intermediate: 12,
		Eps: 1e-6, MaxPositions: 64, Rope: lm.Rope{Theta: 1e4, Type: lm.RopeDefault}, InitRange: 0.02}
	change(&c)
	return c
}

// TestConfigOfLlama: every form of Llama's config.json, with four kinds of rotary positions.
func TestConfigOfLlama(t *testing.T) {
	llama3 := lm.Rope{Theta: 5e5, Type: lm.RopeLlama3, Factor: 8, LowFreqFactor: 1, HighFreqFactor: 4, Original: 64}
	parseAll(t, []form{
		{minimal("llama", ""), with(lm.Llama, func(*lm.Config) {})},
		{minimal("llama", `, "num_key_value_heads": 2, "attention_bias": true, "mlp_bias": true, "rms_norm_eps": 1e-5,
			"tie_word_embeddings": true, "head_dim": 6, "max_position_embeddings": 99, "initializer_range": 0.1,
			"rope_theta": 7e4`),
			with(lm.Llama, func(c *lm.Config) {
				c.KVHeads, c.QKVBias, c.OutBias, c.MLPBias, c.Eps, c.Tied = 2, true, true, true, 1e-5, true
				c.HeadDim, c.MaxPositions, c.InitRange, c.Rope.Theta = 6, 99, 0.1, 7e4
			})},
		{minimal("llama",
			`, "rope_theta": 5e5, "rope_scaling": {"rope_type": "llama3", "factor": 8, "low_freq_factor": 1,
			"high_freq_factor": 4, "original_max_position_embeddings": 64}`),
			with(lm.Llama, func(c *lm.Config) { c.Rope = llama3 })},
		{minimal("llama",
			`, "dtype": "float32", "rope_parameters": {"rope_theta": 5e5, "rope_type": "llama3", "factor": 8,
			"low_freq_factor": 1, "high_freq_factor": 4, "original_max_position_embeddings": 64}`),
			with(lm.Llama, func(c *lm.Config) { c.Rope = llama3 })},
		{minimal("llama", `, "rope_scaling": {"type": "linear", "factor": 2.5}`),
			with(lm.Llama, func(c *lm.Config) { c.Rope.Type, c.Rope.Factor = lm.RopeLinear, 2.5 })},
	})
}

// TestConfigOfQwen2: Qwen2 has biases, YaRN, and a window in some layers or in none.
func TestConfigOfQwen2(t *testing.T) {
	parseAll(t, []form{
		{minimal("qwen2", `, "max_position_embeddings": 256, "rope_scaling": {"type": "yarn", "factor": 4, `+
			`"original_max_position_embeddings": 64}`),
			with(lm.Qwen2, func(c *lm.Config) {
				c.QKVBias, c.MaxPositions = true, 256
				c.Rope = lm.Rope{Theta: 1e4, Type: lm.RopeYarn, Factor: 4, BetaFast: 32, BetaSlow: 1, Original: 64}
			})},
		{minimal("qwen2", `, "sliding_window": 8, "use_sliding_window": false`), with(lm.Qwen2, func(c *lm.Config) {
			c.QKVBias = true
		})},
		{minimal("qwen2", `, "sliding_window": 8, "use_sliding_window": true, "max_window_layers": 2`),
			with(lm.Qwen2, func(c *lm.Config) { c.QKVBias = true })},
		{minimal("qwen2", `, "sliding_window": 8, "use_sliding_window": true, "max_window_layers": 1`),
			with(lm.Qwen2, func(c *lm.Config) { c.QKVBias, c.Window = true, 8 })},
		{minimal("qwen2", `, "sliding_window": 8, "layer_types": ["full_attention", "sliding_attention"]`),
			with(lm.Qwen2, func(c *lm.Config) { c.QKVBias, c.Window = true, 8 })},
		{minimal("qwen2", `, "use_sliding_window": true, "num_hidden_layers": 29`), // max_window_layers 28
			with(lm.Qwen2, func(c *lm.Config) { c.QKVBias, c.Layers, c.Window = true, 29, 4096 })},
		{minimal("qwen2", `, "use_sliding_window": true`), with(lm.Qwen2, func(c *lm.Config) { c.QKVBias = true })},
	})
}

// TestConfigOfMistral: Mistral has a window unless it is null.
func TestConfigOfMistral(t *testing.T) {
	parseAll(t, []form{
		{minimal("mistral", ""), with(lm.Mistral, func(c *lm.Config) { c.Window = 4096 })},
		{minimal("mistral", `, "sliding_window": 99`), with(lm.Mistral, func(c *lm.Config) { c.Window = 99 })},
		{minimal("mistral", `, "num_key_value_heads": null`), with(lm.Mistral, func(c *lm.Config) { c.Window = 4096 })},
		{minimal("mistral", `, "sliding_window": null, "head_dim": null`), with(lm.Mistral, func(*lm.Config) {})},
	})
}

// TestConfigOfQwen3: Qwen3 normalizes queries and keys.
func TestConfigOfQwen3(t *testing.T) {
	parseAll(t, []form{
		{minimal("qwen3", ""), with(lm.Qwen3, func(c *lm.Config) { c.HeadDim, c.QKNorm = 128, true })},
	})
}

// TestConfigOfExperts: experts in all layers or in some, with and without a shared expert.
func TestConfigOfExperts(t *testing.T) {
	parseAll(t, []form{
		{minimal("qwen3_moe", `, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 6, `+
			`"use_sliding_window": true`),
			with(lm.Qwen3MoE, func(c *lm.Config) {
				c.QKNorm, c.Window = true, 4096
				c.Experts = lm.Experts{Count: 4, PerToken: 2, Intermediate: 6, AuxCoef: 0.001}
			})},
		{minimal("qwen2_moe", `, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 6, `+
			`"shared_expert_intermediate_size": 10`),
			with(lm.Qwen2MoE, func(c *lm.Config) {
				c.QKVBias = true
				c.Experts = lm.Experts{Count: 4, PerToken: 2, Intermediate: 6, SharedIntermediate: 10, AuxCoef: 0.001}
			})},
		{minimal("qwen3_moe",
			`, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 6, "norm_topk_prob": true,
			"mlp_only_layers": [0], "router_aux_loss_coef": 0.5`),
			with(lm.Qwen3MoE, func(c *lm.Config) {
				c.QKNorm = true
				c.Experts = lm.Experts{Count: 4, PerToken: 2, Intermediate: 6, Normalize: true, AuxCoef: 0.5,
					Dense: []bool{true, false}}
			})},
		{minimal("qwen3_moe", `, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 6, `+
			`"decoder_sparse_step": 2`),
			with(lm.Qwen3MoE, func(c *lm.Config) {
				c.QKNorm = true
				c.Experts = lm.Experts{Count: 4, PerToken: 2, Intermediate: 6, AuxCoef: 0.001,
					Dense: []bool{true, false}}
			})},
		{minimal("mixtral", `, "num_local_experts": 8, "sliding_window": null`),
			with(lm.Mixtral, func(c *lm.Config) {
				c.Eps, c.Rope.Theta = 1e-5, 1e6
				c.Experts = lm.Experts{Count: 8, PerToken: 2, Intermediate: 12, Normalize: true, AuxCoef: 0.001}
			})},
	})
}

// TestAbsentKeys: a config.json with model_type alone means the same sizes as in transformers 5.
func TestAbsentKeys(t *testing.T) {
	for family, want := range map[lm.Family]string{
		lm.Llama:    "32000 4096 32 32 32 128 11008 1e-06 10000 2048 0 / 0 0 0 0 / 1 [2]",
		lm.Mistral:  "32000 4096 32 32 8 128 14336 1e-06 10000 131072 4096 / 0 0 0 0 / 1 [2]",
		lm.Mixtral:  "32000 4096 32 32 8 128 14336 1e-05 1e+06 131072 0 / 8 2 14336 0 / 1 [2]",
		lm.Qwen2:    "151936 4096 32 32 32 128 22016 1e-06 10000 32768 0 / 0 0 0 0 / -1 []",
		lm.Qwen3:    "151936 4096 32 32 32 128 22016 1e-06 10000 32768 0 / 0 0 0 0 / -1 []",
		lm.Qwen2MoE: "151936 2048 24 16 16 128 5632 1e-06 10000 32768 0 / 60 4 1408 5632 / -1 []",
		lm.Qwen3MoE: "151936 2048 24 32 4 64 6144 1e-06 10000 32768 0 / 128 8 768 0 / -1 []",
	} {
		dir := t.TempDir()
		test.OK(t, os.WriteFile(filepath.Join(dir, "config.json"), fmt.Appendf(nil, `{"model_type": %q}`, family),
			0o666))
		c, err := hf.ReadConfig(dir)
		tokens, err2 := hf.ReadTokens(dir, "")
		x := c.Experts
		got := fmt.Sprintf("%d %d %d %d %d %d %d %g %g %d %d / %d %d %d %d / %d %v", c.Vocab, c.Hidden, c.Layers,
			c.Heads, c.KVHeads, c.HeadDim,
			c.Intermediate, c.Eps, c.Rope.Theta, c.MaxPositions, c.Window, x.Count, x.PerToken, x.Intermediate,
			x.SharedIntermediate, tokens.BOS, tokens.EOS)
		if err != nil || err2 != nil || got != want {
			t.Errorf("%s: %v, %v\n%s, want\n%s", family, err, err2, got, want)
		}
	}
}

func TestGoldenConfigs(t *testing.T) {
	four, err := os.ReadFile("testdata/qwen2/config.json")
	test.OK(t, err)
	five := test.Must(os.ReadFile("testdata/qwen2/config.v5.json"))(t)
	floats := regexp.MustCompile(`(?m)(: [0-9]+)(,?)$`).ReplaceAll(four, []byte("$1.0$2"))
	a, errA := hf.ParseConfig(four)
	b, errB := hf.ParseConfig(five)
	if c, err := hf.ParseConfig(floats); err != nil || fmt.Sprint(a) != fmt.Sprint(c) {
		t.Errorf("whole numbers as floats: %v\n%s", err, floats)
	}
	if errA != nil || errB != nil || fmt.Sprint(a) != fmt.Sprint(b) || !a.Tied || a.Vocab != 512 {
		t.Errorf("%+v, %v\n%+v, %v", a, errA, b, errB)
	}
	tokens, err := hf.ReadTokens("testdata/qwen2", "")
	if err != nil || tokens.BOS != 1 || !slices.Equal(tokens.EOS, []int{2}) {
		t.Errorf("%+v, %v", tokens, err)
	}
}

func TestConfigRefuses(t *testing.T) {
	for want, text := range map[string]string{
		`model_type is "gpt2"`:                `{"model_type": "gpt2"}`,
		"vocab_size is missing":               `{"model_type": "llama", "vocab_size": null}`,
		`rope_scaling.rope_type is "dynamic"`: minimal("llama", `, "rope_scaling": {"type": "dynamic", "factor": 2}`),
		`rope_parameters.rope_type is "longrope"`: minimal("llama",
			`, "rope_parameters": {"rope_type": "longrope", "factor": 2}`),
		"rope_scaling.factor is missing": minimal("llama", `, "rope_scaling": {"type": "linear"}`),
		"rope_scaling.short_factor is [1]: unknown key": minimal("llama",
			`, "rope_scaling": {"type": "linear", "factor": 2, "short_factor": [1]}`),
		`hidden_act is "gelu"`:     minimal("llama", `, "hidden_act": "gelu"`),
		"attention_dropout is 0.1": minimal("llama", `, "attention_dropout": 0.1`),
		"quantization_config is {": minimal("llama", `, "quantization_config": {"bits": 4}`),
		`layer_types[1] is "chunked_attention"`: minimal("llama",
			`, "layer_types": ["full_attention", "chunked_attention"]`),
		"layer_types has 1 layers":                     minimal("llama", `, "layer_types": ["full_attention"]`),
		"attention_bias is true":                       minimal("mistral", `, "attention_bias": true`),
		"num_attention_heads is 4, must be a multiple": minimal("llama", `, "num_key_value_heads": 3`),
		"head_dim is 5, must be even":                  minimal("llama", `, "head_dim": 5`),
		"num_experts_per_tok is 9, must be from 1 to the number of experts, 4": minimal("qwen3_moe",
			`, "num_experts": 4, "num_experts_per_tok": 9, "moe_intermediate_size": 6`),
		"vocab_size is 1000000000000, must be at most 16777216": minimal("llama", `, "vocab_size": 1000000000000`),
		"num_hidden_layers is 9000000000000000000 with 0 experts": minimal("llama",
			`, "num_hidden_layers": 9000000000000000000`),
		"intermediate_size is 1073741824":   minimal("llama", `, "intermediate_size": 1073741824`),
		"num_attention_heads × head_dim is": minimal("llama", `, "head_dim": 1099511627776`),
		"the model has about 5e+14 weights": minimal("llama",
			`, "hidden_size": 16777216, "vocab_size": 16000000, "head_dim": 8`),
		"max_position_embeddings is -1":      minimal("llama", `, "max_position_embeddings": -1`),
		"rms_norm_eps is 0":                  minimal("llama", `, "rms_norm_eps": 0`),
		`vocab_size is "many", expected int`: strings.Replace(minimal("llama", ""), "31", `"many"`, 1),
		"unexpected end":                     `{"model_type"`,
		"partial_rotary_factor is 0.5":       minimal("llama", `, "partial_rotary_factor": 0.5`),
		"high_freq_factor 1: the second must be larger": minimal("llama", `, "rope_scaling": {"rope_type": `+
			`"llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 1, "original_max_position_embeddings": `+
			`64}`),
		"original_max_position_embeddings is 0": minimal("llama",
			`, "rope_scaling": {"rope_type": "yarn", "factor": 8}, "max_position_embeddings": null`),
		"sliding_window is 0, but use_sliding_window is t": minimal("qwen2",
			`, "sliding_window": null, "use_sliding_window": true, "max_window_layers": 0`),
	} {
		test.Fails(t, test.Err(hf.ParseConfig([]byte(text))), want, "%s", text)
	}
}

func tiny(f lm.Family) lm.Config {
	c := lm.Config{
		Family: f, Vocab: 37, Hidden: 16, Layers: 2, Heads: 4, KVHeads: 2, HeadDim: 8, Intermediate: 20, Eps: 1e-5,
		MaxPositions: 64,
		Rope:         lm.Rope{Theta: 1e4, Type: lm.RopeDefault}, InitRange: 0.3,
	}
	x := lm.Experts{Count: 3, PerToken: 2, Intermediate: 12}
	switch f {
	case lm.Qwen2:
		c.QKVBias, c.Tied = true, true
	case lm.Qwen3:
		c.QKNorm = true
	case lm.Qwen2MoE:
		c.QKVBias, c.Experts = true, x
		c.Experts.SharedIntermediate = 18
	case lm.Qwen3MoE:
		c.QKNorm, c.Experts = true, x
	case lm.Mixtral:
		c.Experts = x
		c.Experts.Normalize, c.Experts.Intermediate = true, c.Intermediate
	}
	return c
}

func newModel(t *testing.T, c lm.Config, o lm.Options) *lm.Model {
	t.Helper()
	m := test.Must(lm.New(new(nn.Params[float32]), c, o))(t)
	test.OK(t, m.Alloc(tensor.Heap))
	m.Init(3)
	return m
}

// A weight that the type of the files cannot hold is an error with the tensor's name, and no folder is written.
func TestSaveBeyondRange(t *testing.T) {
	for _, c := range []struct {
		dtype tensor.DType
		x     float32
		ok    bool
	}{
		{tensor.F16, 65519, true}, {tensor.F16, 65520, false}, {tensor.F16, -70000, false}, {tensor.F32, 1e38, true},
		{tensor.BF16, 3.3e38, true}, {tensor.BF16, 3.4e38, false}, {tensor.F16, float32(math.Inf(1)), true},
	} {
		m, dir := newModel(t, tiny(lm.Llama), lm.Options{}), filepath.Join(t.TempDir(), "new")
		m.Tensors()[1].Data[3] = c.x
		err := hf.Save(m, dir, hf.SaveOptions{DType: c.dtype})
		if c.ok != (err == nil) || !c.ok && !strings.Contains(err.Error(), `tensor "model.layers.0.`) {
			t.Errorf("%g in %v: %v", c.x, c.dtype, err)
		}
		if _, err := os.Stat(dir); c.ok != (err == nil) {
			t.Errorf("%g in %v: the folder: %v", c.x, c.dtype, err)
		}
	}
}

// A saved and loaded model of any family is the same, from one file and from shards: exactly in float32, and rounded in
// other types. Names and shapes are checked by the bytes of the files.
func TestSaveAndLoad(t *testing.T) {
	for _, f := range lm.Families {
		for _, dtype := range []tensor.DType{tensor.F32, tensor.BF16, tensor.F16} {
			for _, shard := range []int{0, 2000} {
				m, dir := newModel(t, tiny(f), lm.Options{}), t.TempDir()
				test.OK(t, hf.Save(m, dir,
					hf.SaveOptions{DType: dtype, ShardBytes: shard,
						Tokens: hf.Tokens{BOS: 1, EOS: []int{2}, Pad: -1}}))
				c := test.Must(hf.ReadConfig(dir))(t)
				again := newModel(t, c, lm.Options{Frozen: true})
				again.Init(4)
				test.OK(t, hf.Load(again, dir))
				loaded := again.Tensors()
				for i, x := range m.Tensors() {
					for j, v := range x.Data {
						if got := loaded[i].Data[j]; got != rounded(v, dtype) {
							t.Fatalf("%s, %v: %s[%d] is %g, saved %g", f, dtype, x.Name, j, got, v)
						}
					}
				}
				for name, shape := range someShapes[f] {
					test.EqualSlices(t, readShape(t, dir, name), shape, "%s: %s has shape", f, name)
				}
			}
		}
	}
}

// someShapes are names and shapes in the files as transformers has them.
var someShapes = map[lm.Family]map[string][]int{
	lm.Qwen2: {"model.embed_tokens.weight": {37, 16}, "model.layers.1.self_attn.k_proj.weight": {16, 16},
		"model.layers.0.self_attn.q_proj.bias": {32}, "model.layers.0.mlp.down_proj.weight": {16, 20}},
	lm.Qwen3: {"lm_head.weight": {37, 16}, "model.layers.0.self_attn.q_norm.weight": {8},
		"model.layers.0.self_attn.o_proj.weight": {16, 32}},
	lm.Qwen2MoE: {"model.layers.0.mlp.gate.weight": {3, 16}, "model.layers.0.mlp.experts.2.gate_proj.weight": {12, 16},
		"model.layers.0.mlp.shared_expert.down_proj.weight": {16, 18},
		"model.layers.0.mlp.shared_expert_gate.weight":      {1, 16}},
	lm.Mixtral: {"model.layers.1.block_sparse_moe.gate.weight": {3, 16},
		"model.layers.1.block_sparse_moe.experts.0.w1.weight": {20, 16},
		"model.layers.1.block_sparse_moe.experts.0.w2.weight": {16, 20},
		"model.layers.1.block_sparse_moe.experts.0.w3.weight": {20, 16}},
}

// readShape finds a tensor in the files of a folder by their headers alone.
func readShape(t *testing.T, dir, name string) []int {
	files := test.Must(filepath.Glob(filepath.Join(dir, "*.safetensors")))(t)
	for _, f := range files {
		b := test.Must(os.ReadFile(f))(t)
		n := int(b[0]) | int(b[1])<<8 | int(b[2])<<16
		var header map[string]struct{ Shape []int }
		test.OK(t, json.Unmarshal(b[8:8+n], &header))
		if x, ok := header[name]; ok {
			return x.Shape
		}
	}
	return nil
}

func rounded(v float32, dtype tensor.DType) float32 {
	x := []float32{v}
	switch h := make([]uint16, 1); dtype {
	case tensor.BF16:
		tensor.ToBF16(h, x)
		tensor.FromBF16(x, h)
	case tensor.F16:
		tensor.ToF16(h, x)
		tensor.FromF16(x, h)
	}
	return x[0]
}

// Loading the checkpoint of another model gives one error, which names what differs.
func TestLoadRefuses(t *testing.T) {
	save := func(change func(c *lm.Config, d string)) (*lm.Model, string) {
		m, dir := newModel(t, tiny(lm.Qwen2), lm.Options{}), t.TempDir()
		test.OK(t, hf.Save(m, dir, hf.SaveOptions{}))
		c := tiny(lm.Qwen2)
		change(&c, dir)
		return newModel(t, c, lm.Options{}), dir
	}
	file := func(dir string) string { return filepath.Join(dir, "model.safetensors") }
	for want, change := range map[string]func(c *lm.Config, dir string){
		`"model.embed_tokens.weight" has shape [37 16], the configuration says [38 16]`: func(c *lm.Config, _ string) {
			c.Vocab = 38
		},
		`tensor "model.layers.2.input_layernorm.weight" is missing`: func(c *lm.Config, _ string) {
			c.Layers = 3
		},
		`tensor "model.layers.0.self_attn.k_proj.bias" is not part of this model`: func(c *lm.Config, _ string) {
			c.QKVBias = false
		},
		`tensor "lm_head.weight" is missing`: func(c *lm.Config, _ string) { c.Tied = false },
		"has neither model.safetensors nor":  func(_ *lm.Config, dir string) { os.Remove(file(dir)) },
		"the header describes":               func(_ *lm.Config, dir string) { os.Truncate(file(dir), 12000) },
		"cut off in the header":              func(_ *lm.Config, dir string) { os.Truncate(file(dir), 100) },
		`is NaN`: func(_ *lm.Config, dir string) {
			b, _ := os.ReadFile(file(dir))
			nan := math.Float32bits(float32(math.NaN()))
			for i := range 4 {
				b[len(b)-400+i] = byte(nan >> (8 * i))
			}
			os.WriteFile(file(dir), b, 0o666)
		},
		`tensor "x" is missing, although the index names this file for it`: func(_ *lm.Config, dir string) {
			os.Rename(file(dir), filepath.Join(dir, "model-1.safetensors"))
			os.WriteFile(filepath.Join(dir, "model.safetensors.index.json"),
				[]byte(`{"weight_map": {"x": "model-1.safetensors"}}`), 0o666)
		},
		"is not in the folder": func(_ *lm.Config, dir string) {
			os.Remove(file(dir))
			os.WriteFile(filepath.Join(dir, "model.safetensors.index.json"), []byte(`{"weight_map": {"x": "../y"}}`),
				0o666)
		},
	} {
		m, dir := save(change)
		test.Fails(t, hf.Load(m, dir), want)
	}
}

// TestStaleFiles: if a folder has model.safetensors and an index, the index is ignored. A model that is saved over
// another one is the model that is read, whatever files each has.
func TestStaleFiles(t *testing.T) {
	old, dir := newModel(t, tiny(lm.Llama), lm.Options{}), t.TempDir()
	old.Init(5)
	m := newModel(t, tiny(lm.Llama), lm.Options{})
	save := func(m *lm.Model, shard int) {
		t.Helper()
		test.OK(t, hf.Save(m, dir, hf.SaveOptions{ShardBytes: shard}))
	}
	same := func(what string) {
		t.Helper()
		again := newModel(t, tiny(lm.Llama), lm.Options{})
		again.Init(9)
		if err := hf.Load(again, dir); err != nil || !slices.Equal(again.Params.Data, m.Params.Data) {
			t.Errorf("%s: other weights, %v", what, err)
		}
	}
	save(old, 2000)
	index := filepath.Join(dir, "model.safetensors.index.json")
	text := test.Must(os.ReadFile(index))(t)
	save(m, 0)
	same("one file over shards")
	test.OK(t, os.WriteFile(index, text, 0o666))
	same("a stale index")
	save(old, 0)
	save(m, 2000)
	same("shards over one file")
}

// A saved and loaded adapter is the same. Merging it gives a model that computes the same.
func TestAdapter(t *testing.T) {
	for _, f := range []lm.Family{lm.Qwen2, lm.Mixtral} {
		o := lm.Options{LoRA: &lm.LoRA{Rank: 3, Alpha: 5, RSLoRA: f == lm.Mixtral, Targets: lm.Targets}}
		m := newModel(t, tiny(f), o)
		for _, x := range m.Adapters() {
			for i := range x.Data {
				x.Data[i] = float32(math.Sin(float64(i+len(x.Name)))) / 5
			}
		}
		dir, merged := t.TempDir(), t.TempDir()
		test.OK(t, hf.SaveAdapter(m, dir, "base", hf.Tokens{BOS: -1, EOS: []int{3, 5}, Pad: -1}))
		lora := test.Must(hf.ReadAdapter(dir))(t)
		if want := slices.Sorted(slices.Values(lm.Targets)); lora.Scale() != o.LoRA.Scale() ||
			!slices.Equal(lora.Targets, want) {
			t.Errorf("%+v, want %+v", lora, o.LoRA)
		}
		again := newModel(t, tiny(f), lm.Options{LoRA: lora})
		test.OK(t, hf.LoadAdapter(again, dir))
		if !slices.Equal(again.Params.Data, m.Params.Data) {
			t.Error("adapters differ")
		}

		test.OK(t, hf.Save(m, merged, hf.SaveOptions{}))
		c := test.Must(hf.ReadConfig(merged))(t)
		if c.Tied {
			t.Error("the output matrix has an adapter and is still the embedding")
		}
		plain := newModel(t, c, lm.Options{})
		test.OK(t, hf.Load(plain, merged))
		b := pack([]int32{1, 5, 9, 2, 30, 7})
		want, _ := tokenLosses(m, forward(t, m, b), b)
		got, _ := tokenLosses(plain, forward(t, plain, b), b)
		for i := range got {
			if math.Abs(float64(got[i]-want[i])) > 2e-5 {
				t.Errorf("%s: merged, log-prob %d is %g, want %g", f, i, got[i], want[i])
			}
		}
	}
}

func forward(t *testing.T, m *lm.Model, b lm.Batch) *lm.Work {
	t.Helper()
	w := m.NewTraining(len(b.IDs))
	test.OK(t, m.Forward(w, b))
	return w
}

// TestAdapterKeys: adapter_config.json of a current PEFT is accepted if it means plain LoRA. Other keys are errors.
func TestAdapterKeys(t *testing.T) {
	read := func(more string) error {
		t.Helper()
		text, dir := `{"r": 4, "target_modules": ["q_proj"]`+more+`}`, t.TempDir()
		test.OK(t, os.WriteFile(filepath.Join(dir, "adapter_config.json"), []byte(text), 0o666))
		_, err := hf.ReadAdapter(dir)
		return err
	}
	for _, more := range []string{
		`, "lora_dropout": 0.05`, `, "lora_dropout": 1`, `, "init_lora_weights": true`, `, "init_lora_weights": false`,
		`, "init_lora_weights": "gaussian"`,
		`, "init_lora_weights": "eva", "eva_config": {"rho": 2.0}`, `, "init_lora_weights": "orthogonal"`,
		`, "init_lora_weights": null`,
		`, "a_key_of_tomorrow": null, "another": false, "a_third": {}, "a_fourth": [], "a_fifth": ""`,
		`, "alora_invocation_tokens": null, "alpha_pattern": {}, "arrow_config": null, "auto_mapping": null, "base_model_name_or_path": "b", "bias": "none",
			"corda_config": null, "ensure_weight_tying": false, "eva_config": null, "exclude_modules": null, "fan_in_fan_out": false, "inference_mode": true,
			"init_lora_weights": true, "layer_replication": null, "layers_pattern": null, "layers_to_transform": null, "loftq_config": {}, "lora_alpha": 16,
			"lora_bias": false, "lora_dropout": 0.1, "megatron_config": null, "megatron_core": "megatron.core", "modules_to_save": null, "peft_type": "LORA",
			"peft_version": "0.18.0", "qalora_group_size": 16, "rank_pattern": {}, "revision": "main", "target_parameters": null, "task_type": "CAUSAL_LM",
			"trainable_token_indices": null, "use_dora": false, "use_qalora": false, "use_rslora": true`,
	} {
		test.Check(t, read(more), "%s", more)
	}
	for want, more := range map[string]string{
		`peft_type is "IA3"`:                 `, "peft_type": "IA3"`,
		`task_type is "SEQ_CLS"`:             `, "task_type": "SEQ_CLS"`,
		`bias is "all"`:                      `, "bias": "all"`,
		"use_dora is true":                   `, "use_dora": true`,
		"use_qalora is true":                 `, "use_qalora": true, "qalora_group_size": 16`,
		"lora_bias is true":                  `, "lora_bias": true`,
		"fan_in_fan_out is true":             `, "fan_in_fan_out": true`,
		"alora_invocation_tokens is [1, 2]":  `, "alora_invocation_tokens": [1, 2]`,
		"rank_pattern is {":                  `, "rank_pattern": {"q": 3}`,
		"alpha_pattern is {":                 `, "alpha_pattern": {"q": 3}`,
		`target_modules is "all-li`:          `, "target_modules": "all-linear"`,
		`modules_to_save is ["embed`:         `, "modules_to_save": ["embed_tokens"]`,
		`init_lora_weights is "pissa"`:       `, "init_lora_weights": "pissa"`,
		`init_lora_weights is "pissa_niter_`: `, "init_lora_weights": "pissa_niter_4"`,
		`init_lora_weights is "olora"`:       `, "init_lora_weights": "olora"`,
		`init_lora_weights is "corda"`:       `, "init_lora_weights": "corda"`,
		`init_lora_weights is "loftq"`:       `, "init_lora_weights": "loftq"`,
		`init_lora_weights is 1`:             `, "init_lora_weights": 1`,
		"lora_dropout is 1.5":                `, "lora_dropout": 1.5`,
		`lora_dropout is "some"`:             `, "lora_dropout": "some"`,
		"layers_to_transform is 3":           `, "layers_to_transform": 3`,
		"a_key_of_tomorrow is 0":             `, "a_key_of_tomorrow": 0`,
		"another is true":                    `, "another": true`,
		"a_third is {":                       `, "a_third": {"a": 1}`,
	} {
		test.Fails(t, read(more), want, "%s", more)
	}
}
