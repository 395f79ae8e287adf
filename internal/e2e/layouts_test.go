package e2e

import (
	"fmt"
	"os"
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

// sharded makes replicas divide the moments.
const sharded = "actor.optim.use_distributed_optimizer=true"

// TestSharedOptimiser: whether replicas divide the moments, of whole models or of parts, changes neither metrics nor
// the bytes of a checkpoint, and a run goes on from the checkpoint of the other kind.
func TestSharedOptimiser(t *testing.T) {
	shards := map[string]layout{
		"whole":  {local, 0, collocated, []string{sharded}},
		"2 × 2":  {local, 0, "actor: 0-3", divided(2, "actor.fsdp_config={sharding_strategy: shard_grad_op}")},
		"stages": {local, 0, "actor: 0-3", []string{sharded, "actor.model.pipeline_model_parallel_size=2"}},
		"2 × 2, two nodes": {mpich, 4, "actor: 0-3\n  num_nodes: 2\nspmd: {nodes: 2}",
			divided(2, sharded)},
	}
	t.Run("tuning", func(t *testing.T) {
		sameCheckpoints(t, writeTexts(t), laidOut(tuning), collocated, shards, 6)
	})
	dir := t.TempDir()
	local.ok(t, dir, 0, "data", "addition", "--out", "data", "--train", "60", "--test", "9")
	for name, places := range map[string][2]string{"a critic": {collocated, "actor: 0-3"},
		"a critic apart": {collocated + "\n    critic: '0:0-1'", "actor: 0-3\n    critic: 4-7"}} {
		t.Run(name, func(t *testing.T) {
			sameCheckpoints(t, dir, laidOut(reasoning), places[0], map[string]layout{
				"both":     {local, 0, places[1], divided(2, sharded)},
				"critic's": {local, 0, places[1], divided(2, "+actor.critic_optim={use_distributed_optimizer: true}")},
			}, 4, "algorithm.adv_type=gae", "algorithm.loss_type=actor_critic", "reward.random_reward=true")
		})
	}
}

// sameCheckpoints runs a job without shards at a place, and with shards in other layouts. It compares the metrics and
// the files of the last checkpoint. It also goes on in the middle, from each to the other.
func sameCheckpoints(t *testing.T, dir, job, place string, shards map[string]layout, steps int, args ...string) {
	t.Helper()
	whole := layout{local, 0, place, nil}
	run := func(t *testing.T, l layout, more ...string) (metrics, string) {
		t.Helper()
		writeFile(t, dir, "job.yaml", components("%s", l.place)+job)
		all := append([]string{"-c", "job.yaml", "comm.check_replicas=1", "runner.save_at_end=true",
			fmt.Sprint("runner.val_check_interval=", steps/2)}, args...)
		l.on.ok(t, dir, l.np, append(append(all, l.args...), more...)...)
		run := filepath.Join(dir, "logs", "run")
		var files strings.Builder
		for _, name := range []string{"model", "trainer"} {
			text, err := os.ReadFile(filepath.Join(run, "checkpoints", "latest", name+".safetensors"))
			if err != nil {
				t.Fatal(err)
			}
			files.Write(text)
		}
		return readMetrics(t, run), files.String()
	}
	most := func(n int) string { return fmt.Sprint("runner.max_steps=", n) }
	want, files := run(t, whole, most(steps))
	check := func(t *testing.T, got metrics, saved string) {
		t.Helper()
		if diff := got.diff(want); diff != "" {
			t.Error(diff)
		}
		if saved != files {
			t.Error("other bytes in the checkpoint")
		}
	}
	for name, l := range shards {
		t.Run(name, func(t *testing.T) {
			l.on.program(t, ".") // or skip
			got, saved := run(t, l, most(steps))
			check(t, got, saved)
			run(t, l, most(steps/2))
			got, saved = run(t, whole, most(steps), "--resume", "auto")
			check(t, got, saved)
			run(t, whole, most(steps/2))
			got, saved = run(t, l, most(steps), "--resume", "auto")
			check(t, got, saved)
		})
	}
}
