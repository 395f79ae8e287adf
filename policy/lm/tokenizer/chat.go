package tokenizer

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rlinf/rlinf/policy/lm/tokenizer/jinja"
)

// A Chat is a conversation that a ChatTemplate turns into one text.
type Chat struct {
	// Messages is a JSON list of objects with "role", "content" and other keys that the template reads, such as
	// "tool_calls". The function Messages makes such a list.
	Messages json.RawMessage
	// Tools is a JSON list of the functions that the model may call. Tools is nil if there are no functions.
	Tools json.RawMessage
	// If GenerationPrompt is true, the text ends with the beginning of the model's answer.
	GenerationPrompt bool
	// Variables maps names of other template variables, such as "enable_thinking", to their values in JSON.
	Variables map[string]json.RawMessage
	// Now is the current time for templates. If Now is zero, templates write a fixed date or no date, so the text does
	// not depend on the time.
	Now time.Time
}

// A Message is one turn of a conversation.
type Message struct {
	Role    string `json:"role"` // system, user or assistant
	Content string `json:"content"`
}

// Messages returns messages as JSON, for Chat.Messages.
func Messages(messages ...Message) json.RawMessage {
	text, _ := json.Marshal(slices.Concat([]Message{}, messages)) // encoding strings cannot fail
	return text
}

// A ChatTemplate turns conversations into the text that a model expects. Any number of goroutines can use a
// ChatTemplate.
type ChatTemplate struct {
	name   string
	tokens config
	jinja  *jinja.Template // nil for a built-in format
	format format
	source string // in the Jinja language
}

// ChatTemplate returns the named template of the tokenizer, or the built-in format with this name. "" means the
// tokenizer's default template. If there is no such template, the error says what is available.
func (t *Tokenizer) ChatTemplate(name string) (*ChatTemplate, error) {
	source, ok := t.config.templates[cmp.Or(name, defaultTemplate)]
	switch {
	case ok:
		return newChatTemplate(cmp.Or(name, defaultTemplate), source, t.config)
	case name != "" && slices.Contains(BuiltinTemplates(), name):
		return t.BuiltinTemplate(name)
	}
	text := "the tokenizer has no chat template"
	switch named := slices.Sorted(maps.Keys(t.config.templates)); {
	case len(named) > 0:
		text = fmt.Sprintf("%q: the tokenizer has %s", name, strings.Join(named, ", "))
	case name != "":
		text += fmt.Sprintf(" %q", name)
	default:
		text += ": add one to tokenizer_config.json"
	}
	text += "; or name a built-in format (" + strings.Join(BuiltinTemplates(), ", ") + ")"
	if likely := t.likelyFormat(); likely != "" {
		text += "; the special tokens are those of " + likely
	}
	return nil, errors.New(text)
}

// likelyFormat returns the name of the built-in format whose special tokens the tokenizer has, or "".
func (t *Tokenizer) likelyFormat() string {
	for _, f := range formats {
		if !slices.ContainsFunc(f.marks, func(mark string) bool { return !t.hasAdded(mark) }) {
			return f.name
		}
	}
	return ""
}

func (t *Tokenizer) hasAdded(text string) bool {
	return slices.ContainsFunc(t.added, func(a AddedToken) bool { return a.Content == text })
}

// ParseChatTemplate parses a template in the Jinja language. The template uses the tokenizer's special tokens.
func (t *Tokenizer) ParseChatTemplate(source string) (*ChatTemplate, error) {
	return newChatTemplate(defaultTemplate, source, t.config)
}

func newChatTemplate(name, source string, tokens config) (*ChatTemplate, error) {
	j, err := jinja.Parse(source)
	if err != nil {
		return nil, fmt.Errorf("chat template %q: %w", name, err)
	}
	return &ChatTemplate{name: name, tokens: tokens, jinja: j, source: source}, nil
}

// A TemplateError is the error of a template that rejects a conversation.
type TemplateError struct{ Message string }

func (e *TemplateError) Error() string { return e.Message }

// Render returns the text of a conversation. The text includes special tokens, so encode it with Encoding.Encode, not
// with EncodeSequence. If a template rejects the messages, the error is a *TemplateError.
func (c *ChatTemplate) Render(chat Chat) (text string, err error) {
	if c.jinja != nil {
		text, err = renderJinja(c.jinja, chat, c.tokens)
	} else {
		text, err = c.format.render(chat, c.tokens)
	}
	if err != nil {
		return "", fmt.Errorf("chat template %q: %w", c.name, err)
	}
	return text, nil
}
