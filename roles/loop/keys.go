package loop

import "slices"

// resumableKeys are the configuration keys that may differ in a resumed run of any task.
var resumableKeys = [...]string{
	"runner.max_steps", "runner.max_epochs", "runner.max_time", "runner.val_check_interval", "runner.save_interval",
	"runner.save_at_end", "runner.keep_checkpoints", "runner.resume_dir", "runner.ckpt_path", "runner.logger",
	"runner.early_stop", "actor.device", "inference.device", "critic.device", "actor.threads", "rollout.threads",
	"rollout.max_running_requests",
	"cluster", "spmd", "comm",
	"env.eval", "env.train.data_collection", "data.val_data_paths",
	"rollout.pipeline_stage_num",
	// Keys for the connection to simulators and its timeouts, but not keys that select simulators.
	"env.train.external.command", "env.train.external.n", "env.train.external.listen", "env.train.external.token_file",
	"env.train.external.shared_memory",
	"env.train.external.start_timeout", "env.train.external.step_timeout",
	"env.train.external.reset_timeout", "env.train.external.max_restarts",
	"env.train.external.max_same_errors", "env.train.external.max_lost_share",
}

// forkableKeys are the configuration keys that a fork may change, too. They change numbers, but neither the state nor
// the names of its random streams.
var forkableKeys = [...]string{
	"actor.optim", "actor.critic_optim", "critic.optim", "actor.global_batch_size", "actor.micro_batch_size",
	"algorithm.gamma", "algorithm.gae_lambda", "algorithm.bootstrap_type", "algorithm.reward_clip", "algorithm.kl_beta",
	"algorithm.kl_penalty_type", "algorithm.loss_agg_func", "algorithm.update_epoch", "algorithm.shuffle_rollout",
	"algorithm.target_kl", "algorithm.clip_ratio_low", "algorithm.clip_ratio_high", "algorithm.clip_ratio_c",
	"algorithm.clip_ratio_schedule", "algorithm.clip_log_ratio_min", "algorithm.clip_log_ratio_max",
	"algorithm.behave_weight_threshold", "algorithm.entropy_bonus", "algorithm.value_clip", "algorithm.huber_delta",
	"algorithm.value_loss_coef", "algorithm.n_step", "algorithm.tau", "algorithm.target_update_freq",
	"algorithm.critic_actor_ratio", "algorithm.train_actor_steps", "algorithm.agg_q", "algorithm.actor_agg_q",
	"algorithm.critic_subsample_size", "algorithm.backup_entropy", "algorithm.double_q", "algorithm.target_noise",
	"algorithm.target_noise_clip", "algorithm.expectile", "algorithm.temperature", "algorithm.n_minibatches",
	"algorithm.entropy_tuning.target_entropy", "algorithm.entropy_tuning.optim", "algorithm.ratio_clip_eps",
	"algorithm.importance_sampling_clip", "algorithm.len_reward_penalty", "algorithm.dagger",
	"reward.reward_weight", "reward.env_reward_weight", "reward.reward_scale",
}

// Resumable returns the keys that may differ in a resumed run of any task, because they change no number.
func Resumable() []string { return slices.Clone(resumableKeys[:]) }
