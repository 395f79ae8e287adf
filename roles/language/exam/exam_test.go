package exam

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy/lm"
	"github.com/rlinf/rlinf/policy/lm/engine"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/reward/answer"
	"github.com/rlinf/rlinf/reward/verify"
	"github.com/rlinf/rlinf/tensor"
)

// TestPassAt compares PassAt with the mean over all ways to choose k of n answers.
func TestPassAt(t *testing.T) {
	for n := 1; n <= 7; n++ {
		for k := 1; k <= n; k++ {
			for c := range n + 1 { // the first c of n are right
				ways, passes := 0, 0
				for set := range 1 << n {
					if ones(set) == k {
						ways++
						if set&(1<<c-1) != 0 {
							passes++
						}
					}
				}
				right := make([]float64, n+1)
				right[c] = 3
				want := float64(passes) / float64(ways)
				if got := PassAt(k, right); math.Abs(got-want) > 1e-12 {
					t.Errorf("n %d, c %d, k %d: %v, want %v", n, c, k, got, want)
				}
			}
		}
	}
	if got, want := PassAt(2, []float64{1, 0, 1, 2}), (0+1+2*1)/4.; math.Abs(got-want) > 1e-12 { // n = 3
		t.Errorf("of four questions %v, want %v", got, want)
	}
}

// TestIntervals: 20 of 100 greedy answers are right. Of 4 samples for each of 100 questions, 60 questions have 1 right
// answer and 40 have none.
func TestIntervals(t *testing.T) {
	sums := make([]float64, 2*numExamSums+5)
	sums[examAnswers], sums[examRight] = 100, 20
	sums[2*numExamSums], sums[2*numExamSums+1] = 40, 60
	accuracy, pass := Intervals(sums)
	want := [2]float64{0.1334, 0.2888} // Wilson's, from R's prop.test without correction
	off := 1.96 * math.Sqrt((0.6*0.25*0.25-0.15*0.15)/100)
	for i, sign := range []float64{-1, 1} {
		if math.Abs(accuracy[i]-want[i]) > 1e-4 || math.Abs(pass[i]-0.15-sign*off) > 1e-12 {
			t.Errorf("%v and %v, want %v and 0.15 ± %v", accuracy, pass, want, off)
		}
	}
}

func ones(set int) (n int) {
	for ; set > 0; set &= set - 1 {
		n++
	}
	return n
}

// newExam returns an exam of a small model. An answer is right if the first token is a multiple of 3, and unparsable if
// the remainder is 1. The model's answers are appended to seen.
func newExam(t *testing.T, seen *[]answer.Response) Exam {
	t.Helper()
	m, err := lm.New(new(nn.Params[float32]), lm.Config{
		Family: lm.Qwen2, Vocab: 8, Hidden: 16, Layers: 1, Heads: 2, KVHeads: 1, HeadDim: 8, Intermediate: 16,
		Eps: 1e-6, Rope: lm.Rope{Theta: 1e4, Type: lm.RopeDefault}, Tied: true, InitRange: 0.5,
	}, lm.Options{})
	if err == nil {
		err = m.Alloc(tensor.Heap)
	}
	test.OK(t, err)
	m.Init(3)
	e := test.Must(engine.New(m, engine.Options{}))(t)
	rules := answer.Builtin()
	rules.Add("parity", func(answer.Setup) (answer.Rule, error) {
		return answer.Each(func(r *answer.Response) answer.Grade {
			return answer.Grade{Outcome: map[string]verify.Outcome{"0": verify.Right, "2": verify.Wrong}[r.Text]}
		}), nil
	})
	grader := test.Must(rules.New(answer.Setup{Type: "parity", Config: answer.DefaultConfig()}))(t)
	x := Exam{Engine: e, Grader: grader, Greedy: engine.Greedy(3), Sampled: engine.Greedy(3), Samples: 5,
		Respond: func(q *answer.Question, sample int, tokens []int32, stopped bool) answer.Response {
			r := answer.Response{Question: q, Sample: sample, Tokens: tokens, Text: fmt.Sprint(tokens[0] % 3),
				Ended: stopped}
			*seen = append(*seen, r)
			return r
		}}
	x.Sampled.Temperature, x.Sampled.Seed = 1.5, 4
	x.Greedy.Stop, x.Sampled.Stop = []int32{7}, []int32{7}
	return x
}

// nineQuestions returns questions with numbers from 0 to 8.
func nineQuestions() (questions []answer.Question) {
	for i := range 9 {
		questions = append(questions, answer.Question{Number: int64(i), Prompt: []int32{int32(i % 7), 3, int32(i % 5)},
			Text: fmt.Sprint("what is ", i), Solutions: []string{"4", "four"}})
	}
	return questions
}

// countByHand returns the metrics of an exam of nine questions, each with a greedy answer and five sampled answers.
func countByHand(seen []answer.Response) map[string]float64 {
	want := map[string]float64{}
	right := make([]float64, 6)
	perQuestion := make([]int, 9)
	for i, r := range seen {
		prefix, n := "eval/", 9.0
		if i >= 9 {
			prefix, n = "eval/sampled_", 45.0
		}
		want[prefix+"response_length"] += float64(len(r.Tokens)) / n
		if !r.Ended {
			want[prefix+"truncated"] += 1 / n
		}
		if r.Text == "1" {
			want[prefix+"unparsable"] += 1 / n
		}
		if r.Text == "0" && i < 9 {
			want["eval/accuracy"] += 1. / 9
		} else if r.Text == "0" {
			want["eval/pass@1"] += 1. / 45
			perQuestion[(i-9)/5]++
		}
	}
	for _, c := range perQuestion {
		right[c]++
	}
	want["eval/pass@2"], want["eval/pass@4"], want["eval/pass@5"] = PassAt(2, right), PassAt(4, right), PassAt(5, right)
	return want
}

// TestExam: the metrics equal those that countByHand computes, progress reports every answer, and the requested number
// of answers is shown.
func TestExam(t *testing.T) {
	var seen []answer.Response
	x := newExam(t, &seen)
	counted := map[int][]int{} // numbers of right answers, by the number of answers to a question
	x.Progress = func(what string, done, total int) { counted[total] = append(counted[total], done) }
	questions := nineQuestions()
	sums, shown, err := x.Take(t.Context(), questions, 2)
	test.OK(t, err)
	for total, done := range counted {
		if len(done) != total+1 || done[total] != total || total != 9 && total != 45 {
			t.Errorf("of %d answers %v were counted", total, done)
		}
	}
	if len(counted) != 2 {
		t.Errorf("%d counts, expected those of greedy and of sampled answers", len(counted))
	}
	want := countByHand(seen)
	names, values := Metrics(sums)
	if len(names) != 11 {
		t.Errorf("metrics %v, want %v", names, want)
	}
	for i, name := range names {
		if math.Abs(values[i]-want[name]) > 1e-9 {
			t.Errorf("%s is %v, want %v", name, values[i], want[name])
		}
	}
	if want["eval/pass@1"] == 0 || want["eval/sampled_unparsable"] == 0 || want["eval/sampled_truncated"] == 0 {
		t.Errorf("the sample is too easy: %v", want)
	}
	if len(shown) != 2 || shown[1].Response.Question != &questions[1] {
		t.Errorf("%d shown", len(shown))
	}
}

// TestExamInParts: the sums of two parts of the questions add up to the sums of all questions.
func TestExamInParts(t *testing.T) {
	x := newExam(t, new([]answer.Response))
	take := func(questions []answer.Question) []float64 {
		sums, _, err := x.Take(t.Context(), questions, 0)
		test.OK(t, err)
		return sums
	}
	questions := nineQuestions()
	whole, first, second := take(questions), take(questions[:4]), take(questions[4:])
	for i := range first {
		first[i] += second[i]
	}
	if !slices.Equal(first, whole) {
		t.Errorf("two halves make %v, the whole %v", first, whole)
	}
}

func TestShown(t *testing.T) {
	s := Shown{
		Response: answer.Response{Question: &answer.Question{Number: 3, Text: "1+1=\n?",
			Solutions: []string{"2", "two"}}, Text: "it is\n3"}, Grade: answer.Grade{Reward: -0.1}}
	if got, want := s.Block(),
		"question 3: unparsable, cut off, reward -0.1\n1+1=\n?\n> it is\n> 3\nexpected: 2, or two\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	s.Grade.Outcome, s.Response.Text = verify.Right, strings.Repeat("é", 100)
	if got, want := s.Line(), "right       1+1= ?  →  "+strings.Repeat("é", 70)+"…"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
