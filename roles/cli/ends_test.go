package cli

import (
	"encoding/json"
	"fmt"
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

// manyEnds is a folder with a new model. Its config.json, its tokenizer and its chat template name different ends.
type manyEnds struct {
	dir    string // has the folder base
	tokens *tokenizer.Tokenizer
}

func newManyEnds(t *testing.T) manyEnds {
	t.Helper()
	dir := t.TempDir()
	base := filepath.Join(dir, "base")
	k, err := tokenizer.Train(base, slices.Values([]string{"a"}), tokenizer.Training{VocabSize: 260, Pattern: "qwen2",
		MinCount: 2, Special: []string{"<end>", "<folder>", "<|im_start|>", "<|im_end|>"}, EOS: "<end>"})
	test.OK(t, err)
	m := newLlama(t, lm.Options{Frozen: true})
	end, _ := k.ID("<folder>")
	test.OK(t, hf.Save(m, base, hf.SaveOptions{Tokens: hf.Tokens{BOS: -1, EOS: []int{int(end)}, Pad: -1}}))
	test.OK(t, os.Remove(filepath.Join(base, "generation_config.json")))
	writeFile(t, filepath.Join(base, "chat_template.jinja"), "{% for m in messages %}<|im_start|>{{ m.role }}\n"+
		"{{ m.content }}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")
	writeFile(t, filepath.Join(dir, "data.jsonl"), `{"prompt": "hi", "answer": "yes"}`+"\n"+
		`{"prompt": "bye", "answer": "no"}`+"\n")
	writeFile(t, filepath.Join(dir, "prompts"), "hi\nbye\n")
	return manyEnds{dir, k}
}

func newLlama(t *testing.T, o lm.Options) *lm.Model {
	t.Helper()
	m, err := lm.New(new(nn.Params[float32]), lm.Config{Family: lm.Llama, Vocab: 260, Hidden: 32, Layers: 1, Heads: 2,
		KVHeads: 1, HeadDim: 16, Intermediate: 48, Eps: 1e-5, Rope: lm.Rope{Theta: 1e4, Type: lm.RopeDefault},
		InitRange: 0.2, MaxPositions: 64}, o)
	if err == nil {
		err = m.Alloc(tensor.Heap)
	}
	test.OK(t, err)
	m.Init(3)
	return m
}

// config writes a configuration of a task, whose run has the given name, and returns its path.
func (f manyEnds) config(t *testing.T, name, task, model string, chat bool) string {
	t.Helper()
	data, actor, more := "", "global_batch_size: 2, optim: {lr: 1.0e-2}", "max_steps: 100"
	if task == "reasoning" {
		data, actor, more = ", rollout_batch_size: 2, max_prompt_length: 48", "optim: {lr: 1.0e-12}", "max_steps: 1"
	}
	path := filepath.Join(f.dir, name+".yaml")
	writeFile(t, path, fmt.Sprintf(`
cluster: {component_placement: {actor: 0}}
runner: {task_type: %s, seq_length: 64, %s, logger: {experiment_name: %s, log_path: %[4]s}}
data: {train_data_paths: %[4]s/data.jsonl, val_data_paths: %[4]s/data.jsonl, apply_chat_template: %v%s}
actor: {micro_batch_size: 2, %s, model: {model_type: llama, model_path: %s}}
`, task, more, name, f.dir, chat, data, actor, filepath.Join(f.dir, model)))
	if task == "reasoning" {
		text := test.Must(os.ReadFile(path))(t)
		writeFile(t, path, string(text)+
			"algorithm: {adv_type: grpo, loss_type: actor, group_size: 2, n_minibatches: 1}\n")
	}
	return path
}

// ok runs a command that must succeed, and returns what it writes.
func ok(t *testing.T, args ...string) string {
	t.Helper()
	code, out, errs := run(t, args...)
	if code != loop.ExitOK {
		t.Fatalf("%v: %d, %s%s", args, code, out, errs)
	}
	return out + errs
}

// answers returns the tokens of the likeliest answers of the model in a folder.
func (f manyEnds) answers(t *testing.T, model string, flags ...string) (texts []string) {
	t.Helper()
	out := ok(t, append([]string{"generate", "-m", filepath.Join(f.dir, model), "--prompts",
		filepath.Join(f.dir, "prompts"), "--temperature", "0", "--max-new-tokens", "16", "--json"}, flags...)...)
	for line := range strings.Lines(out) {
		var answer struct {
			IDs []int32 `json:"ids"`
		}
		if json.Unmarshal([]byte(line), &answer) == nil {
			texts = append(texts, f.tokens.Decode(answer.IDs))
		}
	}
	return texts
}

// TestOneEnd: a base model is trained by pairs, by chats, and by rewards. Whatever ends its answers in training ends
// them in evaluations, in generation, and in the exported model.
func TestOneEnd(t *testing.T) {
	for name, c := range map[string]struct {
		chat  bool
		end   string
		flags []string
	}{
		"pairs": {false, "<end>", nil},
		"chats": {true, "<|im_end|>", []string{"--chat"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newManyEnds(t)
			in := func(name string) string { return filepath.Join(f.dir, name) }
			want := []string{"yes" + c.end, "no" + c.end}
			length := float64(len("yes")+len("no")+2) / 2
			tuned := f.config(t, "tuned", "sft", "base", c.chat)
			ends := `end of an answer: token 257 "<folder>", or 256 "<end>"`
			if c.chat {
				ends += `, or 259 "<|im_end|>"`
			}
			if out := ok(t, "check", "-c", tuned); !strings.Contains(out, ends+"\n") {
				t.Errorf("check does not say %q:\n%s", ends, out)
			}
			code, out, errs := run(t, "check", "-c", tuned, "data.val_data_paths=nope") // rlinf eval would read it
			if code != loop.ExitConfig || !strings.Contains(errs, "data.val_data_paths: nope: expected files of") {
				t.Errorf("a missing file: %d, %s%s", code, out, errs)
			}
			ok(t, "-c", tuned)
			ok(t, "export", in("tuned"), "--out", in("out"))
			test.EqualSlices(t, f.answers(t, "out", c.flags...), want, "the exported model answers")

			// the base folder knows the end of the checkpoint
			check := func(config string, args ...string) {
				t.Helper()
				got := said[map[string]any](t, append([]string{"eval", "-c", config, "--json"}, args...)...)
				if got["eval/accuracy"] != 1. || got["eval/truncated"] != 0. || got["eval/response_length"] != length {
					t.Errorf("%v: %v, expected right answers of %v tokens", args, got, length)
				}
			}
			check(f.config(t, "asked", "reasoning", "base", c.chat), "--checkpoint", in("tuned/checkpoints/latest"))

			// rewards, on the exported model
			rewarded := f.config(t, "rewarded", "reasoning", "out", c.chat)
			check(rewarded)
			ok(t, "-c", rewarded)
			check(rewarded)
			ok(t, "export", in("rewarded"), "--out", in("again"))
			test.EqualSlices(t, f.answers(t, "again", c.flags...), want, "the model that was rewarded answers")
			for _, model := range []string{"out", "again"} {
				tokens, err := hf.ReadTokens(in(model), "")
				set := []int{257, 256, 259}
				if !c.chat {
					set = set[:2]
				}
				if err != nil || !slices.Equal(tokens.EOS, set) {
					t.Errorf("the ends of %s are %v, expected %v (%v)", model, tokens.EOS, set, err)
				}
			}
		})
	}
}

// TestEmptyPrompt: an empty prompt is a mistake with file and line.
func TestEmptyPrompt(t *testing.T) {
	f := newManyEnds(t)
	writeFile(t, filepath.Join(f.dir, "data.jsonl"), `{"prompt": "", "answer": "b"}`)
	code, out, errs := run(t, "check", "-c", f.config(t, "asked", "reasoning", "base", false))
	const want = "data.jsonl:1: the prompt is empty: expected a text"
	if code != loop.ExitConfig || !strings.Contains(out+errs, "expected prompts with right answers: ") ||
		!strings.Contains(out+errs, want) {
		t.Errorf("%d, %s%s, expected %s", code, out, errs, want)
	}
}

// TestGenerateEnds: an answer to ids ends like one to a text, and its end is not shown. Adapters bring their own ends.
// A template that ends no answer gives a warning.
func TestGenerateEnds(t *testing.T) {
	f := newManyEnds(t)
	base := filepath.Join(f.dir, "base")
	generate := func(args ...string) (ids []int32) {
		t.Helper()
		return said[struct{ IDs []int32 }](t, append([]string{"generate", "-m", base, "--ids", "71,72", "--json",
			"--temperature", "0", "--max-new-tokens", "8"}, args...)...).IDs
	}
	free := generate("--ignore-eos")
	last := free[3]
	end := free[:slices.Index(free, last)+1]
	if slices.Equal(free, end) {
		t.Fatalf("%v has no token that could be its end", free)
	}
	writeFile(t, filepath.Join(base, "generation_config.json"), fmt.Sprintf(`{"eos_token_id": [%d]}`, last))
	test.EqualSlices(t, generate(), end, "an end of the folder")
	test.OK(t, os.Remove(filepath.Join(base, "generation_config.json")))
	config := test.Must(json.Marshal(map[string]string{"eos_token": tokenAt(t, base, last)}))(t)
	writeFile(t, filepath.Join(base, "tokenizer_config.json"), string(config))
	test.EqualSlices(t, generate(), end, "an end of the tokenizer")
	writeFile(t, filepath.Join(f.dir, "typed"), f.tokens.Decode([]int32{71, 72})+"\n")
	typed := test.Must(os.Open(filepath.Join(f.dir, "typed")))(t)
	defer typed.Close()
	stdin := os.Stdin
	os.Stdin = typed
	code, out, errs := run(t, "generate", "-m", base, "--temperature", "0", "--max-new-tokens", "8")
	os.Stdin = stdin
	if want := f.tokens.DecodeText(end[:len(end)-1]) + "\n"; code != loop.ExitOK || out != want {
		t.Errorf("an answer to a person: %d, %q, %s, expected %q", code, out, errs, want)
	}
	adapter, first := t.TempDir(), hf.Tokens{BOS: -1, EOS: []int{int(free[0])}, Pad: -1}
	m := newLlama(t, lm.Options{LoRA: &lm.LoRA{Rank: 2, Alpha: 2, Targets: []string{"q_proj"}}})
	test.OK(t, hf.SaveAdapter(m, adapter, base, first))
	test.EqualSlices(t, generate("--adapter", adapter), free[:1], "an end of the adapter")
	writeFile(t, filepath.Join(base, "chat_template.jinja"), "{% for m in messages %}{{ m.content }}{% endfor %}")
	const warning = "warning: the chat template writes no special token after an answer"
	if out := ok(t, "generate", "-m", base, "--chat", "--prompts", filepath.Join(f.dir, "prompts"),
		"--max-new-tokens", "1"); !strings.Contains(out, warning) {
		t.Errorf("no warning: %s", out)
	}
}

// tokenAt returns the text of a token in the tokenizer.json of a folder.
func tokenAt(t *testing.T, dir string, id int32) string {
	t.Helper()
	text := test.Must(os.ReadFile(filepath.Join(dir, "tokenizer.json")))(t)
	var file struct {
		Model struct{ Vocab map[string]int32 }
	}
	test.OK(t, json.Unmarshal(text, &file))
	for token, i := range file.Model.Vocab {
		if i == id {
			return token
		}
	}
	t.Fatalf("no token %d", id)
	return ""
}
