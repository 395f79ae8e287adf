package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rlinf/rlinf/policy/lm/tokenizer/jinja"
)

// renderJinja returns the text of a chat by a template in the Jinja language, with the variables and functions of
// apply_chat_template.
func renderJinja(template *jinja.Template, chat Chat, tokens config) (text string, err error) {
	if len(chat.Messages) == 0 {
		return "", errors.New("messages: missing: expected a list")
	}
	values := map[string]any{
		"bos_token": tokens.bos, "eos_token": tokens.eos, "unk_token": tokens.unk, "pad_token": tokens.pad,
		"add_generation_prompt": chat.GenerationPrompt, "documents": nil,
	}
	given := map[string]json.RawMessage{"messages": chat.Messages, "tools": chat.Tools}
	maps.Copy(given, chat.Variables)
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if values[name], err = jinja.FromJSON(given[name]); err != nil {
			return "", fmt.Errorf("%s: %w", name, err)
		}
	}
	values["raise_exception"] = jinja.Function(func(a *jinja.Arguments) (any, error) {
		return nil, &TemplateError{firstText(a)}
	})
	if !chat.Now.IsZero() {
		values["strftime_now"] = jinja.Function(func(a *jinja.Arguments) (any, error) {
			return strftime(chat.Now, firstText(a))
		})
	}
	return template.Render(values)
}

func firstText(a *jinja.Arguments) string {
	if len(a.Items) == 0 {
		return ""
	}
	return jinja.Text(a.Items[0])
}

// strftime formats a time like C's strftime, with the directives that templates use for dates.
func strftime(t time.Time, format string) (string, error) {
	layouts := map[byte]string{
		'a': "Mon", 'A': "Monday", 'b': "Jan", 'B': "January", 'm': "01", 'd': "02", 'e': "_2", 'j': "002",
		'y': "06", 'Y': "2006", 'H': "15", 'I': "03", 'M': "04", 'S': "05", 'p': "PM",
		'F': "2006-01-02", 'T': "15:04:05", 'Z': "MST", 'z': "-0700",
	}
	var b strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' {
			b.WriteByte(format[i])
			continue
		}
		i++
		trim := i < len(format) && format[i] == '-'
		if trim {
			i++
		}
		switch {
		case i == len(format):
			return "", fmt.Errorf("strftime_now: %q ends in a %%", format)
		case format[i] == '%':
			b.WriteByte('%')
			continue
		}
		layout, ok := layouts[format[i]]
		if !ok {
			return "", fmt.Errorf("strftime_now: %q: %%%c is not supported", format, format[i])
		}
		text := t.Format(layout)
		if trim {
			text = strings.TrimLeft(text, "0 ")
		}
		b.WriteString(text)
	}
	return b.String(), nil
}
