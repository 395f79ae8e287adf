package report

import (
	"bytes"
	"errors"
	"io"
	"os"
	"regexp"
	"strings"

	"github.com/rlinf/rlinf/internal/durable"
)

// An AnswerSamples has sample answers of a language model after an iteration.
type AnswerSamples struct {
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

// readAnswers reads answers.txt. Evaluations of reasoning append texts of this form to it:
//
//	== after step 20
//
//	question 3: wrong, cut off, reward -0.5
//	12+30=
//	> 24
//	expected: 42
//
// The file may be large. A first pass counts its evaluations, and a second pass keeps those that the page shows.
func (r *Run) readAnswers() {
	all, err := r.eachEvaluation(func(int) bool { return false }, nil)
	if errors.Is(err, os.ErrNotExist) {
		return
	}
	if err == nil && all > 0 {
		shown := map[int]int{} // the evaluations on the page, by their number in the file
		for i := range min(all, mostEvaluations) {
			shown[i*(all-1)/max(min(all, mostEvaluations)-1, 1)] = i
		}
		r.Answers = make([]AnswerSamples, len(shown))
		_, err = r.eachEvaluation(func(n int) bool { _, ok := shown[n]; return ok },
			func(n int, e AnswerSamples) { r.Answers[shown[n]] = e })
	}
	if err != nil {
		r.problem("answers.txt cannot be read: %v.", err)
		return
	}
	if info, err := os.Stat(r.path("answers.txt")); all == 0 && err == nil && info.Size() > 0 {
		r.problem("answers.txt has no evaluation.")
	}
	if all > mostEvaluations {
		r.problem("Answers are shown of %d of %d evaluations.", mostEvaluations, all)
	}
}

// eachEvaluation numbers the evaluations in answers.txt from 0, and returns their number. It calls f with each
// evaluation for whose number wanted returns true. If a resumed run repeats an evaluation, both copies have the same
// number.
func (r *Run) eachEvaluation(wanted func(n int) bool, f func(n int, e AnswerSamples)) (all int, err error) {
	file, err := durable.Open(r.path("answers.txt"))
	if err != nil {
		return 0, err
	}
	defer file.Close()
	var p *answerReader
	end := func() {
		if p != nil {
			p.end()
			f(all-1, p.AnswerSamples)
		}
	}
	step := ""
	for lines := durable.NewLines(file); ; {
		line, _, err := lines.Next()
		if err != nil && err != io.EOF {
			return all, err
		}
		if at, ok := bytes.CutPrefix(line, []byte("== after step ")); ok {
			end()
			before := step
			if step = cut(plain(string(bytes.TrimSuffix(at, []byte("\n"))))); all == 0 || step != before {
				all++
			}
			if p = nil; wanted(all - 1) {
				p = &answerReader{AnswerSamples: AnswerSamples{Step: step}}
			}
		} else if p != nil {
			p.add(plain(string(bytes.TrimSuffix(line, []byte("\n")))))
		}
		if err == io.EOF {
			end()
			return all, nil
		}
	}
}

// An answerReader reads an evaluation line by line. It keeps no more text than a page shows.
type answerReader struct {
	AnswerSamples
	answer         *Answer  // the current answer; nil if there is none
	question, text []string // its lines
	blank          bool     // the last line was empty
}

// begins matches the first line of an answer. The line before it is empty.
var begins = regexp.MustCompile(`^question (\d+): (.*)`)

func (p *answerReader) add(line string) {
	blank := p.blank
	p.blank = line == ""
	if m := begins.FindStringSubmatch(line); blank && m != nil {
		if p.end(); len(p.Answers) < mostAnswers {
			p.answer = &Answer{Number: m[1]}
			p.answer.Outcome, p.answer.Reward, _ = strings.Cut(cut(m[2]), ", reward ")
		}
		return
	}
	if p.answer == nil {
		return
	}
	answer, ok := strings.CutPrefix(line, "> ")
	switch {
	case ok:
		p.text = addLine(p.text, answer)
	case p.text == nil:
		p.question = addLine(p.question, line)
	default:
		if expected, ok := strings.CutPrefix(line, "expected: "); ok {
			p.answer.Expected = cut(expected)
		}
	}
}

// end completes the current answer.
func (p *answerReader) end() {
	if p.answer == nil {
		return
	}
	question := strings.Join(p.question, "\n")
	if p.text == nil {
		question = strings.TrimRight(question, "\n")
	}
	p.answer.Question, p.answer.Text = cut(question), cut(strings.Join(p.text, "\n"))
	p.Answers = append(p.Answers, *p.answer)
	p.answer, p.question, p.text = nil, nil, nil
}

// addLine adds a line, unless the lines are already longer than a page shows.
func addLine(lines []string, line string) []string {
	length := 0
	for _, l := range lines {
		length += len(l) + 1
	}
	if length > mostText {
		return lines
	}
	return append(lines, line)
}

// cut returns the beginning of a long text.
func cut(s string) string {
	if len(s) <= mostText {
		return s
	}
	return strings.ToValidUTF8(s[:mostText], "") + " …"
}
