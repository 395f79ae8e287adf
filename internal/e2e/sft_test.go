package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rlinf/rlinf/internal/test"
)

// tuning is a job that fine-tunes a language model on the data of writeTexts.
const tuning = `
runner:
  task_type: sft
  max_epochs: 3
  seq_length: 96
  val_check_interval: 4
  save_interval: 4
  logger: {experiment_name: run}
data: {train_data_paths: data/train.jsonl, val_data_paths: data/test.jsonl}
actor:
  global_batch_size: 12
  micro_batch_size: 4
  tokenizer: {tokenizer_model: data/tokenizer}
  model:
    model_type: qwen2
    hidden_size: 32
    intermediate_size: 48
    num_hidden_layers: 2
    num_attention_heads: 2
    num_key_value_heads: 1
    tie_word_embeddings: true
  optim: {lr: 1.0e-2}
`

const tuningSteps = 15 // three epochs of 60 texts
const manySteps = 40   // eight epochs

// writeTexts writes word problems of different lengths, and returns the folder.
func writeTexts(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	local.ok(t, dir, 0, "data", "problems", "--out", "data", "--train", "60", "--test", "9", "--steps", "1-2")
	return dir
}

// tune fine-tunes on actors in a placement, to the end, and returns the metrics.
func tune(t testing.TB, on *platform, dir string, np int, place string, args ...string) metrics {
	t.Helper()
	return tuneFor(t, tuningSteps, on, dir, np, place, args...)
}

// tuneFor is tune for another number of steps.
func tuneFor(t testing.TB, steps int, on *platform, dir string, np int, place string, args ...string) metrics {
	t.Helper()
	writeFile(t, dir, "job.yaml", components("actor: %s", place)+tuning)
	on.ok(t, dir, np, append([]string{"-c", "job.yaml"}, args...)...)
	m := readMetrics(t, filepath.Join(dir, "logs", "run"))
	if len(m) != steps {
		t.Fatalf("%d lines of metrics, want %d", len(m), steps)
	}
	return m
}

// TestTuningEqual: the metrics of fine-tuning do not depend on the transport, on the placement, on threads, or on the
// packing of texts into micro-batches.
func TestTuningEqual(t *testing.T) {
	t.Parallel()
	dir := writeTexts(t)
	want := tune(t, local, dir, 0, "'0:0-1'")
	losses := want.values(t, "train/sft/loss")
	if first, last := losses[0], losses[len(losses)-1]; !(last < first/1.5) {
		t.Errorf("the loss goes from %v to %v, want it to fall by a third", first, last)
	}
	if n := len(want.values(t, "eval/loss")); n != 4 {
		t.Errorf("%d evaluations, want 4: after steps 4, 8, 12 and the last", n)
	}
	budgets := []string{"runner.enable_dynamic_batch_size=true", "runner.max_tokens_per_mbs=150"}
	for _, c := range []struct {
		name  string
		on    *platform
		np    int
		place string
		args  []string
	}{
		{"ranks of their own", local, 2, "0-1", nil},
		{"micro-batches of one text", local, 0, "'0:0-1'", []string{"actor.micro_batch_size=1"}},
		{"two threads", local, 0, "'0:0-1'", []string{"actor.micro_batch_size=6", "actor.threads=2"}},
		{"micro-batches by tokens", local, 0, "'0:0-1'", budgets},
		{"Open MPI", openmpi, 2, "0-1", nil},
		{"MPICH, micro-batches by tokens", mpich, 2, "0-1", budgets},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.on.program(t, ".") // or skip the test
			tune(t, c.on, dir, c.np, c.place, c.args...).same(t, want)
		})
	}
	t.Run("other texts for an actor", func(t *testing.T) {
		got := tune(t, local, dir, 0, "'0:0-1'", "actor.enable_dp_load_balance=true")
		first := func(m metrics, name string) float64 { return m.values(t, name)[0] }
		if a, b := first(got, "train/sft/loss"), first(want, "train/sft/loss"); a-b > 1e-5 || b-a > 1e-5 {
			t.Errorf("the first loss is %v, want %v except for rounding: the batch is the same", a, b)
		}
		if got.diff(want) == "" {
			t.Error("the texts are dealt as without enable_dp_load_balance")
		}
	})
}

// TestTuningKilled: fine-tuning that was killed by SIGKILL ends after a resume with the metrics of an undisturbed run,
// with adapters and without.
func TestTuningKilled(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		on   *platform
		args []string
	}{
		{"all weights", local, nil},
		{"adapters", openmpi, []string{"actor.model.is_lora=true", "actor.model.lora_rank=4"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.on.program(t, ".")
			dir := writeTexts(t)
			more := append([]string{"runner.max_epochs=8"}, c.args...)
			want := tuneFor(t, manySteps, local, dir, 2, "0-1", more...)
			test.OK(t, os.RemoveAll(filepath.Join(dir, "logs")))
			j := c.on.start(t, dir, 2, append([]string{"-c", "job.yaml"}, more...)...)
			for saved := filepath.Join(dir, "logs/run/checkpoints/global_step_4"); ; time.Sleep(time.Millisecond) {
				if _, err := os.Stat(saved); err == nil || j.over() {
					break
				}
			}
			for _, p := range j.processes() {
				if p.rank == 1 || p.rank < 0 && c.on == local {
					syscall.Kill(p.pid, syscall.SIGKILL)
				}
			}
			if code := j.wait(); code == 0 {
				t.Error("the run has ended before it was killed")
			}
			tuneFor(t, manySteps, c.on, dir, 2, "0-1", append(more, "--resume", "auto")...).same(t,
				want)
			verified(t, ".", dir, "logs/run")
		})
	}
}

// TestTuningStops: a run ends early, with a checkpoint, if its validation stops improving or is good enough.
func TestTuningStops(t *testing.T) {
	t.Parallel()
	dir := writeTexts(t)
	writeFile(t, dir, "job.yaml", components("actor: 0-1")+tuning)
	local.ok(t, dir, 0, "-c", "job.yaml", "runner.early_stop={enabled: true, patience: 2, min_delta: 100}",
		"runner.val_check_interval=2", "cluster.allow_idle_ranks=true", "-np", "3")
	m := readMetrics(t, filepath.Join(dir, "logs", "run"))
	if len(m) != 6 { // the first evaluation is the best, and two more do not improve
		t.Errorf("%d steps, want 6", len(m))
	}
	if _, err := os.Stat(filepath.Join(dir, "logs/run/checkpoints/global_step_6/model.safetensors")); err != nil {
		t.Error(err)
	}
	if status, _ := os.ReadFile(filepath.Join(dir, "logs/run/STATUS")); strings.TrimSpace(string(status)) != "done" {
		t.Errorf("STATUS is %s, want done", status)
	}
	losses := m.values(t, "eval/loss")
	local.ok(t, dir, 0, "-c", "job.yaml", fmt.Sprintf("runner.early_stop={enabled: true, target: %v}", losses[1]),
		"runner.val_check_interval=2",
		"cluster.allow_idle_ranks=true", "-np", "3", "runner.logger.experiment_name=target")
	if n := len(readMetrics(t, filepath.Join(dir, "logs", "target"))); n != 4 {
		t.Errorf("%d steps, want the 4 after which the loss is %v", n, losses[1])
	}
}

// TestExport: the files of rlinf export have the names, shapes and types that other programs expect. An independent
// reader checks them. Training can start from an exported model. A model with merged adapters gives the outputs of the
// model with separate adapters.
func TestExport(t *testing.T) {
	t.Parallel()
	dir := writeTexts(t)
	tune(t, local, dir, 0, "0")
	local.ok(t, dir, 0, "export", "logs/run", "--out", "base", "--dtype", "bf16", "--shard-mb", "1")
	local.ok(t, dir, 0, "export", "logs/run", "--out", "full")
	t.Run("an independent reader", func(t *testing.T) {
		python, err := exec.LookPath("python3")
		if err != nil {
			t.Skip("no python3: apt-get install python3")
		}
		text, err := exec.Command(python, "testdata/read_model.py", filepath.Join(dir, "full"),
			filepath.Join(dir, "base")).CombinedOutput()
		if err != nil {
			t.Errorf("%v: %s", err, text)
		}
	})
	// training of adapters on the exported model
	writeFile(t, dir, "lora.yaml", components("actor: 0")+strings.Split(tuning, "  model:\n")[0]+
		"  model: {model_type: qwen2, model_path: full, is_lora: true, lora_rank: 4, lora_alpha: 8}\n  optim: {lr: "+
		"1.0e-2}\n")
	local.ok(t, dir, 0, "-c", "lora.yaml", "runner.logger.experiment_name=lora")
	local.ok(t, dir, 0, "export", "logs/lora", "--out", "adapter", "--adapter")
	local.ok(t, dir, 0, "export", "logs/lora", "--out", "merged")
	score := func(args ...string) (s struct{ Loss float64 }) {
		t.Helper()
		r := local.ok(t, dir, 0, append([]string{"score", "--ids", "72,101,30,44,12,99", "--json"}, args...)...)
		test.OK(t, json.Unmarshal([]byte(r.stdout), &s))
		return s
	}
	base, beside, merged := score("-m", "full"), score("-m", "full", "--adapter", "adapter"), score("-m", "merged")
	if d := beside.Loss - merged.Loss; d > 1e-5 || d < -1e-5 {
		t.Errorf("loss %v with adapters beside the model, %v merged", beside.Loss, merged.Loss)
	}
	if base == beside {
		t.Error("the adapters change nothing")
	}
	t.Run("below adapters", func(t *testing.T) { tuneOnCheckpoint(t, dir) })
	// training that starts from adapters
	local.ok(t, dir, 0, "-c", "lora.yaml", "actor.model.lora_path=adapter", "runner.max_steps=1",
		"runner.logger.experiment_name=on")
	first := readMetrics(t, filepath.Join(dir, "logs", "on")).values(t, "train/sft/loss")[0]
	anew := readMetrics(t, filepath.Join(dir, "logs", "lora")).values(t, "train/sft/loss")[0]
	if !(first < anew) {
		t.Errorf("the first loss is %v with trained adapters, %v with new ones", first, anew)
	}
}

// tuneOnCheckpoint trains adapters on the checkpoint whose exported model is in the folder full. The result is that of
// training on full as model_path, also after a resume, which needs the same checkpoint.
func tuneOnCheckpoint(t *testing.T, dir string) {
	want := readMetrics(t, filepath.Join(dir, "logs", "lora"))
	const start = "runner.ckpt_path=logs/run/checkpoints/latest/model.safetensors"
	writeFile(t, dir, "on.yaml", components("actor: 0")+tuning)
	args := []string{"-c", "on.yaml", "actor.model.is_lora=true", "actor.model.lora_rank=4", "actor.model.lora_alpha=8",
		"runner.logger.experiment_name=ckpt"}
	local.ok(t, dir, 0, append(args, start, "runner.max_steps=8")...)
	const resume = "runner.resume_dir=logs/ckpt/checkpoints/global_step_8"
	refused(t, local, dir, 0, "logs/ckpt/checkpoints/global_step_8: runner.ckpt_path: none: expected the weights "+
		"below the checkpoint's adapters", append(args, resume)...)
	other := "runner.ckpt_path=logs/run/checkpoints/global_step_8/model.safetensors"
	refused(t, local, dir, 0,
		"logs/ckpt/checkpoints/global_step_8: runner.ckpt_path: logs/run/checkpoints/global_step_8/model.safetensors: "+
			"expected the weights below the checkpoint's adapters, not others", append(args, resume, other)...)
	local.ok(t, dir, 0, append(args, start, resume)...)
	readMetrics(t, filepath.Join(dir, "logs", "ckpt")).same(t, want)
	local.ok(t, dir, 0, "export", "logs/ckpt", "--out", "ckpt")
	merged := readFile(t, filepath.Join(dir, "merged/model.safetensors"))
	if got, err := os.ReadFile(filepath.Join(dir, "ckpt/model.safetensors")); err != nil || string(got) != merged {
		t.Errorf("the export is not that of adapters on the folder (%v)", err)
	}
	const adapters = "runner.ckpt_path=logs/lora/checkpoints/latest/model.safetensors"
	refused(t, local, dir, 0, "command line: runner.ckpt_path: logs/lora/checkpoints/latest/model.safetensors: "+
		"expected no adapters beside those of resume_dir", append(args, resume, adapters)...)
	refused(t, local, dir, 0, "command line: runner.ckpt_path: expected weights of this model: "+
		"logs/run/checkpoints/latest/model.safetensors: "+
		"model: model.embed_tokens.weight is F32[32 421], this model's is [64 421]",
		append(args, start, "actor.model.hidden_size=64")...)
}

// TestTuningMistakes: data that cannot be learnt from are refused on every rank before work starts, and no file is
// left.
func TestTuningMistakes(t *testing.T) {
	t.Parallel()
	dir := damagedModels(t)
	for _, c := range tuningMistakes() {
		t.Run(c.name, func(t *testing.T) {
			refused(t, local, dir, 2, c.want, "-c", c.config+".yaml", c.arg, "runner.logger.experiment_name=other")
		})
	}
	t.Run("another model", func(t *testing.T) {
		r := local.run(t, dir, 0, "-c", "job.yaml", "actor.model.model_type=mlp_policy")
		if r.code != 2 ||
			!strings.Contains(r.stderr, "actor.model.model_type: mlp_policy: expected one of qwen2, qwen3,") {
			t.Errorf("exit code %d: %s", r.code, r.stderr)
		}
	})
	t.Run("other texts than the checkpoint's", func(t *testing.T) {
		file := test.Must(os.OpenFile(filepath.Join(dir, "data/train.jsonl"), os.O_APPEND|os.O_WRONLY, 0))(t)
		fmt.Fprintln(file, `{"prompt": "a", "answer": "b"}`)
		test.OK(t, file.Close())
		refused(t, local, dir, 2, "%global_step_15: data.train_data_paths: the texts are not those of the checkpoint",
			"-c", "job.yaml",
			"--resume", "logs/run/checkpoints/global_step_15", "runner.max_steps=20", "runner.max_epochs=9",
			"runner.logger.experiment_name=other")
	})
}

// damagedModels returns a folder with a run, folders with models of other weights or sizes, and texts that cannot be
// learnt from.
func damagedModels(t *testing.T) string {
	t.Helper()
	dir := writeTexts(t)
	writeFile(t, dir, "job.yaml", components("actor: 0-1")+tuning)
	tune(t, local, dir, 0, "0-1")
	local.ok(t, dir, 0, "export", "logs/run", "--out", "model")
	weights := readFile(t, filepath.Join(dir, "model/model.safetensors"))
	damaged := func(name, weights string) {
		t.Helper()
		test.OK(t, os.CopyFS(filepath.Join(dir, name), os.DirFS(filepath.Join(dir, "model"))))
		writeFile(t, filepath.Join(dir, name), "model.safetensors", weights)
	}
	damaged("short", weights[:len(weights)-100])
	nan := []byte(weights)
	copy(nan[len(nan)-4:], "\x00\x00\xc0\x7f")
	damaged("nan", string(nan))
	damaged("shape", weights)
	config := readFile(t, filepath.Join(dir, "model/config.json"))
	writeFile(t, filepath.Join(dir, "shape"), "config.json", strings.Replace(config, `"intermediate_size": 48`,
		`"intermediate_size": 64`, 1))

	writeFile(t, dir, "empty.jsonl", "\n")
	writeFile(t, dir, "broken.jsonl", "{\"prompt\": \"a\", \"answer\": \"b\"}\n{\"prompt\": \"a\"}\n")
	writeFile(t, dir, "long.jsonl", fmt.Sprintf("{\"prompt\": \"a\", \"answer\": %q}\n", strings.Repeat("x", 200)))
	base := components("actor: 0-1") + strings.Split(tuning, "  model:\n")[0] + "  optim: {lr: 1.0e-2}\n"
	writeFile(t, dir, "folder.yaml", base)
	return dir
}

// A tuningMistake is an argument for one of two configurations: job trains a new model, folder trains the model of a
// folder.
type tuningMistake struct{ name, config, arg, want string }

func tuningMistakes() []tuningMistake {
	const from = "command line: "
	folder := func(name string) string {
		return "actor.model={model_type: qwen2, model_path: " + name + "}"
	}
	return []tuningMistake{
		{"no text", "job", "data.train_data_paths=empty.jsonl",
			from + "data.train_data_paths: expected texts to learn from: [empty.jsonl]: no sample: expected lines of " +
				"JSON"},
		{"no answer", "job", "data.train_data_paths=broken.jsonl", from + `data.train_data_paths: expected texts to ` +
			`learn from: broken.jsonl:2: no key "answer": the record has prompt`},
		{"too long", "job", "data.train_data_paths=long.jsonl",
			"% runner.seq_length: 96: expected at least %, the tokens of the longest text, or " +
				"data.filter_prompt_by_length: true: long.jsonl:1: % tokens: expected at most 96"},
		{"another key", "job", "data.prompt_key=question", from + "data.prompt_key: question: expected the key of " +
			"the prompts: %:1: no key \"question\": the record has answer, prompt, query_id, %"},
		{"no such file", "job", "data.val_data_paths=none.jsonl",
			from + "data.val_data_paths: expected texts to learn from: open none.jsonl: no such file or directory"},
		{"data that rlinf makes", "job", "data.val_data_paths=data/countdown/test.jsonl",
			from + "data.val_data_paths: expected texts to learn from: " +
				"open data/countdown/test.jsonl: no such file or directory: make it by rlinf data countdown"},
		{"a checkpoint that a run makes", "job", "runner.ckpt_path=logs/first/checkpoints/latest/model.safetensors",
			"runner.ckpt_path: open " +
				"logs/first/checkpoints/latest/model.safetensors: no such file or directory: the run first makes it, " +
				"and comes first"},
		{"a smaller vocabulary", "job", "actor.model.vocab_size=90", "job.yaml:12: data.train_data_paths: expected " +
			"texts to learn from: data/train.jsonl:1: token % is %: the model knows 90"},
		{"uneven", "job", "actor.global_batch_size=13",
			from + "actor.global_batch_size: 13: expected a multiple of 2 actors"},
		{"more than there are", "job", "actor.global_batch_size=62",
			from + "actor.global_batch_size: 62: expected at most 60, the samples of data.train_data_paths"},
		{"heads", "job", "actor.model.num_key_value_heads=3",
			"%: actor.model.model_type: qwen2: expected a model that can be made: %"},
		{"cut", "folder", folder("short"),
			from + "actor.model.model_path: short: expected a folder of weights: load model: " +
				"short/model.safetensors: %"},
		{"not a number", "folder", folder("nan"), "actor 0: actor.model.model_path: load model: %"},
		{"another shape", "folder", folder("shape"),
			from + "actor.model.model_path: shape: expected a folder of weights: load model: " +
				"shape/model.safetensors: %"},
		{"a size that is a mistake", "job", "actor.model.hidden_size=100000000000", "%: actor.model.model_type: " +
			"qwen2: expected a model that can be made: hidden_size is 100000000000, must be at most %"},
		{"a model beyond the memory", "job", "actor.model.hidden_size=1048576",
			"%node 0 needs % MiB for parameters, optimiser, activations and texts, and %"},
		{"another family", "folder", "actor.model={model_type: llama, model_path: model}",
			from + "actor.model.model_type: llama: expected a model that can be made: model has a model of the " +
				"family qwen2"},
		{"no chat template", "job", "data.apply_chat_template=1",
			from + "data.apply_chat_template: 1: expected true or false"},
	}
}
