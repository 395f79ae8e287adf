package e2e

import (
	"strings"
	"testing"
)

// TestReasoningRefused: placements and counts that cannot work are refused before the start, with their place and what
// is valid.
func TestReasoningRefused(t *testing.T) {
	t.Parallel()
	dir := sums(t)
	writeFile(t, dir, "job.yaml", components("actor: 0-1\n    rollout: 2")+reasoning)
	for _, c := range []struct{ arg, want string }{
		{"cluster.component_placement={actor: 0-1, inference: 1}", "command line: " +
			"cluster.component_placement.inference: expected no such component without algorithm.recompute_logprobs, " +
			"kl_beta or reinpp_kl_beta, which it computes for"},
		{"cluster.component_placement={actor: 0-1, env: 2}", "command line: cluster.component_placement.env: env: " +
			"expected one of actor, rollout, reward, inference, critic"},
		{"cluster.component_placement={actor: 0-2, rollout: 3}",
			"job.yaml:%: data.rollout_batch_size: 8: expected a multiple of 3 actors"},
		{"cluster.component_placement={actor: 0-1, rollout: 0-8}",
			"job.yaml:%: data.rollout_batch_size: 8: expected at least 9, a prompt for each rollout worker"},
		{"rollout.pipeline_stage_num=9",
			"command line: rollout.pipeline_stage_num: 9: expected at most 8 (8 prompts of 1 rollout workers)"},
		{"algorithm.group_size=20000000", "command line: algorithm.group_size: 20000000: expected fewer answers: " +
			"those to a prompt, of 7 tokens each, " +
			"must fit into 1 GiB"},
		{"rollout.max_running_requests=0", "command line: rollout.max_running_requests: 0: expected a number ≥ 1"},
		{"rollout.threads=0", "command line: rollout.threads: 0: expected a number ≥ 1"},
		{"runner.weight_sync_interval=2",
			"command line: runner.weight_sync_interval: 2: expected 1 (task_type reasoning)"},
		{"algorithm.loss_type=actor_critic", "command line: algorithm.loss_type: actor_critic: expected actor_critic " +
			"with adv_type gae and a critic, else another"},
	} {
		refused(t, local, dir, 0, c.want, "-c", "job.yaml", c.arg)
	}
	for arg, want := range map[string]string{
		"algorithm.loss_type=actor": "command line: cluster.component_placement.critic: expected no such component " +
			"without algorithm.loss_type actor_critic, with " +
			"adv_type gae: there is no critic",
		"cluster.component_placement={actor: 0, critic: " +
			"0-2}": "job.yaml:%: data.rollout_batch_size: 8: expected a multiple of 3 critic workers",
		"cluster.component_placement={actor: 0, critic: " +
			"0-8}": "job.yaml:%: data.rollout_batch_size: 8: expected at least 9, a prompt for each critic worker",
		"algorithm.early_stop_imp_ratio=5": "command line: algorithm.early_stop_imp_ratio: 5: expected 0 with " +
			"cluster.component_placement.critic: only actors know the ratio",
		"algorithm.n_minibatches=64": "command line: algorithm.n_minibatches: 64: expected a share of the 32 answers " +
			"of a critic worker",
	} {
		place := "cluster.component_placement={actor: 0, critic: 0-3}"
		refused(t, local, dir, 0, want, "-c", "job.yaml", place, "algorithm.adv_type=gae",
			"algorithm.loss_type=actor_critic", arg)
	}
	refused(t, local, dir, 0,
		"command line: critic.use_critic_model: true: expected false: only adv_type gae has a critic", "-c", "job.yaml",
		"+critic.use_critic_model=true")
	writeFile(t, dir, "job.yaml", components("actor: 0-1\n    rollout: 2\n    inference: 2-3")+reasoning)
	out := local.ok(t, dir, 0, "check", "-c", "job.yaml", "algorithm.kl_beta=0.1",
		"rollout.pipeline_stage_num=2").stdout
	for _, want := range []string{"rollout[0] inference[0]",
		"answers: 16 to each of 8 prompts; prompts: 8 on 1 rollout worker in 2 stages, then 4 on each " +
			"of 2 inference workers, then 4 on each of 2 actor workers"} {
		if !strings.Contains(out, want) {
			t.Errorf("check does not say %q:\n%s", want, out)
		}
	}
}
