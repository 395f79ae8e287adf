package answer

import (
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
