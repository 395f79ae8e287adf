package vla

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/rlinf/rlinf/policy/lm"
)

// A Config holds the keys that vla_policy adds under actor.model to the keys of policy.Config.
type Config struct {
	ActionHead  string `yaml:"action_head" doc:"How actions are chosen: tokens, tokens_autoregressive, l1 or flow."`
	ActionBins  int    `yaml:"action_bins" doc:"Bins of each dimension of an action, for tokens."`
	NumSteps    int    `yaml:"num_steps" doc:"Denoising steps of flow."`
	Gripper     bool   `yaml:"binary_gripper" doc:"The last dimension of an action is one of its two bounds."`
	Vision      string `yaml:"vision_encoder" doc:"Layers that make image tokens: conv, or patches of pixels."`
	VisionGrid  int    `yaml:"vision_grid" doc:"Image tokens of one camera on each side, at most; 0: none."`
	Keypoints   int    `yaml:"vision_keypoints" doc:"Features of one camera whose positions join the numbers; 0: none."`
	VisionFiLM  bool   `yaml:"vision_film" doc:"The text modulates the features of keypoints (FiLM, docs/vla.md)."`
	VisionWords bool   `yaml:"vision_words" doc:"Each word of the text locates its object in the image."`
	VisionWidth int    `yaml:"vision_width" doc:"Channels of the first convolution, doubled by each."`
	MaxPrompt   int    `yaml:"max_prompt_length" doc:"Tokens of an instruction at most."`

	Foresight  float64 `yaml:"foresight" doc:"Weight of predicting how a demonstration goes on; 0: no prediction."`
	NoiseLevel float64 `yaml:"noise_level" doc:"Scale of the noise of one denoising step of flow."`
	ImageCrop  float64 `yaml:"image_crop" doc:"Share of an image that is seen: the middle, in imitation a random part."`

	ModelPath    string  `yaml:"model_path" doc:"Folder of Hugging Face with the trunk; empty: a new trunk."`
	HiddenSize   int     `yaml:"hidden_size" doc:"Width of the trunk; 0: 128, or the folder's."`
	Intermediate int     `yaml:"intermediate_size" doc:"Width of its feed-forward blocks; 0: 352, or the folder's."`
	NumLayers    int     `yaml:"num_hidden_layers" doc:"Layers of the trunk; 0: 4, or the folder's."`
	NumHeads     int     `yaml:"num_attention_heads" doc:"Heads of queries; 0: 4, or the folder's."`
	NumKVHeads   int     `yaml:"num_key_value_heads" doc:"Heads of keys and values; 0: num_attention_heads."`
	InitRange    float64 `yaml:"initializer_range" doc:"Deviation of the first weights; 0: 1/√hidden_size."`

	FreezeTrunk  bool     `yaml:"freeze_trunk" doc:"The trunk's own weights are not trained."`
	FreezeVision bool     `yaml:"freeze_vision" doc:"Layers that make tokens of images and numbers are not trained."`
	IsLoRA       bool     `yaml:"is_lora" doc:"Adapters of low rank are trained in place of the trunk's weights."`
	LoRARank     int      `yaml:"lora_rank" doc:"Rank of the adapters."`
	LoRAAlpha    float64  `yaml:"lora_alpha" doc:"Adapters count alpha/rank; 0: lora_rank."`
	LoRATargets  []string `yaml:"lora_target_modules" doc:"Products with an adapter."`
}

// Values of Config.ActionHead.
const (
	Tokens               = "tokens"
	TokensAutoregressive = "tokens_autoregressive"
	L1                   = "l1"
	Flow                 = "flow"
)

// Values of Config.Vision.
const (
	Conv    = "conv"
	Patches = "patches"
)

var heads = []string{Tokens, TokensAutoregressive, L1, Flow}

// loraTargets are the matrix products of the trunk that can have an adapter: all targets of package lm but the last,
// the output matrix, which the trunk lacks.
var loraTargets = lm.Targets[:len(lm.Targets)-1]

// Defaults returns the defaults.
func Defaults() Config {
	return Config{
		ActionHead: Tokens, ActionBins: 64, NumSteps: 5, NoiseLevel: 0.5, Gripper: true, Vision: Conv, VisionGrid: 4,
		VisionWidth: 32, ImageCrop: 1, MaxPrompt: 32, LoRARank: 32, LoRATargets: slices.Clone(loraTargets),
	}
}

// Check validates each value.
func (c Config) Check(want func(ok bool, key string, value any, want string)) {
	want(slices.Contains(heads, c.ActionHead), "action_head", c.ActionHead, "one of "+strings.Join(heads, ", "))
	want(c.ActionBins >= 2 && c.ActionBins <= 4096, "action_bins", c.ActionBins, "a number from 2 to 4096")
	want(c.NumSteps >= 1 && c.NumSteps <= 1000, "num_steps", c.NumSteps, "a number from 1 to 1000")
	want(c.NoiseLevel > 0 && !math.IsInf(c.NoiseLevel, 1), "noise_level", c.NoiseLevel, "a number > 0")
	want(c.Vision == Conv || c.Vision == Patches, "vision_encoder", c.Vision, "conv or patches")
	want(c.VisionGrid >= 0 && c.VisionGrid <= 64, "vision_grid", c.VisionGrid, "a number from 0 to 64")
	want(c.Keypoints >= 0 && c.Keypoints <= 256, "vision_keypoints", c.Keypoints, "a number from 0 to 256")
	want(c.VisionWidth >= 1 && c.VisionWidth <= 1024, "vision_width", c.VisionWidth, "a number from 1 to 1024")
	want(c.Foresight >= 0 && !math.IsInf(c.Foresight, 1), "foresight", c.Foresight, "a number ≥ 0")
	want(c.ImageCrop > 0 && c.ImageCrop <= 1, "image_crop", c.ImageCrop, "a number in (0, 1]")
	want(c.MaxPrompt >= 1 && c.MaxPrompt <= 4096, "max_prompt_length", c.MaxPrompt, "a number from 1 to 4096")
	for _, n := range []struct {
		value int
		key   string
	}{{c.HiddenSize, "hidden_size"}, {c.Intermediate, "intermediate_size"}, {c.NumLayers, "num_hidden_layers"},
		{c.NumHeads, "num_attention_heads"}, {c.NumKVHeads, "num_key_value_heads"}} {
		want(n.value >= 0, n.key, n.value, "a number ≥ 0")
		want(n.value <= 0 || c.ModelPath == "", n.key, n.value, "none beside model_path, which has the sizes")
	}
	want(c.InitRange >= 0 && !math.IsInf(c.InitRange, 1), "initializer_range", c.InitRange, "a number ≥ 0")
	want(c.InitRange <= 0 || c.ModelPath == "", "initializer_range", c.InitRange, "none beside model_path")
	want(c.LoRARank >= 1, "lora_rank", c.LoRARank, "a number ≥ 1")
	want(c.LoRAAlpha >= 0 && !math.IsInf(c.LoRAAlpha, 1), "lora_alpha", c.LoRAAlpha, "a number ≥ 0")
	want(len(c.LoRATargets) > 0, "lora_target_modules", nil, "some of "+strings.Join(loraTargets, ", "))
	for _, t := range c.LoRATargets {
		want(slices.Contains(loraTargets, t), "lora_target_modules", t, "some of "+strings.Join(loraTargets, ", "))
	}
}

// options returns the options of the trunk, which select the weights to train.
func (c *Config) options() lm.Options {
	o := lm.Options{Frozen: c.FreezeTrunk, Kept: true, Headless: true}
	if c.IsLoRA {
		o.LoRA = &lm.LoRA{Rank: c.LoRARank, Alpha: cmp.Or(c.LoRAAlpha, float64(c.LoRARank)), Targets: c.LoRATargets}
	}
	return o
}

// trunk returns the sizes of a new trunk for a vocabulary of the given number of tokens.
func (c *Config) trunk(vocabulary int) lm.Config {
	t := lm.Config{
		Family: lm.Qwen2, Vocab: vocabulary, Hidden: cmp.Or(c.HiddenSize, 128), Layers: cmp.Or(c.NumLayers, 4),
		Heads: cmp.Or(c.NumHeads, 4), Intermediate: cmp.Or(c.Intermediate, 352), Eps: 1e-6, QKVBias: true,
		Rope: lm.Rope{Theta: 1e4, Type: lm.RopeDefault},
	}
	t.InitRange = cmp.Or(c.InitRange, 1/math.Sqrt(float64(t.Hidden)))
	t.KVHeads, t.HeadDim = cmp.Or(c.NumKVHeads, t.Heads), t.Hidden/t.Heads
	return t
}
