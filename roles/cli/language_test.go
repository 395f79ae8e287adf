package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/policy/lm"
	"github.com/rlinf/rlinf/policy/lm/hf"
	"github.com/rlinf/rlinf/policy/lm/tokenizer"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/tensor"
)

// languageFolder is a folder with a small model of drawn weights and a tokenizer.
func languageFolder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	text := filepath.Join(dir, "text")
	if err := os.WriteFile(text, []byte(strings.Repeat("the hen and the hat are in the hut; ", 20)),
		0o666); err != nil {
		t.Fatal(err)
	}
	code, out, errs := run(t, "tokenizer", "train", "--out", dir, "--vocab-size", "280", text)
	if code != loop.ExitOK || !strings.Contains(out, "tokens") {
		t.Fatalf("tokenizer train: %d, %s%s", code, out, errs)
	}
	k, err := tokenizer.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	m, err := lm.New(new(nn.Params[float32]), lm.Config{
		Family: lm.Qwen2, Vocab: k.Size(), Hidden: 16, Layers: 2, Heads: 2, KVHeads: 1, HeadDim: 16, Intermediate: 20,
		Eps:  1e-5,
		Rope: lm.Rope{Theta: 1e4, Type: lm.RopeDefault}, InitRange: 0.4, QKVBias: true, Tied: true, MaxPositions: 512,
	}, lm.Options{Frozen: true})
	if err == nil {
		err = m.Alloc(tensor.Heap)
	}
	if err != nil {
		t.Fatal(err)
	}
	m.Init(1)
	if err := hf.Save(m, dir, hf.SaveOptions{Tokens: hf.Tokens{BOS: -1, EOS: []int{int(k.EOS())}, Pad: -1}}); err !=
		nil {
		t.Fatal(err)
	}
	return dir
}

// said runs a command and reads the JSON that it writes.
func said[T any](t *testing.T, args ...string) T {
	t.Helper()
	code, out, errs := run(t, args...)
	var value T
	if err := json.Unmarshal([]byte(out), &value); code != loop.ExitOK || err != nil {
		t.Fatalf("%v: %d, %v, %s%s", args, code, err, out, errs)
	}
	return value
}

func TestLanguageCommands(t *testing.T) {
	dir := languageFolder(t)
	type ids struct {
		IDs []int32 `json:"ids"`
	}
	generate := []string{"generate", "-m", dir, "--ids", "5,17,3", "--max-new-tokens", "24", "--temperature", "0",
		"--ignore-eos", "--json"}
	answer := said[ids](t, generate...).IDs
	if len(answer) != 24 || !slices.Equal(said[ids](t, generate...).IDs, answer) {
		t.Errorf("generate: %v, want the same 24 ids again", answer)
	}

	type scores struct {
		LogProbs []float32 `json:"logprobs"`
		Loss     float64   `json:"loss"`
	}
	got := said[scores](t, "score", "-m", dir, "--ids", "5,17,3,8", "--json")
	mean := 0.0
	for _, p := range got.LogProbs {
		mean -= float64(p) / 3
	}
	if len(got.LogProbs) != 3 || slices.Max(got.LogProbs) >= 0 || got.Loss != mean {
		t.Errorf("score: %+v, want 3 log-probs and their mean", got)
	}
	whole := said[scores](t, "score", "-m", dir, "--ids", strings.TrimSuffix(strings.Repeat("5,17,3,8,", 200), ","),
		"--json")
	if !slices.Equal(whole.LogProbs[:3], got.LogProbs) {
		t.Errorf("score of a longer text begins with %v, want %v", whole.LogProbs[:3], got.LogProbs)
	}

	text := said[struct{ Text string }](t, "tokenizer", "decode", "-m", dir, "--ids", "72,105", "--json").Text
	if code, out, errs := run(t, "tokenizer", "decode", "-m", dir, "--ids", "72,105"); code != loop.ExitOK ||
		out != text+"\n" {
		t.Errorf("decode: %d, %q%s, want %q", code, out, errs, text)
	}

	prompts := filepath.Join(dir, "prompts")
	if err := os.WriteFile(prompts, []byte("\ufeffthe hen\r\nthe hat\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	code, out, errs := run(t, "generate", "-m", dir, "--prompts", prompts, "--max-new-tokens", "3", "--seed", "4")
	if code != loop.ExitOK || !strings.HasPrefix(out, "> the hen\n") || !strings.Contains(out, "\n> the hat\n") ||
		!strings.Contains(errs, "tokens/s") {
		t.Errorf("prompts: %d, %q, %q", code, out, errs)
	}
}

func TestLanguageRefuses(t *testing.T) {
	dir := languageFolder(t)
	empty := t.TempDir()
	prompts, adapter := filepath.Join(empty, "prompts"), filepath.Join(empty, "adapter_config.json")
	for name, text := range map[string]string{
		prompts: "a\n\nb\n",
		adapter: `{"r": 1000000000000, "target_modules": ["q_proj"]}`,
	} {
		if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for want, args := range map[string][]string{
		"generate: no folder: expected -m FOLDER": {"generate"},
		"config.json": {"score", "-m", empty, "--ids", "1,2"},
		`--ids: "x": expected numbers from 0 to 273`:   {"score", "-m", dir, "--ids", "1,x"},
		`--ids: "280": expected numbers from 0 to 273`: {"generate", "-m", dir, "--ids", "280"},
		"--ids: 1 token: expected at least 2":          {"score", "-m", dir, "--ids", "1"},
		"--ids: not given":                             {"tokenizer", "decode", "-m", dir},
		"tokenizer.json":                               {"tokenizer", "encode", "-m", empty},
		"temperature -1":                               {"generate", "-m", dir, "--ids", "1", "--temperature", "-1"},
		prompts + ":2: empty":                          {"generate", "-m", dir, "--prompts", prompts},
		"lora rank is 1000000000000":                   {"generate", "-m", dir, "--ids", "1", "--adapter", empty},
		"a cache of 1073741840 tokens": {"generate", "-m", dir, "--ids", "1", "--max-new-tokens",
			"1073741824"},
		"the cache holds 16 tokens": {"generate", "-m", dir, "--ids", "1", "--cache-tokens", "16", "--max-new-tokens",
			"40"},
		"no folder: expected --out": {"tokenizer", "train", "x"},
		"no files: expected texts":  {"tokenizer", "train", "--out", empty},
	} {
		if code, out, errs := run(t, args...); code != loop.ExitConfig || !strings.Contains(errs, want) || out != "" {
			t.Errorf("%v: %d, %q, %q, want %q", args, code, out, errs, want)
		}
	}
}
