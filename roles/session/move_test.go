package session_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/metrics"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/roles"
	"github.com/rlinf/rlinf/roles/advice"
	"github.com/rlinf/rlinf/roles/embodied"
	"github.com/rlinf/rlinf/roles/internal/rolestest"
	"github.com/rlinf/rlinf/roles/job"
	"github.com/rlinf/rlinf/roles/language"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/roles/session"
	"github.com/rlinf/rlinf/roles/task"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/spmd/local"
	"github.com/rlinf/rlinf/tensor"
)

// A wanderer moves members to random ranks, every one to three iterations.
type wanderer struct {
	random  *rand.Rand
	members map[string]int // of each component
	ranks   int
	next    int64
	moved   int
	refused int
	last    int64 // the step of the last move
	twice   bool  // two moves had no iteration between them
}

func (w *wanderer) Decide(step, _ int64) *advice.Decision {
	if step < w.next {
		return nil
	}
	w.next = step + 1 + w.random.Int64N(3)
	var parts []string
	for _, name := range []string{"actor", "critic", "env", "inference", "reward", "rollout"} {
		if n := w.members[name]; n > 0 {
			ranks := make([]int, n)
			for i := range ranks {
				ranks[i] = w.random.IntN(w.ranks)
			}
			slices.Sort(ranks)
			parts = append(parts, fmt.Sprintf("%s: '%s'", name, spmd.PlacementOf(ranks)))
		}
	}
	return &advice.Decision{Placement: "{" + strings.Join(parts, ", ") + "}", Reason: "a walk"}
}

func (w *wanderer) Observe(advice.Iteration) {}

func (w *wanderer) Moved(_ *spmd.Placement, step int64, _ float64) {
	w.moved++
	w.twice = w.twice || step == w.last
	w.last = step
}

func (w *wanderer) Refused() { w.refused++ }

// train runs a job on goroutine ranks, and returns its metrics without times, and its checkpoints' files.
func train(t *testing.T, ranks int, s session.Scheduler, path string, overrides ...string) map[string]string {
	t.Helper()
	dir := t.TempDir()
	run(t, dir, ranks, s, path, overrides...)
	return results(t, filepath.Join(dir, "run"))
}

// run runs a job on goroutine ranks in the folder dir/run.
func run(t *testing.T, dir string, ranks int, s session.Scheduler, path string, overrides ...string) {
	t.Helper()
	cfg, _ := rolestest.MustLoad(t, path, append(overrides, "runner.logger.log_path="+dir,
		"runner.logger.experiment_name=run", "++cluster.tracer.record=true")...)
	var out, log bytes.Buffer
	asked := loop.Watch()
	defer asked.Close()
	started := session.New(session.Options{Registries: rolestest.Registries(), Asked: asked, Out: &out, Log: &log,
		Tasks: task.Tasks{embodied.Task{}, language.FineTuning{}, language.Reasoning{}}, Scheduler: s})
	code, err := started.Start(context.Background(), local.New(ranks), cfg, nil, nil)
	if code != 0 || err != nil {
		t.Fatalf("exit code %d, %v\n%s\n%s", code, err, &out, &log)
	}
}

// results returns the metrics of a run, without times, and the tensors of its checkpoints, by file.
func results(t *testing.T, run string) map[string]string {
	t.Helper()
	all := map[string]string{}
	config := test.Must(os.ReadFile(filepath.Join(run, "config.yaml")))(t)
	asynchronous := bytes.Contains(config, []byte("async: true")) // it counts an episode when it hears of it
	text := test.Must(os.ReadFile(filepath.Join(run, "metrics.jsonl")))(t)
	var kept strings.Builder
	for line := range strings.Lines(string(text)) {
		var m map[string]any
		test.OK(t, json.Unmarshal([]byte(line), &m))
		for name := range m {
			if !metrics.Repeats(name) || strings.HasSuffix(name, "_per_second") ||
				asynchronous && strings.HasPrefix(name, "env/") {
				delete(m, name)
			}
		}
		line := test.Must(json.Marshal(m))(t)
		kept.Write(append(line, '\n'))
	}
	all["metrics"] = kept.String()
	files := test.Must(filepath.Glob(filepath.Join(run, "checkpoints", "*", "*.safetensors")))(t)
	for _, f := range files {
		b, err := os.ReadFile(f)
		test.OK(t, err)
		d, _, err := tensor.ReadSafetensors(b)
		test.OK(t, err)
		file, _ := filepath.Rel(run, f)
		if asynchronous && filepath.Base(f) == "env.safetensors" { // environments are somewhere between two rollouts
			continue
		}
		for i := range d.Len() {
			name, x := d.Entry(i)
			all[file+": "+name] = fmt.Sprint(x.DType(), x.Shape()) + string(x.Bytes())
		}
	}
	return all
}

// A walk is a job whose members move again and again.
type walk struct {
	name, config string
	overrides    []string
}

// walks returns the jobs of TestWandering: one of each kind, and with all set of each algorithm.
func walks(all bool) []walk {
	reasoning := func(more ...string) []string {
		return append([]string{"cluster.component_placement={actor: 0-1, rollout: 2-3}"}, more...)
	}
	stages := []string{"++runner.save_interval=1", "++runner.val_check_interval=1"}
	walks := []walk{
		{"stages, with a checkpoint of every step", "ppo_disaggregated", stages},
		{"old weights", "ppo_hybrid", []string{"++runner.weight_sync_interval=3", "runner.val_check_interval=2"}},
		{"patches", "ppo_disaggregated", []string{"++weight_syncer.type=patch"}},
		{"recurrent", "gru", nil},
		{"comparing groups", "grpo", nil},
		{"inference", "inference", nil},
		{"reward", "reward", nil},
		{"replay", "sac", nil},
		{"demonstrations", "cloning", nil},
		{"asynchronous", "async", nil},
		{"tuning", "sft", nil},
		{"answers", "reasoning", reasoning("++algorithm.kl_beta=0.1")},
		{"answers of all components", "reasoning", []string{"cluster.component_placement={actor: 0-1, rollout: 2-3, " +
			"reward: 1, inference: 3, critic: 0}", "++algorithm.kl_beta=0.1", "++algorithm.adv_type=gae",
			"++algorithm.loss_type=actor_critic"}},
		{"answers with adapters", "reasoning", reasoning("++algorithm.kl_beta=0.1", "++actor.model.is_lora=true",
			"++actor.model.lora_rank=4")},
		{"dealt answers", "reasoning", reasoning("++algorithm.kl_beta=0.1", "++cluster.auto_scheduler=true",
			"++rollout.max_running_requests=2")},
		{"answers of divided models", "reasoning", []string{"cluster.component_placement={actor: 0-3, rollout: 0-1}",
			"++actor.model.tensor_model_parallel_size=2", "++actor.model.pipeline_model_parallel_size=2",
			"++rollout.tensor_parallel_size=2", "++algorithm.kl_beta=0.1"}},
	}
	if all {
		for _, config := range []string{"a2c", "chunks", "crossq", "dagger", "dqn", "iql", "lstm",
			"ppo_collocated", "ppo_decoupled", "ppo_three_actors", "reinforce", "sft_experts", "td3"} {
			walks = append(walks, walk{config, config, stages})
		}
	}
	return walks
}

// job returns the configuration file of the walk, and its overrides with the files that the job needs.
func (w walk) job(t *testing.T) (config string, overrides []string) {
	t.Helper()
	config = filepath.Join("../../internal/digests/testdata", w.config+".yaml")
	overrides = append([]string{"++runner.max_steps=8", "++runner.save_interval=4", "++runner.val_check_interval=2",
		"++comm.check_replicas=2", "++cluster.allow_idle_ranks=true"}, w.overrides...)
	if w.config == "cloning" || w.config == "iql" {
		overrides = append(overrides, demonstrations(t, config))
	}
	if strings.HasPrefix(w.config, "sft") || w.config == "reasoning" {
		overrides = append(overrides, additions(t)...)
	}
	if w.config == "reasoning" { // from a model that answers some questions
		overrides = append(overrides, "++runner.ckpt_path="+tuned(t, overrides))
	}
	return config, overrides
}

// membersOf returns the number of members of each component of a job on these ranks.
func membersOf(t *testing.T, ranks int, config string, overrides ...string) map[string]int {
	t.Helper()
	cfg, _ := rolestest.MustLoad(t, config, overrides...)
	place := test.Must(cfg.Place(make([]int, ranks)))(t)
	members := map[string]int{}
	for _, name := range place.Components() {
		members[name] = len(place.Ranks(name))
	}
	if cfg.Deals() { // every rank has a rollout worker
		members["rollout"] = ranks
	}
	return members
}

// TestWandering: a job whose members move again and again has the numbers of a job whose members stay.
func TestWandering(t *testing.T) {
	const ranks = 4
	seeds, all := uint64(1), os.Getenv("RLINF_TEST_FULL") != ""
	if all {
		seeds = 6
	}
	for i, c := range walks(all) {
		if testing.Short() && i%2 == 1 {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			config, overrides := c.job(t)
			members := membersOf(t, ranks, config, overrides...)
			want := train(t, ranks, nil, config, overrides...)
			for seed := range seeds {
				w := &wanderer{random: rand.New(rand.NewPCG(seed, 0)), members: members, ranks: ranks}
				got := train(t, ranks, w, config, overrides...)
				for name := range want {
					if got[name] != want[name] {
						t.Errorf("seed %d, %d moves: %s differs\n%.600s\n%.600s", seed, w.moved, name, got[name],
							want[name])
					}
				}
				if w.moved < 2 || w.refused > 0 || w.twice || len(got) != len(want) {
					t.Errorf("seed %d: %d moves, twice without an iteration between them: %v; %d files, want %d", seed,
						w.moved, w.twice, len(got), len(want))
				}
			}
		})
	}
}

// demonstrations lets an expert play, and returns the key that names the file.
func demonstrations(t *testing.T, config string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "demos.safetensors")
	if code := roles.Main([]string{"rlinf", "demos", "-c", config, "--out", file, "--episodes", "8", "--all",
		"runner.max_steps=8"},
		roles.Registries(rolestest.Registries())); code != 0 {
		t.Fatalf("rlinf demos: exit code %d", code)
	}
	return "++algorithm.demo_buffer.load_path=" + file
}

// TestWanderingApart: asynchronous jobs whose rollouts are far ahead of the actors, and whose bits depend on time, move
// with all that is under way. A rollout that were lost would leave its actor waiting, and one that came twice would be
// too old.
func TestWanderingApart(t *testing.T) {
	for _, c := range []struct {
		name, config string
		overrides    []string
	}{
		{"two rollouts ahead", "async", []string{"algorithm.staleness_threshold=2", "env.train.rollout_epoch=2",
			"actor.global_batch_size=256"}},
		{"memory", "gru", []string{"++runner.async=true", "++algorithm.staleness_threshold=1"}},
		{"own episodes", "async", []string{"algorithm.staleness_threshold=1", "++env.train.auto_reset=false"}},
		{"on one rank", "ppo_collocated", []string{"++runner.async=true", "++algorithm.staleness_threshold=1"}},
		{"replay", "sac", []string{"++runner.async=true"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			config := filepath.Join("../../internal/digests/testdata", c.config+".yaml")
			overrides := append([]string{"++runner.max_steps=12", "++runner.val_check_interval=3",
				"++runner.save_interval=6", "++cluster.allow_idle_ranks=true"}, c.overrides...)
			members := membersOf(t, 4, config, overrides...)
			w := &wanderer{random: rand.New(rand.NewPCG(9, 0)), members: members, ranks: 4}
			train(t, 4, w, config, overrides...)
			if w.moved < 3 || w.refused > 0 {
				t.Errorf("%d moves, %d refused", w.moved, w.refused)
			}
		})
	}
}

// tuned trains a small model until it answers some questions, and returns its file of weights.
func tuned(t *testing.T, data []string) string {
	t.Helper()
	dir := t.TempDir()
	var keys []string
	for _, key := range data {
		if strings.Contains(key, "data.") || strings.Contains(key, "tokenizer") {
			keys = append(keys, key)
		}
	}
	run(t, dir, 2, nil, "../../internal/digests/testdata/sft.yaml", append(keys, "++runner.max_steps=8",
		"++runner.save_interval=8", "++runner.val_check_interval=8")...)
	return filepath.Join(dir, "run/checkpoints/latest/model.safetensors")
}

// additions writes texts to learn from, and returns the keys that name them.
func additions(t *testing.T) []string {
	t.Helper()
	dir := t.TempDir()
	if code := roles.Main([]string{"rlinf", "data", "addition", "--out", dir, "--train", "40", "--test", "8"},
		roles.Registries(rolestest.Registries())); code != 0 {
		t.Fatalf("rlinf data: exit code %d", code)
	}
	test.OK(t, os.WriteFile(filepath.Join(dir, "train.jsonl"),
		[]byte(strings.Repeat(`{"prompt":"1+1=","answer":"2"}`+"\n", 80)), 0o666))
	return []string{"++data.train_data_paths=" + filepath.Join(dir, "train.jsonl"),
		"++data.val_data_paths=" + filepath.Join(dir, "test.jsonl"),
		"++actor.tokenizer.tokenizer_model=" + filepath.Join(dir, "tokenizer")}
}

// TestLastLinesOfAPool: the line that goes on with a job whose pool is all ranks has their number.
func TestLastLinesOfAPool(t *testing.T) {
	cfg, _ := rolestest.MustLoad(t, "../../internal/digests/testdata/reasoning.yaml", append(additions(t),
		"cluster.component_placement={actor: all}", "++cluster.auto_scheduler=true", "++runner.max_steps=1",
		"runner.logger.log_path="+t.TempDir())...)
	var out, log bytes.Buffer
	asked := loop.Watch()
	defer asked.Close()
	started := session.New(session.Options{Registries: rolestest.Registries(), Asked: asked, Out: &out, Log: &log,
		Tasks: task.Tasks{language.Reasoning{}}, Command: "rlinf"})
	code, err := started.Start(t.Context(), local.New(2), cfg, nil, nil)
	if code != 0 || err != nil || !strings.Contains(out.String(), "config.yaml -np 2 ") {
		t.Fatalf("exit code %d, %v\n%s\n%s", code, err, &out, &log)
	}
}

// TestTraceOfMoves: the timeline of a job that moves has what its workers did before and after each move.
func TestTraceOfMoves(t *testing.T) {
	trained := func(s session.Scheduler) (n int) {
		dir := t.TempDir()
		run(t, dir, 4, s, "../../internal/digests/testdata/ppo_disaggregated.yaml", "++runner.max_steps=8",
			"++cluster.allow_idle_ranks=true", "++cluster.tracer.enable=true")
		text := test.Must(os.ReadFile(filepath.Join(dir, "run/trace.json")))(t)
		var timeline struct {
			TraceEvents []struct{ Name, Ph string }
		}
		test.OK(t, json.Unmarshal(text, &timeline))
		for _, e := range timeline.TraceEvents {
			if e.Name == "train" && e.Ph == "X" {
				n++
			}
		}
		return n
	}
	w := &wanderer{random: rand.New(rand.NewPCG(1, 0)), members: map[string]int{"actor": 2, "env": 1, "rollout": 1},
		ranks: 4}
	if got, want := trained(w), trained(nil); got != want || want == 0 || w.moved < 2 {
		t.Errorf("%d spans of training with %d moves, want %d", got, w.moved, want)
	}
}

// An eraser removes a file, and then wants to move members once.
type eraser struct {
	wanderer
	file, to string
}

func (e *eraser) Decide(step, _ int64) *advice.Decision {
	if step < 2 || os.Remove(e.file) != nil {
		return nil
	}
	return &advice.Decision{Placement: e.to, Reason: "a whim"}
}

// TestFilesOfAMove: a job whose workers could not read their files after a move goes on where it is.
func TestFilesOfAMove(t *testing.T) {
	net := rolestest.NewPolicy(t, rolestest.EnvConfig("CartPole-v1", 1), 7, func(c *policy.Config) {
		c.HiddenSizes = []int{16}
	})
	file := filepath.Join(t.TempDir(), "model.safetensors")
	var text bytes.Buffer
	test.OK(t, tensor.WriteSafetensors(&text, job.ModelDict(net.Params()), nil))
	test.OK(t, os.WriteFile(file, text.Bytes(), 0o666))
	e := &eraser{file: file, to: "{actor: 0, env: 0, rollout: 0, reward: 2}"}
	run(t, t.TempDir(), 3, e, "../../internal/digests/testdata/reward.yaml", "++runner.max_steps=6",
		"++cluster.allow_idle_ranks=true", "++reward.use_reward_model=true", "++reward.model.model_path="+file,
		"++reward.model.hidden_sizes=[16]")
	if e.moved != 0 || e.refused != 1 {
		t.Errorf("%d moves, %d refused, want 0 and 1", e.moved, e.refused)
	}
}

// TestMoveWithoutWeights: workers that come to a rank get the weights from others, and do not read the model's files.
func TestMoveWithoutWeights(t *testing.T) {
	dir := t.TempDir()
	overrides := additions(t)
	run(t, dir, 1, nil, "../../internal/digests/testdata/sft.yaml", append(overrides, "++runner.max_steps=1",
		"cluster.component_placement={actor: 0}")...)
	model := filepath.Join(dir, "model")
	if code := roles.Main([]string{"rlinf", "export", filepath.Join(dir, "run"), "--out", model},
		roles.Registries(rolestest.Registries())); code != 0 {
		t.Fatalf("rlinf export: exit code %d", code)
	}
	e := &eraser{file: filepath.Join(model, "model.safetensors"),
		to: "{actor: 1-2, rollout: 2, inference: 1, critic: 2}"}
	run(t, t.TempDir(), 3, e, "../../internal/digests/testdata/reasoning.yaml", append(overrides,
		"++runner.max_steps=6", "~actor.model", "+actor.model={model_type: qwen2, model_path: "+model+"}",
		"++algorithm.kl_beta=0.1",
		"++algorithm.adv_type=gae", "++algorithm.loss_type=actor_critic",
		"cluster.component_placement={actor: 0-1, rollout: 1, inference: 2, critic: 0}")...)
	if e.moved != 1 {
		t.Errorf("%d moves, %d refused, want 1 and 0", e.moved, e.refused)
	}
}

// TestVerifierInAMove: a rank has one verifier, which goes on as long as a worker of its rank needs it.
func TestVerifierInAMove(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3: apt-get install python3")
	}
	clients := test.Must(filepath.Abs("../../clients/python"))(t)
	t.Setenv("PYTHONPATH", clients)
	t.Setenv("PYTHONDONTWRITEBYTECODE", "1")
	dir := t.TempDir()
	began, script := filepath.Join(dir, "began"), filepath.Join(dir, "judge.py")
	judge := fmt.Sprintf("import rlb\nopen(%q, 'a').write('x')\nrlb.grade(lambda p, a, s: 0.5)", began)
	test.OK(t, os.WriteFile(script, []byte(judge), 0o666))
	for _, c := range []struct {
		before, to string
		verifiers  int // in all
	}{
		{"{actor: 0, rollout: 0-1}", "{actor: 0, rollout: '0:0-1'}", 2},
		{"{actor: 0, rollout: 1, reward: 0}", "{actor: 1, rollout: 1, reward: 0}", 2},
		{"{actor: 0, rollout: 0}", "{actor: 0, rollout: 1}", 2},
	} {
		test.OK(t, os.WriteFile(began, nil, 0o666))
		whim := filepath.Join(dir, "whim")
		test.OK(t, os.WriteFile(whim, nil, 0o666))
		e := &eraser{file: whim, to: c.to}
		run(t, t.TempDir(), 2, e, "../../internal/digests/testdata/reasoning.yaml", append(additions(t),
			"++runner.max_steps=6", "++runner.val_check_interval=2", "++cluster.allow_idle_ranks=true",
			"cluster.component_placement="+c.before, "++reward.reward_type=program",
			"++reward.program.command="+python+" "+script)...)
		text, err := os.ReadFile(began)
		if err != nil || len(text) != c.verifiers || e.moved != 1 {
			t.Errorf("%s, then %s: %d verifiers, want %d; %d moves; %v", c.before, c.to, len(text), c.verifiers,
				e.moved, err)
		}
	}
}
