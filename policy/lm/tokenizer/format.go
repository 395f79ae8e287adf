package tokenizer

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// A format is a built-in chat format, for tokenizers without a template. It does not support tools.
type format struct {
	name string
	// marks are added tokens. A tokenizer that has all of these tokens was probably made for the format.
	marks []string
	// inst puts each message of the user between [INST] and [/INST]. The system message goes into the
	// first message of the user.
	inst bool
	// header is the text before the role, body is the text after the role, and end is the text after the content. All
	// three are empty if inst is true.
	header, body, end string
	trim              bool // remove white space around contents
}

var formats = []format{
	{
		name: "chatml", marks: []string{"<|im_start|>", "<|im_end|>"},
		header: "<|im_start|>", body: "\n", end: "<|im_end|>\n",
	},
	{
		name: "llama3", marks: []string{"<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"},
		header: "<|start_header_id|>", body: "<|end_header_id|>\n\n", end: "<|eot_id|>", trim: true,
	},
	{name: "mistral", marks: []string{"[INST]", "[/INST]"}, inst: true},
	{name: "llama2", marks: []string{"[INST]", "<<SYS>>"}, inst: true, trim: true},
}

// BuiltinTemplates returns the names of the built-in chat formats.
func BuiltinTemplates() []string {
	names := make([]string, len(formats))
	for i, f := range formats {
		names[i] = f.name
	}
	return names
}

// BuiltinTemplate returns the built-in chat format with this name: chatml (Qwen and others), llama3,
// mistral or llama2.
func (t *Tokenizer) BuiltinTemplate(name string) (*ChatTemplate, error) {
	i := slices.IndexFunc(formats, func(f format) bool { return f.name == name })
	if i < 0 {
		return nil, fmt.Errorf("chat format %q: expected one of %s", name, strings.Join(BuiltinTemplates(), ", "))
	}
	return &ChatTemplate{name: name, tokens: t.config, format: formats[i], source: formats[i].source()}, nil
}

func (f *format) render(chat Chat, tokens config) (string, error) {
	if len(chat.Tools) > 0 && string(chat.Tools) != "null" {
		return "", fmt.Errorf("the built-in format has no place for tools")
	}
	var messages []Message
	if err := json.Unmarshal(chat.Messages, &messages); err != nil {
		return "", fmt.Errorf("messages: expected a list of objects with role and content: %w", err)
	}
	for i := range messages {
		m := &messages[i]
		if !slices.Contains([]string{"system", "user", "assistant"}, m.Role) {
			return "", fmt.Errorf("messages[%d].role: %q: expected system, user or assistant", i, m.Role)
		}
		if f.trim {
			m.Content = strings.TrimSpace(m.Content)
		}
	}
	if f.inst {
		return f.turns(messages, tokens)
	}
	var b strings.Builder
	if f.name == "llama3" {
		b.WriteString(tokens.bos)
	}
	for _, m := range messages {
		b.WriteString(f.header + m.Role + f.body + m.Content + f.end)
	}
	if chat.GenerationPrompt {
		b.WriteString(f.header + "assistant" + f.body)
	}
	return b.String(), nil
}

// turns writes the formats of Llama 2 and Mistral. In Llama 2 each message of the user begins a new sequence.
func (f *format) turns(messages []Message, tokens config) (string, error) {
	llama2 := f.name == "llama2"
	var b strings.Builder
	if !llama2 {
		b.WriteString(tokens.bos)
	}
	system := ""
	if len(messages) > 0 && messages[0].Role == "system" {
		system = messages[0].Content + "\n\n"
		if llama2 {
			system = "<<SYS>>\n" + messages[0].Content + "\n<</SYS>>\n\n"
		}
		messages = messages[1:]
	}
	for i, m := range messages {
		switch want := [2]string{"user", "assistant"}[i%2]; {
		case m.Role != want:
			return "", fmt.Errorf("messages: %s in place of %s: expected user and assistant in turns, after a "+
				"system message or none", m.Role, want)
		case m.Role == "assistant" && llama2:
			b.WriteString(" " + m.Content + " " + tokens.eos)
		case m.Role == "assistant":
			b.WriteString(" " + m.Content + tokens.eos)
		default:
			if llama2 {
				b.WriteString(tokens.bos)
			}
			b.WriteString("[INST] " + system + m.Content + " [/INST]")
			system = ""
		}
	}
	return b.String(), nil
}

// source returns the format as a template in the Jinja language.
func (f *format) source() string {
	content := "m['content']"
	if f.trim {
		content += " | trim"
	}
	if !f.inst {
		begin := ""
		if f.name == "llama3" {
			begin = "{{ bos_token }}"
		}
		return begin + fmt.Sprintf("{%% for m in messages %%}{{ %q + m['role'] + %q + (%s) + %q }}{%% endfor %%}"+
			"{%% if add_generation_prompt %%}{{ %q }}{%% endif %%}", f.header, f.body, content, f.end,
			f.header+"assistant"+f.body)
	}
	begin, user, system, end := "{{ bos_token }}", "", [2]string{"", "\n\n"}, ""
	if f.name == "llama2" {
		begin, user, system, end = "", "bos_token + ", [2]string{"<<SYS>>\n", "\n<</SYS>>\n\n"}, " "
	}
	return begin + fmt.Sprintf("{%% if messages[0]['role'] == 'system' %%}{%% set m = messages[0] %%}"+
		"{%% set system = %q + (%s) + %q %%}{%% set turns = messages[1:] %%}"+
		"{%% else %%}{%% set system = '' %%}{%% set turns = messages %%}{%% endif %%}{%% for m in turns %%}"+
		"{%% if m['role'] == 'user' %%}{{ %s'[INST] ' + (system if loop.first else '') + (%s) + ' [/INST]' }}"+
		"{%% else %%}{{ ' ' + (%s) + %q + eos_token }}{%% endif %%}{%% endfor %%}", system[0], content, system[1],
		user, content, content, end)
}
