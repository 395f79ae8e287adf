package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// reasoning is a job that trains a language model on its own answers to the prompts that writeSums has written.
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

func reason(t testing.TB, on *platform, dir string, np int, place string, args ...string) metrics {
	t.Helper()
	writeFile(t, dir, "job.yaml", components("actor: %s", place)+reasoning)
	on.ok(t, dir, np, append([]string{"-c", "job.yaml", startWeights}, args...)...)
	m := readMetrics(t, filepath.Join(dir, "logs", "run"))
	if len(m) != 12 {
		t.Fatalf("%d lines of metrics, want 12", len(m))
	}
	return m
}

// sums writes prompts with one answer, and fine-tunes a model on them until it is sometimes right. It returns the folder.
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
	start := strings.NewReplacer("task_type: reasoning", "task_type: sft", ", rollout_batch_size: 8, max_prompt_length: 9", "",
		"algorithm: {adv_type: reinpp, loss_type: actor, group_size: 16, n_minibatches: 2}\n", "", "actor:\n", "actor:\n  global_batch_size: 12\n",
		"experiment_name: run", "experiment_name: start").Replace(reasoning)
	writeFile(t, dir, "start.yaml", components("actor: %s", "'0:0-1'")+start)
	local.ok(t, dir, 0, "-c", "start.yaml", "actor.micro_batch_size=6", "runner.max_steps=4")
	return dir
}

// TestReasoningEqual: the metrics of training on own answers depend on neither the transport nor the placement, nor on how answers are packed into
// micro-batches, nor on a stop with a resume. The ratio before the first step is 1.
func TestReasoningEqual(t *testing.T) {
	dir := sums(t)
	want := reason(t, local, dir, 0, "'0:0-1'")
	for i, x := range want.values(t, "train/actor/max_log_ratio") {
		if x != 0 {
			t.Errorf("step %d: a log ratio of %v before the first optimiser step", i+1, x)
		}
	}
	rewards, stepped := 0.0, 0.0
	for i, x := range want.values(t, "rollout/rewards") {
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
	for _, c := range []struct {
		name  string
		on    *platform
		np    int
		place string
		args  []string
	}{
		{"ranks of their own", local, 2, "0-1", nil},
		{"micro-batches by tokens, threads", local, 0, "'0:0-1'", []string{"runner.enable_dynamic_batch_size=true",
			"runner.max_tokens_per_mbs=40", "actor.threads=2"}},
		{"Open MPI", openmpi, 2, "0-1", nil},
		{"MPICH", mpich, 2, "0-1", []string{"actor.micro_batch_size=1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.on.program(t, ".") // or skip
			if diff := reason(t, c.on, dir, c.np, c.place, c.args...).diff(want); diff != "" {
				t.Error(diff)
			}
		})
	}
	t.Run("judged by a program", func(t *testing.T) { judge(t, dir) })
	t.Run("resumed", func(t *testing.T) {
		writeFile(t, dir, "job.yaml", components("actor: %s", "0-1")+reasoning)
		local.ok(t, dir, 2, "-c", "job.yaml", startWeights, "runner.max_steps=8", "runner.logger.experiment_name=part")
		local.ok(t, dir, 2, "-c", "job.yaml", "runner.resume_dir=logs/part/checkpoints/global_step_8", "runner.logger.experiment_name=part")
		if diff := readMetrics(t, filepath.Join(dir, "logs", "part")).diff(want); diff != "" {
			t.Error(diff)
		}
	})
}

// evaluateAnswers holds rlinf eval against the run's last evaluation: on any number of ranks it has the same figures. Sampling has keys of its own. A
// person can read answers in a file.
func evaluateAnswers(t *testing.T, dir string, run metrics) {
	accuracy := run.values(t, "eval/accuracy")
	eval := func(on *platform, np int, args ...string) map[string]any {
		t.Helper()
		out := on.ok(t, dir, np, append([]string{"eval", "-c", "job.yaml", "--json"}, args...)...)
		said := map[string]any{}
		for line := range strings.Lines(out.stdout) {
			if strings.HasPrefix(line, "{") {
				if err := json.Unmarshal([]byte(line), &said); err != nil {
					t.Fatal(err)
				}
			}
		}
		return said
	}
	sampling := []string{"rollout.eval_sampling_params.n=4", "rollout.eval_sampling_params.top_p=0.9", "rollout.eval_sampling_params.top_k=5",
		"rollout.eval_sampling_params.repetition_penalty=1.1", "rollout.eval_sampling_params.temperature=0.7"}
	if said := eval(local, 0); said["eval/accuracy"] != accuracy[len(accuracy)-1] || said["questions"] != 9. {
		t.Errorf("eval says %v, the run %v", said, accuracy)
	}
	sampling = append(sampling, "data.val_data_paths=data/train.jsonl") // which it answers
	one := eval(local, 0, sampling...)
	if p := one["eval/pass@1"].(float64); p == 0 || one["eval/pass@4"].(float64) < p {
		t.Errorf("pass@k: %v", one)
	}
	for _, name := range []string{"eval/pass@1", "eval/pass@2", "eval/pass@4", "eval/pass@1_interval", "eval/sampled_truncated", "eval/unparsable"} {
		if one[name] == nil {
			t.Errorf("eval says nothing of %s: %v", name, one)
		}
	}
	for _, on := range []*platform{local, openmpi} {
		on.program(t, ".") // or skip
		np := []string{}
		if on == local {
			np = []string{"-np", "2"}
		}
		if two := eval(on, 2, append(np, sampling...)...); fmt.Sprint(two) != fmt.Sprint(one) {
			t.Errorf("two ranks say %v\none %v", two, one)
		}
	}
	start := eval(local, 0, "--checkpoint", "logs/start/checkpoints/latest", "--episodes", "5")
	if start["questions"] != 5. || !strings.Contains(fmt.Sprint(start["checkpoint"]), "logs/start") {
		t.Errorf("the start's checkpoint: %v", start)
	}
	text, err := os.ReadFile(filepath.Join(dir, "logs", "run", "answers.txt"))
	if err != nil || strings.Count(string(text), "== after step") != 3 || strings.Count(string(text), "question ") != 3*4 {
		t.Errorf("answers.txt (%v):\n%s", err, text)
	}
	for args, want := range map[string]string{
		"rollout.sampling_params.top_p=0.9":              "command line: rollout.sampling_params.top_p: 0.9: want 1 in training",
		"rollout.sampling_params.top_k=5":                "command line: rollout.sampling_params.top_k: 5: want 0 in training (all tokens)",
		"rollout.sampling_params.repetition_penalty=1.1": "command line: rollout.sampling_params.repetition_penalty: 1.1: want 1 in training",
		"rollout.eval_sampling_params.n=-1":              "command line: rollout.eval_sampling_params.n: -1: want a number from 0 to 65536",
		"reward.reward_type=maths":                       "command line: reward.reward_type: maths: want one of exact, math, countdown, program",
	} {
		refused(t, local, dir, 0, want, "-c", "job.yaml", args)
	}
}

// judge has a program in Python reward answers, and then one that fails.
func judge(t *testing.T, dir string) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3: apt-get install python3")
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PYTHONPATH", filepath.Join(root, "clients", "python"))
	t.Setenv("PYTHONDONTWRITEBYTECODE", "1")
	command := func(script string) []string {
		return []string{"reward.reward_type=program", "reward.program.command=[" + python + ", " + script + "]", "runner.logger.experiment_name=judged"}
	}
	args := append([]string{"-c", "job.yaml", startWeights}, command(filepath.Join(root, "examples", "verifier", "verifier.py"))...)
	local.ok(t, dir, 0, append(args, "runner.max_steps=3")...)
	rewards := 0.0
	for _, x := range readMetrics(t, filepath.Join(dir, "logs", "judged")).values(t, "rollout/rewards") {
		rewards += x
	}
	if rewards == 0 {
		t.Error("no answer got a reward")
	}
	writeFile(t, dir, "fails.py", "import rlb\nrlb.grade(lambda prompt, answer, solutions: answer.nothing)\n")
	r := local.run(t, dir, 0, append([]string{"-c", "job.yaml", startWeights}, command("fails.py")...)...)
	want := "reward: program " + python + ": it says: AttributeError: 'str' object has no attribute 'nothing'"
	if r.code != 1 || !strings.Contains(r.stderr, want) {
		t.Errorf("exit code %d, want 1 and %s:\n%s", r.code, want, r.stderr)
	}
	refused(t, local, dir, 0, "command line: reward: want a reward that fits: program.command: exec: \"no-such-judge\": executable file not found in $PATH",
		"-c", "job.yaml", "reward.reward_type=program", "reward.program.command=no-such-judge")
}
