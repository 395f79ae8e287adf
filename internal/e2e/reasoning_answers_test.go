package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/checkpoint"
	"github.com/rlinf/rlinf/internal/test"
)

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
