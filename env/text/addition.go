package text

import (
	"fmt"
	"slices"

	"github.com/rlinf/rlinf/internal/philox"
)

// addition returns a function that makes problems. A problem asks for the sum of two numbers below 1000. The format of
// the question has a verb for each number. The answer begins with the units digit, because carries arise in this order.
func addition(format string) func(*philox.Stream, *Task) Problem {
	return func(s *philox.Stream, _ *Task) Problem {
		a, b := s.IntN(1000), s.IntN(1000)
		digits := fmt.Appendf(nil, "%04d", a+b)
		slices.Reverse(digits)
		return Problem{Prompt: fmt.Sprintf(format, a, b), Answer: string(digits), Solution: string(digits),
			numbers: fmt.Sprint(min(a, b), max(a, b))} // b+a is the same problem
	}
}
