package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/checkpoint"
	"github.com/rlinf/rlinf/internal/runfolder"
	"github.com/rlinf/rlinf/internal/test"
)

// python returns a Python with NumPy: the Python in PATH, or the system's. It can import the client: see TestMain.
func python(t *testing.T) string {
	t.Helper()
	for _, python := range []string{"python3", "/usr/bin/python3"} {
		if exec.Command(python, "-c", "import numpy").Run() == nil {
			return python
		}
	}
	t.Skip("no python3 with numpy: apt-get install python3-numpy")
	return ""
}

// lastEval returns the last eval/return of a run.
func lastEval(t *testing.T, run string) float64 {
	t.Helper()
	m := readMetrics(t, run)
	got, ok := m[len(m)-1]["eval/return"].(json.Number)
	x, err := got.Float64()
	if !ok || err != nil {
		t.Fatalf("%s: eval/return %v", run, got)
	}
	return x
}

// TestPythonKinds: a policy learns from Python simulators of every kind of observation and action.
func TestPythonKinds(t *testing.T) {
	t.Parallel()
	python := python(t)
	here := test.Must(filepath.Abs("testdata"))(t)
	for kind, more := range map[string][]string{
		"discrete": nil, "dict": nil, "multi_discrete": nil, "box": nil, "masked": nil,
		"image": {"actor.model.model_type=cnn_policy", "actor.model.encoder=nature_cnn", "runner.max_steps=8"},
	} {
		t.Run(kind, func(t *testing.T) {
			dir := t.TempDir()
			local.ok(t, dir, 0,
				append([]string{"-c", filepath.Join(here, "kinds.yaml"), "env.train.external.command=" + python + " " +
					filepath.Join(here, "kinds.py") + " " + kind}, more...)...)
			if got := lastEval(t, filepath.Join(dir, "logs", "kinds")); got < 7 {
				t.Errorf("eval/return %v, want nearly the best, 8; who knows nothing has 4.1 at most", got)
			}
			if kind == "dict" {
				verified(t, ".", dir, "logs/kinds")
			}
		})
	}
}

// tutorial is the page about writing a simulator.
const tutorial = "docs/tutorials/simulator.md"

// TestPythonReadme trains on the simulator in the README, with the YAML of rlinf init. Both languages of the README
// show the same simulator.
func TestPythonReadme(t *testing.T) {
	t.Parallel()
	python := python(t)
	var shown []string
	for _, name := range readmes {
		text := readFile(t, filepath.Join(root, name))
		shown = append(shown, block(t, text, "python", "rlb.serve"))
	}
	if shown[1] != shown[0] {
		t.Errorf("%s shows another simulator than %s", readmes[1], readmes[0])
	}
	dir := t.TempDir()
	writeFile(t, dir, "boat.py", shown[0])
	local.ok(t, dir, 0, "init", "--ranks", "2", "--", python, "boat.py")
	local.ok(t, dir, 0, "-c", "boat.yaml", "runner.max_steps=10",
		"runner.val_check_interval=10")
	if got := lastEval(t, filepath.Join(dir, "logs", "boat")); got < -10 {
		t.Errorf("eval/return %v, want more than -10; a boat that drifts has some -100", got)
	}
}

// TestRobotPage trains the fake robot of docs/robots.md. It learns from a person who takes over.
func TestRobotPage(t *testing.T) {
	t.Parallel()
	python := python(t)
	page, dir := readFile(t, filepath.Join(root, "docs/robots.md")), t.TempDir()
	_, command, _ := strings.Cut(block(t, page, "yaml", "rlb.fake_robot"), "command: python3")
	command, _, _ = strings.Cut(command, "\n")
	writeFile(t, dir, "robot.yaml", block(t, page, "yaml", "rlb.fake_robot"))
	local.ok(t, dir, 0, "-c", "robot.yaml", "runner.max_steps=60", "env.train.external.command="+python+command)
	m := readMetrics(t, filepath.Join(dir, "logs", "robot"))
	acted := 0.0
	for _, x := range m.values(t, "env/intervened_steps") {
		acted += x
	}
	log := readFile(t, filepath.Join(dir, "robot.jsonl"))
	if acted == 0 || !strings.Contains(log, `"intervened": true`) {
		t.Errorf("the person never took over: %v", m[len(m)-1])
	}
}

// TestPythonTutorial trains on the tutorial's simulator, with its Python and its YAML.
func TestPythonTutorial(t *testing.T) {
	t.Parallel()
	python := python(t)
	text := readFile(t, filepath.Join(root, tutorial))
	dir := t.TempDir()
	writeFile(t, dir, "tanks.py", block(t, text, "python", "rlb.serve"))
	writeFile(t, dir, "tanks.yaml", block(t, text, "yaml", "tanks.py"))
	local.ok(t, dir, 0, "-c", "tanks.yaml", "env.train.external.command="+python+" tanks.py", "runner.max_steps=20",
		"runner.val_check_interval=20")
	if got := lastEval(t, filepath.Join(dir, "logs", "tanks")); got < -5 {
		t.Errorf("eval/return %v, want more than -5; a pump at random has -25", got)
	}
}

// TestPolicyInNumPy: the code of docs/safetensors.md computes the actions that a simulator gets in an evaluation.
func TestPolicyInNumPy(t *testing.T) {
	t.Parallel()
	python := python(t)
	text := readFile(t, filepath.Join(root, "docs/safetensors.md"))
	code := block(t, text, "python", "def load") + "\n" + block(t, text, "python", "def policy")
	for _, c := range []struct{ name, space, bound, args string }{
		{"tanh", "rlb.Box(-2, 3, (2,))", "tanh", ", -2, 3, 'tanh'"},
		{"clip", "rlb.Box(-2, 3, (2,))", "clip", ", -2, 3"},
		{"choices", "rlb.Discrete(3)", "", ""}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			writeFile(t, dir, "swing.py", `
import json
import numpy as np, rlb

class Swing:
    observation_space, action_space = rlb.Box(-np.inf, np.inf, (3,)), `+c.space+`

    def reset(self, seed=None):
        self.rng = np.random.default_rng(seed)
        self.obs = self.rng.normal(5, 3, 3).astype(np.float32)
        return self.obs, {}

    def step(self, action):
        with open("played.jsonl", "a") as played:
            played.write(json.dumps([self.obs.tolist(), np.asarray(action).tolist()]) + "\n")
        self.obs = self.rng.normal(5, 3, 3).astype(np.float32)
        return self.obs, float(np.sum(action)), False, False, {}

rlb.serve(Swing, max_steps=8)
`)
			local.ok(t, dir, 0, "init", "--", python, "swing.py")
			var more []string
			if c.bound != "" {
				more = []string{"actor.model.action_bound=" + c.bound}
			}
			local.ok(t, dir, 0, append([]string{"-c", "swing.yaml", "runner.max_steps=3", "runner.val_check_interval=3",
				"runner.save_interval=3"},
				more...)...)
			test.OK(t, os.Remove(filepath.Join(dir, "played.jsonl")))
			local.ok(t, dir, 0, "eval", "-c", "logs/swing/config.yaml")
			writeFile(t, dir, "act.py", code+`
played = [json.loads(line) for line in open("played.jsonl")]
act = policy("logs/swing/checkpoints/latest/model.safetensors"`+c.args+`)
got = act(np.array([obs for obs, action in played]))
assert len(played) >= 64 and np.allclose(got, [action for obs, action in played], atol=1e-4), (got[:3], played[:3])
`)
			cmd := exec.CommandContext(t.Context(), python, "act.py")
			cmd.Dir = dir
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
		})
	}
}

// TestPythonBreaks: if simulators break for good in the last iteration, the job fails, with a checkpoint. An evaluation
// without episodes also fails.
func TestPythonBreaks(t *testing.T) {
	t.Parallel()
	python := python(t)
	dir := t.TempDir()
	writeFile(t, dir, "breaks.py", `
import rlb

class Breaks:
    observation_space, action_space = rlb.Box(-1, 1, (1,)), rlb.Box(-1, 1, (1,))

    def reset(self, seed=None):
        return [0], {}

    def step(self, action):
        raise RuntimeError("the mesh has a hole")

rlb.serve(Breaks, max_steps=8)
`)
	writeFile(t, dir, "breaks.yaml", `
cluster: {component_placement: {"actor,env,rollout": 0}}
runner: {max_steps: 1, val_check_interval: -1, save_interval: -1, logger: {experiment_name: run}}
env: {train: {env_type: external, total_num_envs: 2, max_steps_per_rollout_epoch: 16, external: {command: `+python+
		` breaks.py, max_restarts: 1}}}
actor: {micro_batch_size: 32, global_batch_size: 32, optim: {lr: 1.0e-3}}
`)
	r := local.run(t, dir, 0, "-c", "breaks.yaml")
	run := filepath.Join(dir, "logs", "run")
	if says := "stopping, with a checkpoint"; r.code != 1 || !strings.Contains(r.stderr, says) {
		t.Fatalf("exit code %d, want 1 and %q\n%s%s", r.code, says, r.stdout, r.stderr)
	}
	test.Equal(t, readStatus(t, run), runfolder.Failed, "STATUS")
	if last, err := checkpoint.Load(filepath.Join(run, "checkpoints", "latest")); err != nil || last.Step != 1 {
		t.Errorf("latest checkpoint: %+v, %v", last, err)
	}
	r = local.run(t, dir, 0, "eval", "-c", "breaks.yaml", "+env.eval.total_num_envs=2",
		"+env.eval.max_steps_per_rollout_epoch=8")
	if says := "episodes were lost, because their simulators failed"; r.code != 1 || !strings.Contains(r.stderr, says) {
		t.Errorf("eval: exit code %d, want 1 and %q\n%s%s", r.code, says, r.stdout, r.stderr)
	}
}

// The episode of a simulator that fails leaves its group, and training goes on.
func TestPythonFailsInGroups(t *testing.T) {
	t.Parallel()
	python := python(t)
	dir := t.TempDir()
	writeFile(t, dir, "crash.py", `
import os, rlb

class Crash:
    observation_space, action_space = rlb.Box(-9, 9, (1,)), rlb.Discrete(2)

    def reset(self, seed=None):
        self.last, self.t = 3 + seed % 3, 0
        return [self.last], {}

    def step(self, action):
        self.t += 1
        if self.t == 2 and not os.path.exists("crashed"):
            os.mkdir("crashed")  # fails in all simulators but the first
            os._exit(3)
        return [self.t], float(action), self.t == self.last, False, {}

rlb.serve(Crash)
`)
	writeFile(t, dir, "crash.yaml", `
cluster: {component_placement: {actor: 0-1, env: 0-1, rollout: 0-1}}
runner: {max_steps: 2, val_check_interval: -1, save_interval: -1, logger: {experiment_name: run}}
env: {train: {env_type: external, total_num_envs: 4, max_steps_per_rollout_epoch: 6, auto_reset: false,
  external: {command: `+python+` crash.py, n: 2}}}
algorithm: {adv_type: grpo, loss_type: actor, group_size: 2}
actor: {micro_batch_size: 6, global_batch_size: 12, optim: {lr: 1.0e-3}, model: {add_value_head: false,
  num_action_chunks: 2}}
`)
	r := local.run(t, dir, 2, "-c", "crash.yaml")
	run := filepath.Join(dir, "logs", "run")
	if r.code != 0 || len(readMetrics(t, run)) != 2 || lostEpisodes(t, run) == 0 {
		t.Errorf("exit code %d, %d steps, %v lost episodes\n%s%s", r.code, len(readMetrics(t, run)),
			lostEpisodes(t, run), r.stdout, r.stderr)
	}
}

// block returns the block of code of a page in that language that contains word.
func block(t *testing.T, page, language, word string) string {
	t.Helper()
	for _, code := range test.Blocks(page, language) {
		if strings.Contains(code, word) {
			return code
		}
	}
	t.Fatalf("no %s with %s", language, word)
	return ""
}

// TestTanks trains the example by its script, and draws the result.
func TestTanks(t *testing.T) {
	t.Parallel()
	python := python(t)
	program := local.program(t, ".")
	example := test.Must(filepath.Abs(filepath.Join(root, "examples", "tanks")))(t)
	text := readFile(t, filepath.Join(root, tutorial))
	if code, err := os.ReadFile(filepath.Join(example, "tanks.py")); err != nil ||
		string(code) != block(t, text, "python", "rlb.serve") {
		t.Errorf("tanks.py is not what the tutorial shows (%v)", err)
	}
	dir := t.TempDir()
	variables := []string{"env", "PYTHON=" + python, "RLINF=" + program}
	r := local.startBelow(t, variables, filepath.Join(example, "run"), dir, 0,
		"runner.logger.log_path="+filepath.Join(dir, "logs"), steps(20),
		"runner.save_interval=20", "runner.val_check_interval=20").result()
	if r.code != 0 {
		t.Fatalf("exit code %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "logs", "tanks", "provenance.json")); err != nil ||
		!strings.Contains(string(text), program) {
		t.Errorf("it was not %s, as RLINF says, that trained: %s, %v", program, text, err)
	}
	if got := lastEval(t, filepath.Join(dir, "logs", "tanks")); got < -5 {
		t.Errorf("eval/return %v, want more than -5; a policy that learns nothing has -25", got)
	}
	local.ok(t, dir, 0, "eval", "-c", filepath.Join(example, "tanks.yaml"), "env.eval.total_num_envs=2",
		"env.eval.external.command="+python+" "+filepath.Join(example, "record.py")+" episodes.csv")
	draw := exec.Command(python, filepath.Join(example, "draw.py"), "episodes.csv", "tanks.svg")
	draw.Dir = dir
	if out, err := draw.CombinedOutput(); err != nil {
		t.Fatalf("draw.py: %v\n%s", err, out)
	}
	if picture, err := os.ReadFile(filepath.Join(dir, "tanks.svg")); err != nil || len(picture) < 1000 {
		t.Errorf("tanks.svg: %d bytes, %v", len(picture), err)
	}
}
