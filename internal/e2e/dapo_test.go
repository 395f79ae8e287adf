package e2e

import (
	"path/filepath"
	"testing"
)

// TestDAPO: dynamic sampling, overlong punishment and clip-higher have an effect on the metrics, which are the same in
// every placement and after a resume. Iterations generate as many batches as they need.
func TestDAPO(t *testing.T) {
	t.Parallel()
	dir := sums(t)
	dapo := []string{"algorithm.adv_type=grpo", "algorithm.group_size=4", "algorithm.max_num_gen_batches=3",
		"algorithm.clip_ratio_high=0.28",
		"algorithm.len_reward_penalty=0.5", "algorithm.safe_length=1", "algorithm.max_length=5"}
	want := reason(t, local, dir, 0, collocated, dapo...)
	several, few := 0, 0
	for _, n := range want.values(t, "rollout/gen_batches") {
		if n != 1 && n != 2 && n != 3 {
			t.Errorf("%v batches, want 1 to 3", n)
		}
		if n > 1 {
			several++
		}
	}
	for _, x := range want.values(t, "rollout/uninformative_groups") {
		if x > 0 && x < 1 { // the share of all generated groups, and not only of those that were kept
			few++
		}
	}
	if several == 0 || few == 0 {
		t.Errorf("%d steps with several batches, %d with some groups that teach nothing", several, few)
	}
	if plain := reason(t, local, dir, 0, collocated, dapo[:2]...).diff(want); plain == "" {
		t.Error("the options change no metric")
	}
	for _, c := range []reasoningCase{
		{local, 4, "actor: 0-1\n    rollout: 2\n    reward: 3", []string{"rollout.pipeline_stage_num=2"}},
		{openmpi, 3, "actor: 0-1\n    rollout: 1-2", nil},
	} {
		t.Run(c.on.name+" "+c.place, func(t *testing.T) {
			c.on.program(t, ".") // or skip the test
			reason(t, c.on, dir, c.np, c.place, append(c.args, dapo...)...).same(t, want)
		})
	}
	t.Run("resumed", func(t *testing.T) {
		writeFile(t, dir, "job.yaml", components("%s", "actor: 0-1")+reasoning)
		part := append([]string{"-c", "job.yaml", "runner.logger.experiment_name=part"}, dapo...)
		local.ok(t, dir, 2, append(part, startWeights, "runner.max_steps=4")...)
		local.ok(t, dir, 2, append(part, "runner.resume_dir=logs/part/checkpoints/global_step_4")...)
		readMetrics(t, filepath.Join(dir, "logs", "part")).same(t, want)
	})
}
