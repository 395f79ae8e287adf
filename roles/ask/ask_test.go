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
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rlinf/rlinf/algo"
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
	for name, plant := range map[string]struct {
		change      func(t *testing.T, dir string)
		all, listed string // what --all and the receipt must say; regular expressions
	}{
		"a digit": {func(t *testing.T, dir string) {
			edit(t, filepath.Join(dir, "metrics.jsonl"), `("step":4.*"rollout/returns_mean":-?\d+\.\d)`, "${1}7")
		}, `metrics.jsonl: step 4: rollout/returns_mean: `, `^rollout/returns_mean: changed$`},
		"a missing line": {func(t *testing.T, dir string) {
			edit(t, filepath.Join(dir, "metrics.jsonl"), `\{"step":3.*\n`, "")
		}, `metrics.jsonl: step 3: .*: missing, and `, `^env/return: changed$`},
		"a weight": {func(t *testing.T, dir string) { changeWeight(t, dir, 4) },
			`checkpoints/global_step_4/model.safetensors: [a-z0-9._]+: element 0 is .* units? in the last place apart`,
			`^checkpoints/global_step_4/model.safetensors: [a-z0-9._]+: changed$`},
		"swapped checkpoints": {func(t *testing.T, dir string) {
			at := filepath.Join(dir, "checkpoints")
			test.OK(t, os.Rename(filepath.Join(at, "global_step_2"), filepath.Join(at, "kept")))
			test.OK(t, os.Rename(filepath.Join(at, "global_step_4"), filepath.Join(at, "global_step_2")))
			test.OK(t, os.Rename(filepath.Join(at, "kept"), filepath.Join(at, "global_step_4")))
		}, `global_step_2: manifest.json: step 4, expected 2`, `^checkpoints/global_step_2: missing$`},
		"a missing checkpoint": {func(t *testing.T, dir string) {
			test.OK(t, os.RemoveAll(filepath.Join(dir, "checkpoints", "global_step_2")))
		}, `^checkpoints/global_step_2: missing$`, `^checkpoints/global_step_2: missing$`},
		"a setting": {func(t *testing.T, dir string) {
			edit(t, filepath.Join(dir, "config.yaml"), `gamma: .*`, "gamma: 0.5")
		}, `config.yaml: algorithm.gamma: 0.5, but 0.95 in global_step_6`,
			`^config.yaml: algorithm.gamma: 0.95 then, 0.5 now$`},
		"another seed": {func(t *testing.T, dir string) {
			edit(t, filepath.Join(dir, "config.yaml"), `(?m)^(actor:\n(?:    .*\n)*?    seed: )\d+`, "${1}77")
		}, `config.yaml: actor.seed: 77, but \d+ in global_step_6`, `^config.yaml: actor.seed: \d+ then, 77 now$`},
	} {
		if testing.Short() && name != "a weight" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "run")
			test.OK(t, os.CopyFS(dir, os.DirFS(original)))
			plant.change(t, dir)
			says(t, verify(t, dir), plant.all)
			run := test.Must(ask.Open(rolestest.Registries(), dir))(t)
			says(t, test.Must(test.Must(ask.ReadReceipt(receipt))(t).Check(run))(t), plant.listed)
		})
	}
	test.EqualSlices(t, test.Must(test.Must(ask.ReadReceipt(receipt))(t).Check(run))(t), nil)
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

// edit replaces the first match of pattern in a file.
func edit(t *testing.T, path, pattern, with string) {
	t.Helper()
	text := string(test.Must(os.ReadFile(path))(t))
	at := regexp.MustCompile(pattern).FindStringSubmatchIndex(text)
	if at == nil {
		t.Fatalf("%s has no %s", path, pattern)
	}
	changed := regexp.MustCompile(pattern).ExpandString(nil, with, text, at)
	test.OK(t, os.WriteFile(path, []byte(text[:at[0]]+string(changed)+text[at[1]:]), 0o666))
}

// changeWeight changes the last bit of the first weight in a checkpoint, and sets the checksum right.
func changeWeight(t *testing.T, dir string, step int) {
	t.Helper()
	at := filepath.Join(dir, "checkpoints", fmt.Sprintf("global_step_%d", step))
	path := filepath.Join(at, "model.safetensors")
	text := test.Must(os.ReadFile(path))(t)
	r := test.Must(tensor.NewSafetensorsReader(bytes.NewReader(text), int64(len(text))))(t)
	first := make([]byte, 4)
	test.OK(t, r.ReadTensor(0, first, 0))
	text[bytes.Index(text, first)] ^= 1
	old := test.Must(checkpoint.Load(at))(t)
	var files []checkpoint.File
	for _, name := range old.Files()[1:] { // without config.yaml
		data := test.Must(old.Read(name))(t)
		if name == "model.safetensors" {
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

// TestReplay: a repeated step shows what the run itself had recorded, though the run that is asked recorded nothing.
func TestReplay(t *testing.T) {
	t.Parallel()
	const steps, envs = 16, 16 // of ppo_collocated.yaml
	small := []string{"actor.model.hidden_sizes=[8]"}
	recorded := train(t, "ppo_collocated.yaml", "", append(small, "env.train.data_collection.enabled=true")...)
	files := test.Must(filepath.Glob(filepath.Join(recorded, "demos", "train_*.safetensors")))(t)
	demos, _, err := tensor.ReadSafetensors(test.Must(os.ReadFile(files[0]))(t))
	test.OK(t, err)
	run := test.Must(ask.Open(rolestest.Registries(), train(t, "ppo_collocated.yaml", "", small...)))(t)
	again := &ask.Again{Registries: rolestest.Registries(), Tasks: tasks, Asked: asked(t)}
	p := test.Must(again.Replay(t.Context(), run, 4, t.TempDir(), nil))(t)
	test.Equal(t, len(p.Differences), 0)
	test.Equal(t, len(p.Episodes) > 0, true)
	d := test.Must(p.Rollout(0))(t)
	for name, theirs := range map[string]string{"observation.state": "observation.state", "action": "action",
		"reward": "reward"} {
		got, all := d.Must(name).Bytes(), demos.Must(theirs).Bytes()
		if want := all[len(got)*3 : len(got)*4]; !bytes.Equal(got, want) { // step 4 of the first environment
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	test.Fails(t, func() error { _, err := p.Rollout(envs); return err }(), "environment 16: expected 0 to 15")
	iterations, _, err := run.Cost(4)
	test.OK(t, err)
	test.Equal(t, iterations, 2) // from the checkpoint of step 2
	test.Equal(t, d.Must("reward").Dim(0), steps)
}

// TestParting: of two runs that differ, the first phase and tensor that part are named.
func TestParting(t *testing.T) {
	t.Parallel()
	small := []string{"actor.model.hidden_sizes=[8]"}
	dir := train(t, "ppo_collocated.yaml", "", small...)
	run := test.Must(ask.Open(rolestest.Registries(), dir))(t)
	same := test.Must(ask.NewDiff(run, run))(t)
	test.Equal(t, same.Equal() && same.Parted() == 0, true)
	for name, planted := range map[string]struct {
		change func(algo.Setup, algo.Algorithm) algo.Algorithm
		want   string
	}{
		"a gradient": {want: `^step 3: actor\[\d\]: gradient 2: actor.0.weight: element \[0 0\] is .* 1 unit in the`},
		"an advantage": {want: `^step 3: actor\[0\]: advantages 1: advantage: element \[0 0\] is .* 1 unit in the last`,
			change: func(_ algo.Setup, a algo.Algorithm) algo.Algorithm { return nudged{a} }},
		"weights": {want: `^step 3: actor\[0\]: weights 1: actor.0.weight: element `,
			change: func(s algo.Setup, _ algo.Algorithm) algo.Algorithm {
				s.Optim.AdamBeta2 = 0.99
				a, err := algo.Builtin().New(s)
				if err != nil {
					panic(err)
				}
				return a
			}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reg := rolestest.Registries()
			reg.Algorithms = new(algo.Registry)
			reg.Algorithms.Add("gae", "actor_critic", func(s algo.Setup) (algo.Algorithm, error) {
				if planted.change == nil {
					s.Replicas = pushed{Replicas: s.Replicas, steps: new(atomic.Int64)}
					return algo.Builtin().New(s)
				}
				a, err := algo.Builtin().New(s)
				return planted.change(s, a), err
			})
			one := &ask.Again{Registries: rolestest.Registries(), Tasks: tasks, Asked: asked(t)}
			other := &ask.Again{Registries: reg, Tasks: tasks, Asked: asked(t)}
			p := test.Must(ask.Part(t.Context(), one, other, run, run, 3))(t)
			if p == nil || !regexp.MustCompile(planted.want).MatchString(p.String()) {
				t.Errorf("they part in %v, want %s", p, planted.want)
			}
			none := test.Must(ask.Part(t.Context(), one, one, run, run, 3))(t)
			test.Equal(t, none == nil, true)
		})
	}
}

// nudged changes the first advantage by one unit in the last place.
type nudged struct{ algo.Algorithm }

func (n nudged) Prepare(rollout *tensor.Dict) error {
	err := n.Algorithm.Prepare(rollout)
	nudge(rollout.Must(algo.FieldAdvantage).F32())
	return err
}

func nudge(x []float32) { x[0] = math.Nextafter32(x[0], 1) }

// pushed changes the first element of the second gradient by one unit in the last place.
type pushed struct {
	algo.Replicas
	steps *atomic.Int64
}

func (p pushed) Gradient(grad []float32) algo.GradientStream {
	return pushedStream{p.Replicas.Gradient(grad), grad, p.steps.Add(1) == 2}
}

type pushedStream struct {
	algo.GradientStream
	grad []float32
	push bool
}

func (p pushedStream) Wait(onSummed func(lo, hi int)) error {
	err := p.GradientStream.Wait(onSummed)
	if p.push {
		nudge(p.grad)
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
