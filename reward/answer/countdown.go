package answer

import (
	"slices"
	"strconv"
	"strings"

	"github.com/rlinf/rlinf/reward/verify"
)

// countdown gives an answer the reward 1 if its steps compute the target from the numbers of the
// question, otherwise 0. The question "3 7 12:15=" has the numbers 3, 7 and 12 and the target 15.
// The answer "12-7=5 5*3=15" has two steps. Each step replaces two of the remaining numbers by its
// result. At the end only the target must remain. Quotients must be integers.
func countdown(r *Response) Grade {
	given, target, ok := countdownTask(r.Question.Text)
	if !ok || !r.Ended {
		return verdict(verify.Unparsable, 1, 0)
	}
	return verdict(playCountdown(given, target, r.Text), 1, 0)
}

func countdownTask(text string) (given []int64, target int64, ok bool) {
	numbers, goal, ok := strings.Cut(strings.TrimSuffix(text, "="), ":")
	if !ok {
		return nil, 0, false
	}
	for word := range strings.FieldsSeq(numbers) {
		n, ok := natural(word)
		if !ok {
			return nil, 0, false
		}
		given = append(given, n)
	}
	target, ok = natural(goal)
	return given, target, ok && len(given) > 0
}

func playCountdown(there []int64, target int64, answer string) verify.Outcome {
	outcome := verify.Right
	for step := range strings.SplitSeq(answer, " ") {
		a, sign, b, c, ok := countdownStep(step)
		if !ok {
			return verify.Unparsable
		}
		if !take(&there, a) || !take(&there, b) || !computes(a, sign, b, c) {
			outcome = verify.Wrong // continue, because an invalid later step makes the answer Unparsable
		}
		there = append(there, c)
	}
	if !slices.Equal(there, []int64{target}) {
		return verify.Wrong
	}
	return outcome
}

// countdownStep parses a step such as 12-7=5.
func countdownStep(step string) (a int64, sign byte, b, c int64, ok bool) {
	left, right, ok := strings.Cut(step, "=")
	at := strings.IndexAny(left, "+-*/")
	if !ok || at < 0 {
		return 0, 0, 0, 0, false
	}
	a, ok1 := natural(left[:at])
	b, ok2 := natural(left[at+1:])
	c, ok3 := natural(right)
	return a, left[at], b, c, ok1 && ok2 && ok3
}

// natural parses a number of at most 9 digits, so that products do not overflow.
func natural(s string) (int64, bool) {
	if len(s) > 9 || strings.Trim(s, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil
}

func computes(a int64, sign byte, b, c int64) bool {
	switch sign {
	case '+':
		return a+b == c
	case '-':
		return a-b == c
	case '*':
		return a*b == c
	}
	return b != 0 && a%b == 0 && a/b == c
}

// take removes one occurrence of n from numbers. It returns false if there is none.
func take(numbers *[]int64, n int64) bool {
	i := slices.Index(*numbers, n)
	if i < 0 {
		return false
	}
	*numbers = slices.Delete(*numbers, i, i+1)
	return true
}
