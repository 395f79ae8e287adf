package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// wide are the sizes of a model that 2 or 4 members may divide.
const wide = `    hidden_size: 32
    intermediate_size: 64
    num_hidden_layers: 3
    num_attention_heads: 8
    num_key_value_heads: 4
    head_dim: 16
    initializer_range: 0.2
`

// laidOut returns the text of job with a model that can be divided, without checkpoints.
func laidOut(job string) string {
	before, sizes, _ := strings.Cut(job, "    hidden_size")
	_, after, _ := strings.Cut(sizes, "num_key_value_heads: 1\n")
	return strings.Replace(before+wide+after, "save_interval: 4", "save_interval: -1\n  save_at_end: false", 1)
}

// divided returns overrides that divide the models of a job among t members each.
func divided(t int, more ...string) []string {
	return append(more, fmt.Sprint("actor.model.tensor_model_parallel_size=", t),
		fmt.Sprint("rollout.tensor_parallel_size=", t))
}

// A layout is a placement with the overrides that divide the models.
type layout struct {
	on    *platform
	np    int
	place string
	args  []string
}

// sameLayouts runs a job in a layout of whole models and in others, and compares the metrics. It returns the metrics.
func sameLayouts(t *testing.T, dir, job string, whole layout, others map[string]layout, args ...string) metrics {
	t.Helper()
	run := func(t *testing.T, l layout) metrics {
		t.Helper()
		writeFile(t, dir, "job.yaml", components("%s", l.place)+job)
		l.on.ok(t, dir, l.np, append(append([]string{"-c", "job.yaml", "comm.check_replicas=1"}, args...), l.args...)...)
		return readMetrics(t, filepath.Join(dir, "logs", "run"))
	}
	want := run(t, whole)
	for name, l := range others {
		t.Run(name, func(t *testing.T) {
			l.on.program(t, ".") // or skip
			if diff := run(t, l).diff(want); diff != "" {
				t.Error(diff)
			}
		})
	}
	return want
}

// TestLayoutsOfTuning: how many members divide a model changes no metric of fine-tuning.
func TestLayoutsOfTuning(t *testing.T) {
	dir := writeTexts(t)
	m := sameLayouts(t, dir, laidOut(tuning), layout{local, 0, "actor: '0:0-1'", nil}, map[string]layout{
		"2 × 2":            {local, 0, "actor: 0-3", divided(2)},
		"2 × 4, one rank":  {local, 0, "actor: '0:0-7'", divided(4)},
		"2 × 2, Open MPI":  {openmpi, 4, "actor: 0-3", divided(2)},
		"2 × 2, two ranks": {mpich, 2, "actor: '0-1:0-3'", divided(2)},
	}, "runner.max_steps=6")
	if x := m.values(t, "train/sft/loss"); len(x) != 6 || x[5] >= x[0] {
		t.Errorf("losses of %v", x)
	}
}

// TestLayoutsOfReasoning: how many members divide the models of the components changes no metric of training on own
// answers, wherever these components are.
func TestLayoutsOfReasoning(t *testing.T) {
	dir := t.TempDir()
	local.ok(t, dir, 0, "data", "addition", "--out", "data", "--train", "60", "--test", "9")
	job := laidOut(reasoning)
	args := []string{"runner.max_steps=4", "runner.val_check_interval=2", "reward.random_reward=true"}
	m := sameLayouts(t, dir, job, layout{local, 0, collocated, nil}, map[string]layout{
		"2 × 2": {local, 0, "actor: 0-3", divided(2)},
		"one replica answers": {local, 0, "actor: 0-3\n    rollout: 4-5\n    reward: 0",
			divided(2, "rollout.pipeline_stage_num=2")},
		"2 × 4, one rank": {local, 0, "actor: '0:0-7'", divided(4)},
		"2 × 2, Open MPI": {openmpi, 4, "actor: 0-3", divided(2)},
		"2 × 2, MPICH, two nodes": {mpich, 6, "actor: 0-3\n    rollout: 4-5\n    reward: 1\n  num_nodes: 2\n" +
			"spmd: {nodes: 2}", divided(2)},
	}, args...)
	if x := m.values(t, "train/actor/grad_norm"); len(x) != 4 || x[3] == 0 {
		t.Errorf("gradients of %v", x)
	}
	for name, more := range map[string][]string{
		"level, a reference": {"algorithm.kl_beta=0.1", "algorithm.recompute_logprobs=true",
			"actor.enable_dp_load_balance=true"},
		"adapters": {"algorithm.kl_beta=0.1", "actor.model.is_lora=true", "actor.model.lora_rank=4"},
	} {
		t.Run(name, func(t *testing.T) {
			sameLayouts(t, dir, job, layout{local, 0, collocated, nil}, map[string]layout{
				"inference apart": {local, 0, "actor: 0-3\n    rollout: 4-7\n    inference: 2-5", divided(2)},
			}, append(args, more...)...)
		})
	}
	t.Run("a critic", func(t *testing.T) {
		critic := append(args, "algorithm.adv_type=gae", "algorithm.loss_type=actor_critic")
		sameLayouts(t, dir, job, layout{local, 0, collocated, nil}, map[string]layout{
			"of the actors": {local, 0, "actor: 0-3", divided(2)},
			"apart":         {local, 0, "actor: 0-3\n    critic: 4-7", divided(2)},
			"whole": {local, 0, "actor: 0-3\n    critic: 4-5",
				divided(2, "+critic.model.tensor_model_parallel_size=1")},
		}, critic...)
	})
}
