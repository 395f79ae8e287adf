package answer

import (
	"fmt"
	"slices"

	"github.com/rlinf/rlinf/reward/verify"
)

// verdict is the grade of an outcome: right for a right answer, else wrong.
func verdict(o verify.Outcome, right, wrong float32) Grade {
	if o == verify.Right {
		return Grade{right, o}
	}
	return Grade{wrong, o}
}

// exact gives 1 to an answer that is the right one, token for token or letter for letter, else 0.
func exact(r *Response) Grade {
	q := r.Question
	if slices.Equal(r.Tokens, q.Answer) || r.Ended && slices.Contains(q.Solutions, r.Text) {
		return verdict(verify.Right, 1, 0)
	}
	return verdict(verify.Wrong, 1, 0)
}

// mathematics gives 1 to an answer whose last box holds a solution, as package verify says, else -1,
// as RLinf's math reward does.
func mathematics(r *Response) Grade {
	return verdict(verify.Grade(r.Text, r.Question.Solutions).Outcome, 1, -1)
}

// CheckQuestion returns an error if no answer to a question can be right under the rule of that name, as
// far as the rule knows before it sees one. note says what the user may not expect of the solutions; empty
// is nothing.
func CheckQuestion(rule string, q *Question) (note string, err error) {
	switch rule {
	case "math":
		return checkSolutions(q.Solutions)
	case "countdown":
		if _, _, ok := countdownTask(q.Text); !ok {
			return "", fmt.Errorf("prompt %.60q: expected numbers and a target, as 3 7 12:15=", q.Text)
		}
	}
	return "", nil
}

// checkSolutions is CheckQuestion for reward_type math: one solution that can be read is enough.
func checkSolutions(solutions []string) (note string, err error) {
	for _, s := range solutions {
		if note, err = verify.CheckSolution(s); err == nil {
			return note, nil
		}
		err = fmt.Errorf("answer %.60q: %w", s, err)
	}
	return "", err
}
