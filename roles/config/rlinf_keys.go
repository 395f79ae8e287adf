package config

import (
	"strings"

	"github.com/rlinf/rlinf/internal/config"
)

// knownKeys returns keys of RLinf that have no effect in rlinf: they concern GPUs, or language models, simulators and
// algorithms that are not supported. A key with a field in Config does have an effect, even if it is in this list.
func knownKeys() []config.Known {
	var k keyList
	k.cluster()
	k.algorithm()
	k.env()
	k.rollout()
	k.actor()
	k.reward()
	return k
}

// A keyList is a list of known keys, to which each section's keys are added.
type keyList []config.Known

// add adds keys of a section that change only speed, memory or output. Blanks separate the keys.
func (k *keyList) add(section, keys string) { k.change(section, "", keys) }

// explain is like add, but also gives the reason why the keys have no effect.
func (k *keyList) explain(section, reason, keys string) {
	for key := range strings.FieldsSeq(keys) {
		*k = append(*k, config.Known{Key: section + "." + key, Reason: reason})
	}
}

// change adds keys of a section that change training in RLinf. note says what happens here.
func (k *keyList) change(section, note, keys string) {
	for key := range strings.FieldsSeq(keys) {
		*k = append(*k, config.Known{Key: section + "." + key, Instead: note})
	}
}

// idle adds a key. Besides null and false, the values disable the feature of the key, as in RLinf's presets. These
// values cause no warning.
func (k *keyList) idle(key, note string, values ...string) {
	*k = append(*k, config.Known{Key: key, Instead: note, Idle: values})
}

// tree adds all keys of a section. If toggle is not "", it is the key of the section that enables the feature. The keys
// cause no warning if the toggle is absent or false, or if they have one of the values.
func (k *keyList) tree(key, toggle, note string, values ...string) {
	*k = append(*k, config.Known{Key: key + ".**", Switch: toggle, Instead: note, Idle: values})
}

func (k *keyList) cluster() {
	k.add("cluster", `recreate_nccl_groups use_wait_before_last_iter_policy
		node_groups.*.env_configs.** node_groups.*.hardware.** node_groups.*.ignore_hardware`)
	k.tree("cluster.profiling", "enabled", "")
	k.tree("cluster.net_emulation", "enabled", "")

	k.change("runner", "an environment's own expert is asked", "expert_ckpt_path")
	k.change("runner", "data.max_prompt_length counts", "max_prompt_length")
	k.add("runner", `per_worker_log per_worker_log_path overlap_env_bootstrap
		enable_decoupled_mode use_training_pipeline enable_dynamic_batch_size max_tokens_per_mbs output_dir
		experiment_name logger.wandb_proxy logger.wandb_entity log_interval record_task_description`)
	k.change("runner", "update_epoch counts the updates of an iteration", "local_update_steps")
	k.change("runner", "env.eval.total_num_envs counts the episodes of an evaluation", "eval_episodes")
	k.change("runner", "training records no data: use rlinf demos", "num_data_episodes")
	k.idle("runner.logger.swanlab_mode", "", "cloud")
	k.tree("runner.early_stop", "enabled", "")
	for _, section := range []string{"profile_data", "env_profile_data", "rollout_profile_data"} {
		*k = append(*k, config.Known{Key: section + ".**", Reason: "measured: see rlinf plan"})
	}
	k.tree("router_server_args", "", "")
	k.texts()
	*k = append(*k, config.Known{Key: "seed", Instead: "runner.seed is the seed"})
}

func (k *keyList) algorithm() {
	k.explain("algorithm", "micro-batches change no number", `training_batch_size_per_gpu rollout_batch_size_per_gpu
		logprob_forward_micro_batch_size val_rollout_batch_size_per_gpu`)
	k.add("algorithm", `calculate_entropy replay_buffer.enable_cache replay_buffer.cache_size
		replay_buffer.auto_save replay_buffer.auto_save_path replay_buffer.enable_preload
		replay_buffer.prefetch_size demo_buffer.auto_save demo_buffer.auto_save_path demo_buffer.cache_size
		demo_buffer.enable_cache demo_buffer.enable_preload demo_buffer.prefetch_size`)
	const none = "not supported"
	k.change("algorithm", "value_clip counts", "value_cliprange")
	k.change("algorithm", "actor.optim.critic_warmup_steps counts", "critic_warmup_steps")
	k.change("algorithm", "replay_buffer.sample_window_size counts", "replay_buffer.max_num_samples")
	k.change("algorithm", "demonstrations are all drawn from", `demo_buffer.min_buffer_size
		demo_buffer.sample_window_size demo_buffer.**`)
	k.change("algorithm", "all steps are kept, with the expert's actions", "dagger.only_save_expert")
	k.change("algorithm", "env.train.reward_coef counts", "reward_coef")
	k.change("algorithm", "actor.model has the sizes", "hidden_dims")
	k.change("algorithm", "seq_length and max_prompt_length count", "length_params.**")
	k.change("algorithm", none, `on_policy_min_ratio use_valid_token_scale dropout_rate recompute_v max_resample
		adv_clip_max dpo_beta actor_update_action_noise
		bc_weight q_weight reference_dropout_prob nft_beta nft_loss_form nft_target_space nft_tau
		nft_weight_mode nft_weight_scale nft_xcur_source rlt_schedule.** actor_weight_schedule.**`)
	k.change("algorithm", "images are used as they are", "enable_drq")
	k.change("algorithm", "update_epoch counts the updates of an iteration", "num_updates_per_step")
	k.change("algorithm", "entropy_tuning.target_entropy counts", "target_entropy")
	k.tree("algorithm.dagger.online_lerobot", "enabled", none)
	k.idle("algorithm.kl_penalty", "kl_penalty_type names the estimate", "kl")
	k.idle("algorithm.rollout_store_size_per_rank", none, "1")
	k.idle("algorithm.target_update_type", "all of the target is updated", "all")
	k.idle("algorithm.replay_buffer.trajectory_format", "", "pt")
	k.idle("algorithm.q_head_type", "actor.model.q_head_type counts", "default")
	k.idle("algorithm.n_minibatches", "actor.global_batch_size counts", "1")
}

// simulatorNote is the advice for keys of a simulator.
const simulatorNote = "the simulator's: set it in its program"

func (k *keyList) env() {
	for _, section := range []string{"env.train", "env.eval"} {
		k.change(section, simulatorNote, `use_ordered_reset_state_ids specific_reset_id wrap_obs_mode use_full_state
			init_params.**`)
		k.change(section, simulatorNote, simulatorKeys)
		k.add(section, "enable_offload enable_init_offload is_eval delay_sampler.** insert_delay.**")
		k.tree(section+".video_cfg", "save_video", "")
		k.add(section+".data_collection", "robot_type fps finalize_interval") // of export_format lerobot
	}
	k.add("env", "delay_sampler.**")
}

// simulatorKeys are keys of RLinf's simulators below env.train and env.eval.
const simulatorKeys = `
	VAE_path action_clip action_dim action_space.** assets_path base_config_name camera camera_depths camera_names
	center_crop chunk condition_frame_length dataset_source ee_pos_delta_scale ee_rot_delta_scale enable_kir
	episode_horizon_source gello_port glove_config.** gym_config_path gym_id has_offscreen_renderer has_renderer
	headless ignore_done image_key image_size image_space initial_image_path keyboard_intervention_wrapper
	keyboard_reward_wrapper left_gello_port main_image_key no_gripper num_action_chunks num_env_subprocess
	num_frames num_inference_steps obs_format obs_mode observation.** omni_config.** only_eval
	opensora_wm_hf_ckpt_path override_cfg.** perturbation_suffix pico.** policy_mode policy_setup policy_wrapper
	ref_num_action_chunks render render_camera reset_gripper_open reward_model.** right_gello_port
	rlt_policy_switch.** robot_name rotate_tasks_on_auto_reset seed_strategy seeds_path sim_device
	simulator_backend skip_intermediate_obs_in_chunk smooth_intervene split state_dim state_key state_keys
	state_space task_config.** task_filter task_id_filter task_mode task_name task_names
	task_sampling_strategy task_soup task_source task_suite_name use_3rd_view_as_extra use_camera_obs
	use_custom_reward use_eval_utils_cfg use_gello use_gello_joint use_object_obs use_pico use_relative_frame
	use_spacemouse use_step_penalty use_subproc_vector_env wan_wm_hf_ckpt_path wm_env_type world_model_cfg.**
	zero_state_before_vla`

func (k *keyList) rollout() {
	k.add("rollout", `enable_offload rollout_queue_size recompute_logprobs enable_torch_compile torch_compile_mode
		enable_cuda_graph mode sync_weight_nccl_max_ctas`)
	k.explain("rollout", "the engine is built in", `rollout_backend gpu_memory_utilization cuda_graph_max_bs
		enforce_eager detokenize disable_log_stats validate_weight validate_save_dir print_outputs sglang.** vllm.**
		distributed_executor_backend padding weight_reload validate_weight_first_sync
		enable_prefix_caching max_num_batched_tokens`)
	k.change("rollout", "the model's folder names the tokens that end a text", "eos")
	k.change("rollout", "actor.seed names the random numbers of answers", "seed")
	k.change("rollout", "an environment's own expert is asked", "expert_model.**")
	k.change("rollout", "actor.model is the only model", "rlt_feature_model.** unnorm_key")
	k.idle("rollout.backend", "", "huggingface")
	k.idle("rollout.generation_backend", "", "huggingface")
	k.idle("rollout.collect_prev_infos", "", "true")
	k.idle("rollout.collect_transitions", "", "true") // what the algorithm needs is always collected
	k.idle("rollout.collect_final_values", "final values are always collected", "true")
	for _, way := range []string{"data", "expert"} {
		k.tree("rollout."+way+"_parallel_size", "", "", "1")
	}
	k.tree("rollout.model", "", "actor.model is the only model", "mlp_policy", "32", "fp32")
	// As in RLinf, training samples actions, and evaluation takes the most likely actions.
	k.change("rollout", "an answer ends where seq_length does", "sampling_params.max_new_tokens")
	k.tree("rollout.sampling_params", "", "training samples, evaluation takes the likeliest action or token", "true",
		"1", "1.0", "-1")
}

func (k *keyList) actor() {
	k.explain("actor", "checkpoints are in the run's folder", "checkpoint_save_path")
	k.explain("actor", "it comes from the tokenizer's folder", "tokenizer.**")
	k.explain("actor", megatrons, `offload_optimizer offload_weight offload_grad megatron.** mcore_gpt spec_name
		calculate_flops transformer_impl`)
	k.add("actor", `enable_offload sync_weight_no_wait compile_model enable_dp_load_balance sync_bucket_capacity
		use_fsdp_wrap offline_torch_compile num_gpus config_name`)
	k.change("actor", "images are used as they are", "enable_drq")
	k.change("actor", "the schedule is optim.lr_scheduler", "lr_sched.**")
	k.change("actor", "not supported", "enable_sft_co_train sft_loss_weight sft_data_path num_steps")
	k.change("actor", "the critics' optimiser is critic_optim", "value_optim.**")
	k.idle("actor.training_backend", "", "fsdp")
	const sharded = "numbers are float32, and nothing is sharded"
	for _, section := range []string{"actor", "inference"} {
		for _, key := range []string{"mixed_precision", "amp", "amp_autocast", "grad_scaler"} {
			k.tree(section+".fsdp_config."+key, "", "numbers are float32", "fp32", "32")
		}
		*k = append(*k, config.Known{Key: section + ".fsdp_config.**", Reason: sharded,
			Idle: []string{"fsdp", "no_shard", "fp32", "32", "true", "bf16", "full_shard", "-1"}})
	}
	*k = append(*k, config.Known{Key: "inference.**", Reason: "workers of inference compute as the actors do"})
	for _, section := range []string{"actor.model", "inference.model", "critic.model"} {
		k.layout(section)
	}
	k.model()
	k.change("actor.optim", "not supported", "num_cycles warmup_style min_lr_rate")
	for _, section := range []string{"actor.optim", "actor.critic_optim"} {
		k.change(section, "numbers are float32", "fp16 bf16")
		k.idle(section+".optimizer", "the optimiser is Adam", "adam", "adamw")
		k.explain(section, megatrons, optimisers)
	}

	k.add("weight_syncer", "use_ring_sync nccl_max_ctas nccl_min_ctas bucket.is_agent")
	k.idle("weight_syncer.bucket.load_instant", "", "true")
	k.idle("weight_syncer.patch.snapshot_device", "", "cpu")
	k.idle("weight_syncer.patch.transport_device", "", "cpu")
	k.idle("weight_syncer.snapshot_device", "", "cpu")
	k.idle("weight_syncer.transport_device", "", "cpu")
	k.idle("weight_syncer.patch.compression", "", "none")
	k.add("critic", `group_name training_backend enable_offload offload_optimizer offload_weight offload_grad
		checkpoint_save_path tokenizer.** megatron.** fsdp_config.**`)
	k.tree("critic", "", criticModel)
}

// optimisers has Megatron's optimiser keys that change no result here.
const optimisers = `loss_scale overlap_grad_reduce overlap_param_gather
	optimizer_enable_pin overlap_param_gather_with_optimizer_step initial_loss_scale min_loss_scale
	loss_scale_window hysteresis use_precision_aware_optimizer main_grads_dtype main_params_dtype
	exp_avg_dtype exp_avg_sq_dtype optimizer_cpu_offload optimizer_offload_fraction overlap_cpu_optimizer_d2h_h2d`

// texts adds the keys of data, for language models.
func (k *keyList) texts() {
	k.explain("data", "it follows from the form of each line", "type dataset_name")
	k.explain("data", "texts are read once, by each rank", "num_workers val_rollout_batch_size validation_shuffle")
	k.tree("data", "", "a key of other data", "math")
}

// megatrons says why Megatron's keys change no result here.
const megatrons = "Megatron's: all is computed on processors, in float32"

// architecture is the message for keys that describe a language model. It names the source of their values.
const architecture = "it comes from config.json in the model's folder"

// criticModel is the text that says what replaces the keys of the section critic.
const criticModel = "the critic of answers is as actor.model, any other a part of it"

// model adds the keys of actor.model: keys of networks that are not supported, and keys that change only speed.
func (k *keyList) model() {
	k.change("actor.model", "model_path is the folder to begin with", "megatron_checkpoint")
	k.change("actor.model", "runner.seq_length counts", "seq_length encoder_seq_length")
	k.change("actor.model", "initializer_range sets it for a new model", "init_method_std")
	k.change("actor.model", architecture, `add_bias_linear normalization position_embedding_type
		moe_aux_loss_coeff moe_router_load_balancing_type num_moe_experts moe_router_topk moe_router_score_function
		moe_router_enable_expert_bias moe_router_bias_update_rate moe_router_group_topk moe_router_num_groups
		moe_router_topk_scaling_factor moe_router_pre_softmax moe_layer_freq moe_ffn_hidden_size
		moe_shared_expert_intermediate_size multi_latent_attention qk_layernorm`)
	k.explain("actor.model", megatrons, `apply_rope_fusion bias_dropout_fusion persist_layer_norm
		bias_activation_fusion attention_softmax_in_fp32 batch_p2p_comm variable_seq_lengths
		gradient_accumulation_fusion moe_token_dispatcher_type use_cpu_initialization moe_permute_fusion
		moe_grouped_gemm moe_enable_deepep moe_shared_expert_overlap moe_router_dtype moe_router_fusion
		moe_per_layer_logging masked_softmax_fusion tp_comm_overlap account_for_embedding_in_pipeline_split
		account_for_loss_in_pipeline_split num_layers_in_first_pipeline_stage num_layers_in_last_pipeline_stage`)
	k.add("actor.model", `recompute_granularity recompute_method recompute_num_layers attn_implementation
		low_cpu_mem_usage trust_remote_code no_split_modules`)
	for _, way := range []string{"tensor_model", "pipeline_model"} {
		*k = append(*k, config.Known{Key: "actor.model." + way + "_parallel_size", Idle: []string{"1"},
			Want: "1 (" + undivided + ")"})
	}
	k.explain("actor.model", "actor.fsdp_config has this key for language models",
		"gradient_checkpointing sharding_strategy")
	k.change("actor.model", "runner.ckpt_path is the file of weights to begin with", "model_path ckpt_path")
	k.change("actor.model", "the simulator's: it chooses how actions control the robot", "policy_setup")
	k.change("actor.model", "algorithm.reward_type says how many values there are", "value_type")
	k.change("actor.model", "vla_policy has image_crop, the share of the area that is seen", "center_crop")
	k.change("actor.model", "env.train.observations names the cameras", "num_images_in_input")
	k.change("actor.model", "vla_policy normalises by the demonstrations that it learnt from", "unnorm_key")
	k.change("actor.model", "vla_policy values what it saw before the first slot", "vh_mode")
	k.idle("actor.model.implement_version", "", "rlinf", "official")
	const other = "a key of another kind of model"
	k.change("actor.model", other, `is_lora lora_path backbone encoder_config.** image_num image_size input_type
		iql_config.** num_steps proprio_dim q_network_separate_processing state_dim use_proprio`)
	k.idle("actor.model.precision", "numbers are float32", "32", "fp32")
	k.idle("actor.model.lora_rank", other, "32")
}

// layout adds the keys of parallel layouts that no model here has.
func (k *keyList) layout(section string) {
	refuse := func(key, want string) {
		*k = append(*k, config.Known{Key: section + "." + key, Idle: []string{"1"}, Want: want})
	}
	for _, way := range []string{"context", "expert_model", "expert_tensor", "virtual_pipeline_model"} {
		refuse(way+"_parallel_size", "1 (ranks divide a model by tensor_model_ and pipeline_model_parallel_size alone)")
	}
	refuse("pipeline_model_parallel_split_rank", "0 (a decoder has no encoder before it)")
	k.explain(section, "all ranks of tensor_model_parallel_size compute the norms", "sequence_parallel")
}

// undivided says why a model has no parallel layout.
const undivided = "only a language model of the tasks sft and reasoning is divided among ranks"

// foreignModelKeys returns RLinf's keys of actor.model for models that are not supported. With supported models these
// keys are mistakes.
func foreignModelKeys() []config.Known {
	var k keyList
	k.change("actor.model", "a key of another kind of model", `action_env_dim action_stats_source
		actor_noise_sigma add_bias_linear add_qkv_bias backbone_model_path batch_norm_momentum d_model
		denoising_steps dexbotic.** embodiment_tag evo1.** fixed_std flow_actor_type hidden_size
		joint_logprob lingbotvla.** log_std_max_rollout log_std_max_train log_std_min_rollout log_std_min_train
		max_prompt_length mlp_hidden_dim mlp_num_hidden_layers n_head n_layers noise_level noise_method
		noise_std_head noise_std_rollout noise_std_train obs_converter_type openpi.**
		openpi_data.** qwen_max_length ref_num_action_chunks rl_head_config.** rl_trainable_scope safe_get_logprob
		starvla.** tokenizer_path use_batch_norm use_film vocab_size z_dim`)
	return k
}

func (k *keyList) reward() {
	const none = "scores are used as they are"
	k.change("reward", none, "reward_threshold standalone_realworld history_reward_assign api.**")
	k.idle("reward.worker_type", none, "model")
	k.idle("reward.group_name", "", "RewardGroup")
	k.explain("reward", "rules read texts", "tokenizer.**")
	k.change("reward", none, "reward_weights.** reward_weights reward_min_val reward_max_val")
	k.tree("reward.model", "", "a key of another kind of model")
	for _, section := range []string{"actor", "rollout", "env", "reward"} { // removed from RLinf
		k.tree(section+".channel", "", "")
	}
}
