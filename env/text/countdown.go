package text

import (
	"fmt"
	"slices"

	"github.com/rlinf/rlinf/internal/philox"
)

// countdown gives three numbers up to 20 and a target below 100. The answer is two calculations
// that use each number once and end at the target.
func countdown(s *philox.Stream, t *Task) Problem {
	n := []int{1 + s.IntN(20), 1 + s.IntN(20), 1 + s.IntN(20)}
	left := s.IntN(3) // index in n of the number for the second calculation
	first, x, ok := operation(s, n[(left+1)%3], n[(left+2)%3])
	second, target, ok2 := operation(s, x, n[left])
	if !ok || !ok2 || target >= 100 {
		return countdown(s, t)
	}
	slices.Sort(n)
	return Problem{Prompt: fmt.Sprintf("%d %d %d:%d=", n[0], n[1], n[2], target),
		Answer: first + " " + second, Solution: fmt.Sprint(target), numbers: fmt.Sprint(n)}
}

// operation draws +, -, * or /, and applies this operation to two numbers, the larger one first. It
// returns the calculation as text and its result. ok reports whether the result is a positive
// integer.
func operation(s *philox.Stream, a, b int) (text string, result int, ok bool) {
	a, b = max(a, b), min(a, b)
	sign := "+-*/"[s.IntN(4)]
	switch sign {
	case '+':
		result = a + b
	case '-':
		result = a - b
	case '*':
		result = a * b
	case '/':
		if b == 0 || a%b != 0 {
			return "", 0, false
		}
		result = a / b
	}
	return fmt.Sprintf("%d%c%d=%d", a, sign, b, result), result, result > 0
}
