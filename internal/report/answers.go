package report

import (
	"errors"
	"os"
	"regexp"
	"strings"

	"github.com/rlinf/rlinf/internal/durable"
)

// An Evaluation has sample answers of a language model after an iteration.
type Evaluation struct {
	Step    string   `json:"step"`
	Answers []Answer `json:"answers"`
}

// An Answer is a model's answer to a question.
type Answer struct {
	Number   string `json:"number"`  // number of the question
	Outcome  string `json:"outcome"` // such as right; or "right, cut off" if the answer is incomplete
	Reward   string `json:"reward,omitempty"`
	Question string `json:"question"`
	Text     string `json:"text"`
	Expected string `json:"expected,omitempty"` // the right answer, if the model's answer is not right
}

// Limits of the answers on a page. If there are more evaluations, the page has the first, the newest, and some between
// these two.
const (
	mostEvaluations = 40
	mostAnswers     = 12   // answers of an evaluation
	mostText        = 4000 // bytes of a question or an answer
)

// question matches the beginning of an answer in answers.txt.
var question = regexp.MustCompile(`\n\nquestion \d+: `)

// readAnswers reads answers.txt. Evaluations of reasoning append texts of this form to it:
//
//	== after step 20
//
//	question 3: wrong, cut off, reward -0.5
//	12+30=
//	> 24
//	expected: 42
func (r *Run) readAnswers() {
	text, err := durable.ReadFile(r.path("answers.txt"))
	if errors.Is(err, os.ErrNotExist) {
		return
	} else if err != nil {
		r.problem("answers.txt cannot be read: %v.", err)
		return
	}
	var all []Evaluation
	for _, part := range strings.Split("\n"+plain(string(text)), "\n== after step ")[1:] {
		step, rest, _ := strings.Cut(part, "\n")
		e := Evaluation{Step: step}
		starts := question.FindAllStringIndex("\n"+rest, mostAnswers+1)
		for i, at := range starts[:min(len(starts), mostAnswers)] {
			end := len(rest) + 1
			if i+1 < len(starts) {
				end = starts[i+1][0]
			}
			e.Answers = append(e.Answers, parseAnswer(("\n" + rest)[at[0]+len("\n\nquestion "):end]))
		}
		if n := len(all); n > 0 && all[n-1].Step == step { // a resumed run made the evaluation again
			all = all[:n-1]
		}
		all = append(all, e)
	}
	if len(all) == 0 && len(text) > 0 {
		r.problem("answers.txt has no evaluation.")
	}
	r.Answers = all
	if len(all) > mostEvaluations {
		r.problem("Answers are shown of %d of %d evaluations.", mostEvaluations, len(all))
		r.Answers = make([]Evaluation, mostEvaluations)
		for i := range r.Answers {
			r.Answers[i] = all[i*(len(all)-1)/(mostEvaluations-1)]
		}
	}
}

// parseAnswer parses an answer from the text that follows the word "question".
func parseAnswer(block string) (a Answer) {
	head, rest, _ := strings.Cut(block, "\n")
	a.Number, a.Outcome, _ = strings.Cut(head, ": ")
	a.Outcome, a.Reward, _ = strings.Cut(a.Outcome, ", reward ")
	lines := strings.Split(strings.TrimRight(rest, "\n"), "\n")
	var question, text []string
	for _, line := range lines {
		answer, ok := strings.CutPrefix(line, "> ")
		switch {
		case ok:
			text = append(text, answer)
		case text == nil:
			question = append(question, line)
		default:
			if expected, ok := strings.CutPrefix(line, "expected: "); ok {
				a.Expected = cut(expected)
			}
		}
	}
	a.Question, a.Text = cut(strings.Join(question, "\n")), cut(strings.Join(text, "\n"))
	return a
}

// cut returns the beginning of a long text.
func cut(s string) string {
	if len(s) <= mostText {
		return s
	}
	return strings.ToValidUTF8(s[:mostText], "") + " …"
}
