package config

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/rlinf/rlinf/internal/config"
	"github.com/rlinf/rlinf/params"
	"github.com/rlinf/rlinf/policy/lm"
)

// TaskSFT is the RunnerConfig.TaskType of fine-tuning a language model on texts.
const TaskSFT = "sft"

// TaskReasoning is the RunnerConfig.TaskType of training a language model on its own answers.
const TaskReasoning = "reasoning"

// FineTunes reports whether the task is sft or reasoning: the job trains a language model, without environments.
func (c *Config) FineTunes() bool { return c.Runner.TaskType == TaskSFT || c.Reasons() }

// Reasons reports whether the task is reasoning.
func (c *Config) Reasons() bool { return c.Runner.TaskType == TaskReasoning }

// Evaluable reports whether a checkpoint can be evaluated: a language model needs files for validation.
func (c *Config) Evaluable() bool { return !c.FineTunes() || len(c.Data.ValDataPaths) > 0 }

// ReadsTexts reports whether the job reads a tokenizer and the texts of data.train_data_paths.
func (c *Config) ReadsTexts() bool { return c.FineTunes() && !c.Classifies() }

// EpochIsIteration reports whether an epoch is one iteration. An epoch of a language model is a pass over all texts.
func (c *Config) EpochIsIteration() bool { return !c.FineTunes() }

// SamplingConfig is the section rollout.sampling_params: how to sample answers of language models and actions of
// vla_policy. Training on answers supports only the temperature; other keys must have their defaults.
type SamplingConfig struct {
	// TemperatureTrain divides the logits of actions that are tokens (vla_policy), when they are sampled and when
	// training evaluates them. Must be > 0. Default 1.
	TemperatureTrain float64 `yaml:"temperature_train"`
	// TemperatureEval divides the logits of actions in evaluations. 0, the default, takes the most likely token.
	TemperatureEval float64 `yaml:"temperature_eval"`
	// Temperature divides the logits of answers. Must be > 0. Default 1.
	Temperature float64 `yaml:"temperature"`
	// TopK restricts sampling to this number of most likely tokens. 0, the default, is all. RLinf's presets have
	// 1000000, which is also all.
	TopK int `yaml:"top_k"`
	// TopP restricts sampling to the most likely tokens whose probabilities sum to this value. Default 1.
	TopP float64 `yaml:"top_p"`
	// RepetitionPenalty above 1 reduces the probability of tokens that are already in the text. Default 1.
	RepetitionPenalty float64 `yaml:"repetition_penalty"`
}

// EvalSamplingConfig is the section rollout.eval_sampling_params: how evaluations of the reasoning task sample
// answers, in addition to the greedy answer to each prompt. All values of the keys are supported.
type EvalSamplingConfig struct {
	// N is the number of sampled answers to each prompt, for pass@1 to pass@N. Default 0: none. (+)
	N int `yaml:"n"`
	// Temperature divides the logits; 0 takes the most likely token. Default 1. (+)
	Temperature float64 `yaml:"temperature"`
	// TopK restricts sampling to this number of most likely tokens. 0, the default, is all. (+)
	TopK int `yaml:"top_k"`
	// TopP restricts sampling to the most likely tokens whose probabilities sum to this value. Default 1. (+)
	TopP float64 `yaml:"top_p"`
	// RepetitionPenalty above 1 reduces the probability of tokens that are already in the text. Default 1. (+)
	RepetitionPenalty float64 `yaml:"repetition_penalty"`
}

// answers returns s with only the keys that language models use.
func (s SamplingConfig) answers() SamplingConfig {
	s.TemperatureTrain, s.TemperatureEval = 0, 0
	return s
}

// LanguageModel has the keys of actor.model if model_type is a family of language models. The sizes describe a new
// model, and are named as in config.json. With model_path, they are read from that folder.
type LanguageModel struct {
	ModelPath string `yaml:"model_path" doc:"Folder of Hugging Face to start from; empty: a new model."`

	VocabSize    int     `yaml:"vocab_size" doc:"Tokens; 0: the tokenizer's."`
	HiddenSize   int     `yaml:"hidden_size" doc:"Width of the residual stream."`
	Intermediate int     `yaml:"intermediate_size" doc:"Width of the feed-forward blocks."`
	NumLayers    int     `yaml:"num_hidden_layers" doc:"Layers."`
	NumHeads     int     `yaml:"num_attention_heads" doc:"Heads of queries."`
	NumKVHeads   int     `yaml:"num_key_value_heads" doc:"Heads of keys and values; 0: num_attention_heads."`
	HeadDim      int     `yaml:"head_dim" doc:"Width of a head; 0: the family's default."`
	MaxPositions int     `yaml:"max_position_embeddings" doc:"Length of texts; 0: runner.seq_length."`
	RopeTheta    float64 `yaml:"rope_theta" doc:"Base of the rotations; 0: the family's default."`
	RMSNormEps   float64 `yaml:"rms_norm_eps" doc:"Added to mean squares; 0: the family's default."`
	Tied         bool    `yaml:"tie_word_embeddings" doc:"The output matrix is the embedding."`
	InitRange    float64 `yaml:"initializer_range" doc:"Deviation of the first weights."`

	NumExperts    int     `yaml:"num_experts" doc:"Experts of a layer."`
	TokenExperts  int     `yaml:"num_experts_per_tok" doc:"Experts that a token is sent to."`
	ExpertWidth   int     `yaml:"moe_intermediate_size" doc:"Width of an expert, but of mixtral."`
	SharedWidth   int     `yaml:"shared_expert_intermediate_size" doc:"Width of the expert of all tokens."`
	AuxLossCoef   float64 `yaml:"router_aux_loss_coef" doc:"Weight of the load-balancing loss."`
	NormalizeTopK bool    `yaml:"norm_topk_prob" doc:"Weights of the chosen experts add up to 1."`

	TensorSize     int   `yaml:"tensor_model_parallel_size" doc:"Actors that divide every layer of one model."`
	PipelineSize   int   `yaml:"pipeline_model_parallel_size" doc:"Stages that divide the layers of one model."`
	PipelineLayers []int `yaml:"pipeline_layers" doc:"Layers of each stage; empty: by their cost."`

	Recompute       string `yaml:"recompute_granularity" doc:"full: backward repeats layers; empty: it does not."`
	RecomputeMethod string `yaml:"recompute_method" doc:"With full. uniform: all; block: the first of each stage."`
	RecomputeLayers int    `yaml:"recompute_num_layers" doc:"How many layers of each stage, with block."`

	IsLoRA bool `yaml:"is_lora" doc:"Train adapters of low rank, and no other weight."`
	// LoRARank to LoRATargets are ignored if LoRAPath is set, because that folder has their values.
	LoRARank    int          `yaml:"lora_rank" doc:"Rank of the adapters."`
	LoRAAlpha   float64      `yaml:"lora_alpha" doc:"Adapters count alpha/rank; 0: lora_rank."`
	LoRATargets config.Words `yaml:"lora_target_modules" doc:"Products with an adapter."`
	LoRAPath    string       `yaml:"lora_path" doc:"PEFT folder to start from; empty: new adapters."`
}

// languageModel returns the keys of a family of language models, or the zero value if modelType is no such family.
func languageModel(modelType string) params.Own {
	if !isLanguageModel(modelType) {
		return params.Own{}
	}
	return params.New(LanguageModel{InitRange: 0.02, LoRARank: 32, LoRATargets: slices.Clone(lm.Targets),
		AuxLossCoef: 0.001, TensorSize: 1, PipelineSize: 1})
}

func isLanguageModel(modelType string) bool {
	return slices.Contains(lm.Families, lm.Family(modelType))
}

// LanguageModel returns the keys of actor.model, or the zero value if actor.model is no language model.
func (c *Config) LanguageModel() LanguageModel {
	m, _ := params.Get(c.Actor.Model.Own, LanguageModel{})
	return m
}

// Check validates each value by itself. It calls report with the result of each rule.
func (m LanguageModel) Check(report func(ok bool, key string, value any, expected string)) {
	size := func(n int, key string) {
		report(n > 0 || m.ModelPath != "", key, n, "a number > 0, or a model_path")
		report(n <= 0 || m.ModelPath == "", key, n, "none beside model_path, whose config.json has the sizes")
	}
	size(m.HiddenSize, "hidden_size")
	size(m.Intermediate, "intermediate_size")
	size(m.NumLayers, "num_hidden_layers")
	size(m.NumHeads, "num_attention_heads")
	for _, n := range []struct {
		value int
		key   string
	}{{m.VocabSize, "vocab_size"}, {m.NumKVHeads, "num_key_value_heads"}, {m.HeadDim, "head_dim"},
		{m.MaxPositions, "max_position_embeddings"}, {m.NumExperts, "num_experts"},
		{m.TokenExperts, "num_experts_per_tok"}, {m.ExpertWidth, "moe_intermediate_size"},
		{m.SharedWidth, "shared_expert_intermediate_size"}} {
		report(n.value >= 0, n.key, n.value, "a number ≥ 0")
	}
	positive := func(x float64, key string) {
		report(x >= 0 && !math.IsInf(x, 1), key, x, "a number ≥ 0")
	}
	positive(m.RopeTheta, "rope_theta")
	positive(m.RMSNormEps, "rms_norm_eps")
	positive(m.InitRange, "initializer_range")
	positive(m.AuxLossCoef, "router_aux_loss_coef")
	positive(m.LoRAAlpha, "lora_alpha")
	m.layout().check(report)
	report(slices.Contains([]string{"", RecomputeFull, RecomputeSelective}, m.Recompute), "recompute_granularity",
		m.Recompute, "full or selective, or nothing")
	report(slices.Contains([]string{"", RecomputeUniform, RecomputeBlock}, m.RecomputeMethod), "recompute_method",
		m.RecomputeMethod, "uniform or block, or nothing")
	report(m.RecomputeLayers >= 0, "recompute_num_layers", m.RecomputeLayers, "a number ≥ 0")
	block := m.Recompute == RecomputeFull && m.RecomputeMethod == RecomputeBlock
	report(m.RecomputeLayers > 0 || !block, "recompute_num_layers", m.RecomputeLayers,
		"a number > 0 with recompute_method block")
	report(m.LoRARank > 0, "lora_rank", m.LoRARank, "a number > 0")
	report(len(m.LoRATargets) > 0, "lora_target_modules", nil, "some of "+strings.Join(lm.Targets, ", "))
	for _, t := range m.LoRATargets {
		report(slices.Contains(lm.Targets, t), "lora_target_modules", t, "some of "+strings.Join(lm.Targets, ", "))
	}
	report(m.LoRAPath == "" || m.IsLoRA, "lora_path", m.LoRAPath, "none without is_lora")
}

// DataConfig is the section data: texts for language models.
type DataConfig struct {
	// TrainDataPaths are files with a JSON sample on each line, or with a JSON list of samples. They may be gzip files.
	// With model_type resnet they are files of frames: see rlinf data frames.
	TrainDataPaths config.Words `yaml:"train_data_paths"`
	// ValDataPaths are files for validation, in the same format. They are used every runner.val_check_interval steps.
	ValDataPaths config.Words `yaml:"val_data_paths"`
	// PromptKey and AnswerKey are the keys of the prompt and of the answer in a sample. The model is trained on the
	// answer, or in the reasoning task rewarded for it. Defaults prompt and answer.
	PromptKey string `yaml:"prompt_key"`
	AnswerKey string `yaml:"answer_key"`
	// MessagesKey is the key of a conversation in a sample: a list of {role, content}. A sample need not have it. The
	// model is trained on the assistant's messages. The reasoning task does not read it. Default messages. (+)
	MessagesKey string `yaml:"messages_key"`
	// ApplyChatTemplate formats prompts and conversations with the tokenizer's chat template. Default false: a text is
	// the prompt, the answer, and the token that ends a text.
	ApplyChatTemplate bool `yaml:"apply_chat_template"`
	// ChatTemplate names the chat template: one of the tokenizer's, or a built-in format (chatml, llama3, mistral,
	// llama2). Empty, the default, means the tokenizer's default template. A tokenizer without one is an error. (+)
	ChatTemplate string `yaml:"chat_template"`
	// FilterPromptByLength omits samples of more than runner.seq_length tokens, or in the reasoning task prompts of
	// more than data.max_prompt_length tokens. Default false: such samples are errors.
	FilterPromptByLength bool `yaml:"filter_prompt_by_length"`
	// RolloutBatchSize is the number of prompts of an iteration of the reasoning task, over all
	// actors. No default.
	RolloutBatchSize int `yaml:"rollout_batch_size"`
	// MaxPromptLength is the maximum number of tokens of a prompt in the reasoning task. The rest of
	// runner.seq_length is for the answer. No default.
	MaxPromptLength int `yaml:"max_prompt_length"`
	// Shuffle shuffles the samples before every epoch. Default true.
	Shuffle bool `yaml:"shuffle"`
	// Balanced makes half of every batch images of success, and half images of failure (model_type resnet). Default
	// true. If it is false, an epoch is a pass over all images. (+)
	Balanced bool `yaml:"balanced"`
	// Seed is the seed of the order of samples. Default: actor.seed.
	Seed uint64 `yaml:"seed"`
}

// EarlyStopConfig is the section runner.early_stop.
type EarlyStopConfig struct {
	// Enabled ends the run when validation stops improving. checkpoints/best is then the best checkpoint by Monitor,
	// which keep_checkpoints does not remove. Default false.
	Enabled bool `yaml:"enabled"`
	// Patience is the number of evaluations without a better value before the run ends. Default 5.
	Patience int `yaml:"patience"`
	// MinDelta is the minimum change of Monitor that counts as better. Default 0.001.
	MinDelta float64 `yaml:"min_delta"`
	// Monitor is the compared metric: val_loss, the default, val_exact_match, or val_accuracy of a classifier.
	Monitor string `yaml:"monitor"`
	// Target ends the run when Monitor reaches this value. 0, the default, disables this. (+)
	Target float64 `yaml:"target"`
}

// Metric returns the name of the metric that Monitor names, such as eval/loss.
func (c *EarlyStopConfig) Metric() string { return "eval/" + strings.TrimPrefix(c.Monitor, "val_") }

// Progress describes the progress towards Patience or Target, whichever is closer to stopping the run. value is the
// value of Monitor, or NaN before the first evaluation. evals is the number of evaluations since the best value.
func (c *EarlyStopConfig) Progress(value float64, evals int) string {
	switch {
	case c.Target == 0 || 2*evals >= c.Patience:
		return fmt.Sprintf("%s patience %d/%d", c.Monitor, evals, c.Patience)
	case math.IsNaN(value):
		return fmt.Sprintf("%s target %.4g", c.Monitor, c.Target)
	}
	return fmt.Sprintf("%s %.4g, target %.4g", c.Monitor, value, c.Target)
}

// Values of EarlyStopConfig.Monitor.
const (
	MonitorLoss       = "val_loss"
	MonitorExactMatch = "val_exact_match"
	MonitorAccuracy   = "val_accuracy"
)

// TokenizerConfig is the section actor.tokenizer.
type TokenizerConfig struct {
	// TokenizerModel is the folder of the tokenizer. Empty, the default, means actor.model.model_path.
	TokenizerModel string `yaml:"tokenizer_model"`
}

// TokenizerFolder returns the folder of the tokenizer.
func (c *Config) TokenizerFolder() string {
	if dir := c.Actor.Tokenizer.TokenizerModel; dir != "" {
		return dir
	}
	return c.LanguageModel().ModelPath
}
