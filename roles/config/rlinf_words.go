package config

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/rlinf/rlinf/internal/config"
)

// useOwnWords replaces RLinf's keys and values by ours if they have the same meaning.
func useOwnWords(t *config.Tree) {
	task, _ := t.Given("runner.task_type")
	if t.Null("algorithm.clip_ratio_c") {
		t.Set("algorithm.clip_ratio_c", "0") // both null and 0 mean that there is no second clip
	}
	if text, _ := t.Given(placementKey); text == PlacementAuto {
		t.Spread(placementKey, plannedComponents(task)...)
	}
	// The rollout engine uses the actors' model. RLinf's Megatron configurations name the model only under rollout.
	t.Section("actor.model", "rollout.model") // files that only evaluate have no actor.model
	if task == TaskReasoning || task == TaskSFT {
		for _, key := range []string{"model_path", "model_type"} {
			t.Stand("actor.model."+key, "rollout.model."+key)
		}
		if name, _ := t.Given("actor.model.model_type"); name == "qwen2.5" || name == "qwen2_5" {
			t.Set("actor.model.model_type", "qwen2") // the name that transformers uses
		}
	} else if path, _ := t.Given("actor.model.model_path"); !frozenBackbone(t) &&
		(namesWeights(path) || isMissing(path) && ownPolicy(t)) {
		t.Stand("runner.ckpt_path", "actor.model.model_path")
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

// namesWeights reports whether path names weights that a policy of environments may begin with: a file of safetensors,
// or a folder of a run or of its checkpoints.
func namesWeights(path string) bool {
	for element := range strings.SplitSeq(filepath.ToSlash(path), "/") {
		if element == "checkpoints" || strings.HasPrefix(element, "global_step_") {
			return true
		}
	}
	has := func(name string) bool {
		_, err := os.Stat(filepath.Join(path, name))
		return path != "" && err == nil
	}
	return strings.HasSuffix(path, ".safetensors") || has("model.safetensors") || has("checkpoints")
}

// isMissing reports whether there is nothing at path.
func isMissing(path string) bool {
	_, err := os.Stat(path)
	return path != "" && errors.Is(err, os.ErrNotExist)
}

// ownPolicy reports whether a model_path can only name weights with which the policy begins. With RLinf's cnn_policy it
// names a part that is not supported here.
func ownPolicy(t *config.Tree) bool {
	name, given := t.Given("actor.model.model_type")
	return !given || name == "mlp_policy" || name == "rnn_policy"
}

// answerLength accepts max_new_tokens if it equals seq_length - max_prompt_length.
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

// clipLikeRLinf sets the default of clip ratios in the reasoning task. As in RLinf, it is ratio_clip_eps.
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
	if c.found != nil && c.found.Has("agentloop") { // found is nil in the result of Default
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

// synonyms are names of keys in other libraries of reinforcement learning and of language models.
var synonyms = map[string]string{
	"learning_rate":               "actor.optim.lr",
	"max_grad_norm":               "actor.optim.clip_grad",
	"warmup_steps":                "actor.optim.lr_warmup_steps",
	"clip_range":                  "algorithm.clip_ratio_high",
	"ent_coef":                    "algorithm.entropy_bonus",
	"n_epochs":                    "algorithm.update_epoch",
	"num_train_epochs":            "runner.max_epochs",
	"net_arch":                    "actor.model.hidden_sizes",
	"n_envs":                      "env.train.total_num_envs",
	"max_seq_length":              "runner.seq_length",
	"max_length":                  "runner.seq_length",
	"lora_r":                      "actor.model.lora_rank",
	"per_device_train_batch_size": "actor.micro_batch_size",
	"num_generations":             "algorithm.group_size",
	"load_best_model_at_end":      "runner.early_stop.enabled",
	"eval_steps":                  "runner.val_check_interval",
	"save_steps":                  "runner.save_interval",
	"entropy_coef":                "algorithm.entropy_bonus",
	"batch_size":                  "actor.global_batch_size",
	"num_envs":                    "env.train.total_num_envs",
}

// aliases are the names of keys in RLinf's releases before v0.1.
func aliases() []config.Alias {
	const bySize = "${multiply:%s,${algorithm.group_size}}"
	const byChunk = "${multiply:%s,${actor.model.num_action_chunks}}"
	both := func(key string) []string { return []string{"env.train." + key, "env.eval." + key} }
	return []config.Alias{
		{Old: "rollout.model_dir", New: []string{"rollout.model.model_path"}},
		{Old: "rollout.model_arch", New: []string{"rollout.model.model_type"}},
		{Old: "rollout.precision", New: []string{"rollout.model.precision"}},
		{Old: "actor.checkpoint_load_path", New: []string{"actor.model.model_path"}},
		{Old: "critic.optim", New: []string{"actor.critic_optim"}},
		{Old: "actor.model.model_name", New: []string{"actor.model.model_type"}},
		{Old: "runner.eval_policy_path", New: []string{"runner.ckpt_path"}},
		{Old: "algorithm.auto_reset", New: both("auto_reset")},
		{Old: "algorithm.ignore_terminations", New: both("ignore_terminations")},
		{Old: "algorithm.use_fixed_reset_state_ids", New: both("use_fixed_reset_state_ids")},
		{Old: "algorithm.num_group_envs", New: []string{"env.train.total_num_envs"}, Value: bySize},
		{Old: "algorithm.n_chunk_steps", New: []string{"env.train.max_steps_per_rollout_epoch"}, Value: byChunk},
		{Old: "algorithm.n_eval_chunk_steps", New: []string{"env.eval.max_steps_per_rollout_epoch"}, Value: byChunk},
		{Old: "algorithm.rollout_epoch", New: []string{"env.train.rollout_epoch"}},
		{Old: "algorithm.eval_rollout_epoch", New: []string{"env.eval.rollout_epoch"}},
		{Old: "algorithm.sampling_params", New: []string{"rollout.sampling_params"}},
		{Old: "algorithm.length_params.max_new_token", New: []string{"rollout.sampling_params.max_new_tokens"}},
		{Old: "rollout.sampling_params.use_greedy", New: []string{"rollout.sampling_params.do_sample"},
			Value: "${not:%s}"},
		{Old: "env.eval.num_envs", New: []string{"env.eval.total_num_envs"}},
		{Old: "env.train.simulator_type", New: []string{"env.train.env_type"}},
		{Old: "env.eval.simulator_type", New: []string{"env.eval.env_type"}},
		{Old: "env.enable_offload", New: both("enable_offload")},
	}
}
