package config

import "github.com/rlinf/rlinf/internal/config"

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
