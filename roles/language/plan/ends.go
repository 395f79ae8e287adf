package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rlinf/rlinf/policy/lm/tokenizer"
	"github.com/rlinf/rlinf/roles/config"
)

// Ends returns the ids of the tokens that end an answer. Training, evaluation, generation and exports all take this
// set: the ids of the model's folder, the end token of the tokenizer, and the token that the chat template writes after
// an answer. k and chat may be nil. The warnings are about a template without such a token, and about an empty set.
func Ends(folder []int, k *tokenizer.Tokenizer, chat *tokenizer.ChatTemplate) (ends []int, warnings []string) {
	add := func(id int) {
		if id >= 0 && !slices.Contains(ends, id) {
			ends = append(ends, id)
		}
	}
	for _, id := range folder {
		add(id)
	}
	if k != nil {
		add(int(k.EOS()))
	}
	if chat != nil {
		if id, ok := k.AnswerEnd(chat); ok {
			add(int(id))
		} else {
			warnings = append(warnings, "the chat template writes no special token after an answer: a model does "+
				"not learn from it where an answer ends")
		}
	}
	if len(ends) == 0 {
		warnings = append(warnings, "neither the model's folder nor its tokenizer names a token that ends an answer: "+
			"every answer has the maximum length")
	}
	return ends, warnings
}

// UseTokenizer adds the end tokens of the tokenizer, and of the chat template if data.apply_chat_template is true, to
// l.Tokens. It returns the template, or nil. The warnings are those of Ends.
func (l *Language) UseTokenizer(cfg *config.Config, k *tokenizer.Tokenizer) (chat *tokenizer.ChatTemplate,
	warnings []string, err error) {
	if cfg.Data.ApplyChatTemplate {
		if chat, err = k.ChatTemplate(cfg.Data.ChatTemplate); err != nil {
			return nil, nil, err
		}
	}
	l.Tokens.EOS, warnings = Ends(l.Tokens.EOS, k, chat)
	return chat, warnings, nil
}

// endLine describes the tokens that end an answer.
func (p *Plan) endLine() string {
	if len(p.Tokens.EOS) == 0 {
		return "end of an answer: no token"
	}
	var ends []string
	for _, id := range p.Tokens.EOS {
		end := fmt.Sprint(id)
		if text := p.Tokenizer.Decode([]int32{int32(id)}); text != "" {
			end += fmt.Sprintf(" %q", text)
		}
		ends = append(ends, end)
	}
	return "end of an answer: token " + strings.Join(ends, ", or ")
}
