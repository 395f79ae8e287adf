package text

import (
	"fmt"
	"strings"

	"github.com/rlinf/rlinf/internal/philox"
)

// The words of word problems.
var (
	people = []string{"Anna", "Ben", "Carla", "David", "Emma", "Felix", "Grace", "Hugo", "Iris", "Jonas"}
	things = []string{"apples", "books", "coins", "eggs", "flowers", "marbles", "pencils", "stamps", "stones", "cards"}
)

// wordProblem tells how a number of things changes in some steps, and asks how many there are in the
// end. The answer writes one sum for each step and boxes the last number.
func wordProblem(s *philox.Stream, t *Task) Problem {
	who, thing := people[s.IntN(len(people))], things[s.IntN(len(things))]
	n := 2 + s.IntN(40)
	story, sums, numbers := fmt.Sprintf("%s has %d %s.", who, n, thing), []string{}, []int{n}
	for range t.MinSteps + s.IntN(t.MaxSteps-t.MinSteps+1) {
		kind, by := s.IntN(4), 2+s.IntN(19)
		switch {
		case kind == 1 && by < n:
			story += fmt.Sprintf(" %s gives away %d.", who, by)
			sums = append(sums, fmt.Sprintf("%d-%d=%d", n, by, n-by))
			n -= by
		case kind == 2 && by <= 5 && n <= 60:
			story += fmt.Sprintf(" Then there are %d times as many.", by)
			sums = append(sums, fmt.Sprintf("%d*%d=%d", n, by, n*by))
			n *= by
		case kind == 3 && by <= 6 && n%by == 0:
			story += fmt.Sprintf(" %s shares them equally among %d people and keeps one share.", who, by)
			sums = append(sums, fmt.Sprintf("%d/%d=%d", n, by, n/by))
			n /= by
		default:
			story += fmt.Sprintf(" %s finds %d more.", who, by)
			sums = append(sums, fmt.Sprintf("%d+%d=%d", n, by, n+by))
			n += by
		}
		numbers = append(numbers, by)
	}
	return Problem{
		Prompt:   fmt.Sprintf("%s How many %s does %s have now?", story, thing, who),
		Answer:   fmt.Sprintf("%s \\boxed{%d}", strings.Join(sums, " "), n),
		Solution: fmt.Sprint(n), numbers: fmt.Sprint(numbers),
	}
}
