package text

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"strings"

	"github.com/rlinf/rlinf/internal/philox"
)

// A Problem is a question with an answer that can be checked.
type Problem struct {
	Prompt   string
	Answer   string // the text that a model learns
	Solution string // the correct result, to check answers
	// numbers identifies the problem. A problem for training and a problem for tests never have the same numbers.
	numbers string
	// start is the first number of a word problem, and steps are its changes.
	start int
	steps []step
}

// A Task generates problems of one kind.
type Task struct {
	Name string
	Doc  string // description of the problems
	Chat bool   // whether problems are conversations
	// Vocab is the vocabulary size of a tokenizer for the task, at least 257.
	Vocab int
	// MinSteps and MaxSteps are the minimum and maximum number of steps of a problem. They are 0 if
	// problems have no steps.
	MinSteps, MaxSteps int
	// Slips is the probability of a wrong calculation in the answers for training. Only word
	// problems have slips.
	Slips float64
	draw  func(s *philox.Stream, t *Task) Problem
}

// Tasks returns all tasks.
func Tasks() []Task {
	return []Task{
		{Name: "addition", Doc: "sums of two numbers below 1000, units first: 123+456= is 9750", Vocab: 257,
			draw: addition("%03d+%03d=")},
		{Name: "sums", Doc: "the same sums in other words: 123 and 456: is 9750", Vocab: 257,
			draw: addition("%03d and %03d:")},
		{Name: "countdown", Doc: "reach a number with three others by two steps: 3 7 12:15= is 12-7=5 5*3=15",
			Vocab: 257, draw: countdown},
		{Name: "problems", Doc: "word problems in one to five steps, as conversations with a boxed number", Chat: true,
			Vocab: 512, MinSteps: 1, MaxSteps: 3, draw: wordProblem},
	}
}

// TaskNamed returns the task called name. For an unknown name, the error lists all names.
func TaskNamed(name string) (Task, error) {
	var names []string
	for _, t := range Tasks() {
		if t.Name == name {
			return t, nil
		}
		names = append(names, t.Name)
	}
	return Task{}, fmt.Errorf("no task %q: expected one of %s", name, strings.Join(names, ", "))
}

// On average, one in testShare problems is for tests.
const testShare = 8

// Generate returns distinct problems for training and for tests. The seed and Problem.numbers
// decide whether a problem is for tests, so the two sets never overlap, whatever their sizes.
// Answers for tests have no slips, and every Solution is right.
func (t *Task) Generate(seed uint64, train, test int) (training, tests []Problem, err error) {
	seen := map[string]bool{}
	const patience = 1000 // maximum number of draws for one training problem
	for i, since := uint64(0), 0; len(training) < train || len(tests) < test; i, since = i+1, since+1 {
		if since > patience+testShare*patience {
			return nil, nil, fmt.Errorf("%s: no more than %d problems for training and %d for tests found: expected "+
				"fewer", t.Name, len(training), len(tests))
		}
		s := philox.New(seed, philox.Text, 0, i)
		p := t.draw(&s, t)
		into, size := &training, train
		if forTest(seed, p.numbers) {
			into, size = &tests, test
		}
		if len(*into) == size || seen[p.Prompt] {
			continue
		}
		seen[p.Prompt], since = true, 0
		if into == &training && t.Slips > 0 {
			s := philox.New(seed, philox.Text, 2, i)
			p.Answer = p.work(&s, t.Slips)
		}
		*into = append(*into, p)
	}
	return training, tests, nil
}

func forTest(seed uint64, numbers string) bool {
	h := fnv.New64a()
	fmt.Fprintf(h, "%d %s", seed, numbers)
	s := philox.New(h.Sum64(), philox.Text, 1, 0) // mixes the bits of the hash
	return s.IntN(testShare) == 0
}

// Write writes problems as JSON lines, with the keys of RLinf's data sets and the key answer.
func (t *Task) Write(w io.Writer, problems []Problem) error {
	lines := json.NewEncoder(w)
	for i, p := range problems {
		err := lines.Encode(struct {
			Prompt    string   `json:"prompt"`
			Answer    string   `json:"answer"`
			Solutions []string `json:"solutions"`
			Task      string   `json:"task"`
			ID        int      `json:"query_id"`
		}{p.Prompt, p.Answer, []string{p.Solution}, t.Name, i})
		if err != nil {
			return err
		}
	}
	return nil
}
