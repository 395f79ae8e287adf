package report

import (
	"fmt"
	"math"
	"strings"

	"github.com/rlinf/rlinf/internal/results"
)

// mostJudged is the maximum number of points that a verdict uses. A longer curve is reduced to means of equal parts.
const mostJudged = 60

// learning returns the verdict on learning. It says when the run reached the task's threshold, when it was best, and
// whether it still rises, holds, falls or has collapsed. The verdict is about the first headline metric with enough
// values; metrics of evaluation come first. learning returns nil if the run has no such metric.
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

// reached describes when a curve of returns reached the task's threshold. It returns "" if there is no threshold.
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

// curve returns the finite values of a metric and their iterations. If there are too many values, it returns at most
// the given number of points. A point is then the mean of neighbouring values, at the last of their iterations.
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
