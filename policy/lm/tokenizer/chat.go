package tokenizer

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// A Chat is a conversation to be written as one text for a model.
type Chat struct {
	// Messages is a JSON list of objects with "role" and "content", and whatever else the template
	// reads, as "tool_calls". Messages makes one.
	Messages json.RawMessage
	// Tools is a JSON list of the functions that the model may call, nil without.
	Tools json.RawMessage
	// GenerationPrompt adds what begins the model's answer.
	GenerationPrompt bool
	// Variables are more values for the template, as "enable_thinking": JSON by name.
	Variables map[string]json.RawMessage
	// Now is the time that a template gets if it asks for one. At zero it gets none; templates then
	// write a fixed date or leave it out, and the text does not depend on when it is made.
	Now time.Time
}

// A Message is what one side says.
type Message struct {
	Role    string `json:"role"` // system, user or assistant
	Content string `json:"content"`
}

// Messages returns messages as Chat wants them.
func Messages(messages ...Message) json.RawMessage {
	text, _ := json.Marshal(slices.Concat([]Message{}, messages)) // strings always have a JSON
	return text
}

// A ChatTemplate writes conversations as a model expects them. Any number of goroutines may use it.
type ChatTemplate struct {
	name   string
	tokens config
	jinja  *jinja // nil for a built-in format
	format format
}

// ChatTemplate returns the tokenizer's template of a name; an empty name is the default one. Where
// the tokenizer has none at all, the default is the built-in format whose special tokens the
// tokenizer has. An error names the templates that there are.
func (t *Tokenizer) ChatTemplate(name string) (*ChatTemplate, error) {
	if name == "" {
		name = defaultTemplate
	}
	if source, ok := t.config.templates[name]; ok {
		return newChatTemplate(name, source, t.config)
	}
	if len(t.config.templates) > 0 {
		return nil, fmt.Errorf("chat template %q: the tokenizer has %s", name,
			strings.Join(sortedKeys(t.config.templates), ", "))
	}
	if name == defaultTemplate {
		for _, f := range formats {
			if !slices.ContainsFunc(f.marks, func(mark string) bool { return !t.hasAdded(mark) }) {
				return t.BuiltinTemplate(f.name)
			}
		}
	}
	return nil, fmt.Errorf("chat template %q: the tokenizer has none; the built-in formats are %s", name,
		strings.Join(BuiltinTemplates(), ", "))
}

func (t *Tokenizer) hasAdded(text string) bool {
	return slices.ContainsFunc(t.added, func(a AddedToken) bool { return a.Content == text })
}

// ParseChatTemplate returns a template from its source in the Jinja language, for a tokenizer's
// special tokens.
func (t *Tokenizer) ParseChatTemplate(source string) (*ChatTemplate, error) {
	return newChatTemplate(defaultTemplate, source, t.config)
}

func newChatTemplate(name, source string, tokens config) (*ChatTemplate, error) {
	j, err := parseJinja(source)
	if err != nil {
		return nil, fmt.Errorf("chat template %q: %w", name, err)
	}
	return &ChatTemplate{name: name, tokens: tokens, jinja: j}, nil
}

// A TemplateError is what a template says about messages that it refuses.
type TemplateError struct{ Message string }

func (e *TemplateError) Error() string { return e.Message }

// Render returns the text of a conversation. It has the text of special tokens, so it is to be
// encoded without further ones (Encoder.Encode). A template that refuses the messages gives a
// *TemplateError.
func (c *ChatTemplate) Render(chat Chat) (text string, err error) {
	if c.jinja != nil {
		text, err = c.jinja.render(chat, c.tokens)
	} else {
		text, err = c.format.render(chat, c.tokens)
	}
	if err != nil {
		return "", fmt.Errorf("chat template %q: %w", c.name, err)
	}
	return text, nil
}
