package ask_test

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/checkpoint"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/roles/ask"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/embodied"
	"github.com/rlinf/rlinf/roles/internal/rolestest"
	"github.com/rlinf/rlinf/roles/language"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/roles/session"
	"github.com/rlinf/rlinf/roles/task"
	"github.com/rlinf/rlinf/spmd/local"
	"github.com/rlinf/rlinf/tensor"
)

var tasks = task.Tasks{embodied.Task{}, language.FineTuning{}, language.Reasoning{}}

// train trains the job of a file in internal/digests/testdata, and returns the run's folder.
func train(t *testing.T, file, resume string, overrides ...string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run")
	cfg := load(t, file, append([]string{"runner.logger.log_path=" + filepath.Dir(dir), "runner.max_steps=6",
		"runner.logger.experiment_name=run", "runner.save_interval=2", "runner.keep_checkpoints=0"}, overrides...)...)
	ranks, _ := cfg.Extent()
	var said bytes.Buffer
	s := session.New(session.Options{Registries: rolestest.Registries(), Tasks: tasks, Asked: asked(t),
		Out: io.Discard, Log: &said, Resume: resume})
	code := test.Must(s.Start(t.Context(), local.New(max(ranks, 1)), cfg, nil, nil))(t)
	if code != loop.ExitOK {
		t.Fatalf("%s: exit code %d: %s", file, code, said.String())
	}
	return dir
}

func asked(t *testing.T) *loop.Requests {
	r := loop.Watch()
	t.Cleanup(r.Close)
	return r
}

func load(t *testing.T, file string, overrides ...string) *config.Config {
	t.Helper()
	cfg, _ := rolestest.MustLoad(t, filepath.Join("..", "..", "internal", "digests", "testdata", file), overrides...)
	return cfg
}

// verify repeats all of a run, and returns what differs.
func verify(t *testing.T, dir string) (found []string) {
	t.Helper()
	run := test.Must(ask.Open(rolestest.Registries(), dir))(t)
	test.OK(t, run.Repeatable())
	found = test.Must(run.Inconsistent())(t)
	again := &ask.Again{Registries: rolestest.Registries(), Tasks: tasks, Asked: asked(t)}
	for _, s := range run.Stretches() {
		found = append(found, test.Must(again.Verify(t.Context(), run, s))(t).Differences...)
	}
	return found
}

// TestRunsRepeat: all stretches of runs repeat, in other placements than those of the runs.
func TestRunsRepeat(t *testing.T) {
	t.Parallel()
	small := []string{"actor.model.hidden_sizes=[8]"}
	for file, overrides := range map[string][]string{
		"ppo_disaggregated.yaml": small,
		"ppo_collocated.yaml":    append(small, "runner.weight_sync_interval=3"),
		"gru.yaml":               {"actor.model.rnn_hidden_size=8"},
		"sac.yaml":               small,
		"dqn.yaml":               small,
		"dagger.yaml":            nil,
	} {
		if testing.Short() && file != "ppo_disaggregated.yaml" && file != "sac.yaml" {
			continue
		}
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			dir := train(t, file, "", overrides...)
			before := contents(t, dir)
			run := test.Must(ask.Open(rolestest.Registries(), dir))(t)
			test.Equal(t, len(run.Stretches()), 3)
			test.EqualSlices(t, verify(t, dir), nil)
			test.Equal(t, contents(t, dir), before)
		})
	}
}

// contents describes all files of a folder: names, times and contents.
func contents(t *testing.T, dir string) string {
	t.Helper()
	var all strings.Builder
	test.OK(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info := test.Must(d.Info())(t)
		text := test.Must(os.ReadFile(path))(t)
		fmt.Fprintln(&all, path, info.ModTime(), crc32.ChecksumIEEE(text))
		return nil
	}))
	return all.String()
}

// TestPlantedChanges: each change of a run is named, by --all and by a receipt.
func TestPlantedChanges(t *testing.T) {
	t.Parallel()
	original := train(t, "ppo_disaggregated.yaml", "", "actor.model.hidden_sizes=[8]")
	receipt := filepath.Join(t.TempDir(), "receipt.json")
	run := test.Must(ask.Open(rolestest.Registries(), original))(t)
	test.OK(t, test.Must(ask.NewReceipt(run, nil))(t).Write(receipt))
	test.EqualSlices(t, test.Must(test.Must(ask.ReadReceipt(receipt))(t).Check(run))(t), nil)
	all := planted()
	test.Equal(t, len(all), 30)
	for i, x := range all {
		if testing.Short() && i%10 != 0 {
			continue
		}
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "run")
			test.OK(t, os.CopyFS(dir, os.DirFS(original)))
			x.plant(t, dir)
			says(t, verify(t, dir), x.all)
			run := test.Must(ask.Open(rolestest.Registries(), dir))(t)
			says(t, test.Must(test.Must(ask.ReadReceipt(receipt))(t).Check(run))(t), x.listed)
		})
	}
}

// A plant is a change of a run. all and listed are regular expressions: what --all and the receipt must say.
type plant struct {
	name, all, listed string
	plant             func(t *testing.T, dir string)
}

// planted returns changes of a run of six steps with three checkpoints.
func planted() (list []plant) {
	add := func(name, all, listed string, f func(t *testing.T, dir string)) {
		list = append(list, plant{name, all, listed, f})
	}
	for i, metric := range []string{"rollout/returns_mean", "env/return", "train/actor/policy_loss", "env/steps",
		"train/critic/value_loss", "train/actor/approx_kl", "train/actor/grad_norm", "rollout/advantages_mean",
		"train/actor/lr", "env/episode_len", "train/actor/entropy_loss"} {
		step := 1 + i%6
		name := regexp.QuoteMeta(metric)
		add(metric, fmt.Sprintf("metrics.jsonl: step %d: %s: ", step, name), "^"+name+": changed$",
			func(t *testing.T, dir string) {
				edit(t, filepath.Join(dir, "metrics.jsonl"), fmt.Sprintf(`("step":%d,.*"%s":-?[\d.e+-]*)\d([,}])`, step,
					name), "${1}7$2", "${1}3$2")
			})
	}
	for _, at := range []struct {
		step, tensor int
		file         string
	}{{2, 0, "model"}, {2, 3, "model"}, {4, 1, "model"}, {4, 4, "model"}, {6, 0, "model"}, {6, 2, "model"},
		{2, 0, "trainer"}, {4, 1, "trainer"}, {6, 2, "trainer"}} {
		file := fmt.Sprintf("checkpoints/global_step_%d/%s.safetensors", at.step, at.file)
		add(fmt.Sprintf("%s %d", file, at.tensor), "^"+file+`: [\w./]+: element .* is `,
			"^"+file+`: [\w./]+: changed$`, func(t *testing.T, dir string) {
				changeTensor(t, dir, at.step, at.file+".safetensors", at.tensor)
			})
	}
	add("a missing line", `metrics.jsonl: step 3: .*: missing, and `, `^env/return: changed$`,
		func(t *testing.T, dir string) { edit(t, filepath.Join(dir, "metrics.jsonl"), `\{"step":3.*\n`, "") })
	for _, step := range []int{2, 4} {
		name := fmt.Sprintf("checkpoints/global_step_%d: missing", step)
		add(name, "^"+name+"$", "^"+name+"$", func(t *testing.T, dir string) {
			test.OK(t, os.RemoveAll(filepath.Join(dir, "checkpoints", fmt.Sprintf("global_step_%d", step))))
		})
		add(fmt.Sprintf("checkpoint %d is that of step 6", step),
			fmt.Sprintf("global_step_%d: manifest.json: step 6, expected %d", step, step), "^"+name+"$",
			func(t *testing.T, dir string) {
				at := filepath.Join(dir, "checkpoints")
				test.OK(t, os.RemoveAll(filepath.Join(at, fmt.Sprintf("global_step_%d", step))))
				test.OK(t, os.CopyFS(filepath.Join(at, fmt.Sprintf("global_step_%d", step)),
					os.DirFS(filepath.Join(at, "global_step_6"))))
			})
	}
	for _, key := range [][3]string{{"algorithm.gamma", "0.95", "0.5"}, {"algorithm.gae_lambda", "0.9", "0.8"},
		{"algorithm.update_epoch", "3", "4"}, {"actor.seed", `\d+`, "77"}, {"actor.optim.lr", "0.02", "0.03"}} {
		name := regexp.QuoteMeta(key[0])
		section, _, _ := strings.Cut(key[0], ".")
		add(key[0], fmt.Sprintf("config.yaml: %s: %s, but %s in global_step_6", name, key[2], key[1]),
			fmt.Sprintf("^config.yaml: %s: %s then, %s now$", name, key[1], key[2]), func(t *testing.T, dir string) {
				edit(t, filepath.Join(dir, "config.yaml"), `(?m)^(`+section+`:\n(?:    .*\n)*? +`+
					key[0][strings.LastIndex(key[0], ".")+1:]+`: )\S+`, "${1}"+key[2])
			})
	}
	return list
}

func says(t *testing.T, found []string, pattern string) {
	t.Helper()
	for _, what := range found {
		if regexp.MustCompile(pattern).MatchString(what) {
			return
		}
	}
	t.Errorf("found %q, want %s", found, pattern)
}

// edit replaces the first match of pattern in a file by the first of the texts that changes the file.
func edit(t *testing.T, path, pattern string, with ...string) {
	t.Helper()
	text := string(test.Must(os.ReadFile(path))(t))
	at := regexp.MustCompile(pattern).FindStringSubmatchIndex(text)
	if at == nil {
		t.Fatalf("%s has no %s", path, pattern)
	}
	for _, w := range with {
		changed := text[:at[0]] + string(regexp.MustCompile(pattern).ExpandString(nil, w, text, at)) + text[at[1]:]
		if changed != text {
			test.OK(t, os.WriteFile(path, []byte(changed), 0o666))
			return
		}
	}
}

// changeTensor changes the lowest bit of a tensor in a checkpoint, and sets the checksum right.
func changeTensor(t *testing.T, dir string, step int, file string, number int) {
	t.Helper()
	at := filepath.Join(dir, "checkpoints", fmt.Sprintf("global_step_%d", step))
	text := test.Must(os.ReadFile(filepath.Join(at, file)))(t)
	r := test.Must(tensor.NewSafetensorsReader(bytes.NewReader(text), int64(len(text))))(t)
	data := make([]byte, r.Fields[number].Bytes())
	test.OK(t, r.ReadTensor(number, data, 0))
	text[bytes.LastIndex(text, data)] ^= 1
	old := test.Must(checkpoint.Load(at))(t)
	var files []checkpoint.File
	for _, name := range old.Files()[1:] { // without config.yaml
		data := test.Must(old.Read(name))(t)
		if name == file {
			data = text
		}
		files = append(files, checkpoint.BytesFile(name, data))
	}
	store := test.Must(checkpoint.Open(t.TempDir(), 0))(t)
	info := checkpoint.Info{Step: old.Step, Ranks: old.Ranks, Config: test.Must(old.Read("config.yaml"))(t)}
	saved := test.Must(store.Save(info, files...))(t)
	test.OK(t, os.RemoveAll(at))
	test.OK(t, os.CopyFS(at, os.DirFS(saved)))
}

// TestReplay: repeated steps show what the run itself had recorded, byte by byte, from a checkpoint and from the start.
func TestReplay(t *testing.T) {
	t.Parallel()
	small := []string{"actor.model.hidden_sizes=[8]"}
	for file, overrides := range map[string][]string{"ppo_collocated.yaml": small, "ppo_disaggregated.yaml": small,
		"sac.yaml": small, "gru.yaml": {"actor.model.rnn_hidden_size=8"}} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			overrides := append(overrides, "env.train.max_episode_steps=7")
			recorded := train(t, file, "", append(overrides, "env.train.data_collection.enabled=true")...)
			files := test.Must(filepath.Glob(filepath.Join(recorded, "demos", "train_*.safetensors")))(t)
			demos, _, err := tensor.ReadSafetensors(test.Must(os.ReadFile(files[0]))(t))
			test.OK(t, err)
			run := test.Must(ask.Open(rolestest.Registries(), train(t, file, "", overrides...)))(t)
			again := &ask.Again{Registries: rolestest.Registries(), Tasks: tasks, Asked: asked(t)}
			counts := make([]int, run.Config.Env.Train.TotalNumEnvs) // rows of each environment in the recording
			for _, step := range []int64{run.Last, 2, 4} {
				p := test.Must(again.Replay(t.Context(), run, step, t.TempDir(), nil))(t)
				test.Equal(t, len(p.Differences), 0)
				test.Equal(t, len(p.Episodes) > 0, true)
				rows := 0
				for k := range counts {
					d := test.Must(p.Rollout(k))(t)
					steps := d.Must("reward").Dim(0)
					before := int(step-1) * steps
					if step == run.Last {
						counts[k] = before + ended(d)
					}
					same(t, d, demos, min(steps, counts[k]-before), rows+before)
					rows += counts[k]
				}
				test.Equal(t, rows, demos.Must("reward").Len())
				_, err := p.Rollout(len(counts))
				test.Fails(t, err, fmt.Sprintf("environment %d: expected 0 to %d", len(counts), len(counts)-1))
			}
			iterations, _, err := run.Cost(4)
			test.OK(t, err)
			test.Equal(t, iterations, 2) // from the checkpoint of step 2
		})
	}
}

// ended returns the number of steps of a rollout up to the end of its last complete episode.
func ended(d tensor.Dict) (n int) {
	truncated := d.Must("truncated").U8()
	for t, x := range d.Must("terminated").U8() {
		if x+truncated[t] > 0 {
			n = t + 1
		}
	}
	return n
}

// same compares the first n steps of a rollout with a recording, whose row number first is the first of them.
func same(t *testing.T, d, demos tensor.Dict, n, first int) {
	t.Helper()
	compared := 0
	for i := range demos.Len() {
		name, x := demos.Entry(i)
		y, ok := d.Get(name)
		if !ok {
			continue
		}
		compared++
		each := len(x.Bytes()) / x.Dim(0)
		got, want := y.Bytes()[:n*each], x.Bytes()[first*each:(first+n)*each]
		if len(y.Bytes()) != y.Dim(0)*each || !bytes.Equal(got, want) {
			t.Errorf("%s from row %d: %v, want %v", name, first, got, want)
		}
	}
	if compared < 5 { // an observation, actions, rewards, ends
		t.Errorf("compared %d tensors of %v", compared, demos)
	}
}

// TestParting: of two runs that differ, the first phase and tensor that part are named.
func TestParting(t *testing.T) {
	t.Parallel()
	dir := train(t, "ppo_collocated.yaml", "", "actor.model.hidden_sizes=[8]")
	run := test.Must(ask.Open(rolestest.Registries(), dir))(t)
	same := test.Must(ask.NewDiff(run, run))(t)
	test.Equal(t, same.Equal() && same.Parted() == 0, true)
	one := &ask.Again{Registries: rolestest.Registries(), Tasks: tasks, Asked: asked(t)}
	none := test.Must(ask.Part(t.Context(), one, one, run, run, 3))(t)
	test.Equal(t, none == nil, true)
	all := differences()
	for i, x := range all {
		if testing.Short() && i%5 != 0 {
			continue
		}
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			reg := rolestest.Registries()
			if x.vec != nil {
				reg.Envs = env.NewRegistry()
				reg.Envs.Add("CartPole-v1", func(cfg env.Config, n int) (env.Vec, error) {
					vec, err := rolestest.Registries().Envs.New(cfg, n)
					return x.vec(vec), err
				})
			}
			reg.Algorithms = new(algo.Registry)
			reg.Algorithms.Add("gae", "actor_critic", func(s algo.Setup) (algo.Algorithm, error) {
				if x.setup != nil {
					x.setup(&s)
				}
				a, err := algo.Builtin().New(s)
				if err == nil && x.prepared != nil {
					a = nudged{a, x.prepared}
				}
				return a, err
			})
			other := &ask.Again{Registries: reg, Tasks: tasks, Asked: asked(t)}
			p := test.Must(ask.Part(t.Context(), one, other, run, run, 3))(t)
			if p == nil || !regexp.MustCompile("^step 3: actor\\[\\d\\]: "+x.want).MatchString(p.String()) {
				t.Errorf("they part in %v, want %s", p, x.want)
			}
		})
	}
}

// TestPartingOfAnswers: runs of a language model whose answers part, and the first phase after them.
func TestPartingOfAnswers(t *testing.T) {
	t.Parallel()
	inputs := filepath.Join("..", "..", "internal", "digests", "testdata", "resumed", "inputs")
	dir := train(t, "reasoning.yaml", "", "actor.model.hidden_size=8", "actor.model.intermediate_size=16",
		"actor.model.num_hidden_layers=1", "actor.tokenizer.tokenizer_model="+filepath.Join(inputs, "data/tokenizer"),
		"data.train_data_paths="+filepath.Join(inputs, "data/train.jsonl"), "runner.max_steps=2",
		"runner.ckpt_path="+filepath.Join(inputs, "base.safetensors"))
	run := test.Must(ask.Open(rolestest.Registries(), dir))(t)
	one := &ask.Again{Registries: rolestest.Registries(), Tasks: tasks, Asked: asked(t)}
	for want, change := range map[string]func(*config.Config){
		"answers 1: ": func(c *config.Config) { c.Rollout.SamplingParams.Temperature = 1.5 },
		"weights 1: ": func(c *config.Config) { c.Actor.Optim.LR *= 2 },
	} {
		other := &ask.Again{Registries: one.Registries, Tasks: tasks, Asked: one.Asked, Change: change}
		p := test.Must(ask.Part(t.Context(), one, other, run, run, 1))(t)
		if p == nil || !strings.HasPrefix(p.String(), "step 1: actor[0]: "+want) {
			t.Errorf("they part in %v, want %s", p, want)
		}
	}
}

// A difference is planted in the second of two runs. want is a regular expression: what parts first.
type difference struct {
	name, want string
	setup      func(*algo.Setup)
	prepared   func(rollout tensor.Dict) // changes the advantages
	vec        func(env.Vec) env.Vec
}

// differences returns differences in the third step of a run with 8 optimiser steps in a step.
func differences() []difference {
	const ulp = `is .* 1 unit in the last place apart$`
	push := func(step int, change func(grad []float32)) func(*algo.Setup) {
		return func(s *algo.Setup) { s.Replicas = pushed{s.Replicas, new(atomic.Int64), int64(step), change} }
	}
	first := func(x []float32) { x[0] = math.Nextafter32(x[0], 2) }
	last := func(x []float32) { x[len(x)-1] = math.Nextafter32(x[len(x)-1], 2) }
	return []difference{
		{name: "first gradient", want: `gradient 1: actor.0.weight: element \[0 0\] ` + ulp, setup: push(1, first)},
		{name: "second gradient", want: `gradient 2: actor.0.weight: element \[0 0\] ` + ulp, setup: push(2, first)},
		{name: "last gradient", want: `gradient 8: actor.0.bias: element \[0\] ` + ulp,
			setup: push(8, func(x []float32) { first(x[32:]) })}, // after actor.0.weight, [8 4]
		{name: "order of a sum", want: `gradient 1: actor.0.weight: element `, setup: push(1, func(x []float32) {
			for i := range x {
				x[i] = x[i]*0.7 + x[i]*0.3
			}
		})},
		{name: "advantage", want: `advantages 1: advantage: element \[0 0\] ` + ulp,
			prepared: func(d tensor.Dict) { first(d.Must(algo.FieldAdvantage).F32()) }},
		{name: "last advantage", want: `advantages 1: advantage: element \[15 7\] ` + ulp,
			prepared: func(d tensor.Dict) { last(d.Must(algo.FieldAdvantage).F32()) }},
		{name: "return", want: `advantages 1: return: element \[0 0\] ` + ulp,
			prepared: func(d tensor.Dict) { first(d.Must(algo.FieldReturn).F32()) }},
		{name: "gamma", want: `advantages 1: advantage: `, setup: func(s *algo.Setup) { s.Config.Gamma = 0.98 }},
		{name: "lambda", want: `advantages 1: advantage: `, setup: func(s *algo.Setup) { s.Config.GAELambda = 0.9 }},
		{name: "loss of the policy", want: `gradient 1: actor.0.weight: `,
			setup: func(s *algo.Setup) { s.Config.EntropyBonus = 0.02 }},
		{name: "loss of the critic", want: `gradient 1: critic.0.weight: `,
			setup: func(s *algo.Setup) { s.Config.ValueLossCoef = 0.9 }},
		{name: "clip", want: `gradient [2-8]: actor.0.weight: `,
			setup: func(s *algo.Setup) { s.Config.ClipRatioHigh = 0.001 }},
		{name: "normal advantages", want: `gradient 1: actor.0.weight: `,
			setup: func(s *algo.Setup) { s.Config.NormalizeAdvantages = algo.NormalizeNone }},
		{name: "another generator of batches", want: `gradient 1: actor.0.weight: `,
			setup: func(s *algo.Setup) { s.Seed++ }},
		{name: "rate", want: `weights 1: actor.0.weight: `, setup: func(s *algo.Setup) { s.Optim.LR *= 1.001 }},
		{name: "second moment", want: `weights 1: actor.0.weight: `,
			setup: func(s *algo.Setup) { s.Optim.AdamBeta2 = 0.99 }},
		{name: "epsilon", want: `weights 1: actor.0.weight: `, setup: func(s *algo.Setup) { s.Optim.AdamEps *= 10 }},
		{name: "decay", want: `weights 1: actor.0.weight: `, setup: func(s *algo.Setup) { s.Optim.WeightDecay = 0.1 }},
		{name: "epochs", want: `gradient 9: actor.0.weight: the first run has no such tensor$`,
			setup: func(s *algo.Setup) { s.Config.UpdateEpoch = 5 }},
		{name: "another generator of episodes", want: `rollout 1: observation.state: element `,
			vec: func(v env.Vec) env.Vec { return changedVec{Vec: v, seeds: 1} }},
		{name: "reward", want: `rollout 1: reward: element \[0 0\] ` + ulp,
			vec: func(v env.Vec) env.Vec { return changedVec{Vec: v, reward: first} }},
	}
}

// A nudged algorithm changes what it has prepared.
type nudged struct {
	algo.Algorithm
	change func(rollout tensor.Dict)
}

func (n nudged) Prepare(rollout *tensor.Dict) error {
	err := n.Algorithm.Prepare(rollout)
	n.change(*rollout)
	return err
}

// A changedVec draws other episodes, or changes rewards.
type changedVec struct {
	env.Vec
	seeds  uint64
	reward func([]float32)
}

func (v changedVec) Step(action tensor.Dict, seeds []uint64, out *env.Step) error {
	other := slices.Clone(seeds)
	for i := range other {
		other[i] += v.seeds
	}
	err := v.Vec.Step(action, other, out)
	if v.reward != nil {
		v.reward(out.Reward.F32())
	}
	return err
}

// Save returns the state of the Vec.
func (v changedVec) Save() (tensor.Dict, error) { return env.Save(v.Vec) }

// Load restores the state of the Vec.
func (v changedVec) Load(state tensor.Dict) error { return env.Load(v.Vec, state) }

// pushed changes a gradient: that of optimiser step number step.
type pushed struct {
	algo.Replicas
	steps  *atomic.Int64
	step   int64
	change func(grad []float32)
}

func (p pushed) Gradient(grad []float32) algo.GradientStream {
	return pushedStream{p.Replicas.Gradient(grad), grad, p.steps.Add(1) == p.step, p.change}
}

type pushedStream struct {
	algo.GradientStream
	grad   []float32
	push   bool
	change func(grad []float32)
}

func (p pushedStream) Wait(onSummed func(lo, hi int)) error {
	err := p.GradientStream.Wait(onSummed)
	if p.push {
		p.change(p.grad)
	}
	return err
}

// TestRefusals: runs whose numbers cannot repeat are refused, with the reason.
func TestRefusals(t *testing.T) {
	t.Parallel()
	weights := filepath.Join(t.TempDir(), "weights.safetensors")
	start := train(t, "ppo_collocated.yaml", "", "actor.model.hidden_sizes=[8]")
	text := test.Must(os.ReadFile(filepath.Join(start, "checkpoints", "latest", "model.safetensors")))(t)
	test.OK(t, os.WriteFile(weights, text, 0o666))
	dir := train(t, "ppo_collocated.yaml", "", "actor.model.hidden_sizes=[8]", "runner.ckpt_path="+weights)
	repeatable := func() error { return test.Must(ask.Open(rolestest.Registries(), dir))(t).Repeatable() }
	test.OK(t, repeatable())
	test.OK(t, os.WriteFile(weights, append(text, 0), 0o666))
	test.Fails(t, repeatable(), weights+" has changed since the run")
	test.OK(t, os.Remove(weights))
	test.Fails(t, repeatable(), "no such file")
	for _, tc := range [][3]string{
		{"config.yaml", `async: false`, "async: true"}, {"config.yaml", `deterministic: true`, "deterministic: false"},
		{"metrics.jsonl", `"env/num_trajectories"`, `"env/num_lost":2,"env/num_trajectories"`},
	} {
		dir = filepath.Join(t.TempDir(), "run")
		test.OK(t, os.CopyFS(dir, os.DirFS(start)))
		edit(t, filepath.Join(dir, tc[0]), tc[1], tc[2])
		test.Fails(t, repeatable(), "so its numbers do not repeat")
	}
}
