package tokenizer

import (
	"slices"
	"strings"
)

// answerMark is an answer that no template contains.
const answerMark = "5c0e-the-answer-7f3a"

// AnswerEnd returns the id of the added token that a chat template writes after an answer. ok is false if the template
// writes no such token.
func (t *Tokenizer) AnswerEnd(c *ChatTemplate) (id int32, ok bool) {
	text, err := c.Render(Chat{Messages: Messages(Message{"user", "?"}, Message{"assistant", answerMark})})
	at := strings.LastIndex(text, answerMark)
	if err != nil || at < 0 {
		return 0, false
	}
	for _, id := range t.NewEncoder().Continue(nil, text[at+len(answerMark):]) {
		isEnd := func(a AddedToken) bool { return a.ID == id && strings.TrimSpace(a.Content) != "" }
		if slices.ContainsFunc(t.added, isEnd) {
			return id, true
		}
	}
	return 0, false
}
