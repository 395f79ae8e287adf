package config

import (
	"fmt"
	"math"
	"reflect"
	"strings"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/config"
	"github.com/rlinf/rlinf/policy/lm"
	"github.com/rlinf/rlinf/reward"
	"github.com/rlinf/rlinf/reward/answer"
)

// checkSFT checks the values of a job that trains a language model.
func (c *validation) checkSFT() {
	c.Actor.Optim.Check(c.found.At("actor.optim").Want)
	want := c.found.Want
	r, a := &c.Runner, &c.Actor
	task := " (task_type " + r.TaskType + ")"
	want(!r.OnlyEval, "runner.only_eval", r.OnlyEval, "false"+task)
	want(!r.Async, "runner.async", r.Async, "false"+task)
	train, eval := c.unasked()
	const none = "a language model has no environments"
	c.idleKey("env.train", !reflect.DeepEqual(c.Env.Train, train), "a map", none)
	c.idleKey("env.eval", !reflect.DeepEqual(c.Env.Eval, eval), "a map", none)
	c.idleReward("a key of rewards of environments")
	c.idleKeys("a key of other networks", append([]string{"actor.model.hidden_sizes", "actor.model.add_value_head",
		"actor.model.num_action_chunks"}, algorithmsOfModel...)...)
	want(r.SeqLength > 1, "runner.seq_length", r.SeqLength, "the tokens of the longest sample, a number > 1")
	want(a.Threads >= 1, "actor.threads", a.Threads, "a number ≥ 1")
	c.checkAlgorithmKeys()
	if c.Reasons() {
		c.checkReasoning()
	} else {
		want(a.GlobalBatchSize > 0, "actor.global_batch_size", a.GlobalBatchSize, "a number > 0")
		c.idleReasoning()
		c.idleKeys("a key of the task reasoning", "reward.reward_type", "reward.use_reward_model")
		c.idleKeys("", "rollout.pipeline_stage_num")
		c.idleKeys("every step trains the same weights", "runner.weight_sync_interval")
	}
	if r.EnableDynamicBatchSize {
		want(r.MaxTokensPerMbs >= r.SeqLength, "runner.max_tokens_per_mbs", r.MaxTokensPerMbs,
			fmt.Sprintf("at least %d (runner.seq_length)", r.SeqLength))
	} else {
		want(a.MicroBatchSize > 0, "actor.micro_batch_size", a.MicroBatchSize,
			"a number > 0, or runner.enable_dynamic_batch_size")
	}
	d := &c.Data
	want(len(d.TrainDataPaths) > 0, "data.train_data_paths", nil, "files of JSON lines or Parquet")
	want(!c.Evaluates() || len(d.ValDataPaths) > 0, "data.val_data_paths", nil,
		fmt.Sprintf("files of JSON lines or Parquet (val_check_interval %d)", r.ValCheckInterval))
	want(d.PromptKey != "", "data.prompt_key", d.PromptKey, "the key of a sample's prompt")
	want(d.AnswerKey != "", "data.answer_key", d.AnswerKey, "the key of a sample's answer")
	c.checkEarlyStop(MonitorLoss, MonitorExactMatch)
	known := isLanguageModel(a.Model.ModelType) // checkNames reports other names
	want(!known || c.TokenizerFolder() != "", "actor.tokenizer.tokenizer_model", nil,
		"the folder of a tokenizer, or actor.model.model_path")
	if !c.Data.ApplyChatTemplate {
		c.idleKeys("apply_chat_template is false", "data.chat_template")
	}
}

// checkEarlyStop checks runner.early_stop. loss and share are the metrics that it may monitor; share is at most 1.
func (c *validation) checkEarlyStop(loss, share string) {
	s, want := &c.Runner.EarlyStop, c.found.Want
	if !s.Enabled {
		return
	}
	want(c.Evaluates(), "runner.early_stop.enabled", true, "false, or evaluations (runner.val_check_interval)")
	want(s.Patience > 0, "runner.early_stop.patience", s.Patience, "a number > 0")
	want(s.MinDelta >= 0, "runner.early_stop.min_delta", s.MinDelta, "a number ≥ 0")
	want(s.Monitor == loss || s.Monitor == share, "runner.early_stop.monitor", s.Monitor, loss+" or "+share)
	want(s.Target >= 0 && (s.Target <= 1 || s.Monitor == loss), "runner.early_stop.target", s.Target,
		"a number ≥ 0 (0: none), at most 1 with "+share)
}

// checkReasoning checks the values of the reasoning task.
func (c *validation) checkReasoning() {
	want, d, a := c.found.Want, &c.Data, &c.Algorithm
	c.idleKeys("prompts are at prompt_key", "data.messages_key")
	want(d.RolloutBatchSize > 0, "data.rollout_batch_size", d.RolloutBatchSize,
		"the prompts of an iteration, a number > 0")
	want(d.MaxPromptLength > 0 && d.MaxPromptLength < c.Runner.SeqLength, "data.max_prompt_length", d.MaxPromptLength,
		fmt.Sprintf("a number of tokens > 0 and < %d (runner.seq_length)", c.Runner.SeqLength))
	want(a.GroupSize > 0, "algorithm.group_size", a.GroupSize, "a number > 0")
	compares := a.comparesGroups()
	want(a.GroupSize != 1 || compares == "", "algorithm.group_size", a.GroupSize,
		"a number > 1 ("+compares+" compares the answers to a prompt)")
	want(!c.Critic.UseCriticModel || a.LossType == "actor_critic", "critic.use_critic_model", true,
		"false: only adv_type gae has a critic")
	want(!c.Runner.EarlyStop.Enabled, "runner.early_stop.enabled", true, "false (task_type reasoning)")
	c.checkEvalSampling()
	c.Reward.Answers.Check(c.found.At("reward").Want)
	c.Reward.Own.Check(c.found.At("reward").Want)
	asks := c.Reward.RewardType == answer.Program
	want(!asks || len(c.Reward.Answers.Program.Command) > 0, "reward.program.command", nil,
		"the program that reward_type "+answer.Program+" asks")
	if command := c.Reward.Answers.Program.Command; !asks && len(command) > 0 {
		c.found.IdleInstead("reward.program.command", command, "reward_type "+c.Reward.RewardType+" asks no program")
	}
	want(!c.Reward.UseRewardModel, "reward.use_reward_model", true, "false (task_type reasoning)")
	want(c.Runner.WeightSyncInterval == 1, "runner.weight_sync_interval", c.Runner.WeightSyncInterval,
		"1 (task_type reasoning)")
	want(c.Rollout.Threads >= 1, "rollout.threads", c.Rollout.Threads, "a number ≥ 1")
	want(c.Rollout.MaxRunningRequests >= 1, "rollout.max_running_requests", c.Rollout.MaxRunningRequests,
		"a number ≥ 1")
	want(c.Rollout.ReturnLogprobs || a.RecomputeLogprobs && !a.Texts.ImportanceSamplingFix, "rollout.return_logprobs",
		false, "true, or algorithm.recompute_logprobs without importance_sampling_fix")
	if c.found.Has("actor.global_batch_size") && c.Actor.GlobalBatchSize != 0 {
		c.found.IdleInstead("actor.global_batch_size", c.Actor.GlobalBatchSize,
			"rollout_batch_size, group_size and n_minibatches give it")
	}
}

// checkEvalSampling checks how evaluations sample answers.
func (c *validation) checkEvalSampling() {
	e, want := &c.Rollout.EvalSamplingParams, c.found.At("rollout.eval_sampling_params").Want
	want(e.N >= 0 && e.N <= maxSamples, "n", e.N, fmt.Sprintf("a number from 0 to %d", maxSamples))
	want(e.Temperature >= 0 && !math.IsInf(e.Temperature, 1), "temperature", e.Temperature, "a number ≥ 0")
	want(e.TopK >= 0, "top_k", e.TopK, "a number ≥ 0 (0: all tokens)")
	want(e.TopP > 0 && e.TopP <= 1, "top_p", e.TopP, "a number > 0 and ≤ 1")
	want(e.RepetitionPenalty > 0 && !math.IsInf(e.RepetitionPenalty, 1), "repetition_penalty", e.RepetitionPenalty,
		"a number > 0")
	if e.N == 0 && *e != Default().Rollout.EvalSamplingParams {
		c.found.IdleInstead("rollout.eval_sampling_params", *e, "n 0 draws no answers")
	}
}

// maxSamples is the maximum number of answers to a prompt that have distinct random numbers.
const maxSamples = 1 << 16

// unasked returns the values that the sections env.train and env.eval have if none of their keys is given. The recorded
// configuration of a run has these values.
func (c *validation) unasked() (train, eval env.Config) {
	train = env.DefaultConfig()
	train.GroupSize, train.Seed = c.Algorithm.GroupSize, c.Runner.Seed
	train.InitParams.Own = c.Env.Train.InitParams.Own
	connect(&train)
	eval = evaluationLike(train)
	if c.Env.Eval.GroupSize == train.GroupSize { // as version 0.1.0 recorded it
		eval.GroupSize = train.GroupSize
	}
	eval.InitParams.Own = c.Env.Eval.InitParams.Own
	return train, eval
}

// idleReasoning reports the given keys that have an effect only in the reasoning task.
func (c *validation) idleReasoning() {
	const note = "a key of the task reasoning"
	c.idleKeys("", "rollout.max_running_requests", "rollout.return_logprobs", "rollout.threads")
	c.idleKeys(note, "data.rollout_batch_size", "data.max_prompt_length", "algorithm.n_minibatches",
		"algorithm.norm_adv_by_std_in_grpo", "algorithm.reinpp_kl_penalty_type", "algorithm.early_stop_imp_ratio",
		"algorithm.importance_sampling_fix", "algorithm.importance_sampling_clip", "algorithm.mask_truncated",
		"critic.use_critic_model", "reward.reward_scale", "reward.format_reward", "reward.random_reward",
		"reward.program.command", "rollout.eval_sampling_params")
	sampling := c.Rollout.SamplingParams
	c.idleKey("rollout.sampling_params", sampling.answers() != Default().Rollout.SamplingParams.answers(), sampling,
		note)
	c.idleKeys(note, "algorithm.ratio_clip_eps")
}

// idleKeys calls idleKey for each key. A value enables something if it is not the default.
func (c *validation) idleKeys(note string, keys ...string) {
	values, defaults := valuesOf(c.Config), valuesOf(Default())
	for _, key := range keys {
		value := values[key]
		enables := fmt.Sprint(value) != fmt.Sprint(defaults[key]) // compares texts, in which nil equals an empty list
		c.idleKey(key, enables, value, note)
	}
}

// keysBelow returns the keys in a section.
func (c *validation) keysBelow(section string) (keys []string) {
	for _, f := range config.Fields(c.Config) {
		if strings.HasPrefix(f.Key, section+".") {
			keys = append(keys, f.Key)
		}
	}
	return keys
}

// valuesOf returns the values of all keys of c.
func valuesOf(c *Config) map[string]any {
	values := map[string]any{}
	for _, f := range config.Fields(c) {
		values[f.Key] = f.Value
	}
	return values
}

// idleKey reports that a key has no effect, if the key is given and enables is true. note says what this program does
// instead. It is "" if the key changes no result.
func (c *validation) idleKey(key string, enables bool, value any, note string) {
	if enables && c.found.Has(key) {
		c.found.IdleInstead(key, value, note)
	}
}

// checkFamily checks actor.model.model_type: a family of language models in the tasks sft and reasoning, else a policy.
func (c *validation) checkFamily() {
	if c.Classifies() {
		return
	}
	if c.FineTunes() {
		names := make([]string, len(lm.Families))
		for i, f := range lm.Families {
			names[i] = string(f)
		}
		c.found.Want(isLanguageModel(c.Actor.Model.ModelType), "actor.model.model_type", c.Actor.Model.ModelType,
			"one of "+strings.Join(append(names, reward.ResNet), ", ")+" (task_type "+c.Runner.TaskType+")")
		return
	}
	c.checkName("actor.model.model_type", c.Actor.Model.ModelType, c.reg.Policies.Names())
}

// idleSFT reports the given keys that have an effect only for language models.
func (c *validation) idleSFT() {
	const note = "a key of language models"
	c.idleKeys("", "runner.enable_dynamic_batch_size", "runner.max_tokens_per_mbs", "actor.threads",
		"actor.enable_dp_load_balance")
	c.idleKeys(note, "runner.seq_length", "runner.early_stop.enabled", "actor.tokenizer.tokenizer_model",
		"data.train_data_paths", "data.val_data_paths", "data.prompt_key", "data.answer_key", "data.messages_key",
		"data.apply_chat_template", "data.chat_template", "data.filter_prompt_by_length", "data.shuffle")
	c.idleKey("data.seed", c.Data.Seed != c.Actor.Seed, c.Data.Seed, note)
}

// checkLanguageModel checks the keys of a language model, and reports keys of other networks.
func (c *validation) checkLanguageModel() {
	m := &c.Actor.Model
	m.Own.Check(c.found.At("actor.model").Want)
	if c.found.Has("actor.model.activation") && m.Activation != Default().Actor.Model.Activation {
		c.found.IdleInstead("actor.model.activation", m.Activation, architecture)
	}
}
