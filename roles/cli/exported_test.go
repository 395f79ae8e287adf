package cli

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/philox"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/policy/export"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/internal/rolestest"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/tensor"
)

// exportCases are overrides of exportJob, a trained policy of each kind that can be exported.
var exportCases = []struct{ name, overrides, flags string }{
	{"gaussian", "env.train.env_type=Numbers-v0", ""},
	{"gaussian_drawn", "env.train.env_type=Numbers-v0 actor.model.num_action_chunks=2", "--sample"},
	{"deviations", "env.train.env_type=Numbers-v0 env.train.frame_stack=3 env.train.state_elements=[3,0] " +
		"actor.model.action_bound=tanh actor.model.independent_std=false", ""},
	{"deviations_drawn", "env.train.env_type=Numbers-v0 actor.model.action_bound=tanh " +
		"actor.model.independent_std=false", "--sample"},
	{"scaled", "env.train.env_type=Numbers-v0 algorithm.normalize_rewards=true", ""},
	{"without_value", "env.train.env_type=Choices-v0 algorithm.adv_type=reinpp algorithm.loss_type=actor " +
		"env.train.auto_reset=false", ""},
	{"sde", "env.train.env_type=Numbers-v0 actor.model.use_sde=true", ""},
	{"choices", "env.train.env_type=Choices-v0 env.train.frame_stack=2", ""},
	{"choices_drawn", "env.train.env_type=Choices-v0", "--sample"},
	{"chunks", "env.train.env_type=Choices-v0 actor.model.num_action_chunks=3 actor.model.share_trunk=true", ""},
	{"discrete", "env.train.env_type=CartPole-v1 env.train.max_episode_steps=9", ""},
	{"gru", "env.train.env_type=Numbers-v0 actor.model.model_type=rnn_policy actor.model.rnn_hidden_size=7 " +
		"actor.model.share_trunk=true algorithm.sequence_length=4", ""},
	{"lstm", "env.train.env_type=Choices-v0 actor.model.model_type=rnn_policy actor.model.rnn_type=lstm " +
		"actor.model.rnn_hidden_size=5 actor.model.share_trunk=true env.train.frame_stack=2 " +
		"algorithm.sequence_length=4", ""},
	{"nature", "env.train.env_type=Pictures-v0 actor.model.model_type=cnn_policy " +
		"actor.optim.lr=1e-3", ""},
	{"impala", "env.train.env_type=Icons-v0 actor.model.model_type=cnn_policy actor.model.encoder=impala " +
		"env.train.frame_stack=2 actor.model.share_trunk=true " +
		"actor.optim.lr=1e-3", ""},
	{"keypoints", "env.train.env_type=Pictures-v0 actor.model.model_type=cnn_policy actor.model.encoder=keypoints " +
		"actor.optim.lr=1e-3", ""},
	{"own", "env.train.env_type=Pictures-v0 actor.model.model_type=own_policy " +
		"algorithm.sequence_length=4", ""},
	{"soft", offPolicy + " algorithm.adv_type=embodied_sac algorithm.loss_type=embodied_sac", ""},
	{"soft_drawn", offPolicy + " algorithm.adv_type=embodied_sac algorithm.loss_type=embodied_sac " +
		"actor.model.num_action_chunks=2", "--sample"},
	{"deterministic", offPolicy + " algorithm.adv_type=embodied_td3 algorithm.loss_type=embodied_td3 " +
		"actor.model.exploration_noise=0.3", ""},
	{"noisy_drawn", offPolicy + " algorithm.adv_type=embodied_td3 algorithm.loss_type=embodied_td3 " +
		"actor.model.exploration_noise=0.3", "--sample"},
	{"crossq", offPolicy + " algorithm.adv_type=embodied_crossq algorithm.loss_type=embodied_crossq " +
		"actor.model.q_head_type=crossq", ""},
	{"seeing", strings.Replace(offPolicy, "Numbers", "Pictures", 1) + " algorithm.adv_type=embodied_sac " +
		"algorithm.loss_type=embodied_sac actor.model.model_type=cnn_policy actor.model.encoder=keypoints " +
		"actor.model.layer_norm=true actor.enable_drq=true", ""},
	{"values", strings.Replace(offPolicy, "Numbers", "Masked", 1) + " algorithm.adv_type=embodied_dqn " +
		"algorithm.loss_type=embodied_dqn", ""},
}

const offPolicy = "env.train.env_type=Numbers-v0 actor.model.add_q_head=true " +
	"actor.model.normalize_observations=false " +
	"algorithm.replay_buffer.min_buffer_size=1 algorithm.replay_buffer.sample_window_size=4"

const exportJob = `
cluster: {component_placement: {"actor,env,rollout": 0}}
env: {train: {total_num_envs: 4, max_steps_per_rollout_epoch: 12}}
algorithm: {gamma: 0.9, gae_lambda: 0.95, update_epoch: 2}
actor:
  micro_batch_size: 8
  global_batch_size: 8
  model: {hidden_sizes: [9, 8], normalize_observations: true}
  optim: {lr: 3.0e-2}
runner: {max_steps: 2, save_interval: 2}
`

// An exportedCase is a policy and the folder of its export.
type exportedCase struct {
	name, dir string
	policy    *export.TrainedPolicy
}

// exportAll trains all cases and exports them in all formats. It adds a vector of a replay to each folder:
// replay_test.json.
func exportAll(t *testing.T) (all []exportedCase) {
	t.Helper()
	reg, dir := exportRegistries(), t.TempDir()
	job := filepath.Join(dir, "job.yaml")
	test.OK(t, os.WriteFile(job, []byte(exportJob), 0o666))
	for _, c := range exportCases {
		run, out := filepath.Join(dir, c.name), filepath.Join(dir, c.name+".out")
		args := strings.Fields("-c " + job + " runner.logger.log_path=" + dir + " runner.logger.experiment_name=" +
			c.name + " " + c.overrides)
		if code, _, stderr := runWith(t, reg, args...); code != loop.ExitOK {
			t.Fatalf("%s: exit code %d\n%s", c.name, code, stderr)
		}
		args = append(strings.Fields("export "+run+" --format onnx --out "+out), strings.Fields(c.flags)...)
		if code, _, stderr := runWith(t, reg, args...); code != loop.ExitOK {
			t.Fatalf("%s: exit code %d\n%s", c.name, code, stderr)
		}
		from, cfg, err := openTrained(reg, run)
		test.OK(t, err)
		p := test.Must(loadPolicy(reg, from, cfg))(t)
		p.Sample = c.flags != ""
		test.Must(p.WriteC(out))(t)
		replay(t, reg, p, out)
		all = append(all, exportedCase{c.name, out, p})
	}
	return all
}

// A tap remembers the observations of the simulator, which the wrappers around it change.
type tap struct {
	env.Vec
	last tensor.Dict
}

func (v *tap) keep(out *env.Step) {
	v.last = tensor.Dict{}
	for i := range out.Obs.Len() {
		name, x := out.Obs.Entry(i)
		v.last.Set(name, x.Clone())
	}
}

func (v *tap) Reset(mask []bool, seeds []uint64, out *env.Step) error {
	defer v.keep(out)
	return v.Vec.Reset(mask, seeds, out)
}

func (v *tap) Step(action tensor.Dict, seeds []uint64, out *env.Step) error {
	defer v.keep(out)
	return v.Vec.Step(action, seeds, out)
}

// replay lets the policy play, and writes what it has seen and done.
func replay(t *testing.T, reg config.Registries, p *export.TrainedPolicy, dir string) {
	t.Helper()
	const steps = 40
	plain := p.Env
	plain.StateElements, plain.FrameStack, plain.ActionRepeat = nil, 1, 1
	raw := test.Must(reg.Envs.New(plain, 1))(t)
	seen := &tap{Vec: raw}
	vec := env.Wrap(seen, p.Env)
	player := test.Must(p.NewPlayer())(t)
	v := export.NewVector()
	chunks, begins := 1, true
	for step := range uint64(steps) {
		out := vec.Spec().NewStep(1, chunks)
		if step == 0 {
			test.OK(t, vec.Reset(nil, []uint64{3}, out))
		} else {
			var action tensor.Dict
			action.Set("action", player.Action())
			test.OK(t, vec.Step(action, []uint64{step}, out))
			_, begins = out.Took(0)
		}
		test.OK(t, player.Step(v, seen.last, out.Obs, begins))
		chunks = player.Action().Dim(1)
	}
	actions := v.Outputs["action"]
	if !slices.ContainsFunc(actions, func(x any) bool { return x != actions[0] }) {
		t.Fatalf("%s: all actions are %v", dir, actions[0])
	}
	text := test.Must(json.Marshal(v))(t)
	test.OK(t, os.WriteFile(filepath.Join(dir, "replay_test.json"), text, 0o666))
}

// exportRegistries returns the built-in parts, environments with all kinds of observations, and a policy with layers of
// its own.
func exportRegistries() config.Registries {
	reg := rolestest.Registries()
	box := func(dtype tensor.DType, low, high float32, shape ...int) env.Space {
		s := env.Space{Kind: env.Box, DType: dtype, Shape: shape}
		for range s.Dim() {
			s.Low, s.High = append(s.Low, low), append(s.High, high)
		}
		return s
	}
	number := env.Field{Name: "state", Space: box(tensor.F32, -50, 50, 4)}
	word := env.Field{Name: "words", Space: env.Space{Kind: env.MultiDiscrete, DType: tensor.I32, Shape: []int{3},
		Nvec: []int{4, 4, 4}}}
	hand := env.Space{Kind: env.Box, DType: tensor.F32, Shape: []int{2}, Low: []float32{-1, 0}, High: []float32{2, 5}}
	mask := func(n int) env.Field { return env.Field{Name: env.ActionMask, Space: box(tensor.U8, 0, 1, n)} }
	add := func(name string, action env.Space, obs ...env.Field) {
		spec := env.Spec{Name: name, Obs: obs, Action: action, MaxSteps: 7}
		reg.Envs.Add(name, func(cfg env.Config, n int) (env.Vec, error) {
			return env.NewEpisodic(&sights{spec, make([]uint64, n), make([]uint64, n)}, cfg), nil
		})
	}
	add("Numbers-v0", hand, env.Field{Name: "bytes", Space: box(tensor.U8, 3, 90, 3)}, number)
	add("Choices-v0", env.Space{Kind: env.MultiDiscrete, DType: tensor.I32, Shape: []int{2}, Nvec: []int{2, 4}}, number,
		word, mask(6))
	add("Masked-v0", env.Space{Kind: env.Discrete, DType: tensor.I32, Shape: []int{1}, Nvec: []int{5}}, number, word,
		mask(5))
	add("Pictures-v0", hand, env.Field{Name: "front", Space: box(tensor.U8, 0, 255, 36, 37, 2)}, word, number)
	add("Icons-v0", hand, env.Field{Name: "icon", Space: box(tensor.U8, 0, 255, 9, 8, 3)})
	reg.Policies.Add("own_policy", func(cfg policy.Config, spec env.Spec, seed uint64, alloc tensor.Allocator) (
		policy.Policy, error) {
		relu := nn.Activate(nn.ReLU)
		conv := nn.Sequence(nn.Input("front"), nn.Conv(3, 3, 4, 1), nn.FiLM(nn.Sentence("words", 4)), relu,
			nn.Coordinates())
		own := nn.Sequence(nn.Concat(nn.Sequence(conv, nn.Concat(nn.Sequence(nn.MaxPool(), nn.Dense(4)),
			nn.SpatialSoftmax(2), nn.Point("words", 1))), nn.Embed("words", 2), nn.Input("state")), nn.Norm(),
			nn.Dense(6), nn.Residual(nn.Dense(6), relu), nn.LSTM(3), nn.GRU(4))
		return policy.NewWithEncoder(cfg, spec, own, seed, alloc)
	})
	return reg
}

// sights are environments that show random observations of all kinds.
type sights struct {
	spec  env.Spec
	seeds []uint64
	steps []uint64
}

func (s *sights) Spec() env.Spec { return s.spec }
func (s *sights) Len() int       { return len(s.seeds) }
func (s *sights) Close() error   { return nil }

func (s *sights) Reset(n int, seed uint64) error {
	s.seeds[n], s.steps[n] = seed, 0
	return nil
}

func (s *sights) Step(action tensor.Tensor, turn []env.Turn, reward []float32, terminated []byte, _ []float32) error {
	for n := range turn {
		if turn[n] != env.Idle {
			s.steps[n]++
			reward[n], terminated[n] = float32(s.steps[n]%3), 0
		}
	}
	return nil
}

func (s *sights) Observe(mask []bool, obs tensor.Dict) {
	for n, seed := range s.seeds {
		if mask != nil && !mask[n] {
			continue
		}
		for i, f := range s.spec.Obs {
			r := philox.New(seed, philox.Reset, uint64(i), s.steps[n])
			x, dim := obs.Must(f.Name), f.Dim()
			for k := n * dim; k < (n+1)*dim; k++ {
				low, high := f.Range(k % dim)
				switch u := r.Float64(); f.DType {
				case tensor.F32:
					x.F32()[k] = float32(10*float64(k%dim) + 3*u)
				case tensor.I32:
					x.I32()[k] = int32(low + u*(high-low+1))
				default:
					x.U8()[k] = byte(low + u*(high-low+1))
					if f.Name == "front" && k%2 == 1 { // a channel that hardly changes
						x.U8()[k] = 200 + byte(2*u)
					}
				}
			}
			if f.Name == env.ActionMask {
				for at, options := n*dim, s.spec.Action.Nvec; len(options) > 0; options = options[1:] {
					x.U8()[at+int(s.steps[n])%options[0]] = 1
					at += options[0]
				}
			}
		}
	}
}

// TestExport: in each format, the export of each kind of policy computes what the policy computes.
func TestExport(t *testing.T) {
	cases := exportAll(t)
	t.Run("ONNX", func(t *testing.T) { checkWithRuntime(t, cases) })
	t.Run("C", func(t *testing.T) { checkCompiled(t, cases) })
}

// checkWithRuntime compares the ONNX files with the policies, by ONNX Runtime.
func checkWithRuntime(t *testing.T, cases []exportedCase) {
	modules := test.NodeModules("onnxruntime-node")
	if modules == "" {
		t.Skip("no onnxruntime-node: scripts/setup test")
	}
	args := []string{"testdata/onnx.js"}
	for _, c := range cases {
		args = append(args, c.dir)
	}
	out := runProgram(t, []string{"NODE_PATH=" + modules}, "node", args...)
	vectors := 0
	for line := range strings.Lines(out) {
		var got struct {
			Folder, File  string
			Action, Value float64
			Choices       int
		}
		test.OK(t, json.Unmarshal([]byte(line), &got))
		if vectors++; got.Action > 1e-5 || got.Value > 1e-5 || got.Choices > 0 {
			t.Errorf("%s", line)
		}
		t.Logf("%s %s: action %.1e, value %.1e", filepath.Base(got.Folder), got.File, got.Action, got.Value)
	}
	checkONNX(t, cases)
	if vectors != 2*len(exportCases) {
		t.Errorf("%d vectors compared, want %d", vectors, 2*len(exportCases))
	}
}

// checkCompiled compares the exports in C and Fortran with the policies. C must not allocate memory.
func checkCompiled(t *testing.T, cases []exportedCase) {
	compilers := [][]string{
		{"gcc", "-O2"}, {"clang", "-O1", sanitize}, {"gfortran"},
		{"gcc", "-O1", sanitize}, {"clang", "-O2"},
	}
	for _, c := range compilers {
		if _, err := exec.LookPath(c[0]); err != nil {
			t.Skipf("no %s: scripts/setup test", c[0])
		}
	}
	for i, c := range cases {
		for k, with := range compilers {
			if os.Getenv("RLINF_TEST_FULL") == "" && (i+k)%len(compilers) != 0 {
				continue
			}
			out := playCompiled(t, c, with)
			var action, value float64
			var choices, allocations int
			if _, err := fmt.Sscan(out, &action, &value, &choices, &allocations); err != nil {
				t.Fatalf("%s: %v: %s", c.name, err, out)
			}
			t.Log(c.name, with, out)
			if action > 1e-5 || value > 1e-5 || choices > 0 || allocations > 0 {
				t.Errorf("%s: %v: %s", c.name, with, out)
			}
		}
	}
}

// writeVectors writes the vectors of an export for programs without JSON: the number of steps, then for each step
// whether an episode begins, the inputs of policy_act, the actions and the value. It returns the types and lengths of
// these arrays.
func writeVectors(t *testing.T, c exportedCase) (types []string, lengths []int) {
	t.Helper()
	var about export.Manifest
	text := test.Must(os.ReadFile(filepath.Join(c.dir, "policy.json")))(t)
	test.OK(t, json.Unmarshal(text, &about))
	var raw []byte
	steps, rows := 0, []byte{}
	for _, file := range []string{"policy_test.json", "replay_test.json"} {
		var v export.Vector
		text := test.Must(os.ReadFile(filepath.Join(c.dir, file)))(t)
		test.OK(t, json.Unmarshal(text, &v))
		steps += v.Steps
		types, lengths = nil, nil
		for step := range v.Steps {
			begins := int32(0)
			if b, ok := v.Inputs["begin"]; step == 0 || ok && b[step] == true {
				begins = 1
			}
			rows = binary.LittleEndian.AppendUint32(rows, uint32(begins))
			for _, list := range []struct {
				bindings []export.Binding
				values   map[string][]any
			}{{about.Inputs, v.Inputs}, {about.Outputs, v.Outputs}} {
				for _, b := range list.bindings {
					all, ok := list.values[b.Name]
					if !ok || b.Name == "begin" {
						continue
					}
					n := len(all) / v.Steps
					if step == 0 {
						types, lengths = append(types, b.Type), append(lengths, n)
					}
					for _, x := range all[step*n : (step+1)*n] {
						switch x := x.(float64); b.Type {
						case "float32":
							rows = binary.LittleEndian.AppendUint32(rows, math.Float32bits(float32(x)))
						case "int32":
							rows = binary.LittleEndian.AppendUint32(rows, uint32(int32(x)))
						default:
							rows = append(rows, byte(x))
						}
					}
				}
			}
		}
	}
	raw = append(binary.LittleEndian.AppendUint32(raw, uint32(steps)), rows...)
	test.OK(t, os.WriteFile(filepath.Join(c.dir, "vectors.bin"), raw, 0o666))
	return types, lengths
}

// playCompiled compiles an export with a program that plays its vectors, and returns the output: the largest
// differences of actions in parts of the half-range and of values, the number of wrong choices, and the number of
// allocations.
func playCompiled(t *testing.T, c exportedCase, compiler []string) string {
	t.Helper()
	types, lengths := writeVectors(t, c)
	fortran := compiler[0] == "gfortran"
	kinds := map[string]string{"float32": "float", "int32": "int32_t", "uint8": "uint8_t"}
	declare, read := "static %[1]s in%[2]d[%[3]d];\n", "\t\tget(f, in%[1]d, sizeof in%[1]d);\n"
	file, words := "play.c", map[string]string{"@CRITIC": "", "@DISCRETE": ".false."}
	if fortran {
		kinds = map[string]string{"float32": "real(c_float)", "int32": "integer(c_int32_t)",
			"uint8": "integer(c_int8_t)"}
		declare, read, file = "    %[1]s :: in%[2]d(%[3]d)\n", "        read (f) in%d\n", "play.f90"
	}
	inputs := len(types) - 1
	if hasCritic(c) {
		inputs--
		words["@CRITIC"] = "        call check(policy_value(p, s, critic))\n" +
			"        off = max(off, maxval(abs(real(critic, 8) - value)/max(1d0, real(abs(value), 8))))\n"
	}
	for i := range inputs {
		words["@DECLARE"] += fmt.Sprintf(declare, kinds[types[i]], i, lengths[i])
		words["@READ"] += fmt.Sprintf(read, i)
		words["@PASS"] += fmt.Sprintf("in%d, ", i)
	}
	if words["@KIND"] = kinds[types[inputs]]; types[inputs] == "int32" {
		words["@DISCRETE"] = ".true."
	}
	halves := []string{}
	for k := range c.policy.Spec.Action.Dim() {
		low, high := c.policy.Spec.Action.Range(k)
		halves = append(halves, fmt.Sprintf("%.6f", (high-low)/2))
	}
	words["@HALVES"] = strings.Join(halves, ", ")
	program := test.Must(os.ReadFile("testdata/" + file))(t)
	for word, text := range words {
		program = bytes.ReplaceAll(program, []byte(word), []byte(text))
	}
	in := func(name string) string { return filepath.Join(c.dir, name) }
	test.OK(t, os.WriteFile(in(file), program, 0o666))
	flags := append(slices.Clone(compiler[1:]), "-o", in("play"))
	if fortran {
		runProgram(t, nil, "gcc", "-std=c99", "-O1", "-c", "-o", in("policy.o"), in("policy.c"))
		flags = append(flags, "-Wall", "-Wno-unused-variable", "-Werror", "-J"+c.dir, in("policy.f90"), in(file),
			in("policy.o"))
	} else {
		flags = append(flags, "-std=c99", "-Wall", "-Wextra", "-Werror", in(file), in("policy.c"))
		if hasCritic(c) {
			flags = append(flags, "-DHAS_VALUE")
		}
		if !slices.Contains(compiler, sanitize) {
			flags = append(flags, "-DCOUNT", "-Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc")
		}
	}
	runProgram(t, nil, compiler[0], append(flags, "-lm")...)
	return runProgram(t, nil, in("play"), in("policy.bin"), in("vectors.bin"))
}

const sanitize = "-fsanitize=address,undefined"

// hasCritic reports whether an export has the output value.
func hasCritic(c exportedCase) bool {
	text, err := os.ReadFile(filepath.Join(c.dir, "policy.json"))
	return err == nil && strings.Contains(string(text), `"name": "value"`)
}

// checkONNX lets the checker of ONNX read the models, if it is there.
func checkONNX(t *testing.T, cases []exportedCase) {
	t.Helper()
	const python = "/usr/bin/python3"
	if exec.Command(python, "-c", "import onnx").Run() != nil {
		t.Log("no onnx.checker: scripts/setup test")
		return
	}
	args := []string{"-c", "import sys, onnx\nfor f in sys.argv[1:]: onnx.checker.check_model(onnx.load(f), True)"}
	for _, c := range cases {
		args = append(args, filepath.Join(c.dir, "policy.onnx"))
	}
	runProgram(t, nil, python, args...)
}

// runProgram returns the standard output of a program. The test fails if the program does.
func runProgram(t *testing.T, variables []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Env = append(os.Environ(), variables...)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s%s", name, err, errs.String(), out)
	}
	return string(out)
}
