package answer

import (
	"fmt"
	"slices"

	"github.com/rlinf/rlinf/reward/verify"
)

// verdict returns the grade of an outcome, with the reward right for a right answer, else wrong.
func verdict(o verify.Outcome, right, wrong float32) Grade {
	if o == verify.Right {
		return Grade{right, o}
	}
	return Grade{wrong, o}
}

// exact gives 1 to an answer that equals the right one in its tokens, or a solution in its text,
// else 0.
func exact(r *Response) Grade {
	q := r.Question
	if slices.Equal(r.Tokens, q.Answer) || r.Ended && slices.Contains(q.Solutions, r.Text) {
		return verdict(verify.Right, 1, 0)
	}
	return verdict(verify.Wrong, 1, 0)
}

// mathematics gives 1 to an answer whose last box holds a solution by the rules of package verify,
// else -1, like RLinf's math reward.
func mathematics(r *Response) Grade {
	return verdict(verify.Grade(r.Text, r.Question.Solutions).Outcome, 1, -1)
}

// CheckQuestion returns an error if no answer to a question can be right under the rule of that
// name, as far as the rule can tell before it sees an answer. note is a limit of the solutions that
// the user should know; "" is none.
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
