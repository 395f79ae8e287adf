package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
)

// reasoning is a job that trains a language model on its own answers to the prompts of writeSums.
const reasoning = `
runner:
  task_type: reasoning
  max_steps: 12
  seq_length: 16
  val_check_interval: 4
  save_interval: 4
  logger: {experiment_name: run}
data: {train_data_paths: data/train.jsonl, val_data_paths: data/test.jsonl, rollout_batch_size: 8, max_prompt_length: 9}
algorithm: {adv_type: reinpp, loss_type: actor, group_size: 16, n_minibatches: 2}
actor:
  micro_batch_size: 24
  tokenizer: {tokenizer_model: data/tokenizer}
  model:
    model_type: qwen2
    hidden_size: 32
    intermediate_size: 48
    num_hidden_layers: 2
    num_attention_heads: 2
    num_key_value_heads: 1
    tie_word_embeddings: true
  optim: {lr: 2.0e-2}
`

const startWeights = "runner.ckpt_path=logs/start/checkpoints/latest/model.safetensors"

// collocated places all components on the ranks of the actors. One rank has two actors.
const collocated = "actor: '0:0-1'"

func reason(t testing.TB, on *platform, dir string, np int, place string, args ...string) metrics {
	t.Helper()
	writeFile(t, dir, "job.yaml", components("%s", place)+reasoning)
	on.ok(t, dir, np, append([]string{"-c", "job.yaml", startWeights}, args...)...)
	m := readMetrics(t, filepath.Join(dir, "logs", "run"))
	if len(m) != 12 {
		t.Fatalf("%d lines of metrics, want 12", len(m))
	}
	return m
}

// sums writes prompts with one right answer each, and fine-tunes a model on them until some of its answers are right.
// It returns the folder.
func sums(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	local.ok(t, dir, 0, "data", "addition", "--out", "data", "--train", "60", "--test", "9")
	var lines strings.Builder
	for range 20 {
		for _, prompt := range []string{"1+1=", "2+1=", "1+2="} {
			lines.WriteString(`{"prompt":"` + prompt + `","answer":"2"}` + "\n")
		}
	}
	writeFile(t, dir, "data/train.jsonl", lines.String())
	start := strings.NewReplacer("task_type: reasoning", "task_type: sft",
		", rollout_batch_size: 8, max_prompt_length: 9", "",
		"algorithm: {adv_type: reinpp, loss_type: actor, group_size: 16, n_minibatches: 2}\n", "", "actor:\n",
		"actor:\n  global_batch_size: 12\n", "experiment_name: run", "experiment_name: start").Replace(reasoning)
	writeFile(t, dir, "start.yaml", components(collocated)+start)
	local.ok(t, dir, 0, "-c", "start.yaml", "actor.micro_batch_size=6", "runner.max_steps=4")
	return dir
}

// A reasoningCase is a way to run the job: a placement, and keys that do not change metrics.
type reasoningCase struct {
	on    *platform
	np    int
	place string
	args  []string
}

// reasoningCases are the cases of a default run: all in one process, then each component on its own ranks, or on ranks
// of others.
func reasoningCases() []reasoningCase {
	const hybrid = "actor: 0-1\n    rollout: 1-3\n    reward: 0"
	all := []reasoningCase{
		{local, 2, "actor: 0-1", nil},
		{local, 0, collocated, []string{"runner.enable_dynamic_batch_size=true", "runner.max_tokens_per_mbs=40",
			"actor.threads=2"}},
		{local, 4, "actor: 0-1\n    rollout: 2\n    reward: 3",
			[]string{"rollout.pipeline_stage_num=3", "rollout.max_running_requests=5"}},
		{openmpi, 4, hybrid, []string{"rollout.pipeline_stage_num=2"}},
		{mpich, 3, "actor: 1-2\n    rollout: 0", []string{"actor.micro_batch_size=1", "rollout.threads=2"}},
		{openmpi, 4, "actor: 0-1\n    rollout: 2-3\n  num_nodes: 2\nspmd: {nodes: 2}", nil},
	}
	if !full {
		return all
	}
	for _, on := range platforms {
		for i, place := range []string{"actor: 0-1\n    rollout: 2-3", hybrid, "actor,rollout: 0-1\n    reward: 2-3",
			"actor: 2-3\n    rollout,reward: 0-1",
			"actor: 0,3\n    rollout: 1-2\n    reward: all"} {
			for stages := 1; stages <= 3; stages++ {
				if hybrid == place && stages == 3 {
					continue // 8 prompts do not divide into 2 stages of 3 workers
				}
				all = append(all,
					reasoningCase{on, 4, place, []string{fmt.Sprint("rollout.pipeline_stage_num=", stages),
						fmt.Sprint("rollout.max_running_requests=", 1+7*i*stages),
						fmt.Sprint("actor.micro_batch_size=", 1+5*stages)}})
			}
		}
	}
	return all
}

// TestReasoningEqual: the metrics of training on own answers do not depend on the transport, on the placement, on
// stages, on the number of answers in an engine, on the packing of answers into micro-batches, or on a stop with a
// resume. The ratio before the first step is 1. The full test takes some ten minutes on two cores.
func TestReasoningEqual(t *testing.T) {
	t.Parallel()
	dir := sums(t)
	want := reason(t, local, dir, 0, collocated)
	want.checkRatios(t)
	rewards, stepped := 0.0, 0.0
	for i, x := range want.values(t, "rollout/rewards") {
		if x != meanReward(t, want[i]) {
			t.Errorf("step %d: rewards of %v, and their counts say %v", i+1, x, meanReward(t, want[i]))
		}
		rewards += x
		stepped += want.values(t, "train/actor/optimizer_steps")[i]
	}
	if rewards == 0 || stepped == 0 {
		t.Fatalf("rewards of %v and %v optimiser steps: nothing was learnt from", rewards, stepped)
	}
	if n := len(want.values(t, "eval/accuracy")); n != 3 {
		t.Errorf("%d evaluations, want 3: after steps 4, 8 and 12", n)
	}
	t.Run("evaluated", func(t *testing.T) { evaluateAnswers(t, dir, want) })
	t.Run("refused", func(t *testing.T) { refuseAnswers(t, dir) })
	t.Run("own loop", func(t *testing.T) { ownLoop(t, dir, want) })
	for _, c := range reasoningCases() {
		t.Run(fmt.Sprint(c.on.name, " ", strings.Join(strings.Fields(c.place), " ")), func(t *testing.T) {
			c.on.program(t, ".") // or skip the test
			reason(t, c.on, dir, c.np, c.place, c.args...).same(t, want)
		})
	}
	t.Run("level", func(t *testing.T) { // actors exchange groups: other batches, but the same in every placement
		const level = "actor.enable_dp_load_balance=true"
		level1 := reason(t, local, dir, 0, collocated, level)
		if level1.diff(want) == "" {
			t.Error("no group was traded")
		}
		reason(t, local, dir, 4, "actor: 2-3\n    rollout: 0-2", level).same(t, level1)
	})
	t.Run("placed critic", func(t *testing.T) { placedCritic(t, dir) })
	reasonWith(t, dir, want)
	t.Run("resumed", func(t *testing.T) { // with other stages and micro-batches, too
		writeFile(t, dir, "job.yaml", components("actor: 0-1")+reasoning)
		local.ok(t, dir, 2, "-c", "job.yaml", startWeights, "runner.max_steps=8", "runner.logger.experiment_name=part")
		writeFile(t, dir, "job.yaml", components("actor: 1-2\n    rollout: 0")+reasoning)
		local.ok(t, dir, 3, "-c", "job.yaml", "runner.resume_dir=logs/part/checkpoints/global_step_8",
			"runner.logger.experiment_name=part", "rollout.pipeline_stage_num=3", "actor.micro_batch_size=5")
		readMetrics(t, filepath.Join(dir, "logs", "part")).same(t, want)
	})
}

// ownLoop trains by a program that calls the phases itself. Its metrics and weights are those of rlinf.
func ownLoop(t *testing.T, dir string, want metrics) {
	program := local.program(t, "./examples/own_reasoning")
	if r := local.startProgram(t, program, dir, 0, "-c", "job.yaml", startWeights,
		"runner.logger.experiment_name=own").result(); r.code != 0 {
		t.Fatalf("exit code %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	readMetrics(t, filepath.Join(dir, "logs/own")).same(t, want)
	const weights = "checkpoints/global_step_12/model.safetensors"
	if readFile(t, filepath.Join(dir, "logs/own", weights)) != readFile(t, filepath.Join(dir, "logs/run", weights)) {
		t.Errorf("%s differs from that of rlinf", weights)
	}
}

// reasonWith trains in further ways, whose metrics do not depend on the placement or on a stop with a resume. plain are
// the metrics of the unchanged configuration.
func reasonWith(t *testing.T, dir string, plain metrics) {
	const inferring = "actor: 0-1\n    rollout: 2\n    inference: 2-3"
	for name, c := range map[string]struct {
		place, says string // says is a metric that is not 0
		args        []string
	}{
		"KL in the loss": {inferring, "train/actor/kl_loss",
			[]string{"algorithm.kl_beta=0.1", "algorithm.recompute_logprobs=true"}},
		"KL in the reward, adapters": {inferring, "train/actor/grad_norm",
			[]string{"algorithm.reinpp_kl_beta=0.05", "actor.model.is_lora=true",
				"actor.model.lora_rank=4", "reward.random_reward=true"}}, // on the weights of ckpt_path
		"log-probs by the actors alone": {"actor: 0-1\n    rollout: 2-3", "train/actor/grad_norm",
			[]string{"rollout.return_logprobs=false",
				"algorithm.recompute_logprobs=true"}},
		"dynamic sampling": {"actor: 0-1\n    rollout: 1-2\n    reward: 3", "rollout/gen_batches",
			[]string{"algorithm.adv_type=grpo",
				"algorithm.max_num_gen_batches=3", "algorithm.group_size=4"}},
	} {
		t.Run(name, func(t *testing.T) {
			want := reason(t, local, dir, 0, collocated, c.args...)
			want.checkRatios(t)
			if name == "log-probs by the actors alone" {
				want.same(t, plain, "recomputed log-probs are others")
			}
			if x := want.values(t, c.says); len(x) < 12 || x[11] == 0 {
				t.Errorf("%s: %v", c.says, x)
			}
			reason(t, local, dir, 4, c.place, c.args...).same(t, want)
			args := append([]string{"-c", "job.yaml", startWeights, "runner.logger.experiment_name=again"}, c.args...)
			local.ok(t, dir, 4, append(args, "runner.max_steps=4")...)
			local.ok(t, dir, 4, append(args, "--resume", "auto")...)
			readMetrics(t, filepath.Join(dir, "logs", "again")).same(t, want, "resumed")
			test.OK(t, os.RemoveAll(filepath.Join(dir, "logs", "again")))
		})
	}
}

// checkRatios checks that before the first optimiser step of an iteration the policy of the rollouts is the policy of
// the actors.
func (m metrics) checkRatios(t *testing.T) {
	t.Helper()
	for i, x := range m.values(t, "train/actor/max_log_ratio") {
		if x != 0 {
			t.Errorf("step %d: a log ratio of %v before the first optimiser step", i+1, x)
		}
	}
}

// meanReward returns the mean of the rewards in a line.
func meanReward(t testing.TB, line map[string]any) float64 {
	t.Helper()
	sum, answers := 0.0, 0.0
	for name, x := range line {
		value, ok := strings.CutPrefix(name, "reward/")
		if !ok {
			continue
		}
		reward, err := strconv.ParseFloat(value, 64)
		n, err2 := x.(json.Number).Float64()
		test.OK(t, errors.Join(err, err2))
		sum, answers = sum+reward*n, answers+n
	}
	return sum / answers
}
