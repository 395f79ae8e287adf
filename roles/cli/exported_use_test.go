package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/env/envtest/squares"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/policy/export"
	"github.com/rlinf/rlinf/policy/vla"
	"github.com/rlinf/rlinf/roles/internal/rolestest"
	rolejob "github.com/rlinf/rlinf/roles/job"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/tensor"
)

// TestExportWithPython: an exported policy plays an environment of Gymnasium without rlinf, by rlb.encode and
// rlb.decode, and its return is that of rlinf eval with the same seeds.
func TestExportWithPython(t *testing.T) {
	const python = "/usr/bin/python3"
	if _, err := exec.LookPath("gcc"); err != nil || exec.Command(python, "-c", "import numpy").Run() != nil {
		t.Skip("no gcc, or no python3 with numpy: scripts/setup test")
	}
	clients := test.Must(filepath.Abs("../../clients/python"))(t)
	t.Setenv("PYTHONPATH", clients+":"+clients+"/tests")
	t.Setenv("PYTHONDONTWRITEBYTECODE", "1")
	dir, episodes := t.TempDir(), 5
	job := filepath.Join(dir, "job.yaml")
	test.OK(t, os.WriteFile(job, []byte(exportJob), 0o666))
	command := "env.train.external.command=" + python + " testdata/room.py"
	settings := append(strings.Fields("-c "+job+" env.train.env_type=external actor.model.model_type=cnn_policy "+
		"actor.model.encoder=keypoints env.train.frame_stack=2 actor.optim.lr=1e-2 runner.logger.log_path="+dir+
		" runner.logger.experiment_name=room"), command)
	if code, _, stderr := run(t, settings...); code != loop.ExitOK {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	out, in := filepath.Join(dir, "room"), func(name string) string { return filepath.Join(dir, "policy", name) }
	if code, _, stderr := run(t, "export", out, "--format", "c", "--out", in("")); code != loop.ExitOK {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	code, stdout, stderr := run(t, append([]string{"eval", "--json", "--episodes", strconv.Itoa(episodes)},
		append(settings, "env.eval.max_steps_per_rollout_epoch=6")...)...)
	var want map[string]any
	if err := json.Unmarshal([]byte(stdout), &want); err != nil || code != loop.ExitOK {
		t.Fatalf("exit code %d, %v\n%s%s", code, err, stdout, stderr)
	}
	runProgram(t, nil, "gcc", "-std=c99", "-O1", "-shared", "-fPIC", "-o", in("policy.so"), in("policy.c"), "-lm")
	args := []string{"testdata/room.py", in("policy.so"), in("policy.bin")}
	for _, seed := range env.NewSeeder(rolestest.EnvConfig("", 1), env.Eval, 0, episodes).Next() {
		args = append(args, strconv.FormatUint(seed, 10))
	}
	text := runProgram(t, nil, python, args...)
	got, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	expected, _ := want["eval/return"].(float64)
	if err != nil || !(math.Abs(got-expected) <= 1e-3*math.Abs(expected)) || expected == 0 {
		t.Errorf("return %s, rlinf eval says %v", text, want["eval/return"])
	}
}

// TestExportedValue: the value has the scale of the rewards before normalisation. Without a trained critic there is no
// value.
func TestExportedValue(t *testing.T) {
	reg, dir := exportRegistries(), t.TempDir()
	job := filepath.Join(dir, "job.yaml")
	test.OK(t, os.WriteFile(job, []byte(exportJob), 0o666))
	// exported returns the checkpoint, its policy, and the output value in policy.json and policy_test.json.
	exported := func(name, overrides string) (string, *export.TrainedPolicy, export.Binding, []any) {
		run, out := filepath.Join(dir, name), filepath.Join(dir, name+".out")
		args := strings.Fields("-c " + job + " env.train.env_type=Numbers-v0 runner.logger.log_path=" + dir +
			" runner.logger.experiment_name=" + name + " " + overrides)
		if code, _, errs := runWith(t, reg, args...); code != loop.ExitOK {
			t.Fatalf("%s: exit code %d\n%s", name, code, errs)
		}
		if code, _, errs := runWith(t, reg, "export", run, "--format", "c", "--out", out); code != loop.ExitOK {
			t.Fatalf("%s: exit code %d\n%s", name, code, errs)
		}
		from, cfg, err := openTrained(reg, run)
		test.OK(t, err)
		var about export.Manifest
		var vector export.Vector
		test.OK(t, errors.Join(
			json.Unmarshal(test.Must(os.ReadFile(filepath.Join(out, "policy.json")))(t), &about),
			json.Unmarshal(test.Must(os.ReadFile(filepath.Join(out, "policy_test.json")))(t), &vector)))
		var value export.Binding
		if at := slices.IndexFunc(about.Outputs, func(b export.Binding) bool { return b.Name == "value" }); at >= 0 {
			value = about.Outputs[at]
		}
		return from.Dir, test.Must(loadPolicy(reg, from, cfg))(t), value, vector.Outputs["value"]
	}
	checkpoint, p, about, values := exported("scaled", "algorithm.normalize_rewards=true")
	f := test.Must(rolejob.OpenTensors(filepath.Join(checkpoint, "trainer.safetensors")))(t)
	defer f.Close()
	m := test.Must(f.Small(64))(t).Must("reward.moments").F64() // count, mean, sum of squared differences
	p.ValueScale = 0
	plain, raw := filepath.Join(dir, "plain"), export.Vector{}
	test.OK(t, os.Mkdir(plain, 0o777))
	test.Must(p.WriteC(plain))(t)
	test.OK(t, json.Unmarshal(test.Must(os.ReadFile(filepath.Join(plain, "policy_test.json")))(t), &raw))
	for i, v := range raw.Outputs["value"] {
		want := v.(float64) * math.Sqrt(m[2]/m[0])
		if got := values[i].(float64); !(math.Abs(got-want) <= 1e-4*math.Abs(want)) || m[2]/m[0] == 1 || want == 0 {
			t.Errorf("value %v, want %v times the deviation of %v", got, v, m)
		}
	}
	if !strings.HasPrefix(about.Note, "discounted return of the rewards") {
		t.Errorf("note %q", about.Note)
	}
	if _, p, _, _ := exported("given", ""); p.ValueScale != 0 || p.NoValue {
		t.Errorf("rewards as given: scale %v, no value: %v", p.ValueScale, p.NoValue)
	}
	_, _, about, values = exported("without", "algorithm.adv_type=reinpp algorithm.loss_type=actor "+
		"env.train.auto_reset=false")
	if values != nil || about.Name != "" {
		t.Errorf("without a trained critic: %v, %v", about, values)
	}
}

// TestExportRefuses: a request that cannot be met is an error that says where, what was found and what is valid. No
// files are left.
func TestExportRefuses(t *testing.T) {
	reg, dir := exportRegistries(), t.TempDir()
	reg.Policies.Add("foreign_policy", policy.NewMLP)
	job := filepath.Join(dir, "job.yaml")
	test.OK(t, os.WriteFile(job, []byte(exportJob), 0o666))
	train := func(name, overrides string) string {
		args := strings.Fields("-c " + job + " runner.logger.log_path=" + dir + " runner.logger.experiment_name=" +
			name +
			" runner.max_steps=1 runner.save_interval=1 " + overrides)
		if code, _, stderr := runWith(t, reg, args...); code != loop.ExitOK {
			t.Fatalf("%s: exit code %d\n%s", name, code, stderr)
		}
		return filepath.Join(dir, name)
	}
	plain := train("plain", "env.train.env_type=Numbers-v0")
	sde := train("sde", "env.train.env_type=Numbers-v0 actor.model.use_sde=true")
	dqn := train("dqn", strings.Replace(offPolicy, "Numbers", "Masked", 1)+
		" algorithm.adv_type=embodied_dqn algorithm.loss_type=embodied_dqn")
	foreign := train("foreign", "env.train.env_type=CartPole-v1 actor.model.model_type=foreign_policy")
	damaged := train("damaged", "env.train.env_type=Numbers-v0")
	test.OK(t, os.Truncate(filepath.Join(damaged, "checkpoints", "latest", "model.safetensors"), 100))
	full := filepath.Join(dir, "full")
	test.OK(t, os.MkdirAll(full, 0o777))
	test.OK(t, os.WriteFile(filepath.Join(full, "mine"), nil, 0o666))
	out := filepath.Join(dir, "out")
	for _, c := range []struct{ args, want string }{
		{plain + " --out " + out, "--format not given: expected onnx or c"},
		{plain + " --format torch --out " + out, "--format torch: expected onnx or c"},
		{plain + " --format c", "expected --out FOLDER"},
		{plain + " --format c --out " + full, "--out " + full + ": expected a folder without files"},
		{plain + " --format c --out " + full + "/mine", "expected a folder without files"},
		{plain + " --format c --note speed --out " + out, "--note speed: expected NAME=TEXT"},
		{plain + " --format c --note speed=fast --out " + out, "--note speed: no such input or output: expected one " +
			"of action, bytes, state, value"},
		{plain + " --format c --note speed=very,fast --out " + out, "--note speed: no such input or output"},
		{plain + " --format c --dtype bf16 --out " + out, "--dtype: expected a language model"},
		{sde + " --format c --sample --out " + out, "--sample: use_sde keeps its noise over steps"},
		{dqn + " --format onnx --sample --out " + out, "--sample: the noise of a policy with add_q_head follows a " +
			"schedule"},
		{damaged + " --format c --out " + out, "model.safetensors: 100 bytes"},
		{dir + "/nothing --format c --out " + out, "no such file or directory"},
	} {
		code, _, stderr := runWith(t, reg, append([]string{"export"}, strings.Fields(c.args)...)...)
		if code != loop.ExitConfig || !strings.Contains(stderr, c.want) {
			t.Errorf("%s: exit code %d, %q, want %d and %q", c.args, code, stderr, loop.ExitConfig, c.want)
		}
		if _, err := os.Stat(out); err == nil {
			t.Fatalf("%s: %s is there", c.args, out)
		}
	}
	code, _, stderr := run(t, "export", foreign, "--format", "c", "--out", out) // a program without foreign_policy
	if want := `model_type: "foreign_policy": expected one of mlp_policy`; code != loop.ExitConfig ||
		!strings.Contains(stderr, want) {
		t.Errorf("exit code %d, %q", code, stderr)
	}
}

// TestExportedChecks: an exported policy in C refuses damaged weights and bad observations.
func TestExportedChecks(t *testing.T) {
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("no gcc: scripts/setup test")
	}
	reg, dir := exportRegistries(), t.TempDir()
	job, out := filepath.Join(dir, "job.yaml"), filepath.Join(dir, "out")
	test.OK(t, os.WriteFile(job, []byte(exportJob), 0o666))
	args := strings.Fields("-c " + job + " env.train.env_type=Choices-v0 runner.max_steps=1 runner.save_interval=1 " +
		"runner.logger.experiment_name=run runner.logger.log_path=" + dir)
	if code, _, stderr := runWith(t, reg, args...); code != loop.ExitOK {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	if code, _, stderr := runWith(t, reg, "export", dir+"/run", "--format", "c", "--out", out); code != loop.ExitOK {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	const program = `
#include "policy.h"
#include <math.h>
#include <stdio.h>
int main(int argc, char **argv)
{
	static policy_state s;
	policy *p;
	float state[4] = {1, 2, 3, 4};
	int32_t words[3] = {0, 1, 3}, action[2];
	uint8_t mask[6] = {1, 0, 0, 0, 1, 0};
	int code = policy_open(&p, argv[argc - 1]);
	printf("%d", code);
	if (code)
		return 0;
	printf(" %d", policy_act(p, &s, state, words, mask, action));
	printf(" %d %d", action[0], action[1]);
	mask[4] = 0;
	printf(" %d", policy_act(p, &s, state, words, mask, action));
	mask[4] = 1;
	words[1] = 4;
	printf(" %d", policy_act(p, &s, state, words, mask, action));
	words[1] = 0;
	state[2] = NAN;
	printf(" %d", policy_act(p, &s, state, words, mask, action));
	policy_close(p);
	return 0;
}
`
	in := func(name string) string { return filepath.Join(out, name) }
	test.OK(t, os.WriteFile(in("main.c"), []byte(program), 0o666))
	runProgram(t, nil, "gcc", "-std=c99", "-o", in("main"), in("main.c"), in("policy.c"), "-lm")
	weights := test.Must(os.ReadFile(in("policy.bin")))(t)
	changed := append([]byte{}, weights...)
	changed[len(changed)/2] ^= 1
	for name, content := range map[string][]byte{"short": weights[:len(weights)-4], "long": append(weights, 0),
		"changed": changed, "empty": {}} {
		test.OK(t, os.WriteFile(in(name), content, 0o666))
	}
	for file, want := range map[string]string{
		"policy.bin": "0 0 0 2 6 5 4", "short": "2", "long": "2", "changed": "2", "empty": "2", "none": "1",
	} {
		if got := runProgram(t, nil, in("main"), in(file)); got != want {
			t.Errorf("%s: %s, want %s", file, got, want)
		}
	}
}

// TestExportRefusesVLA: a policy that sees, reads and acts is refused, and the error says what plays it.
func TestExportRefusesVLA(t *testing.T) {
	vec := test.Must(squares.New(rolestest.EnvConfig("Squares-v0", 1), 1))(t)
	cfg, own := policy.DefaultConfig(), vla.Defaults()
	cfg.ModelType, cfg.LogProbType, cfg.Blank = "vla_policy", "token_level", true
	own.HiddenSize, own.Intermediate, own.NumLayers, own.NumHeads, own.ActionBins, own.VisionWidth = 32, 64, 2, 2, 9, 16
	pol := test.Must(vla.New(cfg, own, vec.Spec(), 1, tensor.Heap))(t)
	p := &export.TrainedPolicy{Policy: pol, Spec: vec.Spec()}
	if _, err := p.WriteONNX(t.TempDir()); err == nil || !strings.Contains(err.Error(), "rlinf eval plays it") {
		t.Errorf("%v", err)
	}
}

// TestExportedReturns: an exported policy in C, which is asked in each step of the simulator, has the returns of rlinf
// eval. The pipe carries the observations of all environments, and then their actions.
func TestExportedReturns(t *testing.T) {
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("no gcc: scripts/setup test")
	}
	const program = `
#include "policy.h"
#include <stdio.h>
int main(int argc, char **argv)
{
	static policy_state s[ENVS];
	static float x[ENVS][LEN];
	static TYPE a[ENVS][POLICY_ACTIONS];
	policy *p;
	if (policy_open(&p, argv[argc - 1]))
		return 1;
	while (fread(x, sizeof x, 1, stdin) == 1) {
		for (int i = 0; i < ENVS; i++)
			if (policy_act(p, &s[i], x[i], a[i]))
				return 1;
		fwrite(a, sizeof a, 1, stdout);
		fflush(stdout);
	}
	return 0;
}
`
	const envs = 6
	for name, overrides := range map[string]string{
		"CartPole-v1": "",
		"Pendulum-v1": "env.train.action_repeat=2 actor.model.num_action_chunks=3 env.train.frame_stack=2 " +
			"env.train.max_episode_steps=50",
	} {
		reg, dir := rolestest.Registries(), t.TempDir()
		job, in := filepath.Join(dir, "job.yaml"), func(name string) string { return filepath.Join(dir, "out", name) }
		test.OK(t, os.WriteFile(job, []byte(exportJob), 0o666))
		settings := strings.Fields("-c " + job + " env.train.env_type=" + name + " runner.logger.log_path=" + dir +
			" runner.logger.experiment_name=run " + overrides)
		if code, _, stderr := run(t, settings...); code != loop.ExitOK {
			t.Fatalf("exit code %d\n%s", code, stderr)
		}
		if code, _, stderr := run(t, "export", dir+"/run", "--format", "c", "--out", in("")); code != loop.ExitOK {
			t.Fatalf("exit code %d\n%s", code, stderr)
		}
		_, stdout, stderr := run(t, append([]string{"eval", "--json", "--episodes", strconv.Itoa(envs)},
			settings...)...)
		var want map[string]any
		if err := json.Unmarshal([]byte(stdout), &want); err != nil {
			t.Fatalf("%v\n%s%s", err, stdout, stderr)
		}
		_, cfg, err := openTrained(reg, dir+"/run")
		test.OK(t, err)
		e, _, err := reg.EvalEnv(cfg)
		test.OK(t, err)
		plain := e
		plain.FrameStack, plain.ActionRepeat = 1, 1
		vec := test.Must(reg.Envs.New(plain, envs))(t)
		kind := map[env.Kind]string{env.Box: "float", env.Discrete: "int32_t"}[vec.Spec().Action.Kind]
		test.OK(t, os.WriteFile(in("main.c"), []byte(program), 0o666))
		runProgram(t, nil, "gcc", "-std=c99", fmt.Sprint("-DENVS=", envs), "-DTYPE="+kind,
			fmt.Sprint("-DLEN=", vec.Spec().Obs[0].Dim()), "-o", in("main"), in("main.c"), in("policy.c"), "-lm")
		cmd := exec.CommandContext(t.Context(), in("main"), in("policy.bin"))
		to := test.Must(cmd.StdinPipe())(t)
		from := test.Must(cmd.StdoutPipe())(t)
		test.OK(t, cmd.Start())
		out, sum := vec.Spec().NewStep(envs, 1), 0.
		test.OK(t, vec.Reset(nil, env.NewSeeder(e, env.Eval, 0, envs).Next(), out))
		var action tensor.Dict
		action.Set("action", tensor.New(vec.Spec().Action.DType, envs, 1, vec.Spec().Action.Dim()))
		for range vec.Spec().MaxSteps {
			test.Must(to.Write(out.Obs.Must(vec.Spec().Obs[0].Name).Bytes()))(t)
			test.Must(io.ReadFull(from, action.Must("action").Bytes()))(t)
			test.OK(t, vec.Step(action, nil, out))
			for _, r := range out.Reward.F32() {
				sum += float64(r) / envs
			}
		}
		test.OK(t, to.Close())
		test.OK(t, cmd.Wait())
		expected, tolerance := want["eval/return"].(float64), 1e-9
		if kind == "float" {
			tolerance = 1e-3 * math.Abs(expected)
		}
		if !(math.Abs(sum-expected) <= tolerance) {
			t.Errorf("%s: return %v, rlinf eval says %v", name, sum, expected)
		}
	}
}
