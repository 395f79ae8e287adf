package config_test

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rlinf/rlinf/env"
	yamlconfig "github.com/rlinf/rlinf/internal/config"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/internal/rolestest"
)

func TestLoadConfig(t *testing.T) {
	c, warnings := rolestest.MustLoad(t, rolestest.Cartpole, "runner.max_steps=20", "runner.max_time=00:10:00",
		"runner.seed=7")
	rolestest.Expect(t, "warnings", warnings)
	placement := yamlconfig.Map[config.PlacementConfig]{
		{Key: "actor", Value: config.PlacementConfig{Placement: "0-7"}},
		{Key: "env", Value: config.PlacementConfig{Placement: "0-3"}},
		{Key: "rollout", Value: config.PlacementConfig{Placement: "4-7"}},
	}
	if !reflect.DeepEqual(c.Cluster.ComponentPlacement, placement) {
		t.Errorf("placement %v, want %v", c.Cluster.ComponentPlacement, placement)
	}
	for _, v := range []struct {
		what      string
		got, want any
	}{
		{"iterations", c.Runner.Iterations(), 20},
		{"max_time", c.Runner.MaxTime, 10 * time.Minute},
		{"gamma", c.Algorithm.Gamma, float32(0.98)},
		{"clip_ratio_low, a default", c.Algorithm.ClipRatioLow, float32(0.2)},
		{"lr", c.Actor.Optim.LR, float32(1e-3)},
		{"env.eval.env_type, from train", c.Env.Eval.ID(), "CartPole-v1"},
		{"env.eval.total_num_envs", c.Env.Eval.TotalNumEnvs, 16},
		{"actor.seed, from runner", c.Actor.Seed, uint64(7)},
		{"env.train.seed, from runner", c.Env.Train.Seed, uint64(7)},
		{"env.eval.seed, from train", c.Env.Eval.Seed, uint64(7)},
		{"logprob_type of the model", c.PolicyConfig().LogProbType, "action_level"},
		{"entropy_type, from logprob_type", c.Algorithm.EntropyType, "action_level"},
	} {
		test.Equal(t, v.got, v.want, "%s", v.what)
	}
}

// TestEvaluationsHaveNoGroups: env.eval does not inherit the keys by which initial states repeat. A recorded
// configuration keeps the values.
func TestEvaluationsHaveNoGroups(t *testing.T) {
	grouped := []string{"algorithm.group_size=4", "env.train.use_fixed_reset_state_ids=true"}
	for _, tc := range []struct {
		overrides []string
		group     int
		fixed     bool
	}{
		{nil, 1, false},
		{[]string{"env.eval.group_size=2"}, 2, false},
		{[]string{"env.eval.use_fixed_reset_state_ids=true"}, 1, true},
	} {
		c, _ := rolestest.MustLoad(t, rolestest.Cartpole, append(tc.overrides, grouped...)...)
		again := test.Must(config.Parse(rolestest.Registries(), c.Resolved()))(t)
		for _, e := range []*env.Config{&c.Env.Eval, &again.Env.Eval} {
			if e.GroupSize != tc.group || e.UseFixedResetStateIDs != tc.fixed {
				t.Errorf("%q: groups of %d, fixed %v", tc.overrides, e.GroupSize, e.UseFixedResetStateIDs)
			}
		}
		if train := &c.Env.Train; train.GroupSize != 4 || !train.UseFixedResetStateIDs {
			t.Errorf("%q: training has groups of %d, fixed %v", tc.overrides, train.GroupSize,
				train.UseFixedResetStateIDs)
		}
	}
}

// A configuration stays the same if it is written and read again, by Load and by Parse.
func TestResolvedReadAgain(t *testing.T) {
	t.Setenv("EMBODIED_PATH", "/nowhere")
	for _, overrides := range [][]string{
		nil,
		{"runner.logger.experiment_name='a \\${b}'",
			"cluster.component_placement.env={node_group: [a, b], placement: 0-3}",
			"cluster.node_groups=[{label: a, node_ranks: 0-1}, {label: b, node_ranks: [3]}]"},
		{"runner.task_type=embodied_eval", "runner.max_time=90m", "comm.stall_timeout=0",
			"actor.seed=18446744073709551615"},
		{"actor.model.hidden_sizes=[]", "runner.logger.logger_backends=[]", "algorithm.normalize_advantages=false",
			"algorithm.group_size=4"},
		{"env.train.env_type=external", "env.eval.env_type=external", "env.train.external={command: sim, n: 2}",
			"env.eval.external={command: [], listen: 'unix:s', n: 0}"},
		{"env.train.env_type=external", "env.eval.env_type=external",
			"env.train.external={listen: 'tcp:h:1', token_file: t}",
			"env.eval.external={command: sim, listen: '', token_file: ''}"},
	} {
		for _, path := range []string{rolestest.Cartpole, "../config/testdata/maniskill_like.yaml"} {
			if len(overrides) == 4 && path != rolestest.Cartpole {
				continue
			}
			c, _ := rolestest.MustLoad(t, path, overrides...)
			text := c.Resolved()
			again, err := config.Parse(rolestest.Registries(), text)
			if err != nil {
				t.Fatalf("%s %v: %v\n%s", path, overrides, err, text)
			}
			file := filepath.Join(t.TempDir(), "config.yaml")
			test.OK(t, os.WriteFile(file, text, 0o666))
			fromFile, warnings := rolestest.MustLoad(t, file)
			rolestest.Expect(t, "warnings of "+path, warnings)
			for _, other := range []*config.Config{again, fromFile} {
				if string(other.Resolved()) != string(text) {
					t.Errorf("%s %v\ngot\n%s\nwant\n%s", path, overrides, other.Resolved(), text)
				}
			}
		}
	}
}

func TestSeedsKeysLoad(t *testing.T) {
	c, warnings := rolestest.MustLoad(t, "../config/testdata/seeds.yaml")
	if c.Runner.MaxEpochs != 10 || c.Actor.GlobalBatchSize != 512 || c.Actor.MicroBatchSize != 64 ||
		c.Runner.Logger.LogPath != "logs/seeds" {
		t.Errorf("got %+v %+v", c.Runner, c.Actor)
	}
	rolestest.Expect(t, "warnings", warnings,
		"../config/testdata/seeds.yaml:14: rollout.model_dir is an old name, today it is rollout.model.model_path",
		"../config/testdata/seeds.yaml:18: actor.checkpoint_load_path is an old name, today it is "+
			"actor.model.model_path",
		"keys without effect here",
		"  THESE CHANGE WHAT IS LEARNT OR MEASURED:",
		"    actor.tokenizer.tokenizer_model  /models/tokenizer  ../config/testdata/seeds.yaml:17  a key of "+
			"language models",
		"    rollout.model.model_path         /models/policy     ../config/testdata/seeds.yaml:14  actor.model is "+
			"the only model",
		"  these change speed, memory or what is written:",
		"    actor.checkpoint_save_path  /models/out  ../config/testdata/seeds.yaml:19  checkpoints are in the run's "+
			"folder",
	)
}

func TestWeightSyncerKeys(t *testing.T) {
	c, warnings := rolestest.MustLoad(t, rolestest.Cartpole, "weight_syncer.type=patch",
		"weight_syncer.bucket={bucket_size: 64MB, bucket_dtype: bf16, is_agent: false, load_instant: true}",
		"weight_syncer.patch={snapshot_device: cpu, delta_encoding: false, compression: none, init_sync: {enabled: "+
			"false, prefixes: [actor.], bucket_size: 4096}}",
		"weight_syncer.use_ring_sync=false", "weight_syncer.nccl_max_ctas=null")
	rolestest.Expect(t, "warnings", warnings)
	want := config.WeightSyncerConfig{Type: config.WeightSyncPatch,
		Bucket: config.WeightBucketConfig{BucketSize: 64 << 20, BucketDType: "bf16"},
		Patch: config.WeightPatchConfig{InitSync: config.WeightInitSyncConfig{Prefixes: yamlconfig.Words{"actor."},
			BucketSize: 4096}}}
	if !reflect.DeepEqual(c.WeightSyncer, want) {
		t.Errorf("got %+v, want %+v", c.WeightSyncer, want)
	}
	_, _, err := config.Load(rolestest.Registries(), rolestest.Cartpole,
		[]string{"weight_syncer.type=ring", "weight_syncer.bucket.bucket_size=0",
			"weight_syncer.bucket.bucket_dtype=fp16",
			"weight_syncer.patch.init_sync.bucket_size=lots", "weight_syncer.patch.delta_encodng=true"}, false)
	rolestest.Expect(t, "errors", rolestest.ErrorLines(err),
		"command line: weight_syncer.patch.init_sync.bucket_size: lots: expected bytes, as 536870912 or 512MB",
		"command line: weight_syncer.patch.delta_encodng: unknown key, did you mean delta_encoding?",
		"command line: weight_syncer.type: ring: expected bucket or patch",
		"command line: weight_syncer.bucket.bucket_size: 0: expected a number of bytes > 0, as 512MB",
		"command line: weight_syncer.bucket.bucket_dtype: fp16: expected null, fp32 or bf16",
	)
}

func TestOldNames(t *testing.T) {
	c, _ := rolestest.MustLoad(t, rolestest.Cartpole, "~env.train.total_num_envs",
		"~env.train.max_steps_per_rollout_epoch", "algorithm.group_size=4", "algorithm.num_group_envs=8",
		"algorithm.n_chunk_steps=32", "algorithm.auto_reset=false", "algorithm.rollout_epoch=2",
		"actor.model.num_action_chunks=4",
		"algorithm.sampling_params.use_greedy=false", "algorithm.reward_type=chunk_level", "~env.train.env_type",
		"env.train.simulator_type=CartPole-v1")
	e := c.Env.Train
	if e.TotalNumEnvs != 32 || e.MaxStepsPerRolloutEpoch != 128 || e.AutoReset || c.Env.Eval.AutoReset ||
		e.RolloutEpoch != 2 || e.GroupSize != 4 || e.ID() != "CartPole-v1" {
		t.Errorf("got %+v", e)
	}
}

// A rule has overrides that break it, and all errors that follow; none if the overrides are valid.
type rule struct {
	overrides []string
	want      string
}

// breakRules loads the configuration with the overrides of each rule alone.
func breakRules(t *testing.T, rules []rule) {
	t.Helper()
	for _, tc := range rules {
		_, _, err := config.Load(rolestest.Registries(), rolestest.Cartpole, tc.overrides, false)
		if got := fmt.Sprint(err); err != nil && got != tc.want || err == nil && tc.want != "" {
			t.Errorf("%q\ngot  %s\nwant %s", tc.overrides, got, tc.want)
		}
	}
}

// TestRulesOfJobs: rules for placement, the length of a run and its output.
func TestRulesOfJobs(t *testing.T) {
	breakRules(t, []rule{
		{[]string{"~cluster.component_placement.rollout", "~cluster.component_placement.env"}, "../config/testdata/" +
			"cartpole.yaml:4: cluster.component_placement: expected a place for rollout and env, as 0-7 or all"},
		{[]string{"runner.only_eval=true", "~cluster.component_placement.actor", "actor.micro_batch_size=0"}, ""},
		{[]string{"runner.task_type=embodied_eval", "~runner.max_epochs", "~actor.optim.lr"}, ""},
		{[]string{"cluster.num_nodes=-1"},
			"command line: cluster.num_nodes: -1: expected a number from 1 to 65536, or 0 for as many as there are"},
		{[]string{"cluster.component_placement=7"}, "command line: cluster.component_placement: 7: expected a map"},
		{[]string{"spmd.nodes=-1"},
			"command line: spmd.nodes: -1: expected a number from 1 to 65536, or 0 for the real nodes"},
		{[]string{"comm.bucket_bytes=0"}, "command line: comm.bucket_bytes: 0: expected at least 4"},
		{[]string{"runner.max_time=-1s"}, "command line: runner.max_time: -1s: expected a duration, or 0 for no limit"},
		{[]string{"runner.max_epochs=-1", "runner.max_time=10s"}, ""},
		{[]string{"~runner.max_epochs"}, "../config/testdata/cartpole.yaml:8: runner.max_epochs: -1 (the default): " +
			"expected a number ≥ 0, here or in max_steps, or a max_time"},
		{[]string{"runner.resume_dir=auto", "runner.ckpt_path=w.safetensors"},
			"command line: runner.ckpt_path: w.safetensors: expected no weights beside those of resume_dir"},
		{[]string{"runner.logger.logger_backends=tensorboard,tensorboard"},
			"command line: runner.logger.logger_backends: tensorboard: expected each once"},
		{[]string{"runner.logger.log_interval=0"},
			"command line: runner.logger.log_interval: 0: expected a number > 0"},
	})
}

// TestRulesOfAlgorithms: rules for algorithms, and for what they need of models and environments.
func TestRulesOfAlgorithms(t *testing.T) {
	breakRules(t, []rule{
		{[]string{"algorithm.adv_type=grpo", "algorithm.loss_type=actor", "algorithm.group_size=2"},
			"../config/testdata/cartpole.yaml:14: env.train.auto_reset: true (the default): expected false (adv_type " +
				"grpo compares whole episodes, which begin together)"},
		{[]string{"algorithm.adv_type=reinpp", "env.train.auto_reset=false", "algorithm.use_reinpp_baseline=true"},
			"../config/testdata/cartpole.yaml:11: algorithm.group_size: 1 (the default): expected a number > 1 " +
				"(use_reinpp_baseline compares the members of a group)"},
		{[]string{"algorithm.adv_type=reinpp", "env.train.auto_reset=false"}, ""},
		{[]string{"algorithm.len_reward_penalty=1", "algorithm.max_length=9"}, "command line: " +
			"algorithm.len_reward_penalty: 1: expected a number >= 0, with adv_type grpo or reinpp; else 0"},
		{[]string{"algorithm.adv_type=reinpp", "env.train.auto_reset=false", "algorithm.len_reward_penalty=1",
			"algorithm.safe_length=9", "algorithm.max_length=9"},
			"command line: algorithm.max_length: 9: expected more steps than safe_length, 9"},
		{[]string{"algorithm.recompute_logprobs=true"}, ""},
		{[]string{"algorithm.filter_rewards=true"},
			"command line: algorithm.filter_rewards: true: expected false (adv_type gae does not compare episodes)"},
		{[]string{"algorithm.loss_type=a2c", "algorithm.update_epoch=2"}, "command line: algorithm.update_epoch: 2: " +
			"expected 1 (loss_type a2c is right for samples of the present policy alone)"},
		{[]string{"algorithm.kl_penalty_type=full"},
			"command line: algorithm.kl_penalty_type: full: expected kl, abs, mse or low_var_kl (also k1, k2, k3)"},
		{[]string{"algorithm.adv_type=grpo", "env.train.auto_reset=false"}, "../config/testdata/cartpole.yaml:11: " +
			"algorithm.group_size: 1 (the default): expected a number > 1 (adv_type grpo compares the members of a " +
			"group)"},
		{[]string{"algorithm.group_size=2", "env.train.group_size=4"},
			"command line: env.train.group_size: 4: expected 2, as algorithm.group_size"},
		{[]string{"algorithm.entropy_type=chunk_level", "algorithm.reward_type=action_level"}, ""},
		{[]string{"algorithm.entropy_type=chunk_level", "actor.model.num_action_chunks=4"}, ""},
		{[]string{"algorithm.reward_type=action_level", "actor.model.num_action_chunks=4"}, ""},
		{[]string{"algorithm.reward_type=action_level", "algorithm.logprob_type=chunk_level",
			"actor.model.num_action_chunks=4"},
			"command line: algorithm.logprob_type: chunk_level: expected action_level or token_level (reward_type " +
				"action_level)"},
		{[]string{"algorithm.logprob_type=word_level"},
			"command line: algorithm.logprob_type: word_level: expected chunk_level, action_level or token_level"},
		{[]string{"actor.optim.min_lr=1"},
			"command line: actor.optim.min_lr: 1: expected a number in [0, 0.001], up to lr"},
		{[]string{"env.train.max_steps_per_rollout_epoch=130", "actor.model.num_action_chunks=4"},
			"command line: env.train.max_steps_per_rollout_epoch: 130: expected a multiple of 4 (num_action_chunks)"},
	})
}

// TestRulesOfCritics: the optimiser of critics is checked for all algorithms with critics of actions. A mistake of
// actor.optim is reported once.
func TestRulesOfCritics(t *testing.T) {
	for _, name := range []string{"offline_iql", "embodied_sac"} {
		for key, want := range map[string]string{
			"actor.critic_optim.lr": "command line: actor.critic_optim.lr: -1: expected a number > 0",
			"actor.optim.value_lr":  "command line: actor.optim.value_lr: -1: expected a number >= 0 (0: lr)",
		} {
			c, _, _ := config.Load(rolestest.Registries(), rolestest.Cartpole, []string{"algorithm.adv_type=" + name,
				"algorithm.loss_type=" + name, "actor.model.add_q_head=true", "algorithm.demo_buffer.load_path=x",
				"algorithm.replay_buffer.sample_window_size=200", "algorithm.entropy_tuning.alpha_type=fixed_alpha",
				key + "=-1"}, false)
			rolestest.Expect(t, name, rolestest.ErrorLines(c.CheckParts(rolestest.Registries()).Err()), want)
		}
	}
}

// env.eval is decoded over env.train. Each mistake in its keys is reported once.
func TestKnownKeyOfEval(t *testing.T) {
	_, warnings := rolestest.MustLoad(t, rolestest.Cartpole, "env.eval.use_full_state=true",
		"env.train.video_cfg.save_video=true")
	rolestest.Expect(t, "warnings", warnings, "keys without effect here", "  THESE CHANGE WHAT IS LEARNT OR MEASURED:",
		"    env.eval.use_full_state  true  command line  the simulator's: set it in its program",
		"  these change speed, memory or what is written:", "    env.train.video_cfg.save_video  true  command line")
}

func TestOtherLoggers(t *testing.T) {
	_, _, err := config.Load(rolestest.Registries(), rolestest.Cartpole,
		[]string{"runner.logger.logger_backends=[tensorboard, wandb]"}, false)
	rolestest.Expect(t, "errors", rolestest.ErrorLines(err),
		"command line: runner.logger.logger_backends: wandb: expected tensorboard, or an empty list: wandb reads "+
			"TensorBoard's files, and metrics.jsonl has all figures")
}

// TestWeightsToBeginWith: the keys of RLinf's tutorials name a file of weights; a folder of another kind of model is
// reported.
func TestWeightsToBeginWith(t *testing.T) {
	for _, path := range []string{"++actor.model.model_path=w.safetensors",
		"++actor.checkpoint_load_path=w.safetensors", "++actor.model.model_path=missing"} { // the start reports it
		c, warnings := rolestest.MustLoad(t, rolestest.Cartpole, path)
		key, value, _ := strings.Cut(path, "=")
		if c.Runner.CkptPath != value || strings.Contains(strings.Join(warnings, ""), "keys without effect") {
			t.Errorf("%s: ckpt_path %q, %q", key, c.Runner.CkptPath, warnings)
		}
	}
	folder := t.TempDir()
	if c, warnings := rolestest.MustLoad(t, rolestest.Cartpole,
		"++actor.model.model_path="+folder); c.Runner.CkptPath != "" || len(warnings) == 0 {
		t.Errorf("a folder: %q, %q", c.Runner.CkptPath, warnings)
	}
}

// TestIdleKeys: a key that changes what is learnt is never listed among those that change speed, memory or what is
// written.
func TestIdleKeys(t *testing.T) {
	harmless := []string{"cluster.tracer.output_file", "env.train.video_cfg.fps", "env.train.video_cfg.video_base_dir",
		"runner.enable_dynamic_batch_size", "runner.max_tokens_per_mbs", "actor.threads",
		"actor.enable_dp_load_balance",
		"rollout.max_running_requests", "rollout.return_logprobs", "rollout.threads"}
	keys := map[string]string{
		"runner.seq_length": "9", "runner.early_stop.enabled": "true", "actor.tokenizer.tokenizer_model": "x",
		"data.train_data_paths": "x", "data.val_data_paths": "x",
		"data.prompt_key": "x", "data.answer_key": "x", "data.messages_key": "x", "data.apply_chat_template": "true",
		"data.chat_template":           "chatml",
		"data.filter_prompt_by_length": "true",
		"data.shuffle":                 "false", "data.rollout_batch_size": "3", "data.max_prompt_length": "3",
		"algorithm.n_minibatches": "2", "algorithm.norm_adv_by_std_in_grpo": "false",
		"algorithm.ratio_clip_eps": "0.3", "algorithm.reinpp_kl_penalty_type": "mse",
		"algorithm.early_stop_imp_ratio": "3", "algorithm.importance_sampling_fix": "true",
		"algorithm.importance_sampling_clip": "2", "algorithm.mask_truncated": "true",
		"critic.use_critic_model": "true", "reward.reward_scale": "2", "reward.format_reward": "1",
		"reward.random_reward": "true", "rollout.eval_sampling_params.n": "4",
		"rollout.sampling_params.temperature": "2", "algorithm.use_valid_token_scale": "true",
		"algorithm.length_params.max_new_token": "7", "algorithm.replay_buffer.max_num_samples": "7",
		"algorithm.dagger.only_save_expert": "true", "algorithm.dropout_rate": "0.1", "actor.optim.bf16": "true",
		"actor.model.megatron_checkpoint":               "x",
		"actor.fsdp_config.mixed_precision.param_dtype": "bf16", "critic.seed": "3", "data.seed": "5",
		"reward.reward_mode": "terminal", "reward.reward_weight": "2", "reward.env_reward_weight": "1",
		"reward.success_info":      "x",
		"reward.potential.indices": "[0]", "reward.potential.target": "[0]", "reward.model.model_path": "x",
	}
	for _, key := range harmless {
		keys[key] = "7"
	}
	keys["runner.enable_dynamic_batch_size"], keys["actor.enable_dp_load_balance"], keys["rollout.return_logprobs"] =
		"true", "true", "false"
	for _, key := range []string{"env.train.video_cfg.format", "env.train.video_cfg.info_on_video",
		"env.eval.video_cfg.info_on_video"} {
		harmless, keys[key] = append(harmless, key), "gif"
	}
	for key, value := range keys {
		_, warnings := rolestest.MustLoad(t, rolestest.Cartpole, "++"+key+"="+value)
		_, speed, found := strings.Cut(strings.Join(warnings, "\n"), "these change speed, memory or what is written:")
		if len(warnings) == 0 {
			t.Errorf("%s=%s: no word", key, value)
		} else if found != slices.Contains(harmless, key) {
			t.Errorf("%s=%s: expected harmless: %v\n%s", key, value, slices.Contains(harmless, key), speed)
		}
	}
}

// TestIdleKeysOfTexts: jobs of language models report keys of environments and of their rewards.
func TestIdleKeysOfTexts(t *testing.T) {
	file := filepath.Join(t.TempDir(), "job.yaml")
	for task, own := range map[string]string{
		"sft": "data: {train_data_paths: x}\nactor: {global_batch_size: 1, %s}\n",
		"reasoning": "data: {train_data_paths: x, rollout_batch_size: 2, max_prompt_length: 2}\nactor: " +
			"{%s}\nalgorithm: {adv_type: grpo, loss_type: actor, group_size: 2}\n",
	} {
		text := fmt.Sprintf("cluster: {component_placement: {actor: 0}}\nrunner: {task_type: "+task+
			", max_steps: 1, seq_length: 9}\n"+own,
			"micro_batch_size: 1, optim: {lr: 1}, model: {model_type: llama, model_path: x}")
		test.OK(t, os.WriteFile(file, []byte(text), 0o666))
		for key, value := range map[string]string{"env.eval.rollout_epoch": "2", "env.train.total_num_envs": "4",
			"algorithm.eval_rollout_epoch": "2",
			"reward.reward_weight":         "3", "reward.env_reward_weight": "1", "reward.reward_mode": "terminal"} {
			_, _, err := config.Load(rolestest.Registries(), file, []string{"++" + key + "=" + value}, true)
			test.Fails(t, err, "known, but without effect here", "%s, %s=%s", task, key, value)
		}
		_, warnings, err := config.Load(rolestest.Registries(), file, []string{"data.messages_key=x"}, false)
		if text := strings.Join(warnings, "\n"); err != nil || strings.Contains(text, "data.messages_key") !=
			(task == "reasoning") {
			t.Errorf("%s, data.messages_key: %v, %s", task, err, text)
		}
		for _, key := range []string{"runner.early_stop.metric", "env.eval.video_cfg.fsp"} {
			_, _, err := config.Load(rolestest.Registries(), file, []string{"++" + key + "=x"}, false)
			if err == nil || !strings.Contains(err.Error(), key+": unknown key") {
				t.Errorf("%s, %s: %v", task, key, err)
			}
		}
		cfg, _, err := config.Load(rolestest.Registries(), file, nil, true)
		test.OK(t, err, "%s", task)
		record := filepath.Join(t.TempDir(), "config.yaml")
		test.OK(t, os.WriteFile(record, cfg.Record(), 0o666))
		older := fmt.Sprint("env.eval.group_size=", cfg.Algorithm.GroupSize) // as version 0.1.0 recorded it
		for _, overrides := range [][]string{nil, {older}} {
			_, warnings, err := config.Load(rolestest.Registries(), record, overrides, true)
			if err != nil || len(warnings) > 0 {
				t.Errorf("%s, %q: the configuration of the run: %v, %q: expected no warnings of defaults", task,
					overrides, err, warnings)
			}
		}
	}
}

// TestMistakesOfTexts: mistakes in jobs of language models, with the valid values or the nearest key.
func TestMistakesOfTexts(t *testing.T) {
	file := filepath.Join(t.TempDir(), "job.yaml")
	test.OK(t, os.WriteFile(file, []byte("cluster: {component_placement: {actor: 0}}\n"+
		"runner: {task_type: reasoning, max_steps: 1, seq_length: 9}\n"+
		"data: {train_data_paths: x, rollout_batch_size: 2, max_prompt_length: 2}\n"+
		"actor: {micro_batch_size: 1, optim: {lr: 1}, model: {model_type: llama, model_path: x}}\n"+
		"algorithm: {adv_type: grpo, loss_type: actor, group_size: 2}\n"), 0o666))
	const compares = "expected a number > 1 (%s compares the answers to a prompt)"
	for _, tc := range []struct{ overrides, want string }{
		{"", ""},
		{"algorithm.group_size=1", "algorithm.group_size: 1: " + fmt.Sprintf(compares, "adv_type grpo")},
		{"~algorithm.group_size algorithm.adv_type=rloo",
			"algorithm.group_size: 1 (the default): " + fmt.Sprintf(compares, "adv_type rloo")},
		{"algorithm.group_size=1 algorithm.adv_type=reinpp", ""},
		{"algorithm.group_size=1 algorithm.adv_type=reinpp algorithm.use_reinpp_baseline=true",
			"algorithm.group_size: 1: " + fmt.Sprintf(compares, "use_reinpp_baseline")},
		{"+data.filter_prompt_by_lenght=true", "unknown key, did you mean filter_prompt_by_length?"},
		{"+data.prompt_kee=x", "unknown key, did you mean prompt_key?"},
		{"runner.task_type=reasonig", "runner.task_type: reasonig: expected embodied, embodied_eval, sft or " +
			"reasoning, did you mean reasoning?"},
		{"+data.shufle=false", "unknown key, did you mean shuffle?"},
		{"+rollout.sampling_params.temprature=null", "unknown key, did you mean temperature?"},
		{"+actor.tokenizer.foo=0", "actor.tokenizer.foo: unknown key"},
		{"+actor.fsdp_config.foo=0", "actor.fsdp_config.foo: unknown key"},
		{"+algorithm.demo_buffer.foo=0", "algorithm.demo_buffer.foo: unknown key"},
		{"+critic.foo=0", "critic.foo: unknown key"},
		{"+inference.foo=0", "inference.foo: unknown key"},
		{"+data.system_prompt=x +critic.lr_sched.max_lr=1 +actor.fsdp_config.use_orig_params=true", ""},
	} {
		_, _, err := config.Load(rolestest.Registries(), file, strings.Fields(tc.overrides), false)
		if err == nil && tc.want == "" {
			continue
		}
		if err == nil || tc.want == "" || strings.Contains(err.Error(), "\n") ||
			!strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %s", tc.overrides, err, tc.want)
		}
	}
}

// TestClipsOfAnswers: clips of answers that are absent or null are ratio_clip_eps. A null clip_ratio_c is no second
// bound. Policies of environments ignore ratio_clip_eps.
func TestClipsOfAnswers(t *testing.T) {
	file := filepath.Join(t.TempDir(), "job.yaml")
	for _, tc := range []struct {
		task, keys    string
		low, high, cs float32
	}{
		{"reasoning", "", 0.2, 0.2, 3},
		{"reasoning", "ratio_clip_eps: 0.1", 0.1, 0.1, 3},
		{"reasoning", "ratio_clip_eps: 0.1, clip_ratio_low: null, clip_ratio_high: null, clip_ratio_c: null", 0.1, 0.1,
			0},
		{"reasoning", "ratio_clip_eps: 0.1, clip_ratio_high: 0.28, clip_ratio_c: 4", 0.1, 0.28, 4},
		{"embodied", "ratio_clip_eps: 0.1, clip_ratio_c: null", 0.2, 0.2, 0},
	} {
		text := fmt.Sprintf("runner: {task_type: %s}\nalgorithm: {adv_type: grpo, loss_type: actor, %s}\n", tc.task,
			tc.keys)
		test.OK(t, os.WriteFile(file, []byte(text), 0o666))
		c, _, _ := config.Load(rolestest.Registries(), file, nil, false)
		if a := &c.Algorithm; a.ClipRatioLow != tc.low || a.ClipRatioHigh != tc.high || a.ClipRatioC != tc.cs {
			t.Errorf("%s: {%s}: clips %v, %v and %v, want %v, %v and %v", tc.task, tc.keys, a.ClipRatioLow,
				a.ClipRatioHigh, a.ClipRatioC, tc.low, tc.high, tc.cs)
		}
	}
}

// TestHeadline: each task has a metric of evaluations and one of training.
func TestHeadline(t *testing.T) {
	for task, want := range map[string][2]string{
		config.TaskEmbodied:  {"env/return", "eval/return"},
		config.TaskSFT:       {"train/sft/loss", "eval/loss"},
		config.TaskReasoning: {"rollout/rewards", "eval/accuracy"},
	} {
		for i, interval := range []int{-1, 10} {
			c := &config.Config{}
			c.Runner.TaskType, c.Runner.ValCheckInterval = task, interval
			test.Equal(t, c.Headline(), want[i], "%s, val_check_interval %d", task, interval)
		}
	}
}

// TestPoolKeys: cluster.auto_scheduler makes stages of answers idle. use_pre_process_policy is idle without it.
func TestPoolKeys(t *testing.T) {
	const on, stages, apart = "cluster.auto_scheduler=true", "rollout.pipeline_stage_num=2",
		"cluster.use_pre_process_policy=false"
	for _, tc := range []struct {
		overrides []string
		idle      string
	}{
		{[]string{stages}, ""},
		{[]string{on, stages}, "rollout.pipeline_stage_num"},
		{[]string{on, apart}, ""},
		{[]string{apart}, "cluster.use_pre_process_policy"},
	} {
		_, warnings, err := config.Load(rolestest.Registries(), "../../configs/addition_grpo.yaml", tc.overrides, false)
		if got := fmt.Sprint(warnings); err != nil ||
			!strings.Contains(got, tc.idle) || (tc.idle == "") != (got == "[]") {
			t.Errorf("%v: %v, warnings %v, expected %q", tc.overrides, err, got, tc.idle)
		}
	}
}

// TestAutoScheduler: the key is for training in environments whose costs can be measured. Elsewhere it has no effect.
func TestAutoScheduler(t *testing.T) {
	const on = "cluster.auto_scheduler=true"
	for _, tc := range []struct {
		file      string
		overrides []string
		want      string // of the error
		idle      bool
	}{
		{rolestest.Cartpole, nil, "", false},
		{rolestest.Cartpole, []string{"cluster.tracer.record=false"},
			"cluster.tracer.record: false: expected true: cluster.auto_scheduler reads the record", false},
		{rolestest.Cartpole, []string{"env.train.env_type=external", "env.train.external.command=[sim]"},
			"cluster.auto_scheduler: true: expected false: the cost of simulators", false},
		{rolestest.Cartpole, []string{"runner.only_eval=true"}, "", true},
		{rolestest.Cartpole, []string{"runner.async=true", "algorithm.loss_type=decoupled_actor_critic"}, "", true},
		{"../../configs/addition_start.yaml", nil, "", true},
	} {
		c, warnings, err := config.Load(rolestest.Registries(), tc.file, append(tc.overrides, on), false)
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s %v: %v, want %q", tc.file, tc.overrides, err, tc.want)
		}
		if idle := strings.Contains(fmt.Sprint(warnings), "cluster.auto_scheduler"); idle != tc.idle {
			t.Errorf("%s %v: warnings %q", tc.file, tc.overrides, warnings)
		}
		if err == nil && c.Cluster.AutoScheduler == tc.idle {
			t.Errorf("%s %v: auto_scheduler %v", tc.file, tc.overrides, c.Cluster.AutoScheduler)
		}
	}
}
