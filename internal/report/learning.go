package report

import (
	"fmt"
	"math"
	"strings"

	"github.com/rlinf/rlinf/internal/results"
)

// mostJudged is the number of points of a curve that is judged. A longer curve becomes the means of equal parts.
const mostJudged = 60

// learning returns the verdict on learning: when the run reached the task's threshold and its best, and whether it
// still rises, holds, falls or has collapsed. The curve is that of the first headline metric with enough values, which
// is an evaluation if there are enough. learning returns nil if the run has no such metric.
func (r *Run) learning() *sentence {
	var few *sentence
	for _, name := range results.Headlines() {
		steps, values := r.Metrics.curve(name, mostJudged)
		if len(values) == 0 {
			continue
		}
		least := 0.0
		if name == "eval/return" {
			_, training := r.Metrics.curve("env/return", math.MaxInt)
			least = results.LeastChange(training)
		}
		l := results.Judge(values, strings.HasSuffix(name, "loss"), least)
		s := sentence{Fault: l.Verdict == results.Collapsed, Text: fmt.Sprintf("Learning: %s %s", name, l.Text())}
		if l.Verdict == results.TooFew {
			if few == nil {
				s.Text = fmt.Sprintf("Learning: too few evaluations: %s has %s, and a verdict needs 6.", name,
					count(len(values), "value", "values"))
				few = &s
			}
			continue
		}
		s.Text = "Learning: " + name
		if at := r.reached(name, steps, values); at != "" {
			s.Text += " " + at + ","
		}
		s.Text += fmt.Sprintf(" was best in iterations %.0f to %.0f (mean %s), and %s.", steps[l.From], steps[l.To],
			figure(l.Best), strings.TrimPrefix(l.Text(), "it "))
		return &s
	}
	return few
}

// reached says when a curve of returns reached the threshold of the task. It returns "" if there is no threshold.
func (r *Run) reached(name string, steps, values []float64) string {
	if r.threshold == nil || !strings.HasSuffix(name, "/return") {
		return ""
	}
	task := ""
	for _, s := range r.Settings {
		if s.Key == "env.train.env_type" {
			task = strings.Trim(s.Value, `"'`)
		}
	}
	least, known := r.threshold(task)
	if !known {
		return ""
	}
	for i, v := range values {
		if v >= least {
			return fmt.Sprintf("reached the task's threshold (%s) in iteration %.0f", figure(least), steps[i])
		}
	}
	return fmt.Sprintf("has not reached the task's threshold (%s)", figure(least))
}

// curve returns the finite values of a metric and their iterations, in at most so many points. If there are more
// values, a point is the mean of some neighbours, at the last of their iterations.
func (m *MetricColumns) curve(name string, most int) (steps, values []float64) {
	for i, v := range m.Columns[name] {
		if finite(v) {
			steps, values = append(steps, m.Steps[i]), append(values, v)
		}
	}
	each := int(math.Ceil(float64(len(values)) / float64(most)))
	if each < 2 {
		return steps, values
	}
	n := 0
	for i := 0; i < len(values); i += each {
		part, sum := values[i:min(i+each, len(values))], 0.0
		for _, v := range part {
			sum += v / float64(len(part))
		}
		steps[n], values[n] = steps[i+len(part)-1], sum
		n++
	}
	return steps[:n], values[:n]
}
