package cli

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
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
	return languageFolderOf(t, func(*lm.Model) {})
}

// languageFolderOf is languageFolder with changed weights.
func languageFolderOf(t *testing.T, change func(*lm.Model)) string {
	t.Helper()
	dir := t.TempDir()
	text := filepath.Join(dir, "text")
	test.OK(t, os.WriteFile(text, []byte(strings.Repeat("the hen and the hat are in the hut; ", 20)),
		0o666))
	code, out, errs := run(t, "tokenizer", "train", "--out", dir, "--vocab-size", "280", text)
	if code != loop.ExitOK || !strings.Contains(out, "tokens") {
		t.Fatalf("tokenizer train: %d, %s%s", code, out, errs)
	}
	k, err := tokenizer.Load(dir)
	test.OK(t, err)
	m, err := lm.New(new(nn.Params[float32]), lm.Config{
		Family: lm.Qwen2, Vocab: k.Size(), Hidden: 16, Layers: 2, Heads: 8, KVHeads: 4, HeadDim: 16, Intermediate: 24,
		Eps:  1e-5,
		Rope: lm.Rope{Theta: 1e4, Type: lm.RopeDefault}, InitRange: 0.4, QKVBias: true, Tied: true, MaxPositions: 512,
	}, lm.Options{Frozen: true})
	if err == nil {
		err = m.Alloc(tensor.Heap)
	}
	test.OK(t, err)
	m.Init(1)
	change(m)
	test.OK(t, hf.Save(m, dir, hf.SaveOptions{Tokens: hf.Tokens{BOS: -1, EOS: []int{int(k.EOS())}, Pad: -1}}))
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
	test.EqualSlices(t, whole.LogProbs[:3], got.LogProbs, "score of a longer text begins with")

	text := said[struct{ Text string }](t, "tokenizer", "decode", "-m", dir, "--ids", "72,105", "--json").Text
	if code, out, errs := run(t, "tokenizer", "decode", "-m", dir, "--ids", "72,105"); code != loop.ExitOK ||
		out != text+"\n" {
		t.Errorf("decode: %d, %q%s, want %q", code, out, errs, text)
	}

	prompts := filepath.Join(dir, "prompts")
	writeFile(t, prompts, "\ufeffthe hen\r\nthe hat\n")
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
		writeFile(t, name, text)
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
		"--tensor-parallel-size 3: expected one of [1 2 4]": {"generate", "-m", dir, "--ids", "1",
			"--tensor-parallel-size", "3"},
		"--tensor-parallel-size 8: expected one of [1 2 4]": {"score", "-m", dir, "--ids", "1,2",
			"--tensor-parallel-size", "8"},
		"rollout.tensor_parallel_size: 8: expected 1, 2 or 4": {"eval", "-c", evaluationOf(t, dir, "reasoning"),
			"rollout.tensor_parallel_size=8"},
		"actor.model.tensor_model_parallel_size: 3: expected 1, 2 or 4": {"eval", "-c", evaluationOf(t, dir, "sft"),
			"++actor.model.tensor_model_parallel_size=3"},
		"--chat-template: the tokenizer has no chat template: add one": {"generate", "-m", dir, "--chat"},
		`the tokenizer has no chat template "x"`: {"generate", "-m", dir, "--chat",
			"--chat-template", "x"},
		"--chat-template without --chat": {"generate", "-m", dir,
			"--chat-template", "chatml"},
		"data.chat_template: not set: expected a chat template": {"eval", "-c", evaluationOf(t, dir, "sft"),
			"data.apply_chat_template=true"},
		"no folder: expected --out": {"tokenizer", "train", "x"},
		"no files: expected texts":  {"tokenizer", "train", "--out", empty},
	} {
		if code, out, errs := run(t, args...); code != loop.ExitConfig || !strings.Contains(errs, want) || out != "" {
			t.Errorf("%v: %d, %q, %q, want %q", args, code, out, errs, want)
		}
	}
}

// evaluationOf writes a configuration that evaluates the model in a folder, and returns its path.
func evaluationOf(t *testing.T, dir, task string) string {
	t.Helper()
	texts, file := filepath.Join(dir, "texts.jsonl"), filepath.Join(dir, task+".yaml")
	lines := ""
	for _, noun := range []string{"hen", "hat", "hut", "hen and the hat", "hat and the hut"} {
		lines += fmt.Sprintf(`{"prompt": "the %s ", "answer": "are in the hut"}`+"\n", noun)
	}
	place, data, more := "actor", "", "  global_batch_size: 4\n"
	if task == "reasoning" {
		place, data = "actor,rollout", ", rollout_batch_size: 4, max_prompt_length: 24"
		more = "algorithm: {adv_type: grpo, loss_type: actor, group_size: 2}\nrollout: {eval_sampling_params: {n: 3}}\n"
	}
	for name, text := range map[string]string{texts: lines, file: fmt.Sprintf(`
cluster: {component_placement: {%[1]q: 0}}
runner: {task_type: %[2]s, max_steps: 1, seq_length: 64, logger: {log_path: %[3]s}}
data: {train_data_paths: %[4]s, val_data_paths: %[4]s%[5]s}
actor:
  micro_batch_size: 2
  tokenizer: {tokenizer_model: %[3]s}
  model: {model_type: qwen2, model_path: %[3]s}
  optim: {lr: 1.0e-3}
%[6]s`, place, task, dir, texts, data, more)} {
		writeFile(t, name, text)
	}
	return file
}

// TestDividedModels: a divided model gives the results of a whole one.
func TestDividedModels(t *testing.T) {
	dir := languageFolder(t)
	prompts := filepath.Join(dir, "prompts")
	writeFile(t, prompts, "the hen\nthe hat\nthe hut and\n")
	key := func(k string) func(int) []string {
		return func(n int) []string { return []string{fmt.Sprintf("++%s=%d", k, n)} }
	}
	flag := func(n int) []string { return []string{"--tensor-parallel-size", fmt.Sprint(n)} }
	trained := evaluationOf(t, dir, "sft")
	if code, out, errs := run(t, "-c", trained, "runner.logger.experiment_name=trained"); code != loop.ExitOK {
		t.Fatalf("training: %d, %s%s", code, out, errs)
	}
	checkpoint := filepath.Join(dir, "trained", "checkpoints", "latest")
	rollout, actor := key("rollout.tensor_parallel_size"), key("actor.model.tensor_model_parallel_size")
	for _, c := range []struct {
		divide func(n int) []string
		args   []string
	}{
		{flag, []string{"generate", "-m", dir, "--prompts", prompts, "--max-new-tokens", "30",
			"--max-running-requests", "2", "--threads", "2", "--json"}},
		{flag, []string{"generate", "-m", dir, "--ids", "5,17,3", "--max-new-tokens", "40", "--ignore-eos"}},
		{flag, []string{"score", "-m", dir, "--ids", strings.Repeat("5,17,3,8,", 200) + "5", "--json"}},
		{rollout, []string{"eval", "-c", evaluationOf(t, dir, "reasoning")}},
		{rollout, []string{"eval", "-c", evaluationOf(t, dir, "reasoning"), "--json", "-np", "5"}},
		{actor, []string{"eval", "-c", evaluationOf(t, dir, "sft"), "--json"}},
		{actor, []string{"eval", "-c", evaluationOf(t, dir, "sft"), "--json", "-np", "3"}},
		{actor, []string{"eval", "-c", trained, "--json", "--checkpoint", checkpoint}},
	} {
		want := ""
		for _, n := range []int{1, 2, 4} {
			args := slices.Concat(c.args, c.divide(n))
			code, out, errs := run(t, args...)
			if code != loop.ExitOK || len(out) < 50 {
				t.Fatalf("%v: %d, %s%s", args, code, out, errs)
			}
			if want == "" {
				want = out
			}
			test.Equal(t, out, want, "%v", args)
		}
	}
}

// TestDividedModelFails: an error of one part ends the command, with one message.
func TestDividedModelFails(t *testing.T) {
	dir := languageFolderOf(t, func(m *lm.Model) {
		for _, x := range m.Tensors() {
			if strings.HasSuffix(x.Name, "norm.weight") {
				clear(x.Data)
				x.Data[0] = math.MaxFloat32 // logits overflow
			}
		}
	})
	// There is one sequence, for which the last part draws.
	code, out, errs := run(t, "generate", "-m", dir, "--ids", "0", "--tensor-parallel-size", "2")
	if code != loop.ExitConfig || out != "" || strings.Count(errs, "\n") != 1 ||
		!strings.HasPrefix(errs, "generate: request 0: token 0: a logit is") {
		t.Errorf("%d, %q, %q, want one message about a logit", code, out, errs)
	}
}
