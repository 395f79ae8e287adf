package text

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/philox"
	"github.com/rlinf/rlinf/internal/test"
)

// TestTasks: answers are right, problems are all different, and training and test share no numbers.
func TestTasks(t *testing.T) {
	check := map[string]func(*testing.T, Problem){"addition": checkAddition, "sums": checkAddition,
		"countdown": checkCountdown, "problems": checkWords}
	for _, task := range Tasks() {
		t.Run(task.Name, func(t *testing.T) {
			train, test, err := task.Generate(3, 6000, 800)
			if err != nil || len(train) != 6000 || len(test) != 800 {
				t.Fatalf("%d and %d problems, %v", len(train), len(test), err)
			}
			prompts, numbers := map[string]bool{}, map[string]bool{}
			for i, p := range append(slices.Clone(train), test...) {
				if check[task.Name](t, p); t.Failed() {
					t.Fatalf("problem %d: %+v", i, p)
				}
				if prompts[p.Prompt] {
					t.Fatalf("twice: %q", p.Prompt)
				}
				prompts[p.Prompt] = true
				if key := numbersOf(task.Name, p.Prompt); i < len(train) {
					numbers[key] = true
				} else if numbers[key] {
					t.Fatalf("the numbers of a test, %s, are in training", key)
				}
			}
			// problems for tests do not depend on the number of problems for training; another seed gives others
			_, again, err := task.Generate(3, 6100, 800)
			if err != nil || !reflect.DeepEqual(again, test) {
				t.Errorf("tests differ beside more problems for training: %v", err)
			}
			other, _, err := task.Generate(4, 6000, 0)
			if err != nil || reflect.DeepEqual(other, train) {
				t.Errorf("seed 4 gives what seed 3 gives: %v", err)
			}
		})
	}
}

var number = regexp.MustCompile(`\d+`)

// numbersOf returns the numbers that identify a problem. The order of a sum and the target of countdown do not count.
func numbersOf(task, prompt string) string {
	n := number.FindAllString(prompt, -1)
	switch task {
	case "addition", "sums":
		slices.Sort(n)
	case "countdown":
		n = n[:3]
	}
	return strings.Join(n, " ")
}

func checkAddition(t *testing.T, p Problem) {
	a, b, _ := strings.Cut(strings.NewReplacer("=", "", ":", "", " and ", "+").Replace(p.Prompt), "+")
	x, _ := strconv.Atoi(a)
	y, _ := strconv.Atoi(b)
	digits := []byte(p.Answer)
	slices.Reverse(digits)
	if sum, err := strconv.Atoi(string(digits)); err != nil || sum != x+y || len(a) != 3 || len(b) != 3 ||
		len(digits) != 4 || p.Solution != p.Answer {
		t.Errorf("%d + %d is not %s", x, y, p.Answer)
	}
}

func checkCountdown(t *testing.T, p Problem) {
	var n [3]int
	var target int
	if _, err := fmt.Sscanf(p.Prompt, "%d %d %d:%d=", &n[0], &n[1], &n[2], &target); err != nil {
		t.Fatal(err)
	}
	left := n[:]
	steps := strings.Fields(p.Answer)
	for _, step := range steps {
		var a, b, result int
		var sign rune
		if _, err := fmt.Sscanf(step, "%d%c%d=%d", &a, &sign, &b, &result); err != nil {
			t.Fatal(err)
		}
		right := map[rune]bool{'+': a+b == result, '-': a-b == result, '*': a*b == result, '/': b != 0 && a == b*result}
		if !right[sign] {
			t.Errorf("%s is wrong", step)
		}
		for _, x := range []int{a, b} {
			i := slices.Index(left, x)
			if i < 0 {
				t.Fatalf("%s uses %d, there are %v", step, x, left)
			}
			left = slices.Delete(slices.Clone(left), i, i+1)
		}
		left = append(left, result)
	}
	if len(steps) != 2 || !slices.Equal(left, []int{target}) || target < 1 || target > 99 ||
		p.Solution != fmt.Sprint(target) {
		t.Errorf("%d steps end at %v, want %d", len(steps), left, target)
	}
}

func checkWords(t *testing.T, p Problem) {
	sums, boxed, ok := strings.Cut(p.Answer, ` \boxed{`)
	last := ""
	for sum := range strings.FieldsSeq(sums) {
		var a, b, result int
		var sign rune
		if _, err := fmt.Sscanf(sum, "%d%c%d=%d", &a, &sign, &b, &result); err != nil {
			t.Fatal(err)
		}
		right := map[rune]bool{'+': a+b == result, '-': a-b == result, '*': a*b == result, '/': b != 0 && a == b*result}
		if !right[sign] || last != "" && last != fmt.Sprint(a) {
			t.Errorf("%s is wrong after %s", sum, last)
		}
		if last = fmt.Sprint(result); !strings.Contains(p.Prompt, fmt.Sprint(b)) {
			t.Errorf("%d is not in the story", b)
		}
	}
	if !ok || boxed != last+"}" || p.Solution != last {
		t.Errorf("boxed{%s, want %s", boxed, last)
	}
}

// TestSlips: a share of the calculations for training, Slips, is wrong. An answer continues with its wrong number.
// Problems, solutions and tests do not change.
func TestSlips(t *testing.T) {
	task, err := TaskNamed("problems")
	test.OK(t, err)
	right, tests, err := task.Generate(5, 4000, 50)
	test.OK(t, err)
	task.Slips = 0.2
	slipped, again, err := task.Generate(5, 4000, 50)
	if err != nil || !reflect.DeepEqual(again, tests) {
		t.Fatalf("tests differ: %v", err)
	}
	sums, wrong := 0, 0
	for i, p := range slipped {
		if p.Prompt != right[i].Prompt || p.Solution != right[i].Solution {
			t.Fatalf("problem %d is %q, want %q", i, p.Prompt, right[i].Prompt)
		}
		n, answer := p.start, strings.Fields(p.Answer)
		for k, next := range p.steps {
			var a, b, result int
			var sign rune
			_, err := fmt.Sscanf(answer[k], "%d%c%d=%d", &a, &sign, &b, &result)
			if err != nil || a != n || b != next.by {
				t.Fatalf("%q after %d: %v", answer[k], n, err)
			}
			if sums++; result != next.apply(n) {
				wrong++
			}
			n = result
		}
		if answer[len(p.steps)] != fmt.Sprintf(`\boxed{%d}`, n) {
			t.Fatalf("%q does not box %d", p.Answer, n)
		}
	}
	if share := float64(wrong) / float64(sums); share < 0.18 || share > 0.22 {
		t.Errorf("%d of %d sums are wrong, want one in five", wrong, sums)
	}
}

// TestGenerateTooMany: the error for too many problems has the number of problems that were found.
func TestGenerateTooMany(t *testing.T) {
	n := 0
	task := Task{Name: "few", draw: func(*philox.Stream, *Task) Problem {
		n++
		return Problem{Prompt: fmt.Sprint(n % 20), numbers: fmt.Sprint(n % 20)}
	}}
	if _, _, err := task.Generate(1, 1000, 0); err == nil || !strings.Contains(err.Error(), "few: no more than ") {
		t.Errorf("got %v", err)
	}
}

func TestWrite(t *testing.T) {
	task := Tasks()[0]
	train, _, err := task.Generate(1, 3, 0)
	test.OK(t, err)
	var out bytes.Buffer
	test.OK(t, task.Write(&out, train))
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	var got struct {
		Prompt, Answer, Task string
		Solutions            []string
		ID                   int `json:"query_id"`
	}
	if err := json.Unmarshal([]byte(lines[2]), &got); err != nil || len(lines) != 3 {
		t.Fatal(err, lines)
	}
	if got.Prompt != train[2].Prompt || got.Answer != train[2].Answer || got.Task != "addition" || got.ID != 2 ||
		got.Solutions[0] != train[2].Solution {
		t.Errorf("got %+v, want %+v", got, train[2])
	}
}
