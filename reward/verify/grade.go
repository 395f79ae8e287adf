package verify

import (
	"errors"
	"fmt"
	"strings"
)

// An Outcome is the outcome of grading a response. The zero value is Unparsable.
type Outcome uint8

const (
	// Unparsable means that no answer can be parsed: the response has no \boxed with matching braces, the box is
	// empty, or its text is neither mathematics nor a choice nor words.
	Unparsable Outcome = iota
	// Wrong means that the answer equals no solution.
	Wrong
	// Right means that the answer equals a solution.
	Right
)

// String returns the outcome's name in lower case.
func (o Outcome) String() string {
	switch o {
	case Right:
		return "right"
	case Wrong:
		return "wrong"
	}
	return "unparsable"
}

// A Grading is the result of Grade.
type Grading struct {
	Outcome Outcome
	Answer  string // the text in the last box; "" if there is none
}

// Grade compares the last boxed answer of a response with the solutions. A solution is a plain answer, a text with a
// box, or a text with the answer after its last ####, as in GSM8K.
func Grade(response string, solutions []string) Grading {
	text, ok := boxed(response)
	if !ok {
		return Grading{}
	}
	v := Grading{Answer: text}
	a := read(text)
	if a == nil {
		return v
	}
	for _, s := range solutions {
		if s, ok = solutionIn(s); !ok {
			continue
		}
		if b := read(s); b != nil && equalAnswers(a, b) {
			v.Outcome = Right
			return v
		}
	}
	if a.isReadable() {
		v.Outcome = Wrong
	}
	return v
}

// isReadable reports whether an answer is mathematics, a choice or words.
func (a *answer) isReadable() bool { return a.tree != nil || a.choice != "" || a.isWords() }

// solutionIn returns the answer in the text of a solution. ok is false if the box has no closing brace.
func solutionIn(s string) (text string, ok bool) {
	if strings.Contains(s, box) {
		return boxed(s)
	}
	if at := strings.LastIndex(s, gsm8k); at >= 0 {
		s = s[at+len(gsm8k):]
	}
	return s, true
}

// gsm8k precedes the answers of the data set GSM8K.
const gsm8k = "####"

// CheckSolution returns an error if no answer can equal the solution. The note informs the user about a limitation of
// the solution. It is "" if there is none.
func CheckSolution(solution string) (note string, err error) {
	s, ok := solutionIn(solution)
	switch {
	case !ok, closing("{"+s+"}") != len(s)+1:
		return "", errors.New("its braces do not match")
	case len(s) > maxBytes:
		return "", fmt.Errorf("%d bytes: expected at most %d", len(s), maxBytes)
	}
	a := read(s)
	switch {
	case a == nil:
		return "", errors.New("it is empty: expected an answer")
	case !a.isReadable():
		return "no mathematics, so only the same text is right", nil
	case strings.Contains(solution, gsm8k) && !strings.Contains(solution, box):
		return "worked text, of which the answer after " + gsm8k + " counts", nil
	}
	return "", nil
}

// Equal compares two answers without boxes. It reports whether each is right with the other as the solution. A text
// that cannot be parsed as mathematics equals only the same text. An empty text equals nothing.
func Equal(a, b string) bool {
	x, y := read(a), read(b)
	return x != nil && y != nil && equalAnswers(x, y) && equalAnswers(y, x)
}

const box = `\boxed`

// boxed returns the text of the last box. If no brace follows \boxed, the text is the rest of the
// formula or line.
func boxed(s string) (text string, ok bool) {
	at := strings.LastIndex(s, box)
	if at < 0 {
		return "", false
	}
	s = strings.TrimLeft(s[at+len(box):], " ")
	if !strings.HasPrefix(s, "{") {
		if end := strings.IndexAny(s, "$\n"); end >= 0 {
			s = s[:end]
		}
		return strings.TrimSpace(s), true
	}
	n := closing(s)
	if n < 0 {
		return "", false
	}
	return strings.TrimSpace(s[1:n]), true
}

// closing returns the index of the brace that closes the brace at the start of s, or -1 if there is
// none. Braces after a backslash do not count.
func closing(s string) int {
	depth := 0
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return -1
}
