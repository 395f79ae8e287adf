package text

import (
	"fmt"
	"strings"

	"github.com/rlinf/rlinf/internal/philox"
)

// Names and things that occur in word problems.
var (
	people = []string{"Anna", "Ben", "Carla", "David", "Emma", "Felix", "Grace", "Hugo", "Iris", "Jonas"}
	things = []string{"apples", "books", "coins", "eggs", "flowers", "marbles", "pencils", "stamps", "stones", "cards"}
)

// A step is one calculation of a word problem. The sign is +, -, * or /.
type step struct {
	sign rune
	by   int
}

// wordProblem tells how a number of things changes in steps, and asks for the final number. The
// answer has one calculation per step and the result in \boxed{}.
func wordProblem(s *philox.Stream, t *Task) Problem {
	who, thing := people[s.IntN(len(people))], things[s.IntN(len(things))]
	n := 2 + s.IntN(40)
	p := Problem{start: n}
	story, numbers := fmt.Sprintf("%s has %d %s.", who, n, thing), []int{n}
	for range t.MinSteps + s.IntN(t.MaxSteps-t.MinSteps+1) {
		kind, by := s.IntN(4), 2+s.IntN(19)
		next := step{'+', by}
		switch {
		case kind == 1 && by < n:
			story += fmt.Sprintf(" %s gives away %d.", who, by)
			next.sign = '-'
		case kind == 2 && by <= 5 && n <= 60:
			story += fmt.Sprintf(" Then there are %d times as many.", by)
			next.sign = '*'
		case kind == 3 && by <= 6 && n%by == 0:
			story += fmt.Sprintf(" %s shares them equally among %d people and keeps one share.", who, by)
			next.sign = '/'
		default:
			story += fmt.Sprintf(" %s finds %d more.", who, by)
		}
		n, p.steps, numbers = next.apply(n), append(p.steps, next), append(numbers, by)
	}
	p.Prompt = fmt.Sprintf("%s How many %s does %s have now?", story, thing, who)
	p.Answer, p.Solution, p.numbers = p.work(nil, 0), fmt.Sprint(n), fmt.Sprint(numbers)
	return p
}

// apply returns the number after the step. Division drops the remainder, and a negative difference
// becomes 0.
func (s step) apply(n int) int {
	switch s.sign {
	case '-':
		return max(0, n-s.by)
	case '*':
		return n * s.by
	case '/':
		return n / s.by
	}
	return n + s.by
}

// work returns the calculations of a problem and the result in \boxed{}. With probability slips, a
// calculation is wrong by 1, 2 or 10. The next calculation continues with the wrong number.
func (p *Problem) work(s *philox.Stream, slips float64) string {
	var b strings.Builder
	n := p.start
	for _, next := range p.steps {
		result := next.apply(n)
		if slips > 0 && s.Float64() < slips {
			result = max(0, result+[]int{-10, -2, -1, 1, 2, 10}[s.IntN(6)])
		}
		fmt.Fprintf(&b, "%d%c%d=%d ", n, next.sign, next.by, result)
		n = result
	}
	fmt.Fprintf(&b, "\\boxed{%d}", n)
	return b.String()
}
