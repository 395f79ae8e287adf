package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rlinf/rlinf/internal/checkpoint"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/internal/trace"
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

// evaluateAnswers compares rlinf eval with the run's last evaluation: the metrics are equal on any number of ranks.
// Sampling has its own keys. answers.txt has the answers.
func evaluateAnswers(t *testing.T, dir string, run metrics) {
	accuracy := run.values(t, "eval/accuracy")
	eval := func(on *platform, np int, args ...string) map[string]any {
		t.Helper()
		out := on.ok(t, dir, np, append([]string{"eval", "-c", "job.yaml", "--json"}, args...)...)
		said := map[string]any{}
		for line := range strings.Lines(out.stdout) {
			if strings.HasPrefix(line, "{") {
				test.OK(t, json.Unmarshal([]byte(line), &said))
			}
		}
		return said
	}
	sampling := []string{"rollout.eval_sampling_params.n=4", "rollout.eval_sampling_params.top_p=0.9",
		"rollout.eval_sampling_params.top_k=5",
		"rollout.eval_sampling_params.repetition_penalty=1.1", "rollout.eval_sampling_params.temperature=0.7"}
	if said := eval(local, 0); said["eval/accuracy"] != accuracy[len(accuracy)-1] || said["questions"] != 9. {
		t.Errorf("eval says %v, the run %v", said, accuracy)
	}
	sampling = append(sampling, "data.val_data_paths=data/train.jsonl") // the model answers these prompts
	one := eval(local, 0, sampling...)
	if p := one["eval/pass@1"].(float64); p == 0 || one["eval/pass@4"].(float64) < p {
		t.Errorf("pass@k: %v", one)
	}
	for _, name := range []string{"eval/pass@1", "eval/pass@2", "eval/pass@4", "eval/pass@1_interval",
		"eval/sampled_truncated", "eval/unparsable"} {
		if one[name] == nil {
			t.Errorf("eval says nothing of %s: %v", name, one)
		}
	}
	for _, on := range []*platform{local, openmpi} {
		on.program(t, ".") // or skip the test
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
	if err != nil || strings.Count(string(text), "== after step") != 3 ||
		strings.Count(string(text), "question ") != 3*4 || strings.Count(string(text), ", reward ") != 3*4 {
		t.Errorf("answers.txt (%v):\n%s", err, text)
	}
}

// refuseAnswers: keys that do not apply to this run are refused.
func refuseAnswers(t *testing.T, dir string) {
	for args, want := range map[string]string{
		"+cluster.component_placement.critic=0": "command line: cluster.component_placement.critic: " +
			"expected no such component without algorithm.loss_type actor_critic, with adv_type gae: there is no " +
			"critic",
		"rollout.return_logprobs=false": "command line: rollout.return_logprobs: false: expected " +
			"true, or algorithm.recompute_logprobs without importance_sampling_fix",
		"rollout.sampling_params.top_p=0.9": "command line: rollout.sampling_params.top_p: 0.9: " +
			"expected 1 in training",
		"rollout.sampling_params.top_k=5": "command line: rollout.sampling_params.top_k: 5: expected " +
			"0 in training (all tokens)",
		"rollout.sampling_params.repetition_penalty=1.1": "command line: rollout.sampling_params.repetition_penalty: " +
			"1.1: expected 1 in training",
		"rollout.eval_sampling_params.n=-1": "command line: rollout.eval_sampling_params.n: -1: expected a number " +
			"from 0 to 65536",
		"reward.reward_type=maths": "command line: reward.reward_type: maths: expected one of exact, math, " +
			"countdown, program",
	} {
		refused(t, local, dir, 0, want, "-c", "job.yaml", args)
	}
}

// TestRewardedByAProgram lets a Python program reward answers, and then a program that fails.
func TestRewardedByAProgram(t *testing.T) {
	t.Parallel()
	dir := sums(t)
	writeFile(t, dir, "job.yaml", components("actor: 0-1\n    rollout: 2")+reasoning)
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3: apt-get install python3")
	}
	root := test.Must(filepath.Abs("../.."))(t)
	command := func(script string) []string {
		return []string{"reward.reward_type=program", "reward.program.command=[" + python + ", " + script + "]",
			"runner.logger.experiment_name=judged"}
	}
	args := append([]string{"-c", "job.yaml", startWeights},
		command(filepath.Join(root, "examples", "verifier", "verifier.py"))...)
	local.ok(t, dir, 0, append(args, "runner.max_steps=3")...)
	rewards := 0.0
	for _, x := range readMetrics(t, filepath.Join(dir, "logs", "judged")).values(t, "rollout/rewards") {
		rewards += x
	}
	if rewards == 0 {
		t.Error("no answer got a reward")
	}
	writeFile(t, dir, "fails.py", "import rlb, subprocess\nnull = subprocess.DEVNULL\n"+
		"subprocess.Popen(['sleep', '1000'], stdout=null, stderr=null, start_new_session=True) # which ends with the "+
		"job\nrlb.grade(lambda prompt, answer, solutions: answer.nothing)\n")
	r := local.run(t, dir, 0, append([]string{"-c", "job.yaml", startWeights}, command("fails.py")...)...)
	want := "reward: program " + python + ": error: AttributeError: 'str' object has no attribute 'nothing'"
	if r.code != 1 || !strings.Contains(r.stderr, want) {
		t.Errorf("exit code %d, want 1 and %s:\n%s", r.code, want, r.stderr)
	}
	// A program that fails in an evaluation alone leaves a checkpoint.
	writeFile(t, dir, "validates.py", "import rlb\nrlb.grade(lambda prompt, answer, solutions: "+
		"{'1+1=': 1, '2+1=': 0, '1+2=': 0}[prompt])\n")
	r = local.run(t, dir, 0, append([]string{"-c", "job.yaml", startWeights, "runner.max_steps=3",
		"runner.val_check_interval=2", "runner.save_interval=-1"}, command("validates.py")...)...)
	if says := " step 2: evaluate: reward: program " + python + ": error: KeyError"; r.code != 1 ||
		!strings.Contains(r.stderr, says) {
		t.Errorf("exit code %d, want 1 and %s:\n%s", r.code, says, r.stderr)
	}
	run := filepath.Join(dir, "logs", "judged")
	if last, err := checkpoint.Load(filepath.Join(run, "checkpoints", "latest")); err != nil || last.Step != 2 {
		t.Errorf("latest checkpoint: %+v, %v, want step 2", last, err)
	}
	if m := readMetrics(t, run); len(m) != 2 || m[1]["eval/accuracy"] != nil {
		t.Errorf("metrics %v, want two lines without an evaluation", m)
	}
	writeFile(t, dir, "placed.yaml", components("actor: 0-1\n    rollout: 2\n    reward: 3")+reasoning)
	r = local.run(t, dir, 4, append([]string{"-c", "placed.yaml", startWeights}, command("fails.py")...)...)
	if r.code != 1 || !strings.Contains(r.stderr, "reward[0] rank 3 host ") ||
		!strings.Contains(r.stderr, " step 1: score: group ") {
		t.Errorf("on a rank of its own: exit code %d, want 1 and the worker's name:\n%s", r.code, r.stderr)
	}
	refused(t, local, dir, 0, "command line: reward: expected a reward that fits: program.command: exec: "+
		"\"no-such-judge\": executable file not found in $PATH",
		"-c", "job.yaml", "reward.reward_type=program", "reward.program.command=no-such-judge")
}

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

// TestReasoningTrace: the trace has the work of every component. The answers of each stage are graded, and go through
// inference.
func TestReasoningTrace(t *testing.T) {
	t.Parallel()
	dir := sums(t)
	reason(t, local, dir, 4, "actor: 0-1\n    rollout: 2\n    reward: 3\n    inference: 3",
		"cluster.tracer.enable=true", "rollout.pipeline_stage_num=4", "algorithm.recompute_logprobs=true")
	run := filepath.Join(dir, "logs", "run")
	tr, err := trace.Read(run)
	if err != nil || len(tr.Problems) > 0 || len(tr.Attempts) != 1 {
		t.Fatalf("%v, problems %q, %d attempts", err, tr.Problems, len(tr.Attempts))
	}
	if _, err := os.Stat(filepath.Join(run, "trace.json")); err != nil {
		t.Error(err)
	}
	spans := map[string]int{}
	type span struct {
		worker, site int
		n            int64
	}
	seen := map[span]bool{} // waits cut a span in pieces
	for _, w := range tr.Attempts[0].Windows {
		for _, track := range w.Tracks {
			of := tr.Attempts[0].Workers[track.Worker]
			for _, s := range track.Spans {
				if site := of.Sites[s.Site]; site.Op == trace.Work && !seen[span{track.Worker, s.Site, s.N}] {
					seen[span{track.Worker, s.Site, s.N}] = true
					spans[fmt.Sprintf("%s %d %s", of.Component, of.Member, site.Name)]++
				}
			}
		}
	}
	for span, want := range map[string]int{"rollout 0 generate": 12 * 4, "reward 0 score": 12 * 8,
		"inference 0 infer": 12 * 8, "actor 0 receive": 12,
		"actor 1 train": 12, "rollout 0 evaluate": 3} {
		if spans[span] != want {
			t.Errorf("%d spans of %s, want %d: %v", spans[span], span, want, spans)
		}
	}
}

// TestReasoningKilled: a run, or one of its ranks, is killed by SIGKILL at any instant. After a resume the run ends
// with the metrics of an undisturbed run.
func TestReasoningKilled(t *testing.T) {
	t.Parallel()
	kills, on := 1, []*platform{openmpi}
	if full {
		kills, on = 10, platforms
	}
	t.Run("actors", func(t *testing.T) { reasonKilled(t, kills, on, "actor: 0-1\n    rollout: 1-2\n    reward: 3") })
	if full {
		t.Run("critic", func(t *testing.T) {
			reasonKilled(t, kills, on, "actor: 0-1\n    rollout: 1-2\n    critic: 2-3",
				append([]string{"actor.enable_dp_load_balance=true"}, withCritic...)...)
		})
	}
}

// reasonKilled kills a job with this placement so many times.
func reasonKilled(t *testing.T, kills int, on []*platform, place string, settings ...string) {
	dir := sums(t)
	run := func(on *platform, np int, place, name string, args ...string) *job {
		writeFile(t, dir, name+".yaml", components("%s", place)+reasoning)
		return on.start(t, dir, np,
			append([]string{"-c", name + ".yaml", "runner.logger.experiment_name=" + name, "runner.max_steps=60",
				startWeights},
				append(args, settings...)...)...)
	}
	finish := func(t testing.TB, j *job, name string) metrics {
		t.Helper()
		if r := j.result(); r.code != 0 {
			t.Fatalf("%s: exit code %d\n%s%s", name, r.code, r.stdout, r.stderr)
		}
		return readMetrics(t, filepath.Join(dir, "logs", name))
	}
	want := finish(t, run(local, 0, collocated, "whole"), "whole")
	for _, on := range on {
		t.Run(on.name, func(t *testing.T) {
			on.program(t, ".") // or skip the test
			draw := rand.New(rand.NewPCG(11, uint64(len(on.name))))
			const np = 4
			start := time.Now()
			finish(t, run(on, np, place, "timed"), "timed")
			wall := time.Since(start)
			for kill := range kills {
				name := fmt.Sprint(on.name, kill)
				j := run(on, np, place, name)
				at := time.Duration(draw.Float64() * float64(wall))
				whom := j.killAt(at, draw.IntN(2*np))
				t.Logf("killed %s after %v, in step %d", whom, at.Round(time.Millisecond),
					len(readMetrics(t, filepath.Join(dir, "logs", name)))+1)
				finish(t, run(on, np, place, name, "--resume", "auto"), name).same(t, want)
				verified(t, ".", dir, "logs/"+name)
			}
		})
	}
}
