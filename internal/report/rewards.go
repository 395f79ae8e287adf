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

// Rewards are the rewards of the answers that a language model was trained on, line by line of generation.jsonl.
type Rewards struct {
	Step   float64 // the iteration of the line, which also counts those since the line before
	Width  float64 // values are multiples of it, rounded down; 0: not rounded
	Counts map[float64]float64
}

// readRewards reads the file path. It adds how full the engines were to m.
func readRewards(path string, m *Metrics) (all []Rewards, problems []string) {
	problems, _ = readLines(path, func(values map[string]float64) {
		r := Rewards{Step: values["step"], Width: values["width"], Counts: map[float64]float64{}}
		for name, x := range values {
			text, ok := strings.CutPrefix(name, "reward/")
			if value, err := strconv.ParseFloat(text, 32); ok && err == nil && finite(value) && x > 0 && x <= 1<<32 {
				r.Counts[value] = x
			}
			if strings.HasPrefix(name, "engine/") {
				m.put(r.Step, name, x)
			}
		}
		for len(all) > 0 && all[len(all)-1].Step >= r.Step { // a resumed run made the iteration again
			all = all[:len(all)-1]
		}
		all = append(all, r)
	})
	return all, problems
}

// put sets a metric of a step, if that has a row.
func (m *Metrics) put(step float64, name string, value float64) {
	row, ok := slices.BinarySearch(m.Steps, step)
	if !ok {
		return
	}
	if m.Columns[name] == nil {
		m.Columns[name] = slices.Repeat([]float64{math.NaN()}, len(m.Steps))
	}
	m.Columns[name][row] = value
}

// rewardsData has how many answers had which reward in which iterations.
type rewardsData struct {
	Rows       []string `json:"rows"`  // rewards, the largest first
	Range      float64  `json:"range"` // rows have rewards up to so much above; 0: the reward alone
	Iterations array    `json:"iterations"`
	Each       int      `json:"each"`   // lines of a column
	Counts     array    `json:"counts"` // row by row
}

// mostBins is the largest number of rows of rewards. Of more rewards each row is a range.
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
	d.Iterations, d.Counts = p.f64(steps), p.f64(counts)
	return d
}
