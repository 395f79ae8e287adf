package plan

import (
	"slices"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy/lm/tokenizer"
)

// TestEnds: the set has the ends of the folder, of the tokenizer and of the template, each once.
func TestEnds(t *testing.T) {
	train := func(eos string) *tokenizer.Tokenizer {
		k := test.Must(tokenizer.Train(t.TempDir(), slices.Values([]string{"a"}), tokenizer.Training{VocabSize: 259,
			Pattern: "qwen2", MinCount: 2, Special: []string{"<end>", "<|im_start|>", "<|im_end|>"}, EOS: eos}))(t)
		return k
	}
	k, endless := train("<end>"), train("")
	id := func(token string) int {
		id, _ := k.ID(token)
		return int(id)
	}
	template := func(text string) *tokenizer.ChatTemplate {
		chat := test.Must(k.ParseChatTemplate(text))(t)
		return chat
	}
	chatml := template("{% for m in messages %}<|im_start|>{{ m.content }}<|im_end|>{% endfor %}")
	plain := template("{% for m in messages %}{{ m.content }}{% endfor %}")
	end, turn := id("<end>"), id("<|im_end|>")
	for _, c := range []struct {
		name     string
		folder   []int
		k        *tokenizer.Tokenizer
		chat     *tokenizer.ChatTemplate
		want     []int
		warnings string
	}{
		{"all of them", []int{9, 7}, k, chatml, []int{9, 7, end, turn}, ""},
		{"each once", []int{turn, 7, end, 7}, k, chatml, []int{turn, 7, end}, ""},
		{"no tokenizer", []int{9}, nil, nil, []int{9}, ""},
		{"the tokenizer's", []int{-1}, k, nil, []int{end}, ""},
		{"the template's", nil, endless, chatml, []int{turn}, ""},
		{"a template without an end", nil, k, plain, []int{end}, "the chat template writes no special token"},
		{"no end at all", nil, endless, nil, nil, "neither the model's folder nor its tokenizer names a token"},
	} {
		got, warnings := Ends(c.folder, c.k, c.chat)
		text := strings.Join(warnings, "; ")
		if !slices.Equal(got, c.want) || !strings.HasPrefix(text, c.warnings) || (text == "") != (c.warnings == "") {
			t.Errorf("%s: %v, %q, expected %v, %q", c.name, got, text, c.want, c.warnings)
		}
	}
}
