package exam

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/policy/lm/engine"
	"github.com/rlinf/rlinf/reward/answer"
	"github.com/rlinf/rlinf/reward/verify"
)

// An Exam asks a language model questions and grades its answers. Only one goroutine may use it.
type Exam struct {
	Engine *engine.Engine
	Grader *answer.Grader
	// Respond returns an answer in the form that rules grade. stopped is false if the answer was cut off.
	Respond func(q *answer.Question, sample int, tokens []int32, stopped bool) answer.Response
	Greedy  engine.Sampling // settings of the one greedy answer to each question
	Sampled engine.Sampling // settings of sampled answers
	Samples int             // number of sampled answers to each question

	Progress algo.Progress // reports ended answers; may be nil
}

// Indices of an exam's sums. The sums of greedy answers come first, then the sums of sampled answers. The last sums
// count questions: those with 0, 1, 2, … right answers among the sampled answers. All sums are whole numbers, so ranks
// add them exactly.
const (
	examAnswers = iota
	examRight
	examTokens
	examTruncated
	examUnparsable
	numExamSums
)

// A Shown is an answer for the user to read.
type Shown struct {
	Response answer.Response
	Grade    answer.Grade
}

// Take asks all questions. It returns the sums for Metrics, and the greedy answers to the first n questions. If answers
// cannot be graded, Take still asks all questions, because other ranks may compute the model together with this one.
// Then it returns the first error, and sums of the right length.
func (e *Exam) Take(ctx context.Context, questions []answer.Question, n int) (sums []float64, shown []Shown,
	err error) {
	sums = make([]float64, 2*numExamSums+e.Samples+1)
	responses, grades, err := e.ask(ctx, questions, 1, e.Greedy)
	for i := range responses {
		count(sums, &responses[i], grades[i])
		if i < n {
			shown = append(shown, Shown{responses[i], grades[i]})
		}
	}
	if e.Samples == 0 || ctx.Err() != nil {
		return sums, shown, err
	}
	responses, grades, second := e.ask(ctx, questions, e.Samples, e.Sampled)
	if err = cmp.Or(err, second); err != nil {
		return sums, shown, err
	}
	for i := range questions {
		right := 0
		for j := i * e.Samples; j < (i+1)*e.Samples; j++ {
			count(sums[numExamSums:], &responses[j], grades[j])
			if grades[j].Outcome == verify.Right {
				right++
			}
		}
		sums[2*numExamSums+right]++
	}
	return sums, shown, nil
}

// ask samples n answers to every question, and returns the answers with their grades.
func (e *Exam) ask(ctx context.Context, questions []answer.Question, n int, s engine.Sampling) ([]answer.Response,
	[]answer.Grade, error) {
	var requests []engine.Request
	for i := range questions {
		for k := range n {
			requests = append(requests, engine.Request{Prompt: questions[i].Prompt, Sampling: s,
				Key: uint64(questions[i].Number) & 0xffffffff, Sample: uint64(k)})
		}
	}
	results, err := e.Engine.Generate(ctx, requests, e.watch(len(requests)))
	if err != nil {
		return nil, nil, err
	}
	responses, grades := make([]answer.Response, len(results)), make([]answer.Grade, len(results))
	for i, r := range results {
		responses[i] = e.Respond(&questions[i/n], i%n, r.Tokens, r.Stopped)
	}
	if err := e.Grader.Grade(grades, responses); err != nil {
		return nil, nil, fmt.Errorf("reward: %w", err)
	}
	return responses, grades, nil
}

// watch returns an engine.Watch that reports progress: the number of ended answers among n answers.
func (e *Exam) watch(n int) engine.Watch {
	ended := 0
	e.Progress.Report("evaluation", 0, n)
	return engine.Watch{Done: func(int, *engine.Result) error {
		ended++
		e.Progress.Report("evaluation", ended, n)
		return nil
	}}
}

func count(sums []float64, r *answer.Response, g answer.Grade) {
	sums[examAnswers]++
	sums[examTokens] += float64(len(r.Tokens))
	if g.Outcome == verify.Right {
		sums[examRight]++
	}
	if g.Outcome == verify.Unparsable {
		sums[examUnparsable]++
	}
	if !r.Ended {
		sums[examTruncated]++
	}
}

// Metrics returns the names and values of the metrics. sums are the sums of Take, added over all ranks.
//
//   - eval/accuracy: share of right answers among the greedy answers
//   - eval/response_length, eval/truncated, eval/unparsable: mean number of tokens of greedy answers, the share of
//     answers that were cut off, and the share of answers that cannot be parsed
//   - eval/pass@k, for k = 1, 2, 4, … and the number of samples: see PassAt
//   - eval/sampled_response_length, …: the same metrics for sampled answers
func Metrics(sums []float64) (names []string, values []float64) {
	add := func(prefix string, t []float64) {
		names = append(names, prefix+"response_length", prefix+"truncated", prefix+"unparsable")
		n := t[examAnswers]
		values = append(values, t[examTokens]/n, t[examTruncated]/n, t[examUnparsable]/n)
	}
	names, values = append(names, "eval/accuracy"), append(values, sums[examRight]/sums[examAnswers])
	add("eval/", sums)
	right := sums[2*numExamSums:]
	samples := len(right) - 1
	if samples == 0 {
		return names, values
	}
	for k := 1; ; k = min(2*k, samples) {
		names, values = append(names, fmt.Sprintf("eval/pass@%d", k)), append(values, PassAt(k, right))
		if k == samples {
			break
		}
	}
	add("eval/sampled_", sums[numExamSums:])
	return names, values
}

// PassAt estimates the probability that at least one of k answers to a question is right. The result is the mean over
// questions. counts[c] is the number of questions with c right answers among n = len(counts)-1 samples, and k ≤ n. The
// estimate is unbiased (Chen et al. 2021, arXiv:2107.03374, eq. 1):
//
//	pass@k = mean of 1 - C(n-c, k) / C(n, k)
func PassAt(k int, counts []float64) float64 {
	n := len(counts) - 1
	questions, passed := 0.0, 0.0
	for c, number := range counts {
		fails := 1.0 // C(n-c, k) / C(n, k)
		for i := n - c + 1; i <= n; i++ {
			fails *= max(0, 1-float64(k)/float64(i))
		}
		questions += number
		passed += number * (1 - fails)
	}
	return passed / questions
}

// z95 is the 0.975 quantile of the normal distribution.
const z95 = 1.96

// Intervals returns the 95 % confidence intervals of eval/accuracy (Wilson's interval) and of eval/pass@1 (the mean
// over questions ± 1.96 standard errors). Without sampled answers passAt1 has no meaning.
func Intervals(sums []float64) (accuracy, passAt1 [2]float64) {
	n, p := sums[examAnswers], sums[examRight]/sums[examAnswers]
	middle, off := p+z95*z95/(2*n), z95*math.Sqrt(p*(1-p)/n+z95*z95/(4*n*n))
	scale := 1 + z95*z95/n
	return [2]float64{max(0, middle-off) / scale, (middle + off) / scale}, interval(sums[2*numExamSums:])
}

// interval returns the 95 % interval of the mean share of right answers to a question. counts[c] is the number of
// questions with c right answers among len(counts)-1 answers.
func interval(counts []float64) [2]float64 {
	n := float64(len(counts) - 1)
	questions, sum, squares := 0.0, 0.0, 0.0
	for c, k := range counts {
		x := float64(c) / n
		questions += k
		sum += k * x
		squares += k * x * x
	}
	mean := sum / questions
	off := z95 * math.Sqrt(max(0, squares/questions-mean*mean)/questions)
	return [2]float64{max(0, mean-off), min(1, mean+off)}
}

// lineLength is the maximum number of characters of a question or an answer in Line.
const lineLength = 70

// Line returns the answer in one line.
func (s *Shown) Line() string {
	short := func(text string) string {
		letters := []rune(strings.Join(strings.Fields(text), " "))
		if len(letters) > lineLength {
			letters = append(letters[:lineLength], '…')
		}
		return string(letters)
	}
	return fmt.Sprintf("%-10s  %s  →  %s", s.Grade.Outcome, short(s.Response.Question.Text), short(s.Response.Text))
}

// Block returns the whole answer, with its question and the right answer.
func (s *Shown) Block() string {
	q, end := s.Response.Question, ""
	if !s.Response.Ended {
		end = ", cut off"
	}
	text := fmt.Sprintf("question %d: %s%s, reward %v\n%s\n> %s\n", q.Number, s.Grade.Outcome, end, s.Grade.Reward,
		q.Text, strings.ReplaceAll(s.Response.Text, "\n", "\n> "))
	if s.Grade.Outcome != verify.Right {
		text += fmt.Sprintf("expected: %s\n", strings.Join(q.Solutions, ", or "))
	}
	return text
}
