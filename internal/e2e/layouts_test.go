package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rlinf/rlinf/internal/test"
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

// laidOut returns the text of job with a model that can be divided.
func laidOut(job string) string {
	before, sizes, _ := strings.Cut(job, "    hidden_size")
	_, after, _ := strings.Cut(sizes, "num_key_value_heads: 1\n")
	return before + wide + after
}

// divided returns overrides that divide the models of a job among t members each.
func divided(t int, more ...string) []string {
	return append(more, fmt.Sprint("actor.model.tensor_model_parallel_size=", t),
		fmt.Sprint("rollout.tensor_parallel_size=", t))
}

// staged returns overrides that divide the actors' model into p stages, and every layer among t members.
func staged(p, t int, more ...string) []string {
	return append(more, fmt.Sprint("actor.model.pipeline_model_parallel_size=", p),
		fmt.Sprint("actor.model.tensor_model_parallel_size=", t))
}

// answered returns overrides that divide the actors' models among p stages of t members each, and those of rollouts
// among r members.
func answered(p, t, r int, more ...string) []string {
	return append(more, fmt.Sprint("actor.model.tensor_model_parallel_size=", t),
		fmt.Sprint("actor.model.pipeline_model_parallel_size=", p), fmt.Sprint("rollout.tensor_parallel_size=", r))
}

// A layout is a placement with the overrides that divide the models.
type layout struct {
	on    *platform
	np    int
	place string
	args  []string
}

// sameLayouts runs a job in a layout of whole models and in others, and compares the metrics and the last checkpoint.
// The order of the tensors in a checkpoint depends on the placed components. Then it resumes from the job's first
// checkpoint, which has whole models, in each other layout. It returns the metrics.
func sameLayouts(t *testing.T, dir, job string, whole layout, others map[string]layout, args ...string) metrics {
	t.Helper()
	run := func(t *testing.T, l layout, more ...string) metrics {
		t.Helper()
		writeFile(t, dir, "job.yaml", components("%s", l.place)+job)
		l.on.ok(t, dir, l.np, slices.Concat([]string{"-c", "job.yaml", "comm.check_replicas=1"}, args, l.args, more)...)
		return readMetrics(t, filepath.Join(dir, "logs", "run"))
	}
	saved := func(t *testing.T) (files []string) {
		t.Helper()
		for _, name := range []string{"model", "trainer"} {
			b := readFile(t, filepath.Join(dir, "logs/run/checkpoints/latest", name+".safetensors"))
			files = append(files, b)
		}
		return files
	}
	want := run(t, whole)
	files := saved(t)
	first, err := filepath.Glob(filepath.Join(dir, "logs/run/checkpoints/global_step_*"))
	slices.Sort(first)
	if err != nil || len(first) < 2 {
		t.Fatalf("checkpoints %q, %v: expected two", first, err)
	}
	resume := filepath.Join(t.TempDir(), filepath.Base(first[0]))
	test.OK(t, os.CopyFS(resume, os.DirFS(first[0])))
	for name, l := range others {
		t.Run(name, func(t *testing.T) {
			l.on.program(t, ".") // or skip the test
			run(t, l).same(t, want)
			if !slices.Equal(saved(t), files) {
				t.Error("the last checkpoint is another than that of whole models")
			}
			if run(t, l, "runner.resume_dir="+resume); !slices.Equal(saved(t), files) {
				t.Error("resumed from whole models: the last checkpoint is another than theirs")
			}
		})
	}
	return want
}

// TestLayoutsOfTuning: the metrics of fine-tuning do not depend on the number of members that divide a model.
func TestLayoutsOfTuning(t *testing.T) {
	t.Parallel()
	dir := writeTexts(t)
	m := sameLayouts(t, dir, laidOut(tuning), layout{local, 0, "actor: '0:0-1'", nil}, map[string]layout{
		"2 × 2":            {local, 0, "actor: 0-3", divided(2)},
		"2 × 4, one rank":  {local, 0, "actor: '0:0-7'", divided(4)},
		"2 × 2, Open MPI":  {openmpi, 4, "actor: 0-3", divided(2)},
		"2 × 2, two ranks": {mpich, 2, "actor: '0-1:0-3'", divided(2)},
		"2 × 3 stages":     {local, 0, "actor: 0-5", staged(3, 1)},
		"2 × 2 stages × 4": {local, 0, "actor: '0-3:0-15'", staged(2, 4,
			"actor.model.pipeline_layers=[1,2]")},
		"2 × 2 × 2, Open MPI": {openmpi, 4, "actor: '0-3:0-7'", staged(2, 2,
			"actor.model.recompute_granularity=full")},
		"2 × 2 stages, MPICH, two nodes": {mpich, 4, "actor: 0-3\n  num_nodes: 2\nspmd: {nodes: 2}", staged(2, 1)},
		"2 × 2 stages, tokens": {local, 0, "actor: 0-3", staged(2, 1, "runner.enable_dynamic_batch_size=true",
			"runner.max_tokens_per_mbs=150")},
	}, "runner.max_steps=6")
	if x := m.values(t, "train/sft/loss"); len(x) != 6 || x[5] >= x[0] {
		t.Errorf("losses of %v", x)
	}
}

// TestLayoutsOfReasoning: the metrics of training on own answers do not depend on the number of members that divide the
// models, in any placement.
func TestLayoutsOfReasoning(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	local.ok(t, dir, 0, "data", "addition", "--out", "data", "--train", "60", "--test", "9")
	job := laidOut(reasoning)
	args := []string{"runner.max_steps=4", "runner.val_check_interval=2", "runner.save_interval=2",
		"reward.random_reward=true"}
	m := sameLayouts(t, dir, job, layout{local, 0, collocated, nil}, map[string]layout{
		"2 × 2": {local, 0, "actor: 0-3", divided(2)},
		"one replica answers": {local, 0, "actor: 0-3\n    rollout: 4-5\n    reward: 0",
			divided(2, "rollout.pipeline_stage_num=2")},
		"2 × 4, one rank": {local, 0, "actor: '0:0-7'", divided(4)},
		"2 × 2, Open MPI": {openmpi, 4, "actor: 0-3", divided(2)},
		"2 × 2, MPICH, two nodes": {mpich, 6, "actor: 0-3\n    rollout: 4-5\n    reward: 1\n  num_nodes: 2\n" +
			"spmd: {nodes: 2}", divided(2)},
		"2 × 2 to whole":        {local, 0, "actor: 0-3", answered(1, 2, 1)},
		"2 whole to 1 × 4":      {local, 0, "actor: 0-1\n    rollout: 0-3\n    reward: 0", answered(1, 1, 4)},
		"2 × 2 stages to 2 × 2": {local, 0, "actor: 0-3", answered(2, 1, 2)},
		"2 × 2 × 2 to 1 × 4, Open MPI, two nodes": {openmpi, 8, "actor: '0-3:0-7'\n    rollout: 4-7\n    reward: 1\n" +
			"  num_nodes: 2\nspmd: {nodes: 2}", answered(2, 2, 4)},
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
			apart := layout{local, 0, "actor: 0-1\n    rollout: 2-3\n    inference: 1-2", nil}
			sameLayouts(t, dir, job, apart, map[string]layout{
				"inference apart": {local, 0, "actor: 0-3\n    rollout: 4-7\n    inference: 2-5", divided(2)},
				"all differ": {local, 0, "actor: 0-3\n    rollout: 4-7\n    inference: 2-5\nspmd: {nodes: 2}",
					answered(2, 1, 4, "+inference.model.tensor_model_parallel_size=2")},
				"inference in stages": {local, 0, "actor: 0-3\n    rollout: 4-7\n    inference: 2-5",
					answered(1, 2, 1, "+inference.model.pipeline_model_parallel_size=2")},
			}, append(args, more...)...)
		})
	}
	t.Run("a critic", func(t *testing.T) {
		critic := append(args, "algorithm.adv_type=gae", "algorithm.loss_type=actor_critic")
		sameLayouts(t, dir, job, layout{local, 0, collocated, nil}, map[string]layout{
			"of the actors": {local, 0, "actor: 0-3", divided(2)},
		}, critic...)
		sameLayouts(t, dir, job, layout{local, 0, "actor: 0-1\n    critic: 2-3", nil}, map[string]layout{
			"apart": {local, 0, "actor: 0-3\n    critic: 4-7", divided(2)},
			"whole": {local, 0, "actor: 0-3\n    critic: 4-5",
				divided(2, "+critic.model.tensor_model_parallel_size=1")},
			"in stages": {local, 0, "actor: 0-3\n    critic: 4-7",
				divided(2, "+critic.model.pipeline_model_parallel_size=2")},
		}, critic...)
	})
}

// kinds are layouts of two replicas, with the ranks of their actors.
func kinds() []layout {
	return []layout{
		{local, 0, "actor: '0:0-1'", nil}, {local, 0, "actor: 0-3", divided(2)}, {local, 0, "actor: 0-7", divided(4)},
		{local, 0, "actor: 0-3", staged(2, 1)}, {local, 0, "actor: 0-5", staged(3, 1)},
		{local, 0, "actor: 0-7", staged(2, 2, sharded)},
	}
}

// TestLayoutsResume: a run that was killed by SIGKILL in one layout can be resumed in any other. It ends with the
// metrics, the checkpoint and the exported model of an undisturbed run.
func TestLayoutsResume(t *testing.T) {
	t.Parallel()
	dir := writeTexts(t)
	text := laidOut(tuning)
	start := func(t *testing.T, l layout, run string, more ...string) *job {
		writeFile(t, dir, run+".yaml", components("%s", l.place)+text)
		args := append([]string{"-c", run + ".yaml", "runner.logger.experiment_name=" + run}, l.args...)
		return l.on.start(t, dir, l.np, append(args, more...)...)
	}
	finish := func(t *testing.T, j *job) {
		t.Helper()
		if r := j.result(); r.code != 0 {
			t.Fatalf("exit code %d: %s", r.code, r.stderr)
		}
	}
	all := kinds()
	finish(t, start(t, all[0], "whole"))
	want, files := modelResults(t, dir, "whole")
	for a := range all {
		for b := range all {
			if !full && b != (a+1)%len(all) {
				continue
			}
			t.Run(fmt.Sprintf("%d to %d", a, b), func(t *testing.T) {
				run := fmt.Sprintf("from%dto%d", a, b)
				j := start(t, all[a], run)
				saved := filepath.Join(dir, "logs", run, "checkpoints/global_step_4")
				for ; ; time.Sleep(time.Millisecond) {
					if _, err := os.Stat(saved); err == nil || j.over() {
						break
					}
				}
				j.kill()
				if code := j.wait(); code == 0 {
					t.Error("the run has ended before it was killed")
				}
				finish(t, start(t, all[b], run, "--resume", "auto"))
				got, same := modelResults(t, dir, run)
				got.same(t, want)
				for name := range files {
					if same[name] != files[name] {
						t.Errorf("other bytes of %s", name)
					}
				}
			})
		}
	}
}

// modelResults exports the model of a run in dir. It returns the metrics of the run, and the files of its newest
// checkpoint and of the exported model.
func modelResults(t *testing.T, dir, run string) (metrics, map[string]string) {
	t.Helper()
	files := map[string]string{}
	local.ok(t, dir, 0, "export", "logs/"+run, "--out", "export/"+run)
	for _, pattern := range []string{"logs/" + run + "/checkpoints/latest/*.safetensors", "export/" + run + "/*"} {
		found, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("no %s: %v", pattern, err)
		}
		for _, path := range found {
			files[filepath.Base(path)] = readFile(t, path)
		}
	}
	return readMetrics(t, filepath.Join(dir, "logs", run)), files
}

// TestLayoutsOnHosts: the parts of a model may be on two hosts that reach each other only by TCP.
func TestLayoutsOnHosts(t *testing.T) {
	t.Parallel()
	dir := writeTexts(t)
	on := openmpi.onHosts(t, 2, 1)
	others := map[string]layout{"stages apart": {on, 4, "actor: 0-3", staged(2, 2)}}
	if full {
		others["layers apart"] = layout{on, 4, "actor: 0-3", divided(4)}
		others["stages apart, MPICH"] = layout{mpich.onHosts(t, 2, 1), 4, "actor: 0-3", staged(2, 2)}
	}
	sameLayouts(t, dir, laidOut(tuning), layout{local, 0, "actor: 0", nil}, others, "runner.max_steps=6")
	if !full {
		return
	}
	t.Run("reasoning", func(t *testing.T) {
		dir := t.TempDir()
		local.ok(t, dir, 0, "data", "addition", "--out", "data", "--train", "60", "--test", "9")
		sameLayouts(t, dir, laidOut(reasoning), layout{local, 0, collocated, nil}, map[string]layout{
			"whole":          {on, 4, "actor: 0,2\n    rollout: 1,3", nil},
			"stages apart":   {on, 4, "actor: '0-3:0-7'\n    rollout: 0-3", answered(2, 2, 2)},
			"replicas apart": {mpich.onHosts(t, 2, 1), 4, "actor: 0-3\n    rollout: 0-3", divided(2)},
		}, "runner.max_steps=4", "runner.val_check_interval=2", "runner.save_interval=2", "reward.random_reward=true")
	})
}

// sharded makes replicas divide the moments.
const sharded = "actor.optim.use_distributed_optimizer=true"

// TestSharedOptimiser: replicas may divide the moments, of whole models or of parts. This changes neither the metrics
// nor the bytes of a checkpoint. A run can be resumed from a checkpoint of the other kind.
func TestSharedOptimiser(t *testing.T) {
	t.Parallel()
	shards := map[string]layout{
		"whole":  {local, 0, collocated, []string{sharded}},
		"2 × 2":  {local, 0, "actor: 0-3", divided(2, "actor.fsdp_config={sharding_strategy: shard_grad_op}")},
		"stages": {local, 0, "actor: 0-3", []string{sharded, "actor.model.pipeline_model_parallel_size=2"}},
		"2 × 2, two nodes": {mpich, 4, "actor: 0-3\n  num_nodes: 2\nspmd: {nodes: 2}",
			divided(2, sharded)},
	}
	t.Run("tuning", func(t *testing.T) {
		sameLayouts(t, writeTexts(t), laidOut(tuning), layout{local, 0, "actor: '0:0-1'", nil}, shards,
			"runner.max_steps=6")
	})
	dir := t.TempDir()
	local.ok(t, dir, 0, "data", "addition", "--out", "data", "--train", "60", "--test", "9")
	for name, places := range map[string][2]string{"a critic": {collocated, "actor: 0-3"},
		"a critic apart": {collocated + "\n    critic: '0:0-1'", "actor: 0-3\n    critic: 4-7"}} {
		t.Run(name, func(t *testing.T) {
			sameLayouts(t, dir, laidOut(reasoning), layout{local, 0, places[0], nil}, map[string]layout{
				"both":     {local, 0, places[1], divided(2, sharded)},
				"critic's": {local, 0, places[1], divided(2, "+actor.critic_optim={use_distributed_optimizer: true}")},
			}, "runner.max_steps=4", "runner.val_check_interval=2", "runner.save_interval=2",
				"reward.random_reward=true", "algorithm.adv_type=gae", "algorithm.loss_type=actor_critic")
		})
	}
}
