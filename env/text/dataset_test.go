package text

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy/lm/tokenizer"
)

// bytewise returns a tokenizer whose tokens are bytes, the end of a text, and the marks of chatml.
func bytewise(t *testing.T) *tokenizer.Tokenizer {
	t.Helper()
	special := []string{"<|endoftext|>", "<|im_start|>", "<|im_end|>"}
	k := test.Must(tokenizer.Train(t.TempDir(), slices.Values([]string{"a"}),
		tokenizer.Training{VocabSize: 259, Pattern: "qwen2",
			MinCount: 2, Special: special, EOS: special[0]}))(t)
	return k
}

func write(t *testing.T, lines ...string) []string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "data.jsonl")
	test.OK(t, os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o666))
	return []string{path}
}

// shown returns the text of a sample, with the learnt parts in brackets.
func shown(k *tokenizer.Tokenizer, s Sample) string {
	var b strings.Builder
	for at := 0; at < len(s.IDs); {
		end := at
		for end < len(s.IDs) && s.Learn[end] == s.Learn[at] {
			end++
		}
		text := k.Decode(s.IDs[at:end])
		if s.Learn[at] {
			text = "[" + text + "]"
		}
		b.WriteString(text)
		at = end
	}
	return b.String()
}

// TestRead: answers are learnt with their end token. In conversations the messages of the assistant are learnt.
func TestRead(t *testing.T) {
	k := bytewise(t)
	chatml := test.Must(k.BuiltinTemplate("chatml"))(t)
	plain := Format{Tokenizer: k, Prompt: "prompt", Answer: "answer", Messages: "messages", EOS: k.EOS(), Vocab: 259,
		Length: 200}
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
		{"a conversation", `{"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "a"}, ` +
			`{"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}, ` +
			`{"role": "assistant", "content": "d"}]}`, chat,
			"<|im_start|>system\ns<|im_end|>\n<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n[b<|im_end|>\n]" +
				"<|im_start|>user\nc<|im_end|>\n<|im_start|>assistant\n[d<|im_end|>\n]"},
		{"earlier answers of a prompt are given",
			`{"prompt": [{"role": "assistant", "content": "x"}, {"role": "user", "content": "a"}], "answer": "b"}`,
			chat, "<|im_start|>assistant\nx<|im_end|>\n<|im_start|>user\na<|im_end|>\n" +
				"<|im_start|>assistant\n[b<|im_end|>\n]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := test.Must(Read(write(t, c.line), c.f))(t)
			if got := shown(k, d.Samples[0]); got != c.want {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
}

// plainTemplate is a chat template that writes all parts of messages.
const plainTemplate = `{% if tools %}<tools>{{ tools | tojson }}</tools>{% endif %}` +
	`{% for m in messages %}<{{ m.role }}>{{ m.content or "" }}` +
	`{% for c in m.tool_calls %}[{{ c.function.name }}({{ c.function.arguments | tojson }})]{% endfor %}` +
	`</>{% endfor %}` +
	`{% if add_generation_prompt %}<assistant>{% endif %}`

// formats returns formats of one tokenizer, without a chat template and with several templates.
type formats struct {
	k *tokenizer.Tokenizer
	// no template; with the keys of Alpaca for prompt and answer
	plain, keyed Format
	// templates that write: all parts; contents as JSON; no tools; neither systems nor thoughts; a call or a content;
	// calls without arguments' names, without their values, with values that are texts, with keys of values; calls as
	// Python writes them; calls without the name of the function; true and false in words
	chat, escaping, bare, forgetful, either, nameless, valueless, wordy, shallow, python, anonymous, truths Format
}

func newFormats(t *testing.T) *formats {
	t.Helper()
	f := &formats{k: bytewise(t)}
	f.plain = Format{Tokenizer: f.k, Prompt: "prompt", Answer: "answer", Messages: "messages", EOS: f.k.EOS(),
		Vocab: 259, Length: 400}
	f.keyed = f.plain
	f.keyed.Prompt, f.keyed.Answer = "instruction", "output"
	const begin = `{% if add_generation_prompt %}<assistant>{% endif %}`
	calls := func(call string) string {
		return `{% for m in messages %}<{{ m.role }}>{% if m.tool_calls %}{% for c in m.tool_calls %}` + call +
			`{% endfor %}{% else %}{{ m.content }}{% endif %}</>{% endfor %}` + begin
	}
	for _, c := range []struct {
		of       *Format
		template string
	}{
		{&f.chat, plainTemplate},
		{&f.escaping, `{% for m in messages %}{{ m.role }}{{ m.content | tojson }}{% endfor %}`},
		{&f.bare, `{% for m in messages %}<{{ m.role }}>{{ m.content }}</>{% endfor %}` + begin},
		{&f.forgetful, `{% for m in messages %}{% if m.role in ["user", "assistant"] %}<{{ m.role }}>` +
			`{{ m.content.split("</think>")[-1] }}</>{% endif %}{% endfor %}` + begin},
		{&f.either, calls(`[{{ c.function.name }}({{ c.function.arguments | tojson }})]`)},
		{&f.nameless, calls(`[{{ c.function.name }}({% for k, v in c.function.arguments.items() %}{{ v }}` +
			`{% endfor %})]`)},
		{&f.valueless, calls(`[{{ c.function.name }}{% for k in c.function.arguments %}{{ k }}{% endfor %}]`)},
		{&f.wordy, calls(`[{{ c.function.name }}{% for k, v in c.function.arguments.items() %}{{ k }}` +
			`{% if v is string %}{{ v }}{% endif %}{% endfor %}]`)},
		{&f.shallow, calls(`[{{ c.function.name }}{% for k, v in c.function.arguments.items() %}{{ k }}` +
			`{% if v is mapping %}{{ v.keys() | list }}{% else %}{{ v }}{% endif %}{% endfor %}]`)},
		{&f.python, calls(`[{{ c.function.name }}({{ c.function.arguments }})]`)},
		{&f.truths, calls(`[{{ c.function.name }}{% for k, v in c.function.arguments.items() %}{{ k }}=` +
			`{{ "yes" if v else "no" }} {% endfor %}`)},
		{&f.anonymous, `{{ tools }}` + calls(`[{{ c.function.arguments | tojson }}]`)},
	} {
		*c.of = f.plain
		var err error
		if c.of.Chat, err = f.k.ParseChatTemplate(c.template); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

// A formCase is a record and its sample, with the learnt parts in brackets.
type formCase struct {
	name, record string
	f            Format
	want         string
}

func (f *formats) check(t *testing.T, cases []formCase) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			d := test.Must(Read(write(t, c.record), c.f))(t)
			if got := shown(f.k, d.Samples[0]); got != c.want {
				t.Errorf("got      %q\nexpected %q", got, c.want)
			}
		})
	}
}

// TestAlpaca: instructions with and without an input.
func TestAlpaca(t *testing.T) {
	f := newFormats(t)
	f.check(t, []formCase{
		{"with input", `{"instruction": "add", "input": "1 1", "output": "2"}`, f.plain,
			"add\n1 1[2<|endoftext|>]"},
		{"without input", `{"instruction": "add", "input": "", "output": "2"}`, f.plain, "add[2<|endoftext|>]"},
		{"by its keys", `{"instruction": "add", "input": "1 1", "output": "2"}`, f.keyed, "add\n1 1[2<|endoftext|>]"},
		{"chat", `{"instruction": "add", "input": null, "output": "2", "system": "be brief", "history": []}`, f.chat,
			"<system>be brief</><user>add</><assistant>[2</>]"},
	})
}

// TestConversations: the forms of ShareGPT and OpenAI, under either key.
func TestConversations(t *testing.T) {
	f := newFormats(t)
	const said, system = "<user>a</><assistant>[b</>]", "<system>s</><user>a</><assistant>[b</>]"
	f.check(t, []formCase{
		{"ShareGPT", `{"id": "7", "conversations": [{"from": "human", "value": "a"}, ` +
			`{"from": "gpt", "value": "b", "weight": null}]}`, f.chat, said},
		{"ShareGPT with a system", `{"conversations": [{"from": "human", "value": "a"}, ` +
			`{"from": "gpt", "value": "b"}], "system": "s", "tools": ""}`, f.chat, system},
		{"ShareGPT under the key of messages", `{"messages": [{"from": "human", "value": "a"}, ` +
			`{"from": "gpt", "value": "b"}]}`, f.chat, said},
		{"OpenAI under ShareGPT's key", `{"conversations": [{"role": "user", "content": "a"}, ` +
			`{"role": "assistant", "content": "b"}]}`, f.chat, said},
		{"messages with a system", `{"prompt": [{"role": "user", "content": "a"}], "answer": "b", "system": "s"}`,
			f.chat, system},
		{"a system said twice", `{"messages": [{"role": "system", "content": "s"}, ` +
			`{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}], "system": "s"}`, f.chat, system},
		{"a list of texts", `{"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}, ` +
			`{"type": "text", "text": "b"}]}, {"role": "assistant", "content": ["c"]}]}`, f.chat,
			"<user>ab</><assistant>[c</>]"},
		{"weights", `{"messages": [{"role": "user", "content": "a", "weight": 0}, ` +
			`{"role": "assistant", "content": "b", "weight": 0}, {"role": "user", "content": "c"}, ` +
			`{"role": "assistant", "content": "d", "weight": 1}]}`, f.chat,
			"<user>a</><assistant>b</><user>c</><assistant>[d</>]"},
		{"train", `{"messages": [{"role": "user", "content": "a"}, ` +
			`{"role": "assistant", "content": "b", "train": true}, {"role": "user", "content": "c"}, ` +
			`{"role": "assistant", "content": "d", "train": false}]}`, f.chat,
			"<user>a</><assistant>[b</>]<user>c</><assistant>d</>"},
	})
}

// TestPairs: prompts and answers, with a system or with keys that are empty.
func TestPairs(t *testing.T) {
	f := newFormats(t)
	f.check(t, []formCase{
		{"a system", `{"prompt": "a", "answer": "b", "system": "s", "images": [], "weight": 1}`, f.chat,
			"<system>s</><user>a</><assistant>[b</>]"},
		{"a column that is not used", `{"messages": null, "prompt": "a", "answer": "b"}`, f.chat,
			"<user>a</><assistant>[b</>]"},
		{"no tools", `{"prompt": "a", "answer": "b", "tools": []}`, f.plain, "a[b<|endoftext|>]"},
		{"both halves", `{"prompt": "\ud83d\ude00 \\ud83d", "answer": "b"}`, f.plain, "😀 \\ud83d[b<|endoftext|>]"},
		{"U+FFFD itself", "{\"prompt\": \"\\ufffd\ufffd\", \"answer\": \"b\"}", f.plain,
			"\ufffd\ufffd[b<|endoftext|>]"},
	})
}

// TestTools: calls of tools, answers of tools, and the tools of a record.
func TestTools(t *testing.T) {
	f := newFormats(t)
	f.check(t, []formCase{
		{"tool calls", `{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": null, ` +
			`"tool_calls": [{"type": "function", "function": {"name": "f", "arguments": {"x": 1}}}]}, ` +
			`{"role": "tool", "content": "3"}, {"role": "assistant", "content": "d"}], "tools": [{"name": "f"}]}`,
			f.chat,
			`<tools>[{"name": "f"}]</tools><user>a</><assistant>[[f({"x": 1})]</>]<tool>3</><assistant>[d</>]`},
		{"a tool's answer as JSON", `{"messages": [{"role": "user", "content": "a"}, ` +
			`{"role": "tool", "content": "{\"x\":\u2028\n1}"}, {"role": "assistant", "content": "b"}]}`, f.escaping,
			`user"a"tool"{\"x\":` + "\u2028" + `\n1}"[assistant"b"]`},
		{"tools as a text", `{"prompt": "a", "answer": "b", "tools": "[{\"name\": \"f\"}]"}`, f.chat,
			`<tools>[{"name": "f"}]</tools><user>a</><assistant>[b</>]`},
		{"calls alone", called(`null`, `{"x": 1, "y": "z"}`), f.either,
			`<user>x</><assistant>[[f({"x": 1, "y": "z"})]</>]<tool>3</><assistant>[d</>]`},
		{"calls with an empty content", called(`""`, `{"x": {"y": [1]}}`), f.either,
			`<user>x</><assistant>[[f({"x": {"y": [1]}})]</>]<tool>3</><assistant>[d</>]`},
		{"arguments as a text", called(`null`, `"{\"x\": 1}"`), f.either,
			`<user>x</><assistant>[[f("{\"x\": 1}")]</>]<tool>3</><assistant>[d</>]`},
		{"quotes in Python", called(`null`, `{"x": "\"it's\"\n"}`), f.python,
			`<user>x</><assistant>[[f({'x': '"it\'s"\n'})]</>]<tool>3</><assistant>[d</>]`},
		{"values of all types", called(`null`, `{"a": true, "b": false, "c": [], "d": {}, "e": 1.5, "f": ""}`),
			f.python, `<user>x</><assistant>[[f({'a': True, 'b': False, 'c': [], 'd': {}, 'e': 1.5, 'f': ''})]</>]` +
				`<tool>3</><assistant>[d</>]`},
		{"truths in words", called(`null`, `{"a": true, "b": false}`), f.truths,
			`<user>x</><assistant>[[fa=yes b=no </>]<tool>3</><assistant>[d</>]`},
		{"no arguments", called(`null`, `{}`), f.valueless,
			`<user>x</><assistant>[[f]</>]<tool>3</><assistant>[d</>]`},
	})
}

// called returns a conversation in which the assistant calls a tool.
func called(content, arguments string) string {
	return `{"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": ` + content +
		`, "tool_calls": [{"type": "function", "function": {"name": "f", "arguments": ` + arguments + `}}]}, ` +
		`{"role": "tool", "content": "3"}, {"role": "assistant", "content": "d"}]}`
}

// TestContainers: a JSON list and files with gzip have the samples of JSON lines, and errors have the line of
// the record.
func TestContainers(t *testing.T) {
	k := bytewise(t)
	f := Format{Tokenizer: k, Prompt: "prompt", Answer: "answer", EOS: k.EOS(), Vocab: 259, Length: 200}
	a, b, bad := `{"prompt": "a", "answer": "b"}`, `{"prompt": "c", "answer": "d"}`, `{"prompt": "c"}`
	want := test.Must(Read(write(t, a, b), f))(t)
	zip := func(text string) string {
		var z bytes.Buffer
		w := gzip.NewWriter(&z)
		w.Write([]byte(text))
		w.Close()
		return z.String()
	}
	pretty := "[\n  {\n    \"prompt\": \"a\",\n    \"answer\": \"b\"\n  },\n  " + b + "\n]\n"
	for name, text := range map[string]string{
		"a list": "[" + a + "," + b + "]", "a list over lines": pretty,
		"a list after a mark and lines": "\ufeff\n\n" + pretty, "gzip": zip(a + "\n" + b),
		"a list with gzip": zip(pretty), "gzip in two parts": zip(a+"\n") + zip(b),
	} {
		if got, err := Read(write(t, text), f); err != nil || got.Hash != want.Hash {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, c := range []struct{ name, text, want string }{
		{"the second of a list", "[\n" + a + ",\n\n" + bad + "]", `:4: no key "answer": the record has prompt`},
		{"the second line of gzip", zip(a + "\n" + bad), `:2: no key "answer"`},
		{"a list that is cut off", "[\n" + a + ",\n", ":3: expected a JSON list: unexpected EOF"},
		{"a list that is cut off in a record", "[\n" + a + ",\n{\"prompt\"",
			":3: expected a JSON list: unexpected EOF"},
		{"more after a list", "[" + a + "]\n" + b, `:2: expected the end of a JSON list: "{\"prompt\": \"c\", \"ans"`},
		{"a list of texts", "[\n" + `"a"]`, ":2: expected a JSON object"},
		{"gzip that is cut off", zip(a + "\n" + b)[:30], "unexpected EOF"},
		{"an empty list", "[]", "no sample"},
		{"Parquet that is cut off", "PAR1\x15\x04", "data.jsonl: expected a whole Parquet file: "},
		{"Parquet in gzip", zip("PAR1\x15\x04"), "data.jsonl is Parquet within gzip: expected lines of JSON or a " +
			"JSON list, in UTF-8, plain or with gzip, or Parquet"},
		{"zstd", "\x28\xb5\x2f\xfd\x00", "is compressed with zstd: expected lines of JSON"},
		{"UTF-16", "\xff\xfe{\x00", "is UTF-16: expected"},
		{"bytes that are no UTF-8", a + "\n{\"prompt\": \"caf\xe9\", \"answer\": \"b\"}",
			":2: byte 16 is 0xe9: expected UTF-8"},
		{"such bytes in a list", "[" + a + ",\n{\"prompt\": \"caf\xe9\", \"answer\": \"b\"}]",
			":2: byte 16 is 0xe9: expected UTF-8"},
		{"a first half", `{"prompt": "\ud83d", "answer": "b"}`, `:1: \ud83d is half a character`},
		{"a first half and a letter", `{"prompt": "\ud83d\u0041", "answer": "b"}`, `:1: \ud83d is half a character`},
		{"a second half", `{"prompt": "a", "answer": "\uDE00"}`, `:1: \uDE00 is half a character`},
		{"halves in the wrong order", `{"prompt": "\ude00\ud83d", "answer": "b"}`, `:1: \ude00 is half a character`},
	} {
		test.Fails(t, test.Err(Read(write(t, c.text), f)), c.want, "%s", c.name)
	}
}

// refuse checks that a record is refused because a part of it would be lost or changed. The error has the record's
// place and the reasons in want.
func refuse(t *testing.T, cases []formCase) {
	t.Helper()
	for _, c := range cases {
		_, err := Read(write(t, c.record), c.f)
		if err == nil || !strings.Contains(err.Error(), "data.jsonl:1: ") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, expected %s", c.name, err, c.want)
		}
	}
}

// talk returns a message of the user, and a message with these keys.
func talk(user, other string) string {
	return `{"messages": [{"role": "user", ` + user + `}, {` + other + `}]}`
}

const assistantSays = `"role": "assistant", "content": "b"`

// TestRefusedPairs: prompts and answers without a text, and records of Alpaca.
func TestRefusedPairs(t *testing.T) {
	f := newFormats(t)
	refuse(t, []formCase{
		{"prompt null", `{"prompt": null, "answer": "b"}`, f.plain, `"prompt" is null: expected a text`},
		{"prompt null, chat", `{"prompt": null, "answer": "b"}`, f.chat, `"prompt" is null`},
		{"answer null", `{"prompt": "a", "answer": null}`, f.plain, `"answer": it is null`},
		{"null in a list", `{"prompt": "a", "answer": ["b", null]}`, f.plain, `"answer": item 1 is null`},
		{"a null record", `null`, f.plain, `no key "prompt" and no key "answer": the record has `},
		{"a record of weight 0", `{"prompt": "a", "answer": "b", "weight": 0}`, f.plain, `"weight" is 0: expected 1`},
		{"other keys", `{"question": "a", "answer": "b"}`, f.plain, `no key "prompt": the record has answer, question`},
		{"Alpaca's history", `{"instruction": "a", "output": "b", "history": [["c", "d"]]}`, f.chat,
			`"history" is not read`},
		{"Alpaca's null", `{"instruction": "a", "output": null}`, f.chat, `"output": it is null`},
		{"Alpaca's list", `{"instruction": "a", "input": ["b"], "output": "c"}`, f.chat,
			`"input" is ["b"]: expected a text`},
	})
}

// TestRefusedMessages: messages without a content, a known role or a clear weight.
func TestRefusedMessages(t *testing.T) {
	f := newFormats(t)
	refuse(t, []formCase{
		{"no content", talk(`"value": "a"`, assistantSays), f.chat, "message 0: the user has no content"},
		{"content null", talk(`"content": null`, assistantSays), f.chat, "message 0: the user has no content"},
		{"the assistant without content", talk(`"content": "a"`, `"role": "assistant"`), f.chat,
			"message 1: the assistant has no content"},
		{"a number", talk(`"content": 3`, assistantSays), f.chat, "message 0: content is 3"},
		{"an image", talk(`"content": [{"type": "image_url"}]`, assistantSays), f.chat,
			`message 0: content[0] is of type "image_url"`},
		{"an empty part", talk(`"content": [{"type": "text"}]`, assistantSays), f.chat,
			"message 0: content[0] has no text"},
		{"an unknown role", talk(`"content": "a"`, `"role": "bot", "content": "b"`), f.chat,
			`message 1: role is "bot": expected one of system, `},
		{"an unknown side", `{"conversations": [{"from": "alien", "value": "a"}]}`, f.chat,
			`message 0: from is "alien": expected one of assistant, `},
		{"ShareGPT without value", `{"conversations": [{"from": "human"}]}`, f.chat,
			"message 0: the user has no content"},
		{"half a weight", talk(`"content": "a"`, assistantSays+`, "weight": 0.5`), f.chat,
			"message 1: weight is 0.5: expected 0 or 1"},
		{"a user to be learnt", talk(`"content": "a", "weight": 1`, assistantSays), f.chat,
			"message 0: the user has weight 1"},
		{"nothing of weight", talk(`"content": "a"`, assistantSays+`, "weight": 0`), f.chat, "nothing to learn"},
	})
}

// TestRefusedSystems: systems that would be lost, and pictures.
func TestRefusedSystems(t *testing.T) {
	f := newFormats(t)
	system := `{"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "a"}, {` +
		assistantSays + `}]`
	refuse(t, []formCase{
		{"without a template", `{"prompt": "a", "answer": "b", "system": "s"}`, f.plain,
			`"system" needs data.apply_chat_template`},
		{"no text", `{"prompt": "a", "answer": "b", "system": ["s"]}`, f.chat, `"system" is ["s"]: expected a text`},
		{"two systems", system + `, "system": "t"}`, f.chat, `"system" is another text than that of message 0`},
		{"a role that the template leaves out", system + `}`, f.forgetful,
			`message 0: the chat template does not write all that the system says: "s"`},
		{"a message with images", talk(`"content": "a", "images": ["a.png"]`, assistantSays), f.chat,
			`message 0: "images" is not read`},
		{"a record with an image", `{"prompt": "a", "answer": "b", "image": "a.png"}`, f.plain,
			`"image" is not read`},
		{"a conversation with a video", `{"conversations": [{"from": "human", "value": "a"}, ` +
			`{"from": "gpt", "value": "b"}], "videos": ["a.mp4"]}`, f.chat, `"videos" is not read`},
	})
}

// TestRefusedTools: tools and calls that would be lost.
func TestRefusedTools(t *testing.T) {
	f := newFormats(t)
	call := `"role": "assistant", "content": null, "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]`
	refuse(t, []formCase{
		{"no list", `{"prompt": "a", "answer": "b", "tools": "a hammer"}`, f.chat,
			`"tools" is a hammer: expected a list`},
		{"without a template", `{"prompt": "a", "answer": "b", "tools": [{"name": "f"}]}`, f.plain,
			`"tools" need data.apply_chat_template`},
		{"left out by the template", `{"prompt": "a", "answer": "b", "tools": [{"name": "f"}]}`, f.bare,
			`"tools": the chat template does not write them`},
		{"functions", `{"prompt": "a", "answer": "b", "functions": [{"name": "f"}]}`, f.chat,
			`"functions" is not read: expected "tools"`},
		{"a call that a template leaves out", talk(`"content": "a"`, call), f.bare,
			"message 1: the chat template does not write"},
		{"a content beside a call", called(`"I call it."`, `{}`), f.either,
			`all that the assistant says: "I call it."`},
		{"a content beside a call, said again", strings.Replace(called(`"I will call the tool again."`, `{}`), `"d"`,
			`"I will call the tool again."`, 1), f.either, `message 1: the chat template does not write`},
		{"a short content beside a call", called(`"x"`, `{}`), f.either, `all that the assistant says: "x"`},
		{"a number", called(`null`, `{"f": 3}`), f.valueless,
			"all that the assistant says: tool_calls 0 function arguments f"},
		{"a value that occurs elsewhere", called(`null`, `{"f": "x"}`), f.valueless,
			"all that the assistant says: tool_calls 0 function arguments f"},
		{"the name of an argument", called(`null`, `{"x": "3"}`), f.nameless, `the assistant says: "x"`},
		{"a number among texts", called(`null`, `{"a": "x", "f": 3}`), f.wordy, "function arguments f"},
		{"an inner number", called(`null`, `{"f": {"a": 3}}`), f.shallow, "function arguments f"},
		{"a name that is among the tools", `{"tools": [{"name": "a_long_name_of_a_function"}], ` +
			strings.Replace(called(`null`, `{}`), `"f"`, `"a_long_name_of_a_function"`, 1)[1:], f.anonymous,
			`the assistant says: "a_long_name_of_a_function"`},
		{"no list of calls", strings.NewReplacer("[{\"type", "{\"type", "}}]", "}}").Replace(called(`null`, `{}`)),
			f.chat, `tool_calls is {"type": "function"`},
		{"a user's call", talk(`"content": "a", "tool_calls": [{"function": {"name": "f"}}]`, assistantSays), f.chat,
			"message 0: the user has tool_calls"},
	})
}

// TestRefusedThoughts: thoughts that would be lost.
func TestRefusedThoughts(t *testing.T) {
	f := newFormats(t)
	const lost = "message 1: the chat template does not write all that the assistant says"
	refuse(t, []formCase{
		{"in the content", talk(`"content": "a"`, `"role": "assistant", "content": "hm</think>b"`), f.forgetful, lost},
		{"in a key", talk(`"content": "a"`, assistantSays+`, "reasoning_content": "hm"`), f.chat, lost},
		{"in another key", talk(`"content": "a"`, assistantSays+`, "reasoning": "hm"`), f.chat, lost},
		{"in a third key", talk(`"content": "a"`, assistantSays+`, "thinking": "hm"`), f.chat, lost},
		{"no text", talk(`"content": "a"`, assistantSays+`, "reasoning_content": ["hm"]`), f.chat,
			`reasoning_content is ["hm"]: expected a text`},
	})
}

// TestSources: lines of RLinf's math files have several correct solutions, and keys that are not read.
func TestSources(t *testing.T) {
	k := bytewise(t)
	chatml := test.Must(k.BuiltinTemplate("chatml"))(t)
	f := Format{Tokenizer: k, Prompt: "prompt", Answer: "solutions", Messages: "messages", EOS: k.EOS(), Vocab: 259,
		Length: 200, Prompts: true}
	chat := f
	chat.Chat = chatml
	for _, c := range []struct {
		line   string
		f      Format
		prompt string // the text of the tokens before the answer
		source Origin
	}{
		{`{"prompt": "1+1=", "task": "math", "query_id": "a7", "solutions": ["\\boxed{2}", "two"]}`, f, "1+1=",
			Origin{Prompt: "1+1=", Answers: []string{`\boxed{2}`, "two"}}},
		{`{"prompt": "1+1=", "solutions": "2"}`, chat, "<|im_start|>user\n1+1=<|im_end|>\n<|im_start|>assistant\n",
			Origin{Prompt: "1+1=", Answers: []string{"2"}}},
		{`{"prompt": [{"role": "user", "content": "1+1="}], "solutions": ["2"]}`, chat,
			"<|im_start|>user\n1+1=<|im_end|>\n<|im_start|>assistant\n",
			Origin{Prompt: "<|im_start|>user\n1+1=<|im_end|>\n<|im_start|>assistant\n", Answers: []string{"2"}}},
	} {
		d := test.Must(Read(write(t, c.line), c.f))(t)
		s := d.Samples[0]
		test.Equal(t, shown(k, s), c.prompt, "%s: prompt", c.line)
		if got := k.Decode(s.Source.Tokens); got != c.source.Answers[0]+"<|endoftext|>" {
			t.Errorf("%s: answer %q", c.line, got)
		}
		if s.Source.Line != 1 || !strings.HasSuffix(s.Source.File, "data.jsonl") ||
			s.Source.Prompt != c.source.Prompt || !slices.Equal(s.Source.Answers, c.source.Answers) {
			t.Errorf("%s: %+v, want %+v", c.line, *s.Source, c.source)
		}
	}
}

// TestPrompts: a prompt is read alone. The right answer may have any length, and any form that the template could not
// write. A conversation beside the prompt and its answer is not read.
func TestPrompts(t *testing.T) {
	f := newFormats(t)
	plain := f.plain
	plain.Prompts, plain.Length = true, 3
	thinking := plain
	var err error
	thinking.Chat, err = f.k.ParseChatTemplate(`{% for m in messages %}<{{ m.role }}>{{ m.content }}</>{% endfor %}` +
		`{% if add_generation_prompt %}<assistant><think>{% endif %}`)
	test.OK(t, err)
	listed := thinking
	listed.Prompt = "messages"
	const talk = `"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}]`
	for _, c := range []formCase{
		{"a long solution", `{"prompt": "1+1=", "answer": "one and one are 2"}`, plain, "1+1="},
		{"an empty answer", `{"prompt": "1+1=", "answer": ""}`, plain, "1+1="},
		{"a template that begins a thought", `{"prompt": "a", "answer": "b"}`, thinking,
			"<user>a</><assistant><think>"},
		{"a conversation beside them", `{"prompt": "a", "answer": "b", ` + talk + `}`, plain, "a"},
		{"the same of ShareGPT", `{"prompt": "a", "answer": "b", "conversations": []}`, plain, "a"},
		{"a conversation as the prompt", `{"messages": [{"role": "user", "content": "a"}], "answer": "b"}`, listed,
			"<user>a</><assistant><think>"},
		{"Alpaca", `{"instruction": "a", "input": "b", "output": "c"}`, plain, "a\nb"},
		{"a system without a message", `{"prompt": "a", "answer": "b", "system": ""}`, plain, "a"},
	} {
		d, err := Read(write(t, c.record), c.f)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		test.Equal(t, shown(f.k, d.Samples[0]), c.want, "%s", c.name)
	}
	refuse(t, []formCase{
		{"empty", `{"prompt": "", "answer": "b"}`, plain, "the prompt is empty"},
		{"empty, chat", `{"prompt": "", "answer": "b", "system": "s"}`, thinking, "the prompt is empty"},
		{"no message", `{"messages": [], "answer": "b"}`, listed, "the prompt is empty"},
		{"a conversation", `{` + talk + `}`, thinking,
			`no key "prompt" and no key "answer": the record has messages`},
		{"a conversation and an answer", `{"answer": "b", ` + talk + `}`, thinking,
			`no key "prompt": the record has answer, messages`},
		{"other keys", `{"problem": "a", "answer": "b", ` + talk + `}`, plain,
			`no key "prompt": the record has answer, messages, problem`},
		{"a part that the template leaves out", `{"prompt": "a", "answer": "b", "tools": [{"name": "f"}]}`, thinking,
			`"tools": the chat template does not write them`},
	})
}

// TestPromptTokens: the model must know the tokens of a prompt, but not those of the right answer.
func TestPromptTokens(t *testing.T) {
	f := newFormats(t).plain
	f.Prompts, f.Vocab = true, 70 // a is 64, z is 89
	if _, err := Read(write(t, `{"prompt": "a", "answer": "zzz"}`), f); err != nil {
		t.Error(err)
	}
	if _, err := Read(write(t, `{"prompt": "z", "answer": "a"}`), f); err == nil {
		t.Error("a token that the model does not know is accepted")
	}
}

func TestReadMistakes(t *testing.T) {
	k := bytewise(t)
	f := Format{Tokenizer: k, Prompt: "prompt", Answer: "answer", Messages: "messages", EOS: k.EOS(), Vocab: 259,
		Length: 8}
	good := `{"prompt": "a", "answer": "b"}`
	small := f
	small.Vocab = 98
	chat := f
	var err error
	chat.Chat, err = k.ParseChatTemplate("{% for m in messages %}{{ loop.length }}{{ m.content }}{% endfor %}")
	test.OK(t, err)
	indexing := f
	indexing.Chat, err = k.ParseChatTemplate("{{ messages[0].role }}{% for m in messages %}{{ m.content }}{% endfor %}")
	test.OK(t, err)
	for _, c := range []struct {
		name, line string
		f          Format
		want       string
	}{
		{"no JSON", `prompt`, f, ":2: expected a JSON object: "},
		{"a list in a line", `[]`, f, ":2: expected a JSON object: "},
		{"no answer", `{"prompt": "a"}`, f, `:2: no key "answer"`},
		{"a number", `{"prompt": "a", "answer": 3}`, f, `:2: "answer": it is 3: expected a text in quotes, or a list`},
		{"messages without a template", `{"prompt": [], "answer": "b"}`, f,
			`:2: "prompt" is []: expected a text in quotes (lists of messages need`},
		{"a conversation without a template", `{"messages": []}`, f,
			`:2: "messages": a conversation needs data.apply_chat_template`},
		{"too long", `{"prompt": "abcd", "answer": "bcde"}`, f, ":2: 9 tokens: expected at most 8"},
		{"the longest", `{"prompt": "abcd", "answer": "bcde"}` + "\n" + `{"prompt": "abcd", "answer": "bcdef"}`, f,
			":3: 10 tokens: expected at most 8 (2 texts are longer)"},
		{"unknown token", `{"prompt": "a", "answer": "b"}`, small, ":1: token 2 is 256: the model knows 98"},
		{"nobody answers", `{"messages": [{"role": "user", "content": "a"}]}`, chat, ":1: "},
		{"a template that needs a first message", `{"messages": [{"role": "assistant", "content": "a"}]}`, indexing,
			`:1: message 0: the text before it: chat template "default": `},
		{"a template that rewrites",
			`{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "a"}]}`, chat,
			"rewrites"},
	} {
		t.Run(c.name, func(t *testing.T) {
			first := good
			if c.f.Chat != nil {
				first = c.line
			}
			test.Fails(t, test.Err(Read(write(t, first, c.line), c.f)), c.want)
		})
	}
	test.Fails(t, test.Err(Read(write(t, "", " "), f)), "no sample", "an empty file")
	long := `{"prompt": "abcd", "answer": "bcde"}`
	f.Drop = true
	if d, err := Read(write(t, good, long), f); err != nil || len(d.Samples) != 1 || d.Dropped != 1 {
		t.Errorf("got %+v, %v, want one sample and one that was dropped", d, err)
	}
	if _, err := Read(write(t, long), f); err == nil ||
		!strings.Contains(err.Error(), "all 1 samples are longer than 8 tokens") {
		t.Errorf("all dropped: %v", err)
	}
}

// TestHash: the hash depends on the texts, and on their learnt parts.
func TestHash(t *testing.T) {
	a := []Sample{{IDs: []int32{1, 2, 3}, Learn: []bool{false, true, true}}}
	b := []Sample{{IDs: []int32{1, 2, 3}, Learn: []bool{false, false, true}}}
	c := []Sample{{IDs: []int32{1, 2}, Learn: []bool{false, true}}, {IDs: []int32{3}, Learn: []bool{true}}}
	if h := hash(a); h == hash(b) || h == hash(c) || h != hash(a) {
		t.Error("hashes of different texts are equal")
	}
}

// TestReadForeignFiles: a byte-order mark, line ends of two characters and a missing last line end make no difference.
func TestReadForeignFiles(t *testing.T) {
	k := bytewise(t)
	f := Format{Tokenizer: k, Prompt: "prompt", Answer: "answer", EOS: k.EOS(), Vocab: 259, Length: 200}
	line := `{"prompt": "a", "answer": "b"}`
	want, err := Read(write(t, line, line, ""), f)
	test.OK(t, err)
	got, err := Read(write(t, "\ufeff"+line+"\r", "\r", line), f)
	if err != nil || got.Hash != want.Hash {
		t.Errorf("%v, %v", got, err)
	}
	path := write(t, line, line+"\x00", line)
	if _, err := Read(path, f); err == nil || !strings.HasPrefix(err.Error(), path[0]+":2: ") {
		t.Errorf("bytes that are no JSON in line 2: %v", err)
	}
}

// TestParquet: the rows of a Parquet file are the samples that lines of JSON are. Errors name the row.
func TestParquet(t *testing.T) {
	const dir = "../../internal/tables/testdata/"
	f := Format{Tokenizer: bytewise(t), Prompt: "prompt", Answer: "dict", EOS: -1, Vocab: 259, Length: 1000}
	got, err := Read([]string{dir + "hyparquet.parquet"}, f)
	test.OK(t, err)
	want, err := Read([]string{dir + "hyparquet.jsonl"}, f)
	test.OK(t, err)
	if got.Hash != want.Hash || len(got.Samples) != 10 {
		t.Errorf("%d samples with hash %x, expected %d with %x", len(got.Samples), got.Hash, len(want.Samples),
			want.Hash)
	}
	f.Answer = "answer"
	_, err = Read([]string{dir + "hyparquet.parquet"}, f)
	if want := dir + `hyparquet.parquet:4: "answer": it is null: expected a text`; err == nil ||
		!strings.HasPrefix(err.Error(), want) {
		t.Errorf("%v, expected %s", err, want)
	}
}
