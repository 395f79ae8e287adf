package config

import (
	"fmt"
	"strings"

	"github.com/rlinf/rlinf/policy/lm"
)

// checkSFT checks the values of a job that fine-tunes a language model.
func (c *validation) checkSFT() {
	c.Actor.Optim.Check(c.found.At("actor.optim").Want)
	want := c.found.Want
	r, a := &c.Runner, &c.Actor
	want(!r.OnlyEval, "runner.only_eval", r.OnlyEval, "false (task_type sft)")
	want(!r.Async, "runner.async", r.Async, "false (task_type sft)")
	want(r.SeqLength > 1, "runner.seq_length", r.SeqLength, "the tokens of the longest sample, a number > 1")
	want(a.Threads >= 1, "actor.threads", a.Threads, "a number ≥ 1")
	want(a.GlobalBatchSize > 0, "actor.global_batch_size", a.GlobalBatchSize, "a number > 0")
	if r.EnableDynamicBatchSize {
		want(r.MaxTokensPerMbs >= r.SeqLength, "runner.max_tokens_per_mbs", r.MaxTokensPerMbs,
			fmt.Sprintf("at least %d (runner.seq_length)", r.SeqLength))
	} else {
		want(a.MicroBatchSize > 0, "actor.micro_batch_size", a.MicroBatchSize,
			"a number > 0, or runner.enable_dynamic_batch_size")
	}
	d := &c.Data
	want(len(d.TrainDataPaths) > 0, "data.train_data_paths", nil, "files of JSON lines")
	want(!c.Evaluates() || len(d.ValDataPaths) > 0, "data.val_data_paths", nil,
		fmt.Sprintf("files of JSON lines (val_check_interval %d)", r.ValCheckInterval))
	want(d.PromptKey != "", "data.prompt_key", d.PromptKey, "the key of a sample's prompt")
	want(d.AnswerKey != "", "data.answer_key", d.AnswerKey, "the key of a sample's answer")
	if s := &r.EarlyStop; s.Enabled {
		want(c.Evaluates(), "runner.early_stop.enabled", true, "false, or evaluations (runner.val_check_interval)")
		want(s.Patience > 0, "runner.early_stop.patience", s.Patience, "a number > 0")
		want(s.MinDelta >= 0, "runner.early_stop.min_delta", s.MinDelta, "a number ≥ 0")
		want(s.Monitor == "val_loss", "runner.early_stop.monitor", s.Monitor, "val_loss")
	}
	known := isLanguageModel(a.Model.ModelType) // else checkNames reports it
	want(!known || c.TokenizerFolder() != "", "actor.tokenizer.tokenizer_model", nil,
		"the folder of a tokenizer, or actor.model.model_path")
}

// checkFamily checks that the model of a job of the task sft is a language model, and that others
// have none and none of its keys.
func (c *validation) checkFamily() {
	if c.FineTunes() {
		names := make([]string, len(lm.Families))
		for i, f := range lm.Families {
			names[i] = string(f)
		}
		c.found.Want(isLanguageModel(c.Actor.Model.ModelType), "actor.model.model_type", c.Actor.Model.ModelType,
			"one of "+strings.Join(names, ", ")+" (task_type sft)")
		return
	}
	c.checkName("actor.model.model_type", c.Actor.Model.ModelType, c.reg.Policies.Names())
}

// idleSFT lists the keys that ask for something and have no effect without the task sft.
func (c *validation) idleSFT() {
	d, otherwise, r := &c.Data, Default().Data, &c.Runner
	for _, k := range []struct {
		key   string
		asks  bool
		value any
	}{
		{"runner.seq_length", r.SeqLength != 0, r.SeqLength},
		{"runner.enable_dynamic_batch_size", r.EnableDynamicBatchSize, true},
		{"runner.max_tokens_per_mbs", r.MaxTokensPerMbs != 0, r.MaxTokensPerMbs},
		{"runner.early_stop.enabled", r.EarlyStop.Enabled, true},
		{"actor.threads", c.Actor.Threads != 1, c.Actor.Threads},
		{"actor.enable_dp_load_balance", c.Actor.EnableDPLoadBalance, true},
		{"actor.tokenizer.tokenizer_model", c.Actor.Tokenizer.TokenizerModel != "", c.Actor.Tokenizer.TokenizerModel},
		{"data.train_data_paths", len(d.TrainDataPaths) > 0, d.TrainDataPaths},
		{"data.val_data_paths", len(d.ValDataPaths) > 0, d.ValDataPaths},
		{"data.prompt_key", d.PromptKey != otherwise.PromptKey, d.PromptKey},
		{"data.answer_key", d.AnswerKey != otherwise.AnswerKey, d.AnswerKey},
		{"data.messages_key", d.MessagesKey != otherwise.MessagesKey, d.MessagesKey},
		{"data.apply_chat_template", d.ApplyChatTemplate, true},
		{"data.filter_prompt_by_length", d.FilterPromptByLength, true},
		{"data.shuffle", !d.Shuffle, false},
	} {
		if k.asks && c.found.Has(k.key) {
			c.found.Idle(k.key, k.value)
		}
	}
}
