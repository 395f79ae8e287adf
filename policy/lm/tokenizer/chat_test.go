package tokenizer

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rlinf/rlinf/internal/test"
)

type chatCases struct {
	Name, Template string
	Cases          []struct {
		Messages, Tools     json.RawMessage
		AddGenerationPrompt bool `json:"add_generation_prompt"`
		Variables           map[string]json.RawMessage
		Rendered, Error     string
	}
}

func readChat(t testing.TB) (files []chatCases) {
	t.Helper()
	text := test.Must(os.ReadFile("testdata/chat.json"))(t)
	test.OK(t, json.Unmarshal(text, &files))
	return files
}

func TestChatTemplates(t *testing.T) {
	k := &Tokenizer{config: config{bos: "<s>", eos: "</s>"}}
	n := 0
	for _, f := range readChat(t) {
		template, err := k.ParseChatTemplate(f.Template)
		test.OK(t, err, "%s", f.Name)
		for _, c := range f.Cases {
			n++
			got, err := template.Render(Chat{Messages: c.Messages, Tools: c.Tools,
				GenerationPrompt: c.AddGenerationPrompt, Variables: c.Variables})
			var refusal *TemplateError
			switch {
			case c.Error == "" && (err != nil || got != c.Rendered):
				t.Errorf("%s %s\n got %q, %v\nwant %q", f.Name, c.Messages, got, err, c.Rendered)
			case c.Error != "" && (!errors.As(err, &refusal) || refusal.Message != c.Error):
				t.Errorf("%s %s: %v, want the refusal %q", f.Name, c.Messages, err, c.Error)
			}
		}
	}
	if n != 42 {
		t.Errorf("%d cases", n)
	}
}

func TestChatTemplateAtOnce(t *testing.T) {
	f := readChat(t)[1]
	template := test.Must((&Tokenizer{}).ParseChatTemplate(f.Template))(t)
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			for _, c := range f.Cases {
				got, err := template.Render(Chat{Messages: c.Messages, Tools: c.Tools,
					GenerationPrompt: c.AddGenerationPrompt, Variables: c.Variables})
				if want := strings.ReplaceAll(c.Rendered, "</s>", ""); err != nil || got != want {
					t.Errorf("got %q, %v\nwant %q", got, err, want)
				}
			}
		})
	}
	wait.Wait()
}

func TestTemplateValues(t *testing.T) {
	for _, c := range [][2]string{
		{`{{ strftime_now("%d %b %Y, %-d %H:%M%%") }}`, "05 Mar 2026, 5 07:08%"},
		{`{{ 'a b c'.rsplit(' ', 1) | join('|') }}`, "a b|c"},
		{`{{ '  a b  '.split() | join('|') }}`, "a|b"},
		{`{{ ' a  b c '.split(none, 1) | join('|') }}`, "a|b c "},
		{`{{ ' a  b c '.rsplit(none, 1) | join('|') }}`, " a  b|c"},
		{`{{ ''.split() | length }}{{ ''.split(',') | length }}`, "01"},
		{`{{ "a\nb\r\nc".splitlines() | join('|') }}`, "a|b|c"},
		{`{{ 'aXbX'.replace('X', 'y') }}{{ 'aXbX'.replace('X', 'y', 1) }}`, "aybyaybX"},
		{`{{ 'été'.find('é') }}{{ 'été'.rfind('é') }}{{ 'été'.find('x') }}`, "02-1"},
		{`{{ 'x.tar'.endswith(('.gz', '.tar')) }}`, "True"},
		{`{{ 'x'.removeprefix('x') }}{{ 'hello wORLD'.title() }}`, "Hello World"},
		{`{{ 'hELLO'.capitalize() }}{{ ', '.join(['a', 'b']) }}`, "Helloa, b"},
		{`{{ [1, 2, 3] | tojson }}{{ {'b': 1, 'a': [none, true]} | tojson }}`, `[1, 2, 3]{"b": 1, "a": [null, true]}`},
		{`{{ {'b': 1, 'a': 2} | tojson(sort_keys=true, separators=(',', ':')) }}`, `{"a":2,"b":1}`},
		{`{{ "é\"\\\n\t" | tojson }}{{ 'é😀' | tojson(ensure_ascii=true) }}`,
			"\"é\\\"\\\\\\n\\t\"\"\\u00e9\\ud83d\\ude00\""},
		{`{{ x is none }}{{ x is defined }}{{ y is defined }}{{ x | default('d') }}|{{ y | default('d') }}`,
			"TrueTrueFalseNone|d"},
		{`{{ messages[-1].content }}{{ messages[5] is defined }}{{ messages[0].get('no', 'def') }}`, "hiFalsedef"},
		{`{{ 'a' is sequence }}{{ true is true }}{{ 1 is true }}{{ range(3) | list | length }}`, "TrueTrueFalse3"},
		{"a  {% if x is none %}  b{% endif %}\n  {% if x %}{% endif %}c {# d #}\n  {# e #}f", "a    bc f"},
		{`{{ empty is mapping }}{{ 'yes' if empty else 'no' }}{{ big }}{{ big | tojson }}`,
			"Trueno1234567890123456789012345678901234567890"},
	} {
		source, want := c[0], c[1]
		template, err := (&Tokenizer{}).ParseChatTemplate(source)
		if err != nil {
			t.Errorf("%s: %v", source, err)
			continue
		}
		got, err := template.Render(Chat{
			Messages: Messages(Message{"user", "hi"}),
			Variables: map[string]json.RawMessage{"x": []byte("null"), "empty": []byte("{}"),
				"big": []byte("12345678901234567890")},
			Now: time.Date(2026, 3, 5, 7, 8, 9, 0, time.UTC),
		})
		if err != nil || strings.ReplaceAll(got, "12345678901234567890", "") != strings.ReplaceAll(want,
			"12345678901234567890", "") {
			t.Errorf("%s: got %q, %v, want %q", source, got, err, want)
		}
	}
}

// A template with a mistake is an error when it is parsed or when it is rendered.
func TestTemplateErrors(t *testing.T) {
	for source, want := range map[string]string{
		`{% if %}`:                                                 "line 1: unexpected %}: expected an expression",
		`{{ `:                                                      "",
		`{% include "/etc/passwd" %}`:                              "include",
		`{% import "/template" as t %}`:                            "import",
		`{{ f() }}`:                                                "f",
		`{{ range(1000000) }}`:                                     "more than 100000 numbers",
		`{{ strftime_now('%Y') }}`:                                 "strftime_now",
		`{{ messages | tojson(colour=1) }}`:                        "colour",
		`{{ messages[0].content.fly() }}`:                          "fly",
		strings.Repeat("x", 1<<17+1):                               "expected at most 131072",
		`{{ ` + strings.Repeat("(", 5000):                          "expected at most 1000",
		`{{ ` + strings.Repeat("(", 1000):                          "",
		`{{ ` + strings.Repeat("not ", 30000) + "1 }}":             "expected at most 1000",
		`{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}`:          "more than 100 nested calls",
		`{% macro f(n) %}{{ n + f(n) }}{% endmacro %}{{ f('é') }}`: "more than 100 nested calls",
		`{{ raise_exception('nothing to say') }}`:                  "nothing to say",
		`{% set l = namespace(v=1) %}{% set l.v = [l] %}{{ l }}`:   "nested too deep",
		"a\n{{ b.c }}":                                             "line 2: 'b' is undefined",
		`{% set x = 'x' * 100000000 %}`:                            "expected at most 67108864",
		`{{ messages.append(1) }}`:                                 "append changes a list",
		`{{ messages | wordwrap }}`:                                "the filter wordwrap is not supported",
	} {
		template, err := (&Tokenizer{}).ParseChatTemplate(source)
		if err == nil {
			_, err = template.Render(Chat{Messages: Messages(Message{"user", "hi"})})
		}
		test.Fails(t, err, want, "%s", short(source))
	}
	template := test.Must((&Tokenizer{}).ParseChatTemplate("{{ messages }}"))(t)
	for messages, want := range map[string]string{"": "messages: missing", "[{]": "messages: [{]: not JSON"} {
		if _, err := template.Render(Chat{Messages: json.RawMessage(messages)}); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("messages %s: %v, want an error with %q", messages, err, want)
		}
	}
}

func TestBuiltinTemplates(t *testing.T) {
	talk := Messages(Message{"system", "S "}, Message{"user", " Q"}, Message{"assistant", "A"}, Message{"user", "R"})
	k := &Tokenizer{config: config{bos: "<s>", eos: "</s>"}}
	for name, want := range map[string]string{
		"chatml": "<|im_start|>system\nS <|im_end|>\n<|im_start|>user\n " +
			"Q<|im_end|>\n<|im_start|>assistant\nA<|im_end|>\n<|im_start|>user\nR<|im_end|>\n<|im_start|>assistant\n",
		"llama3": "<s><|start_header_id|>system<|end_header_id|>\n\nS<|eot_id|><|start_header_id|>user<|" +
			"end_header_id|>\n\nQ<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\nA<|eot_id|><|" +
			"start_header_id|>user<|end_header_id|>\n\nR<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
		"llama2":  "<s>[INST] <<SYS>>\nS\n<</SYS>>\n\nQ [/INST] A </s><s>[INST] R [/INST]",
		"mistral": "<s>[INST] S \n\n Q [/INST] A</s>[INST] R [/INST]",
	} {
		template, err := k.BuiltinTemplate(name)
		test.OK(t, err)
		got, err := template.Render(Chat{Messages: talk, GenerationPrompt: true})
		if got != want || err != nil {
			t.Errorf("%s: got %q, %v\nwant %q", name, got, err, want)
		}
		for wrong, message := range map[string]string{
			`[{"role": "tool", "content": "x"}]`: `messages[0].role: "tool": expected system, user or assistant`,
			`[{"role": "user", "content": 5}]`:   "messages: expected a list of objects with role and content",
		} {
			if _, err := template.Render(Chat{Messages: json.RawMessage(wrong)}); err == nil ||
				!strings.Contains(err.Error(), message) {
				t.Errorf("%s of %s: %v, want %q", name, wrong, err, message)
			}
		}
		if _, err := template.Render(Chat{Messages: talk, Tools: []byte("[{}]")}); err == nil {
			t.Errorf("%s: tools are not refused", name)
		}
		if _, err := template.Render(Chat{Messages: Messages(Message{"assistant", "x"})}); (err != nil) !=
			(name == "llama2" || name == "mistral") {
			t.Errorf("%s of an answer without a question: %v", name, err)
		}
	}
}

// TestNoTemplate: a tokenizer without a template has none unless a format is named. The error says what to do.
// TestSavedTemplates: a saved built-in format is a template of the tokenizer that renders the same, and the other keys
// stay.
func TestSavedTemplates(t *testing.T) {
	k := &Tokenizer{config: config{bos: "<s>", eos: "</s>"}}
	dir := t.TempDir()
	for _, name := range BuiltinTemplates() {
		for file, text := range map[string]string{configFile: `{"model_max_length": 1000000000000000019884624838656}`,
			templateFile: "{{ 'other' }}"} {
			test.OK(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o666))
		}
		want := test.Must(k.BuiltinTemplate(name))(t)
		test.OK(t, want.Save(dir))
		if _, err := os.Stat(filepath.Join(dir, templateFile)); err == nil {
			t.Errorf("%s: %s is still there", name, templateFile)
		}
		var saved struct {
			ChatTemplate string      `json:"chat_template"`
			Longest      json.Number `json:"model_max_length"`
		}
		test.OK(t, json.Unmarshal(test.Must(os.ReadFile(filepath.Join(dir, configFile)))(t), &saved))
		test.Equal(t, string(saved.Longest), "1000000000000000019884624838656", "%s: model_max_length", name)
		got := test.Must(k.ParseChatTemplate(saved.ChatTemplate))(t)
		for _, from := range []int{0, 1} {
			for to := from + 1; to <= 4; to++ {
				all := []Message{{"system", " be\nbrief "}, {"user", " 'hi' "}, {"assistant", "a\"b "},
					{"user", "more"}}
				c := Chat{Messages: Messages(all[from:to]...), GenerationPrompt: to%2 == 0}
				if name != "chatml" && name != "llama3" && from == 0 && to == 1 {
					continue // a system message alone has no place
				}
				test.Equal(t, test.Must(got.Render(c))(t), test.Must(want.Render(c))(t), "%s: %s", name, c.Messages)
			}
		}
	}
}

func TestNoTemplate(t *testing.T) {
	const formats = "; or name a built-in format (chatml, llama3, mistral, llama2)"
	for name, likely := range map[string]string{"llama3": "; the special tokens are those of llama3", "llama2": "",
		"gpt2": ""} {
		k := load(t, name)
		k.config.templates = nil
		want := "the tokenizer has no chat template: add one to tokenizer_config.json" + formats + likely
		if _, err := k.ChatTemplate(""); err == nil || err.Error() != want {
			t.Errorf("%s: %v", name, err)
		}
		want = `the tokenizer has no chat template "rag"` + formats + likely
		if _, err := k.ChatTemplate("rag"); err == nil || err.Error() != want {
			t.Errorf("%s: rag: %v", name, err)
		}
		if template, err := k.ChatTemplate("chatml"); err != nil || template.name != "chatml" {
			t.Errorf("%s: chatml: %v, %v", name, template, err)
		}
	}
}

// TestNamedTemplates: a template is found by its name; without a name it is the default.
func TestNamedTemplates(t *testing.T) {
	named := &Tokenizer{config: config{templates: map[string]string{"default": "d", "tool_use": "t"}}}
	for name, want := range map[string]string{"": "d", "tool_use": "t"} {
		template := test.Must(named.ChatTemplate(name))(t)
		if got, err := template.Render(Chat{Messages: Messages()}); got != want || err != nil {
			t.Errorf("template %q: %q, %v", name, got, err)
		}
	}
	if _, err := named.ChatTemplate("rag"); err == nil ||
		!strings.Contains(err.Error(), "the tokenizer has default, tool_use; or name a") {
		t.Errorf("rag: %v", err)
	}
}
