package hf

import (
	"encoding/json"
	"maps"

	"github.com/rlinf/rlinf/policy/lm"
)

// addDefaults sets missing keys to the defaults of transformers for the family of model_type. A
// null key stays null.
func (r *reader) addDefaults() {
	given := r.keys
	r.keys = nil
	if text := defaultKeys(lm.Family(get(&reader{keys: given}, "model_type", ""))); text != "" {
		if err := json.Unmarshal([]byte(text), &r.keys); err != nil {
			panic(err) // a text of this file
		}
	}
	if r.keys == nil {
		r.keys = map[string]json.RawMessage{}
	}
	maps.Copy(r.keys, given)
}

// defaultKeys returns the defaults of a family in transformers 5.0,
// src/transformers/models/FAMILY/configuration_FAMILY.py. Version 4.44 has the same values.
// Defaults that all families share are in the functions that read the keys.
func defaultKeys(f lm.Family) string {
	switch f {
	case lm.Llama:
		return `{"vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32,
			"num_attention_heads": 32, "max_position_embeddings": 2048, "bos_token_id": 1, "eos_token_id": 2}`
	case lm.Mistral:
		return `{"vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
			"num_attention_heads": 32, "num_key_value_heads": 8, "max_position_embeddings": 131072,
			"sliding_window": 4096, "bos_token_id": 1, "eos_token_id": 2}`
	case lm.Mixtral:
		return `{"vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
			"num_attention_heads": 32, "num_key_value_heads": 8, "max_position_embeddings": 131072,
			"rms_norm_eps": 1e-5, "rope_theta": 1e6, "num_local_experts": 8, "num_experts_per_tok": 2,
			"bos_token_id": 1, "eos_token_id": 2}`
	case lm.Qwen2:
		return `{"vocab_size": 151936, "hidden_size": 4096, "intermediate_size": 22016, "num_hidden_layers": 32,
			"num_attention_heads": 32, "num_key_value_heads": 32, "max_position_embeddings": 32768,
			"sliding_window": 4096, "max_window_layers": 28}`
	case lm.Qwen3:
		return `{"vocab_size": 151936, "hidden_size": 4096, "intermediate_size": 22016, "num_hidden_layers": 32,
			"num_attention_heads": 32, "num_key_value_heads": 32, "head_dim": 128, "max_position_embeddings": 32768,
			"sliding_window": 4096, "max_window_layers": 28}`
	case lm.Qwen2MoE:
		return `{"vocab_size": 151936, "hidden_size": 2048, "intermediate_size": 5632, "num_hidden_layers": 24,
			"num_attention_heads": 16, "num_key_value_heads": 16, "max_position_embeddings": 32768,
			"sliding_window": 4096, "num_experts": 60, "num_experts_per_tok": 4, "moe_intermediate_size": 1408,
			"shared_expert_intermediate_size": 5632}`
	case lm.Qwen3MoE:
		return `{"vocab_size": 151936, "hidden_size": 2048, "intermediate_size": 6144, "num_hidden_layers": 24,
			"num_attention_heads": 32, "num_key_value_heads": 4, "max_position_embeddings": 32768,
			"sliding_window": 4096, "num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": 768}`
	}
	return ""
}
