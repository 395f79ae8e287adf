package tokenizer

import (
	"slices"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
)

// TestAnswerEnd: an answer ends with the first added token that a template writes after it.
func TestAnswerEnd(t *testing.T) {
	k, err := Train(t.TempDir(), slices.Values([]string{"a"}), Training{VocabSize: 260, Pattern: "qwen2", MinCount: 2,
		Special: []string{"<end>", "<|im_start|>", "<|im_end|>", "\n\n"}, EOS: "<end>"})
	test.OK(t, err)
	const turns, begin = `{% for m in messages %}<|im_start|>{{ m.role }}:`, `{% endfor %}` +
		`{% if add_generation_prompt %}<|im_start|>{% endif %}`
	for name, c := range map[string]struct{ template, want string }{
		"an end":           {turns + `{{ m.content }}<|im_end|>` + begin, "<|im_end|>"},
		"text before it":   {turns + `{{ m.content }} .</s><|im_end|>` + begin, "<|im_end|>"},
		"lines before it":  {turns + "{{ m.content }}{{ '\\n\\n' }}<|im_end|>" + begin, "<|im_end|>"},
		"an end of all":    {turns + `{{ m.content }}<|im_end|>` + begin + `{{ eos_token }}`, "<|im_end|>"},
		"a thought before": {turns + `<end>{{ m.content | trim }}{{ eos_token }}` + begin, "<end>"},
		"only text":        {turns + `{{ m.content }}</s>` + begin, ""},
		"nothing":          {turns + `{{ m.content }}` + begin, ""},
		"no answers":       {turns + `{% if m.role == "user" %}{{ m.content }}{% endif %}<|im_end|>` + begin, ""},
		"a refusal":        {`{{ raise_exception("no") }}`, ""},
	} {
		chat := test.Must(k.ParseChatTemplate(c.template))(t)
		got := ""
		if id, ok := k.AnswerEnd(chat); ok {
			got = k.Decode([]int32{id})
		}
		test.Equal(t, got, c.want, "%s", name)
	}
}
