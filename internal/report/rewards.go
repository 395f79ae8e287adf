package report

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Rewards has one or more lines of generation.jsonl: the numbers of a language model's training answers, by reward.
type Rewards struct {
	Step   float64             // the last iteration; it begins after the Step of the previous Rewards
	Width  float64             // if > 0, rewards are rounded down to multiples of Width
	Counts map[float64]float64 // number of answers by reward
	lines  int                 // number of lines
}

// mostRewards is the maximum number of Rewards. If there are more, pairs of them are joined.
const mostRewards = 16 * mostColumns

// addRewards adds a line. In a long file, each Rewards joins r.perRewards lines.
func (r *Run) addRewards(line Rewards) {
	all := r.Rewards
	for n := len(all); n > 0 && all[n-1].Step >= line.Step; n-- { // a resumed run repeats iterations
		all = all[:n-1]
	}
	line.lines = 1
	if n := len(all); n == 0 || all[n-1].lines+1 > r.perRewards || !all[n-1].join(line) {
		all = append(all, line)
	}
	if len(all) > mostRewards {
		r.perRewards = 2 * max(r.perRewards, 1)
		joined := all[:1]
		for _, next := range all[1:] {
			if last := &joined[len(joined)-1]; last.lines+next.lines > r.perRewards || !last.join(next) {
				joined = append(joined, next)
			}
		}
		clear(all[len(joined):])
		all = joined
	}
	r.Rewards = all
}

// join adds the lines of the argument next to r. It returns false if their widths differ.
func (r *Rewards) join(next Rewards) bool {
	if r.Width != next.Width {
		return false
	}
	for value, n := range next.Counts {
		r.Counts[value] += n
	}
	r.Step, r.lines = next.Step, r.lines+next.lines
	return true
}

// readRewards reads generation.jsonl. The figures about engines in this file become metrics.
func (r *Run) readRewards() {
	r.readLines("generation.jsonl", func(values map[string]float64) {
		line := Rewards{Step: values["step"], Width: values["width"], Counts: map[float64]float64{}}
		for name, x := range values {
			text, ok := strings.CutPrefix(name, "reward/")
			if value, err := strconv.ParseFloat(text, 32); ok && err == nil && finite(value) && x > 0 && x <= 1<<32 {
				line.Counts[value] = x
			}
			if strings.HasPrefix(name, "engine/") {
				r.Metrics.put(line.Step, name, x)
			}
		}
		r.addRewards(line)
	})
}

// put sets a metric of a step, if the step has a row.
func (m *MetricColumns) put(step float64, name string, value float64) {
	row, ok := slices.BinarySearch(m.Steps, step)
	if !ok {
		return
	}
	if m.Columns[name] == nil {
		m.Columns[name] = slices.Repeat([]float64{math.NaN()}, len(m.Steps))
	}
	m.Columns[name][row] = value
}

// rewardsData has the number of answers by reward and iteration.
type rewardsData struct {
	Rows       []string `json:"rows"`  // rewards, the largest first
	Range      float64  `json:"range"` // a row counts rewards from its value to its value + Range; if 0, only its value
	Iterations array    `json:"iterations"`
	Each       int      `json:"each"`   // number of lines of generation.jsonl in a column
	Counts     array    `json:"counts"` // row by row
}

// mostBins is the maximum number of rows of rewards. If there are more rewards, each row is a range.
const mostBins = 24

// rewards packs the counts of rewards.
func (r *Run) rewards(p *packer) *rewardsData {
	width, distinct := 0.0, map[float64]bool{}
	for _, line := range r.Rewards {
		width = max(width, line.Width)
		for value := range line.Counts {
			distinct[value] = true
		}
	}
	if len(distinct) == 0 {
		return nil
	}
	d := &rewardsData{Each: (len(r.Rewards)-1)/mostColumns + 1}
	values := slices.SortedFunc(maps.Keys(distinct), func(a, b float64) int { return cmp.Compare(b, a) })
	row := func(value, _ float64) int {
		i, _ := slices.BinarySearchFunc(values, value, func(a, b float64) int { return cmp.Compare(b, a) })
		return i
	}
	if width > 0 || len(values) > mostBins {
		top, bottom := values[0]+width, values[len(values)-1]
		each := (top - bottom) / mostBins
		d.Range = each
		row = func(value, width float64) int {
			return min(max(int((top-value-width/2)/each), 0), mostBins-1)
		}
		values = nil
		for i := range mostBins {
			values = append(values, top-float64(i+1)*each)
		}
	}
	for _, v := range values {
		d.Rows = append(d.Rows, fmt.Sprintf("%.4g", v))
	}
	columns := (len(r.Rewards) + d.Each - 1) / d.Each
	counts, steps := make([]float64, len(values)*columns), make([]float64, columns)
	for i, line := range r.Rewards {
		c := i / d.Each
		steps[c] = line.Step
		for value, n := range line.Counts {
			counts[row(value, line.Width)*columns+c] += n
		}
	}
	d.Each *= max(r.perRewards, 1)
	d.Iterations, d.Counts = p.f64(steps), p.f64(counts)
	return d
}
