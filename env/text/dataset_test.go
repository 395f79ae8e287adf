package text

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/policy/lm/tokenizer"
)

// bytewise is a tokenizer of bytes, the end of a text, and the marks of chatml.
func bytewise(t *testing.T) *tokenizer.Tokenizer {
	t.Helper()
	special := []string{"<|endoftext|>", "<|im_start|>", "<|im_end|>"}
	k, err := tokenizer.Train(t.TempDir(), slices.Values([]string{"a"}), tokenizer.Training{VocabSize: 259, Pattern: "qwen2",
		MinCount: 2, Special: special, EOS: special[0]})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func write(t *testing.T, lines ...string) []string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "data.jsonl")
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o666); err != nil {
		t.Fatal(err)
	}
	return []string{path}
}

// shown writes what is learnt in brackets.
func shown(k *tokenizer.Tokenizer, s Sample) string {
	var b strings.Builder
	learn := false
	for i, id := range s.IDs {
		if s.Learn[i] != learn {
			b.WriteString(map[bool]string{true: "[", false: "]"}[s.Learn[i]])
			learn = s.Learn[i]
		}
		b.WriteString(k.Decode([]int32{id}))
	}
	if learn {
		b.WriteString("]")
	}
	return b.String()
}

// TestRead: answers are learnt, with the token that ends them; of conversations what the assistant says.
func TestRead(t *testing.T) {
	k := bytewise(t)
	chatml, err := k.BuiltinTemplate("chatml")
	if err != nil {
		t.Fatal(err)
	}
	plain := Format{Tokenizer: k, Prompt: "prompt", Answer: "answer", Messages: "messages", EOS: k.EOS(), Vocab: 259, Length: 200}
	chat := plain
	chat.Chat = chatml
	for _, c := range []struct {
		name, line string
		f          Format
		want       string
	}{
		{"prompt and answer", `{"prompt": "1+1=", "answer": "2"}`, plain, "1+1=[2<|endoftext|>]"},
		{"the first of several", `{"prompt": "1+1=", "answer": ["2", "two"]}`, plain, "1+1=[2<|endoftext|>]"},
		{"no prompt to condition on", `{"prompt": "", "answer": "abc"}`, plain, "a[bc<|endoftext|>]"},
		{"chat of a prompt", `{"prompt": "hi", "answer": "ho"}`, chat,
			"<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n[ho<|im_end|>\n]"},
		{"a conversation", `{"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, ` +
			`{"role": "user", "content": "c"}, {"role": "assistant", "content": "d"}]}`, chat,
			"<|im_start|>system\ns<|im_end|>\n<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n[b<|im_end|>\n]" +
				"<|im_start|>user\nc<|im_end|>\n<|im_start|>assistant\n[d<|im_end|>\n]"},
		{"earlier answers of a prompt are given", `{"prompt": [{"role": "assistant", "content": "x"}, {"role": "user", "content": "a"}], "answer": "b"}`, chat,
			"<|im_start|>assistant\nx<|im_end|>\n<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n[b<|im_end|>\n]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, err := Read(write(t, c.line), c.f)
			if err != nil {
				t.Fatal(err)
			}
			if got := shown(k, d.Samples[0]); got != c.want {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
}

// TestSources: lines of RLinf's math files have several solutions, of which any is right, and keys that nobody asks for.
func TestSources(t *testing.T) {
	k := bytewise(t)
	chatml, err := k.BuiltinTemplate("chatml")
	if err != nil {
		t.Fatal(err)
	}
	f := Format{Tokenizer: k, Prompt: "prompt", Answer: "solutions", Messages: "messages", EOS: k.EOS(), Vocab: 259, Length: 200, Sources: true}
	chat := f
	chat.Chat = chatml
	for _, c := range []struct {
		line   string
		f      Format
		prompt string // in tokens
		source Source
	}{
		{`{"prompt": "1+1=", "task": "math", "query_id": "a7", "solutions": ["\\boxed{2}", "two"]}`, f, "1+1=", Source{"1+1=", []string{`\boxed{2}`, "two"}}},
		{`{"prompt": "1+1=", "solutions": "2"}`, chat, "<|im_start|>user\n1+1=<|im_end|>\n<|im_start|>assistant\n", Source{"1+1=", []string{"2"}}},
		{`{"prompt": [{"role": "user", "content": "1+1="}], "solutions": ["2"]}`, chat, "<|im_start|>user\n1+1=<|im_end|>\n<|im_start|>assistant\n",
			Source{"<|im_start|>user\n1+1=<|im_end|>\n<|im_start|>assistant\n", []string{"2"}}},
	} {
		d, err := Read(write(t, c.line), c.f)
		if err != nil {
			t.Fatal(err)
		}
		s := d.Samples[0]
		if got := k.Decode(s.IDs[:slices.Index(s.Learn, true)]); got != c.prompt {
			t.Errorf("%s: prompt %q, want %q", c.line, got, c.prompt)
		}
		if s.Source.Prompt != c.source.Prompt || !slices.Equal(s.Source.Answers, c.source.Answers) {
			t.Errorf("%s: %+v, want %+v", c.line, *s.Source, c.source)
		}
	}
	if _, err := Read(write(t, `{"messages": [{"role": "user", "content": "a"}]}`), chat); err == nil ||
		!strings.Contains(err.Error(), `a conversation is no prompt: expected the keys "prompt" and "solutions"`) {
		t.Errorf("a conversation: %v", err)
	}
}

func TestReadMistakes(t *testing.T) {
	k := bytewise(t)
	f := Format{Tokenizer: k, Prompt: "prompt", Answer: "answer", Messages: "messages", EOS: k.EOS(), Vocab: 259, Length: 8}
	good := `{"prompt": "a", "answer": "b"}`
	small := f
	small.Vocab = 98
	chat := f
	var err error
	if chat.Chat, err = k.ParseChatTemplate("{% for m in messages %}{{ loop.length }}{{ m.content }}{% endfor %}"); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, line string
		f          Format
		want       string
	}{
		{"no JSON", `prompt`, f, ":2: expected a JSON object: "},
		{"a list", `[]`, f, ":2: expected a JSON object: "},
		{"no answer", `{"prompt": "a"}`, f, `:2: no key "answer"`},
		{"a number", `{"prompt": "a", "answer": 3}`, f, `:2: "answer": expected a text, or a list of texts`},
		{"messages without a template", `{"prompt": [], "answer": "b"}`, f, `:2: "prompt": expected a text (lists of messages need`},
		{"a conversation without a template", `{"messages": []}`, f, `:2: "messages": a conversation needs data.apply_chat_template`},
		{"too long", `{"prompt": "abcd", "answer": "bcde"}`, f, ":2: 9 tokens: expected at most 8"},
		{"unknown token", `{"prompt": "a", "answer": "b"}`, small, ":1: token 2 is 256: the model knows 98"},
		{"nobody answers", `{"messages": [{"role": "user", "content": "a"}]}`, chat, ":1: "},
		{"a template that rewrites", `{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "a"}]}`, chat, "rewrites"},
	} {
		t.Run(c.name, func(t *testing.T) {
			first := good
			if c.f.Chat != nil {
				first = c.line
			}
			if _, err := Read(write(t, first, c.line), c.f); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
	if _, err := Read(write(t, "", " "), f); err == nil || !strings.Contains(err.Error(), "no sample") {
		t.Errorf("an empty file: %v", err)
	}
	long := `{"prompt": "abcd", "answer": "bcde"}`
	f.Drop = true
	if d, err := Read(write(t, good, long), f); err != nil || len(d.Samples) != 1 || d.Dropped != 1 {
		t.Errorf("got %+v, %v, want one sample and one that was dropped", d, err)
	}
	if _, err := Read(write(t, long), f); err == nil || !strings.Contains(err.Error(), "all 1 samples are longer than 8 tokens") {
		t.Errorf("all dropped: %v", err)
	}
}

// TestHash: it tells texts apart, and what of them is learnt.
func TestHash(t *testing.T) {
	a := []Sample{{IDs: []int32{1, 2, 3}, Learn: []bool{false, true, true}}}
	b := []Sample{{IDs: []int32{1, 2, 3}, Learn: []bool{false, false, true}}}
	c := []Sample{{IDs: []int32{1, 2}, Learn: []bool{false, true}}, {IDs: []int32{3}, Learn: []bool{true}}}
	if h := hash(a); h == hash(b) || h == hash(c) || h != hash(a) {
		t.Error("hashes of different texts are equal")
	}
}

// TestReadForeignFiles: files of other systems, with a byte-order mark, line ends of two characters and no last one, are read alike.
func TestReadForeignFiles(t *testing.T) {
	k := bytewise(t)
	f := Format{Tokenizer: k, Prompt: "prompt", Answer: "answer", EOS: k.EOS(), Vocab: 259, Length: 200}
	line := `{"prompt": "a", "answer": "b"}`
	want, err := Read(write(t, line, line, ""), f)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Read(write(t, "\ufeff"+line+"\r", "\r", line), f)
	if err != nil || got.Hash != want.Hash {
		t.Errorf("%v, %v", got, err)
	}
	path := write(t, line, line+"\x00", line)
	if _, err := Read(path, f); err == nil || !strings.HasPrefix(err.Error(), path[0]+":2: ") {
		t.Errorf("bytes that are no JSON in line 2: %v", err)
	}
}
