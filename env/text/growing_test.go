package text

import (
	"compress/gzip"
	"encoding/json"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"unicode/utf8"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy/lm/tokenizer"
)

const tokenizers = "../../policy/lm/tokenizer/testdata"

// A twin is a tokenizer with another one that differs in one thing: it puts no blank before a text.
type twin struct{ k, blankless *tokenizer.Tokenizer }

// loadChanged loads a tokenizer after changes of fields in its tokenizer.json.
func loadChanged(t *testing.T, folder string, changes map[string]any) *tokenizer.Tokenizer {
	t.Helper()
	file := map[string]any{}
	text, err := os.ReadFile(filepath.Join(folder, "tokenizer.json"))
	test.OK(t, err)
	test.OK(t, json.Unmarshal(text, &file))
	maps.Copy(file, changes)
	if text, err = json.Marshal(file); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	config := test.Must(os.ReadFile(filepath.Join(folder, "tokenizer_config.json")))(t)
	for name, text := range map[string][]byte{"tokenizer.json": text, "tokenizer_config.json": config} {
		test.OK(t, os.WriteFile(filepath.Join(dir, name), text, 0o666))
	}
	k := test.Must(tokenizer.Load(dir))(t)
	return k
}

// twins returns tokenizers of all forms: those of package tokenizer, variants of them, and golden ones beside the
// checkout, if they are there.
func twins(t *testing.T) map[string]twin {
	t.Helper()
	gpt2, llama2 := filepath.Join(tokenizers, "gpt2"), filepath.Join(tokenizers, "llama2")
	metaspace := func(scheme string) map[string]any {
		return map[string]any{"normalizer": nil, "pre_tokenizer": map[string]any{"type": "Metaspace",
			"replacement": "▁", "prepend_scheme": scheme, "split": scheme == "always",
			"add_prefix_space": scheme != "never"}}
	}
	replace := map[string]any{"type": "Replace", "pattern": map[string]any{"String": " "}, "content": "▁"}
	prefixed := map[string]any{"pre_tokenizer": map[string]any{"type": "ByteLevel", "add_prefix_space": true}}
	never := metaspace("never")
	split := metaspace("never")
	split["pre_tokenizer"].(map[string]any)["split"] = true
	all := map[string]twin{
		"llama2": {loadChanged(t, llama2, nil), loadChanged(t, llama2, map[string]any{"normalizer": replace})},
		"always": {loadChanged(t, llama2, metaspace("always")), loadChanged(t, llama2, split)},
		"first":  {loadChanged(t, llama2, metaspace("first")), loadChanged(t, llama2, never)},
		"prefix": {loadChanged(t, gpt2, prefixed), loadChanged(t, gpt2, nil)},
	}
	plain := []string{gpt2, filepath.Join(tokenizers, "llama3")}
	golden := test.Must(filepath.Glob("../../../shared/golden-lm/tokenizer_*"))(t)
	for _, folder := range append(plain, golden...) {
		k := loadChanged(t, folder, nil)
		all[folder] = twin{k, k}
	}
	return all
}

// texts returns texts of many scripts, with white space, digits and added tokens.
func texts(t *testing.T) (all []string) {
	t.Helper()
	f := test.Must(os.Open(filepath.Join(tokenizers, "llama3/cases.json.gz")))(t)
	defer f.Close()
	z := test.Must(gzip.NewReader(f))(t)
	var golden struct{ Cases []struct{ Text string } }
	test.OK(t, json.NewDecoder(z).Decode(&golden))
	for _, c := range golden.Cases {
		all = append(all, c.Text)
	}
	return append(all, "yes", " yes", "Q:", "Q: ", "\n", "12", "3 4", "a\nb", "Ö", "x  y", " ", "no.", "日本", "'s",
		"1+1=")
}

// extended tells whether tokens begin with others.
func extended(ids, begin []int32) bool {
	return len(ids) >= len(begin) && slices.Equal(ids[:len(begin)], begin)
}

// TestTokensOfPairs: the tokens of a prompt and its answer are those of the whole text, if these begin with the tokens
// of the prompt. Otherwise the answer continues the prompt without a blank of its own.
func TestTokensOfPairs(t *testing.T) {
	all := texts(t)
	for name, w := range twins(t) {
		random := rand.New(rand.NewPCG(1, 2))
		e, blankless, whole, apart := w.k.NewEncoder(), w.blankless.NewEncoder(), 0, 0
		special := func(text string) bool {
			return slices.ContainsFunc(e.Encode(nil, text), func(id int32) bool {
				return slices.ContainsFunc(w.k.Added(), func(a tokenizer.AddedToken) bool { return a.ID == id })
			})
		}
		for i, text := range all {
			cut := 0 // the border: between two texts, or anywhere in a text
			prompt, answer := text, all[(7*i+3)%len(all)]
			if i%2 == 0 && len(text) > 1 {
				for cut = 1 + random.IntN(len(text)-1); !utf8.RuneStart(text[cut]); {
					cut--
				}
				prompt, answer = text[:cut], text[cut:]
			}
			g := growing{encoder: e}
			g.begin()
			g.extend(prompt)
			sent := e.EncodePrompt(nil, prompt)
			if !slices.Equal(g.ids, sent) {
				t.Fatalf("%s: prompt %q: %v, expected %v", name, prompt, g.ids, sent)
			}
			want := e.EncodePrompt(nil, prompt+answer)
			if extended(want, sent) {
				whole++
			} else if apart++; special(answer) {
				continue // the other tokenizer puts no blank after added tokens, too
			} else {
				want = blankless.Encode(sent, answer)
			}
			if g.extend(prompt + answer); !slices.Equal(g.ids, want) {
				t.Errorf("%s: %q and %q: %v, expected %v", name, prompt, answer, g.ids, want)
			}
		}
		t.Logf("%s: %d like the whole text, %d with a token across the border", name, whole, apart)
		if whole < 100 || apart < 5 {
			t.Errorf("%s: %d like the whole text, %d with a token across the border: expected many of both", name,
				whole, apart)
		}
	}
}

// TestEndOfSequence: a tokenizer that ends sequences adds no end to a prompt or an answer. An answer has one end.
func TestEndOfSequence(t *testing.T) {
	dir := t.TempDir()
	test.OK(t, tokenizer.Copy(dir, filepath.Join(tokenizers, "llama2")))
	config := []byte(`{"bos_token": "<s>", "eos_token": "</s>", "add_eos_token": true}`)
	test.OK(t, os.WriteFile(filepath.Join(dir, "tokenizer_config.json"), config, 0o666))
	k := test.Must(tokenizer.Load(dir))(t)
	if got := k.Encode("a"); !slices.Equal(got, []int32{1, 311, 2}) {
		t.Fatalf("a sequence is %v, expected an end", got)
	}
	f := Format{Tokenizer: k, Prompt: "prompt", Answer: "answer", EOS: k.EOS(), Vocab: k.Size(), Length: 50}
	line := write(t, `{"prompt": "the cube", "answer": " and"}`)
	for prompts, want := range map[bool][]int32{false: {1, 312, 320, 323, 2}, true: {1, 312, 320}} {
		f.Prompts = prompts
		d := test.Must(Read(line, f))(t)
		test.EqualSlices(t, d.Samples[0].IDs, want)
	}
}

// TestTokensOfConversations: the tokens of a conversation are those of its whole text, if these begin with the tokens
// of every prompt in it. In any case they have its text.
func TestTokensOfConversations(t *testing.T) {
	all, step := texts(t), 25
	if os.Getenv("RLINF_TEST_FULL") != "" {
		step = 1
	}
	for name, w := range twins(t) {
		e, whole, apart := w.k.NewEncoder(), 0, 0
		for _, chat := range templates(t, w.k) {
			r := &reader{Format: Format{Tokenizer: w.k, Chat: chat, Messages: "messages", Vocab: 1 << 20,
				Length: 1 << 20}, encoder: e}
			for i := 0; i < len(all); i += step {
				messages := []message{said("user", all[i]), said("assistant", all[(7*i+3)%len(all)]),
					said("user", all[(3*i+1)%len(all)]), said("assistant", all[(5*i+2)%len(all)])}
				s, err := r.render(messages, nil, 0)
				if err != nil {
					continue // the template leaves out white space, or a text has the marks of a template
				}
				text, ok := "", true
				var ends [][]int32
				for n := 1; n <= len(messages); n++ {
					if text, err = r.chat(messages[:n], nil, n%2 == 1); err != nil {
						t.Fatal(err)
					}
					ends = append(ends, e.Encode(nil, text))
				}
				want := e.Encode(nil, text)
				for _, ids := range ends {
					ok = ok && extended(want, ids)
				}
				if !ok {
					apart++
				} else if whole++; !slices.Equal(s.IDs, want) {
					t.Errorf("%s: %q: %v, expected %v", name, text, s.IDs, want)
				}
				sent := len(ends[0])
				if !extended(s.IDs, ends[0]) || slices.Contains(s.Learn[:sent], true) {
					t.Errorf("%s: %q: the prompt is not %v", name, text, ends[0])
				}
				if got, want := w.k.Decode(s.IDs), w.k.Decode(want); got != want {
					t.Errorf("%s: %q, expected %q", name, got, want)
				}
			}
		}
		t.Logf("%s: %d like the whole text, %d with a token across a border", name, whole, apart)
		if whole < 30 {
			t.Errorf("%s: %d like the whole text: expected many", name, whole)
		}
	}
}

// templates returns the built-in formats, two templates of tests, and published ones beside the checkout, if they are
// there.
func templates(t *testing.T, k *tokenizer.Tokenizer) (all []*tokenizer.ChatTemplate) {
	t.Helper()
	add := func(c *tokenizer.ChatTemplate, err error) {
		test.OK(t, err)
		all = append(all, c)
	}
	for _, name := range tokenizer.BuiltinTemplates() {
		add(k.BuiltinTemplate(name))
	}
	add(k.ParseChatTemplate(plainTemplate))
	add(k.ParseChatTemplate(`{% for m in messages %}{{ m.content }}{% endfor %}`))
	for _, name := range []string{"llama3", "qwen2_5"} {
		text, err := os.ReadFile(filepath.Join("../../../shared/golden-lm/chat", name+".json"))
		if os.IsNotExist(err) {
			continue
		}
		var file struct{ Template string }
		if err == nil {
			err = json.Unmarshal(text, &file)
		}
		test.OK(t, err)
		add(k.ParseChatTemplate(file.Template))
	}
	return all
}
