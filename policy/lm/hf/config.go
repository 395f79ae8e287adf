package hf

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rlinf/rlinf/internal/durable"
	"github.com/rlinf/rlinf/policy/lm"
)

// ReadConfig reads config.json in a checkpoint folder, as transformers 4 or 5 writes it. If package lm does not support
// a value, the error names key and value. A missing key gets the default of the model's family in transformers 5.
func ReadConfig(dir string) (lm.Config, error) {
	path := filepath.Join(dir, "config.json")
	text, err := durable.ReadFile(path, durable.Text)
	if err != nil {
		return lm.Config{}, fmt.Errorf("model configuration: %w", err)
	}
	c, err := ParseConfig(text)
	if err != nil {
		return lm.Config{}, fmt.Errorf("model configuration %s: %w", path, err)
	}
	return c, nil
}

// ParseConfig is like ReadConfig, but text is the content of config.json.
func ParseConfig(text []byte) (lm.Config, error) {
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(text, &keys); err != nil {
		return lm.Config{}, err
	}
	r := &reader{keys: keys}
	r.addDefaults()
	c := r.config()
	if r.errs != nil {
		return lm.Config{}, errors.New(strings.Join(r.errs, "; "))
	}
	if err := c.Check(); err != nil {
		return lm.Config{}, err
	}
	return c, nil
}

// A reader takes values from a JSON object and collects all errors.
type reader struct {
	keys map[string]json.RawMessage
	errs []string
}

func (r *reader) fail(format string, args ...any) {
	r.errs = append(r.errs, fmt.Sprintf(format, args...))
}

// has reports whether the object has a key and its value is not null.
func (r *reader) has(key string) bool {
	v, ok := r.keys[key]
	return ok && !bytes.Equal(bytes.TrimSpace(v), []byte("null"))
}

// get returns the value of a key. If the key is missing or null, get returns fallback.
func get[T any](r *reader, key string, fallback T) T {
	if !r.has(key) {
		return fallback
	}
	x := fallback
	if err := json.Unmarshal(durable.WholeNumbers(r.keys[key]), &x); err != nil {
		r.fail("%s is %s, expected %T", key, r.keys[key], fallback)
		return fallback
	}
	return x
}

// size returns the number at a required key. If the key is missing, size adds an error and returns 1.
func (r *reader) size(key string) int {
	if !r.has(key) {
		r.fail("%s is missing", key)
		return 1
	}
	return get(r, key, 0)
}

// refuse adds an error unless the value of a key is missing, null or one of the harmless values.
func (r *reader) refuse(key, why string, harmless ...string) {
	v := strings.TrimSpace(string(r.keys[key]))
	if v != "" && v != "null" && !slices.Contains(harmless, v) {
		r.fail("%s is %.100s: %s", key, v, why)
	}
}

// config reads the keys that package lm supports, and adds errors for unsupported keys that would change results.
func (r *reader) config() lm.Config {
	c := lm.Config{Family: lm.Family(get(r, "model_type", ""))}
	if !slices.Contains(lm.Families, c.Family) {
		r.fail("model_type is %q, must be one of %v", c.Family, lm.Families)
		return c
	}
	c.Vocab, c.Hidden, c.Layers = r.size("vocab_size"), r.size("hidden_size"), r.size("num_hidden_layers")
	c.Heads, c.Intermediate = r.size("num_attention_heads"), r.size("intermediate_size")
	c.KVHeads = get(r, "num_key_value_heads", c.Heads)
	c.HeadDim = get(r, "head_dim", c.Hidden/max(c.Heads, 1))
	c.Eps = get(r, "rms_norm_eps", 1e-6)
	c.Tied = get(r, "tie_word_embeddings", false)
	c.MaxPositions = get(r, "max_position_embeddings", 0)
	c.InitRange = get(r, "initializer_range", 0.02)
	c.QKNorm = c.Family == lm.Qwen3 || c.Family == lm.Qwen3MoE
	switch c.Family {
	case lm.Qwen2:
		c.QKVBias = true
	case lm.Qwen2MoE:
		c.QKVBias = get(r, "qkv_bias", true)
	case lm.Qwen3, lm.Qwen3MoE, lm.Llama:
		c.QKVBias = get(r, "attention_bias", false)
		c.OutBias = c.QKVBias
	default:
		r.refuse("attention_bias", "this family has no biases", "false")
	}
	if c.Family == lm.Llama {
		c.MLPBias = get(r, "mlp_bias", false)
	} else {
		r.refuse("mlp_bias", "this family has no biases", "false")
	}
	c.Rope = r.rope(&c)
	c.Window = r.window(&c)
	c.Experts = r.experts(&c)

	r.refuse("hidden_act", `only "silu" is supported`, `"silu"`, `"swish"`)
	r.refuse("attention_dropout", "dropout is not supported", "0", "0.0")
	r.refuse("router_jitter_noise", "noise of the router is not supported", "0", "0.0")
	r.refuse("partial_rotary_factor", "every element of a head is rotated", "1", "1.0")
	r.refuse("quantization_config", "quantised weights are not supported")
	r.refuse("is_encoder_decoder", "only decoders are supported", "false")
	r.refuse("add_cross_attention", "only decoders are supported", "false")
	return c
}

// window returns the length of the longest sequence that fits into the attention windows of all layers. 0 means any
// length.
func (r *reader) window(c *lm.Config) int {
	size := get(r, "sliding_window", 0)
	if r.has("layer_types") {
		types := get(r, "layer_types", []string(nil))
		for i, t := range types {
			if t != "full_attention" && t != "sliding_attention" {
				r.fail("layer_types[%d] is %q, must be full_attention or sliding_attention", i, t)
			}
		}
		if len(types) != c.Layers {
			r.fail("layer_types has %d layers, num_hidden_layers is %d", len(types), c.Layers)
		}
		if !slices.Contains(types, "sliding_attention") {
			return 0
		}
		if size < 1 {
			r.fail("sliding_window is %d, but layer_types has sliding_attention", size)
		}
		return size
	}
	switch c.Family {
	case lm.Mistral, lm.Mixtral:
		return size
	case lm.Llama:
		return 0
	}
	// Versions of transformers disagree about which layers of a mixture of experts have sliding windows. So every layer
	// of a mixture counts as a layer with a sliding window.
	mixture := c.Family == lm.Qwen2MoE || c.Family == lm.Qwen3MoE
	if get(r, "use_sliding_window", false) && (mixture || get(r, "max_window_layers", 0) < c.Layers) {
		if size < 1 {
			r.fail("sliding_window is %d, but use_sliding_window is true", size)
		}
		return size
	}
	return 0
}

// ropeKeys are the keys that rope_scaling or rope_parameters may have.
var ropeKeys = []string{"rope_type", "type", "rope_theta", "factor", "low_freq_factor", "high_freq_factor",
	"original_max_position_embeddings",
	"beta_fast", "beta_slow", "attention_factor", "mscale", "mscale_all_dim", "truncate", "partial_rotary_factor"}

// rope reads rope_theta and rope_scaling of transformers 4, or rope_parameters of transformers 5.
func (r *reader) rope(c *lm.Config) lm.Rope {
	rope := lm.Rope{Theta: get(r, "rope_theta", 1e4), Type: lm.RopeDefault}
	for _, key := range []string{"rope_scaling", "rope_parameters"} {
		if !r.has(key) {
			continue
		}
		s := &reader{}
		if err := json.Unmarshal(r.keys[key], &s.keys); err != nil {
			r.fail("%s is %.100s, expected an object", key, r.keys[key])
			continue
		}
		r.ropeObject(&rope, s, c.MaxPositions)
		for _, name := range slices.Sorted(maps.Keys(s.keys)) {
			if !slices.Contains(ropeKeys, name) {
				s.fail("%s is %.100s: unknown key", name, s.keys[name])
			}
		}
		for _, e := range s.errs {
			r.fail("%s.%s", key, e)
		}
	}
	return rope
}

func (r *reader) ropeObject(rope *lm.Rope, s *reader, maxPositions int) {
	rope.Theta = get(s, "rope_theta", rope.Theta)
	rope.Type = lm.RopeType(get(s, "rope_type", get(s, "type", string(lm.RopeDefault))))
	s.refuse("partial_rotary_factor", "every element of a head is rotated", "1", "1.0")
	switch rope.Type {
	case lm.RopeDefault:
		return
	case lm.RopeLinear, lm.RopeLlama3, lm.RopeYarn:
	default:
		s.fail("rope_type is %q, must be one of %s, %s, %s, %s", rope.Type, lm.RopeDefault, lm.RopeLinear,
			lm.RopeLlama3, lm.RopeYarn)
		return
	}
	if !s.has("factor") {
		s.fail("factor is missing")
	}
	rope.Factor = get(s, "factor", 1.0)
	if rope.Type == lm.RopeLinear {
		return
	}
	rope.Original = get(s, "original_max_position_embeddings", get(r, "original_max_position_embeddings", maxPositions))
	if rope.Type == lm.RopeLlama3 {
		rope.LowFreqFactor, rope.HighFreqFactor = get(s, "low_freq_factor", 1.0), get(s, "high_freq_factor", 4.0)
		return
	}
	rope.BetaFast, rope.BetaSlow = get(s, "beta_fast", 32.0), get(s, "beta_slow", 1.0)
	rope.AttentionFactor = get(s, "attention_factor", 0.0)
	rope.MScale, rope.MScaleAllDim = get(s, "mscale", 0.0), get(s, "mscale_all_dim", 0.0)
	rope.Exact = !get(s, "truncate", true)
}

// experts reads the keys of mixtures of experts. The names of these keys differ between families.
func (r *reader) experts(c *lm.Config) lm.Experts {
	var x lm.Experts
	switch c.Family {
	case lm.Mixtral:
		x.Count, x.Intermediate, x.Normalize = r.size("num_local_experts"), c.Intermediate, true
		x.PerToken = get(r, "num_experts_per_tok", 2)
	case lm.Qwen2MoE, lm.Qwen3MoE:
		x.Count, x.Intermediate = r.size("num_experts"), r.size("moe_intermediate_size")
		x.PerToken, x.Normalize = r.size("num_experts_per_tok"), get(r, "norm_topk_prob", false)
		if c.Family == lm.Qwen2MoE {
			x.SharedIntermediate = r.size("shared_expert_intermediate_size")
		}
		step, dense := get(r, "decoder_sparse_step", 1), get(r, "mlp_only_layers", []int(nil))
		if step < 1 {
			r.fail("decoder_sparse_step is %d, must be at least 1", step)
			step = 1
		}
		if step > 1 || len(dense) > 0 {
			x.Dense = make([]bool, max(c.Layers, 0))
			for i := range x.Dense {
				x.Dense[i] = slices.Contains(dense, i) || (i+1)%step != 0
			}
		}
	default:
		return x
	}
	x.AuxCoef = get(r, "router_aux_loss_coef", 0.001)
	return x
}
