package answer

import (
	"fmt"
	"slices"

	"github.com/rlinf/rlinf/reward/verify"
)

// verdict returns the Grade for an outcome. Its reward is rightReward for a right answer, otherwise wrongReward.
func verdict(o verify.Outcome, rightReward, wrongReward float32) Grade {
	if o == verify.Right {
		return Grade{rightReward, o}
	}
	return Grade{wrongReward, o}
}

// exact gives the reward 1 to an answer with the tokens of the right answer, and to an ended answer with the text of a
// solution. Other answers get 0.
func exact(r *Response) Grade {
	q, last := r.Question, len(r.Tokens)-1
	same := last >= 0 && len(q.Answer) == last+1 && slices.Equal(r.Tokens[:last], q.Answer[:last]) &&
		(r.Ended || r.Tokens[last] == q.Answer[last]) // any end token ends an answer
	if same || r.Ended && slices.Contains(q.Solutions, r.Text) {
		return verdict(verify.Right, 1, 0)
	}
	return verdict(verify.Wrong, 1, 0)
}

// mathematics gives an answer the reward 1 if its last box equals a solution by the rules of package verify, otherwise
// -1. RLinf's math reward does the same.
func mathematics(r *Response) Grade {
	return verdict(verify.Grade(r.Text, r.Question.Solutions).Outcome, 1, -1)
}

// CheckQuestion returns an error if the named rule can accept no answer to q. The note informs the user about a
// limitation of the solutions. It is "" if there is none.
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

// checkSolutions implements CheckQuestion for reward_type "math": one solution that can be parsed is enough.
func checkSolutions(solutions []string) (note string, err error) {
	for _, s := range solutions {
		if note, err = verify.CheckSolution(s); err == nil {
			return note, nil
		}
		err = fmt.Errorf("answer %.60q: %w", s, err)
	}
	return "", err
}
