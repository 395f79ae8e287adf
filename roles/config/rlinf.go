package config

import "github.com/rlinf/rlinf/internal/config"

// aliases are the names that RLinf's releases before v0.1 gave to keys.
func aliases() []config.Alias {
	const bySize = "${multiply:%s,${algorithm.group_size}}"
	const byChunk = "${multiply:%s,${actor.model.num_action_chunks}}"
	both := func(key string) []string { return []string{"env.train." + key, "env.eval." + key} }
	return []config.Alias{
		{Old: "rollout.model_dir", New: []string{"rollout.model.model_path"}},
		{Old: "rollout.model_arch", New: []string{"rollout.model.model_type"}},
		{Old: "rollout.precision", New: []string{"rollout.model.precision"}},
		{Old: "actor.checkpoint_load_path", New: []string{"actor.model.model_path"}},
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

// knownKeys are RLinf's keys that mean nothing here: they concern GPUs, language models,
// simulators, or algorithms that are not built. One that gets a field in Config is honoured,
// whether it stands here or not.
func knownKeys() []config.Known {
	var known []config.Known
	add := func(section string, keys ...string) {
		for _, key := range keys {
			known = append(known, config.Known{Key: section + "." + key})
		}
	}
	// values are as RLinf's presets have them where they ask for nothing
	idle := func(key string, values ...string) { known = append(known, config.Known{Key: key, Idle: values}) }
	tree := func(key, toggle string, values ...string) {
		known = append(known, config.Known{Key: key + ".**", Switch: toggle, Idle: values})
	}

	add("cluster", "auto_scheduler", "use_pre_process_policy", "use_wait_before_last_iter_policy",
		"node_groups.*.env_configs.**", "node_groups.*.hardware.**", "node_groups.*.ignore_hardware")
	tree("cluster.profiling", "enabled")
	tree("cluster.net_emulation", "enabled")

	add("runner", "expert_ckpt_path", "seq_length", "max_prompt_length", "per_worker_log", "overlap_env_bootstrap",
		"enable_decoupled_mode", "use_training_pipeline", "enable_dynamic_batch_size", "max_tokens_per_mbs",
		"local_update_steps",
		"output_dir", "experiment_name", "logger.wandb_proxy", "logger.wandb_entity")
	idle("runner.logger.swanlab_mode", "cloud")
	tree("runner.early_stop", "enabled")

	add("algorithm", "on_policy_min_ratio",
		"training_batch_size_per_gpu", "rollout_batch_size_per_gpu", "logprob_forward_micro_batch_size",
		"val_rollout_batch_size_per_gpu", "ratio_clip_eps", "calculate_entropy", "early_stop_imp_ratio",
		"use_valid_token_scale", "importance_sampling_fix", "importance_sampling_clip",
		"max_resample", "length_params.**", "replay_buffer.enable_cache", "replay_buffer.cache_size",
		"replay_buffer.auto_save", "replay_buffer.auto_save_path",
		"replay_buffer.enable_preload", "replay_buffer.prefetch_size", "demo_buffer.**", "dagger.only_save_expert")
	tree("algorithm.dagger.online_lerobot", "enabled")
	idle("algorithm.kl_penalty", "kl")
	idle("algorithm.rollout_store_size_per_rank", "1")
	idle("algorithm.target_update_type", "all")
	idle("algorithm.replay_buffer.trajectory_format", "pt")
	idle("algorithm.q_head_type", "default")
	idle("algorithm.n_minibatches", "1")

	for _, section := range []string{"env.train", "env.eval"} {
		add(section, "use_ordered_reset_state_ids", "specific_reset_id", "wrap_obs_mode", "use_full_state",
			"enable_offload",
			"enable_init_offload", "init_params.**", "delay_sampler.**", "insert_delay.**")
		tree(section+".video_cfg", "save_video")
		tree(section+".data_collection", "enabled")
	}

	add("rollout", "enable_offload", "rollout_queue_size", "recompute_logprobs", "enable_torch_compile",
		"torch_compile_mode", "enable_cuda_graph", "expert_model.**", "rlt_feature_model.**", "rollout_backend",
		"gpu_memory_utilization",
		"return_logprobs", "max_running_requests", "cuda_graph_max_bs", "enforce_eager", "detokenize",
		"disable_log_stats",
		"validate_weight", "print_outputs", "sglang.**", "vllm.**", "mode")
	idle("rollout.backend", "huggingface")
	idle("rollout.collect_prev_infos", "true")
	idle("rollout.collect_transitions", "true") // what the algorithm needs is collected
	idle("rollout.collect_final_values", "true")
	idle("rollout.tensor_parallel_size", "1")
	idle("rollout.pipeline_parallel_size", "1")
	tree("rollout.model", "", "mlp_policy", "32", "fp32")
	// sample in training, as is; the most likely action in evaluation
	tree("rollout.sampling_params", "", "true", "1", "1.0", "-1")

	add("actor", "checkpoint_save_path", "tokenizer.**", "enable_offload", "sync_weight_no_wait", "enable_drq",
		"compile_model", "enable_dp_load_balance", "sync_bucket_capacity", "offload_optimizer", "offload_weight",
		"offload_grad", "megatron.**", "lr_sched.**", "enable_sft_co_train", "sft_loss_weight")
	idle("actor.training_backend", "fsdp")
	tree("actor.fsdp_config", "", "fsdp", "no_shard", "fp32", "32")
	add("actor.model", "model_path", "policy_setup", "hidden_dim", "megatron_checkpoint", "sequence_parallel",
		"recompute_granularity", "recompute_method", "recompute_num_layers")
	idle("actor.model.precision", "32", "fp32")
	idle("actor.model.q_head_type", "default")
	add("actor.model", "is_lora", "lora_path")
	idle("actor.model.lora_rank", "32")
	for _, way := range []string{"tensor", "pipeline", "context", "expert"} {
		idle("actor.model."+way+"_model_parallel_size", "1")
	}
	add("actor.optim", "num_cycles", "fp16", "bf16", "loss_scale", "use_distributed_optimizer")

	add("weight_syncer", "use_ring_sync", "nccl_max_ctas", "nccl_min_ctas", "bucket.is_agent")
	idle("weight_syncer.bucket.load_instant", "true")
	idle("weight_syncer.patch.snapshot_device", "cpu")
	idle("weight_syncer.patch.compression", "none")

	tree("critic", "use_critic_model")
	add("reward", "reward_threshold", "standalone_realworld", "reward_scale")
	idle("reward.worker_type", "model")
	idle("reward.group_name", "RewardGroup")
	tree("reward.model", "")
	for _, section := range []string{"data", "profile_data", "env_profile_data", "rollout_profile_data"} {
		tree(section, "")
	}
	for _, section := range []string{"actor", "rollout", "env", "reward"} { // removed from RLinf
		tree(section+".channel", "")
	}
	return known
}
