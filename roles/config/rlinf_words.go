package config

import (
	"slices"
	"strconv"
	"strings"

	"github.com/rlinf/rlinf/internal/config"
)

// useOwnWords replaces RLinf's keys and values by ours, where RLinf expresses the same in another way.
func useOwnWords(t *config.Tree) {
	task, _ := t.Given("runner.task_type")
	if t.Null("algorithm.clip_ratio_c") {
		t.Set("algorithm.clip_ratio_c", "0") // no second clip
	}
	if text, _ := t.Given(placementKey); text == PlacementAuto {
		t.Spread(placementKey, planned(task)...)
	}
	// The rollout engine uses the actors' model. RLinf's files of Megatron name the model only under rollout.
	t.Section("actor.model", "rollout.model") // as in files that only evaluate
	if task == TaskReasoning || task == TaskSFT {
		for _, key := range []string{"model_path", "model_type"} {
			t.Stand("actor.model."+key, "rollout.model."+key)
		}
		family(t)
	} else if path, _ := t.Given("actor.model.model_path"); strings.HasSuffix(path, ".safetensors") {
		t.Stand("runner.ckpt_path", "actor.model.model_path") // initial weights
	}
	for _, key := range []string{"model_path", "model_type", "precision"} {
		theirs, ok := t.Given("rollout.model." + key)
		if ours, _ := t.Given("actor.model." + key); ok && ours == theirs {
			t.Said("rollout.model." + key)
		}
	}
	if task == TaskReasoning {
		for _, key := range []string{"algorithm.clip_ratio_low", "algorithm.clip_ratio_high"} {
			if t.Null(key) {
				t.Remove(key) // the default is ratio_clip_eps
			}
		}
		t.Stand("algorithm.value_clip", "algorithm.value_cliprange")
		t.Stand("actor.optim.critic_warmup_steps", "algorithm.critic_warmup_steps")
		t.Stand("actor.micro_batch_size", "algorithm.training_batch_size_per_gpu")
		answerLength(t)
	}
}

// family replaces RLinf's names of model families by the names that transformers uses.
func family(t *config.Tree) {
	switch name, _ := t.Given("actor.model.model_type"); name {
	case "qwen2.5", "qwen2_5":
		t.Set("actor.model.model_type", "qwen2")
	}
}

// answerLength accepts max_new_tokens if it equals the rest of seq_length.
func answerLength(t *config.Tree) {
	const key = "rollout.sampling_params.max_new_tokens"
	number := func(key string) int {
		text, _ := t.Given(key)
		n, _ := strconv.Atoi(text)
		return n
	}
	if n := number(key); n > 0 && n == number("runner.seq_length")-number("data.max_prompt_length") {
		t.Said(key)
	}
}

// clipLikeRLinf sets the clips of answers to RLinf's default, ratio_clip_eps, where the user gives no value.
func (c *Config) clipLikeRLinf() {
	if !c.Reasons() {
		return
	}
	a := &c.Algorithm
	if !c.found.Has("algorithm.clip_ratio_low") {
		a.ClipRatioLow = a.Texts.RatioClipEps
	}
	if !c.found.Has("algorithm.clip_ratio_high") {
		a.ClipRatioHigh = a.Texts.RatioClipEps
	}
}

// ForeignFeatures returns the features in c that are not supported, such as "an agent's loop with tools". It omits
// policies and simulators.
func (c *Config) ForeignFeatures() (names []string) {
	if c.found != nil && c.found.Has("agentloop") { // a Config of Default has none
		names = append(names, "an agent's loop with tools")
	}
	switch task := c.Runner.TaskType; task {
	case "coding_online_rl":
		names = append(names, "the task coding_online_rl")
	case "reasoning_eval":
		names = append(names, "the task reasoning_eval (rlinf eval evaluates files of the task reasoning)")
	}
	if !c.Reasons() {
		return names
	}
	if rule := c.Reward.RewardType; slices.Contains([]string{"vqa", "code_offline", "rstar2", "searchr1"}, rule) {
		names = append(names, "the reward "+rule)
	}
	return names
}

// foreignAnswerer returns the kind of language model that modelType names, if that is a model_type of RLinf that is
// not supported. It returns "" for any other name.
func foreignAnswerer(modelType string) string {
	switch {
	case slices.Contains([]string{"qwen2.5_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_vl_moe", "internvl"}, modelType):
		return "a language model that sees"
	case slices.Contains([]string{"deepseek_v3", "deepseek_v2"}, modelType):
		return "a language model with latent attention"
	}
	return ""
}
