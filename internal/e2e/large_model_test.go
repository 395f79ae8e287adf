package e2e

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy/lm"
	"github.com/rlinf/rlinf/policy/lm/engine"
	"github.com/rlinf/rlinf/policy/lm/hf"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/tensor"
)

// TestLargeModel tests a random model with the sizes of Qwen2.5-0.5B: a checkpoint of bfloat16 shards, generation, a
// step of training adapters, and adapters that are saved and loaded. The memory is as check predicts.
func TestLargeModel(t *testing.T) {
	if !full {
		t.Skip("a model of 494 M parameters: RLINF_TEST_FULL=1")
	}
	dir := writeTexts(t)
	folder := filepath.Join(dir, "model")
	m, shards := saveLarge(t, folder)
	test.OK(t, hf.Load(m, folder))
	generate(t, m)
	m = nil

	before := digestsOf(t, shards)
	writeFile(t, dir, "job.yaml", components("actor: 0")+strings.Split(tuning, "  model:\n")[0]+
		"  model: {model_type: qwen2, model_path: model, is_lora: true}\n  optim: {lr: 1.0e-3}\n")
	args := []string{"-c", "job.yaml", "runner.max_steps=1", "runner.save_interval=1", "runner.val_check_interval=-1",
		"actor.global_batch_size=4"}
	predicted := predictedMemory(t, dir, args...)[0]
	checkPeak(t, local.start(t, dir, 0, args...), predicted)
	if !slices.Equal(digestsOf(t, shards), before) {
		t.Error("the base has changed")
	}
	local.ok(t, dir, 0, "export", "logs/run", "--out", "adapter", "--adapter")
	o := test.Must(hf.ReadAdapter(filepath.Join(dir, "adapter")))(t)
	tuned := newLarge(t, lm.Options{LoRA: o})
	test.OK(t, hf.LoadAdapter(tuned, filepath.Join(dir, "adapter")))
	saved := readTensors(t, filepath.Join(dir, "logs/run/checkpoints/latest/model.safetensors"))
	for _, a := range tuned.Adapters() {
		if !bytes.Equal(saved.Must(a.Name).Bytes(), tensor.FromF32(a.Data, len(a.Data)).Bytes()) {
			t.Errorf("%s differs from the checkpoint", a.Name)
		}
	}
}

// generate lets the model m generate texts.
func generate(t *testing.T, m *lm.Model) {
	t.Helper()
	e := test.Must(engine.New(m, engine.Options{MaxRunning: 4, CacheTokens: 512}))(t)
	var requests []engine.Request
	for i := range 4 {
		requests = append(requests, engine.Request{Prompt: []int32{1, 2, int32(i)}, Sampling: engine.Greedy(64)})
	}
	results := test.Must(e.Generate(t.Context(), requests, engine.Watch{}))(t)
	for i, r := range results {
		if len(r.Tokens) != 64 {
			t.Errorf("text %d has %d tokens, want 64", i, len(r.Tokens))
		}
	}
}

// checkPeak waits for a job of one process, and compares the memory with the prediction of check, in MiB.
func checkPeak(t *testing.T, j *job, predicted float64) {
	t.Helper()
	peak := 0.0
	for ; !j.over(); time.Sleep(10 * time.Millisecond) {
		for _, p := range j.processes() {
			peak = max(peak, peakOf(p.pid))
		}
	}
	if code := j.wait(); code != 0 {
		t.Fatalf("exit code %d\n%s%s", code, &j.stdout, &j.stderr)
	}
	t.Logf("a step takes %.0f MiB, check predicts %.0f", peak, predicted)
	if peak < 0.9*predicted || peak > 1.1*predicted {
		t.Errorf("a step takes %.0f MiB, check predicts %.0f: want 10 %% at most between them", peak, predicted)
	}
}

// TestDividedLargeModel trains all weights of the model of TestLargeModel on one rank, and on four ranks that divide
// the model. The files of the checkpoints are equal, and one rank resumes from the checkpoint of the four. Each of the
// four needs at most 0.4 of the memory of one rank, as check predicts. Shared memory counts once.
func TestDividedLargeModel(t *testing.T) {
	if !full {
		t.Skip("a model of 494 M parameters, all trained: RLINF_TEST_FULL=1")
	}
	openmpi.program(t, ".") // or skip the test
	dir := writeTexts(t)
	_, shards := saveLarge(t, filepath.Join(dir, "model"))
	before := digestsOf(t, shards)
	job := strings.Split(tuning, "  model:\n")[0] +
		"  model: {model_type: qwen2, model_path: model}\n  optim: {lr: 1.0e-3}\n"
	args := []string{"-c", "job.yaml", "runner.max_steps=1", "runner.save_interval=-1", "runner.val_check_interval=-1",
		"runner.seq_length=64", "actor.global_batch_size=8", "actor.micro_batch_size=2"}
	run := func(on *platform, np int, place string, more ...string) (peaks []float64) {
		writeFile(t, dir, "job.yaml", components("actor: %s", place)+job)
		args := append(args, more...)
		predicted := predictedMemory(t, dir, args...)
		j := on.start(t, dir, np, args...)
		peaks = make([]float64, len(predicted))
		for ; !j.over(); time.Sleep(50 * time.Millisecond) {
			for _, p := range j.processes() {
				if p.rank >= 0 || j.launcher == "" {
					peaks[max(p.rank, 0)] = max(peaks[max(p.rank, 0)], shareOf(p.pid))
				}
			}
		}
		if code := j.wait(); code != 0 {
			t.Fatalf("exit code %d\n%s%s", code, &j.stdout, &j.stderr)
		}
		for rank, peak := range peaks {
			t.Logf("rank %d of %d: %.0f MiB, check predicts %.0f", rank, len(peaks), peak, predicted[rank])
			if peak < 0.95*predicted[rank] || peak > 1.05*predicted[rank] {
				t.Errorf("rank %d of %d needs %.0f MiB, check predicts %.0f: want 5 %% at most between them", rank,
					len(peaks), peak, predicted[rank])
			}
		}
		return peaks
	}
	logs := filepath.Join(dir, "logs")
	files := []string{filepath.Join(logs, "run/checkpoints/latest/model.safetensors"),
		filepath.Join(logs, "run/checkpoints/latest/trainer.safetensors")}
	whole := run(local, 0, "0")[0]
	want := digestsOf(t, files)
	if err := os.RemoveAll(logs); err != nil { // two checkpoints are 12 GB
		t.Fatal(err)
	}
	for rank, peak := range run(openmpi, 4, "0-3", divided(2, "actor.model.pipeline_model_parallel_size=2")...) {
		if peak > 0.4*whole {
			t.Errorf("rank %d needs %.0f MiB, want at most 0.4 of the %.0f of one rank", rank, peak, whole)
		}
	}
	if !slices.Equal(digestsOf(t, files), want) {
		t.Error("the checkpoint of four ranks differs from that of one")
	}
	run(local, 0, "0", "runner.max_steps=2", "runner.save_at_end=false", "runner.resume_dir=auto")
	if m := readMetrics(t, filepath.Join(logs, "run")); len(m) != 2 {
		t.Errorf("%d steps, want 2", len(m))
	}
	if !slices.Equal(digestsOf(t, shards), before) {
		t.Error("the folder of the model has changed")
	}
}

// newLarge returns a model with the sizes of Qwen2.5-0.5B, and weights of 0.
func newLarge(t *testing.T, o lm.Options) *lm.Model {
	t.Helper()
	c := lm.Config{Family: lm.Qwen2, Vocab: 151936, Hidden: 896, Layers: 24, Heads: 14, KVHeads: 2, HeadDim: 64,
		Intermediate: 4864,
		Eps:          1e-6, Rope: lm.Rope{Theta: 1e6, Type: lm.RopeDefault}, Tied: true, QKVBias: true,
		MaxPositions: 32768, InitRange: 0.02}
	m, err := lm.New(new(nn.Params[float32]), c, o)
	if err == nil {
		err = m.Alloc(tensor.Heap)
	}
	test.OK(t, err)
	return m
}

// saveLarge writes a random model with the sizes of Qwen2.5-0.5B to a folder, as bfloat16. It returns the model and the
// files of its weights.
func saveLarge(t *testing.T, folder string) (m *lm.Model, shards []string) {
	t.Helper()
	m = newLarge(t, lm.Options{Frozen: true})
	if n := m.Count(); n != 494032768 {
		t.Fatalf("%d parameters, want 494032768", n)
	}
	m.Init(1)
	test.OK(t, hf.Save(m, folder, hf.SaveOptions{DType: tensor.BF16, ShardBytes: 300 << 20,
		Tokens: hf.Tokens{BOS: -1, Pad: -1}}))
	shards, err := filepath.Glob(filepath.Join(folder, "model-*.safetensors"))
	if err != nil || len(shards) < 3 {
		t.Fatalf("shards %v, %v", shards, err)
	}
	return m, shards
}

// digestsOf returns a digest of each file.
func digestsOf(t *testing.T, files []string) (sums []string) {
	t.Helper()
	for _, path := range files {
		f := test.Must(os.Open(path))(t)
		defer f.Close()
		h := sha256.New()
		test.Must(io.Copy(h, f))(t)
		sums = append(sums, fmt.Sprintf("%x", h.Sum(nil)))
	}
	return sums
}

// predictedMemory returns the memory that check predicts for each rank of a job, in MiB.
func predictedMemory(t *testing.T, dir string, args ...string) (ranks []float64) {
	t.Helper()
	table := local.ok(t, dir, 0, append([]string{"check"}, args...)...).stdout
	for _, row := range regexp.MustCompile(`(?m)^\d+ .* ([\d.]+) MiB$`).FindAllStringSubmatch(table, -1) {
		need, _ := strconv.ParseFloat(row[1], 64)
		ranks = append(ranks, need)
	}
	if ranks == nil {
		t.Fatalf("check says\n%s", table)
	}
	return ranks
}

// shareOf returns the memory that a living process has now, in MiB. Its share of a page that n processes use is 1/n.
func shareOf(pid int) float64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	return mebibytes(regexp.MustCompile(`(?m)^Pss:\s+(\d+) kB`), text)
}

// peakOf returns the peak memory of a living process, in MiB. (The peak of a process that has ended includes its
// parent.)
func peakOf(pid int) float64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	return mebibytes(regexp.MustCompile(`VmHWM:\s+(\d+) kB`), text)
}

// mebibytes returns a figure in KiB of a line of text, in MiB; 0 if there is no such line.
func mebibytes(line *regexp.Regexp, text []byte) float64 {
	m := line.FindSubmatch(text)
	if m == nil {
		return 0
	}
	kib, _ := strconv.ParseFloat(string(m[1]), 64)
	return kib / 1024
}
