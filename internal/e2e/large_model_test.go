package e2e

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rlinf/rlinf/policy/lm"
	"github.com/rlinf/rlinf/policy/lm/engine"
	"github.com/rlinf/rlinf/policy/lm/hf"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/tensor"
)

// TestLargeModel takes a random model with the sizes of Qwen2.5-0.5B through everything: a checkpoint of bfloat16
// shards, generation, a step of training adapters, and these saved and loaded again. The memory is what check predicts.
func TestLargeModel(t *testing.T) {
	if !full {
		t.Skip("a model of 494 M parameters: RLINF_TEST_FULL=1")
	}
	c := lm.Config{Family: lm.Qwen2, Vocab: 151936, Hidden: 896, Layers: 24, Heads: 14, KVHeads: 2, HeadDim: 64,
		Intermediate: 4864,
		Eps:          1e-6, Rope: lm.Rope{Theta: 1e6, Type: lm.RopeDefault}, Tied: true, QKVBias: true,
		MaxPositions: 32768, InitRange: 0.02}
	dir := writeTexts(t)
	folder := filepath.Join(dir, "model")
	newModel := func(o lm.Options) *lm.Model {
		m, err := lm.New(new(nn.Params[float32]), c, o)
		if err == nil {
			err = m.Alloc(tensor.Heap)
		}
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	m := newModel(lm.Options{Frozen: true})
	if n := m.Count(); n != 494032768 {
		t.Fatalf("%d parameters, want 494032768", n)
	}
	m.Init(1)
	if err := hf.Save(m, folder, hf.SaveOptions{DType: tensor.BF16, ShardBytes: 300 << 20,
		Tokens: hf.Tokens{BOS: -1, Pad: -1}}); err != nil {
		t.Fatal(err)
	}
	shards, err := filepath.Glob(filepath.Join(folder, "model-*.safetensors"))
	if err != nil || len(shards) < 3 {
		t.Fatalf("shards %v, %v", shards, err)
	}
	if err := hf.Load(m, folder); err != nil {
		t.Fatal(err)
	}
	e, err := engine.New(m, engine.Options{MaxRunning: 4, CacheTokens: 512})
	if err != nil {
		t.Fatal(err)
	}
	var requests []engine.Request
	for i := range 4 {
		requests = append(requests, engine.Request{Prompt: []int32{1, 2, int32(i)}, Sampling: engine.Greedy(64)})
	}
	results, err := e.Generate(t.Context(), requests, engine.Watch{})
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range results {
		if len(r.Tokens) != 64 {
			t.Errorf("text %d has %d tokens, want 64", i, len(r.Tokens))
		}
	}
	m, e = nil, nil

	digest := func() (sums []string) {
		for _, file := range shards {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			sums = append(sums, fmt.Sprintf("%x", sha256.Sum256(text)))
		}
		return sums
	}
	before := digest()
	writeFile(t, dir, "job.yaml", components("actor: 0")+strings.Split(tuning, "  model:\n")[0]+
		"  model: {model_type: qwen2, model_path: model, is_lora: true}\n  optim: {lr: 1.0e-3}\n")
	args := []string{"-c", "job.yaml", "runner.max_steps=1", "runner.save_interval=1", "runner.val_check_interval=-1",
		"actor.global_batch_size=4"}
	table := local.ok(t, dir, 0, append([]string{"check"}, args...)...).stdout
	row := regexp.MustCompile(`(?m)^0 .* ([\d.]+) MiB$`).FindStringSubmatch(table)
	if row == nil {
		t.Fatalf("check says\n%s", table)
	}
	predicted, _ := strconv.ParseFloat(row[1], 64)
	j := local.start(t, dir, 0, args...)
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
	if !slices.Equal(digest(), before) {
		t.Error("the base has changed")
	}
	local.ok(t, dir, 0, "export", "logs/run", "--out", "adapter", "--adapter")
	o, err := hf.ReadAdapter(filepath.Join(dir, "adapter"))
	if err != nil {
		t.Fatal(err)
	}
	tuned := newModel(lm.Options{LoRA: o})
	if err := hf.LoadAdapter(tuned, filepath.Join(dir, "adapter")); err != nil {
		t.Fatal(err)
	}
	saved, err := os.ReadFile(filepath.Join(dir, "logs/run/checkpoints/latest/model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	d, _, err := tensor.ReadSafetensors(saved)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range tuned.Adapters() {
		if !bytes.Equal(d.Must(a.Name).Bytes(), tensor.FromF32(a.Data, len(a.Data)).Bytes()) {
			t.Errorf("%s differs from the checkpoint", a.Name)
		}
	}
}

// peakOf returns the most memory that a living process has had, in MiB. The figure of a process that has ended
// includes its parent's.
func peakOf(pid int) float64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	m := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(text)
	if m == nil {
		return 0
	}
	kib, _ := strconv.ParseFloat(string(m[1]), 64)
	return kib / 1024
}
