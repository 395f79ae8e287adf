package hf

import (
	"encoding/json"
	"slices"

	"github.com/rlinf/rlinf/policy/lm"
	"github.com/rlinf/rlinf/tensor"
)

// architectures maps each family to its class in transformers.
var architectures = map[lm.Family]string{
	lm.Qwen2: "Qwen2ForCausalLM", lm.Qwen3: "Qwen3ForCausalLM", lm.Llama: "LlamaForCausalLM",
	lm.Mistral:  "MistralForCausalLM",
	lm.Qwen2MoE: "Qwen2MoeForCausalLM", lm.Qwen3MoE: "Qwen3MoeForCausalLM", lm.Mixtral: "MixtralForCausalLM",
}

// dtypeNames maps types to their names in torch.
var dtypeNames = map[tensor.DType]string{tensor.F32: "float32", tensor.BF16: "bfloat16", tensor.F16: "float16"}

// FormatConfig returns the text of a config.json for c with weights of the given type. The text has the keys of
// transformers 4. transformers 5 also reads these keys.
func FormatConfig(c lm.Config, dtype tensor.DType, tokens Tokens) ([]byte, error) {
	keys := map[string]any{
		"architectures": []string{architectures[c.Family]}, "model_type": c.Family, "torch_dtype": dtypeNames[dtype],
		"vocab_size": c.Vocab, "hidden_size": c.Hidden, "num_hidden_layers": c.Layers, "num_attention_heads": c.Heads,
		"num_key_value_heads": c.KVHeads, "head_dim": c.HeadDim, "intermediate_size": c.Intermediate,
		"hidden_act":   "silu",
		"rms_norm_eps": c.Eps, "tie_word_embeddings": c.Tied, "max_position_embeddings": c.MaxPositions,
		"initializer_range": c.InitRange, "rope_theta": c.Rope.Theta, "rope_scaling": ropeScaling(&c.Rope),
		"attention_dropout": 0.0, "use_cache": true,
	}
	if c.MaxPositions == 0 {
		delete(keys, "max_position_embeddings")
	}
	switch c.Family {
	case lm.Qwen2, lm.Qwen2MoE, lm.Qwen3, lm.Qwen3MoE:
		keys["use_sliding_window"] = c.Window > 0
		if c.Window > 0 {
			keys["sliding_window"], keys["max_window_layers"] = c.Window, 0
		}
	case lm.Mistral, lm.Mixtral:
		keys["sliding_window"] = nil
		if c.Window > 0 {
			keys["sliding_window"] = c.Window
		}
	}
	switch c.Family {
	case lm.Llama, lm.Qwen3, lm.Qwen3MoE:
		keys["attention_bias"] = c.QKVBias
	case lm.Qwen2MoE:
		keys["qkv_bias"] = c.QKVBias
	}
	if c.Family == lm.Llama {
		keys["mlp_bias"] = c.MLPBias
	}
	expertKeys(keys, &c)
	tokens.addTo(keys)
	return json.MarshalIndent(keys, "", "  ")
}

func expertKeys(keys map[string]any, c *lm.Config) {
	x := c.Experts
	if x.Count == 0 {
		return
	}
	keys["num_experts_per_tok"], keys["router_aux_loss_coef"] = x.PerToken, x.AuxCoef
	if c.Family == lm.Mixtral {
		keys["num_local_experts"] = x.Count
		return
	}
	keys["num_experts"], keys["moe_intermediate_size"], keys["norm_topk_prob"] = x.Count, x.Intermediate, x.Normalize
	if c.Family == lm.Qwen2MoE {
		keys["shared_expert_intermediate_size"] = x.SharedIntermediate
	}
	dense := []int{}
	for i, d := range x.Dense {
		if d {
			dense = append(dense, i)
		}
	}
	keys["decoder_sparse_step"], keys["mlp_only_layers"] = 1, slices.Clip(dense)
}

func ropeScaling(r *lm.Rope) any {
	if r.Type == lm.RopeDefault {
		return nil
	}
	keys := map[string]any{"rope_type": r.Type, "factor": r.Factor}
	switch r.Type {
	case lm.RopeLlama3:
		keys["low_freq_factor"], keys["high_freq_factor"] = r.LowFreqFactor, r.HighFreqFactor
		keys["original_max_position_embeddings"] = r.Original
	case lm.RopeYarn:
		keys["beta_fast"], keys["beta_slow"], keys["original_max_position_embeddings"] = r.BetaFast, r.BetaSlow,
			r.Original
		for key, v := range map[string]float64{"attention_factor": r.AttentionFactor, "mscale": r.MScale,
			"mscale_all_dim": r.MScaleAllDim} {
			if v != 0 {
				keys[key] = v
			}
		}
		if r.Exact {
			keys["truncate"] = false
		}
	}
	return keys
}
