package report

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rlinf/rlinf/internal/metrics"
	"github.com/rlinf/rlinf/internal/runfolder"
)

// MetricColumns are the lines of metrics.jsonl, as columns.
type MetricColumns struct {
	Steps   []float64            // iterations, ascending
	Columns map[string][]float64 // by name, each as long as Steps; NaN if there is no value
}

// readMetrics reads metrics.jsonl. It leaves out damaged lines. If the run went back to an earlier step, readMetrics
// also leaves out the lines that later lines replace.
func (r *Run) readMetrics() {
	m := &MetricColumns{Columns: map[string][]float64{}}
	r.Metrics = m
	var replaced, backwards int
	clock, problems := math.Inf(-1), len(r.Problems)
	r.readTrunk()
	missing := r.readLines("metrics.jsonl", func(values map[string]float64) {
		at := values["time"]
		if at < clock {
			backwards++
		}
		clock = at
		replaced += m.add(values)
	})
	if missing {
		r.problem("metrics.jsonl is missing: the run made no iteration, or the file was removed.")
		return
	}
	m.fill()
	if replaced > 0 {
		r.problem("metrics.jsonl: the run went back to an earlier iteration. %s replaced.",
			count(replaced, "older line is", "older lines are"))
	}
	if backwards > 0 {
		r.problem("metrics.jsonl: the clock of rank 0 was set back %s. "+
			"Durations on this page come from the iterations' own times.", count(backwards, "time", "times"))
	}
	if len(m.Steps) == 0 && len(r.Problems) == problems {
		r.problem("metrics.jsonl is empty: no iteration has ended.")
	}
	for _, name := range m.names() {
		if strings.HasSuffix(name, "loss") || strings.HasSuffix(name, "grad_norm") {
			if x := m.Columns[name]; len(x) > 0 && !slices.ContainsFunc(x, finite) {
				r.problem("%s is never a finite number.", plain(name))
			}
		}
	}
}

// readTrunk adds the lines of the parent run if the run is a fork. It stops at the checkpoint of the fork.
func (r *Run) readTrunk() {
	parent, step, fork := runfolder.Parent(r.Folder)
	if !fork {
		return
	}
	_, err := metrics.ReadLines(filepath.Join(parent, "metrics.jsonl"), 0, func(line []byte, _ int64) error {
		if values := parseLine(line); values != nil && values["step"] <= float64(step) {
			r.Metrics.add(values)
		}
		return nil
	})
	if err != nil {
		r.problem("The run is a fork, and its curves begin at iteration %d, because its parent cannot be read: %v.",
			step, err)
	}
}

// readLines calls the function add with the numbers of each line of a file in the run's folder. It leaves out damaged
// lines.
func (r *Run) readLines(name string, add func(map[string]float64)) (missing bool) {
	number, damaged, firstDamaged := 0, 0, 0
	use := func(line []byte, _ int64) error {
		number++
		if values := parseLine(line); values != nil {
			add(values)
		} else if damaged++; firstDamaged == 0 {
			firstDamaged = number
		}
		return nil
	}
	rest, err := metrics.ReadLines(r.path(name), 0, use)
	if errors.Is(err, os.ErrNotExist) {
		return true
	} else if err != nil {
		r.problem("%s cannot be read after line %d: %v.", name, number, err)
	}
	if len(bytes.TrimSpace(rest)) > 0 {
		use(rest, 0)
	}
	if damaged > 0 {
		r.problem("%s: %s damaged, the first is line %d. They are left out.", name,
			count(damaged, "line is", "lines are"), firstDamaged)
	}
	return false
}

// parseLine returns the numbers of a line, or nil if the line has no valid step. A line without a time has NaN.
func parseLine(line []byte) map[string]float64 {
	values := metrics.ParseLine(line)
	if step, ok := values["step"]; !ok || !(step >= 0 && step < 1<<53) {
		return nil
	}
	if _, ok := values["time"]; !ok {
		values["time"] = math.NaN()
	}
	return values
}

// add appends a line, and returns the number of rows that it replaces.
func (m *MetricColumns) add(values map[string]float64) (replaced int) {
	step, rows := values["step"], len(m.Steps)
	for rows > 0 && m.Steps[rows-1] > step {
		rows--
	}
	replaced = len(m.Steps) - rows
	m.Steps = m.Steps[:rows]
	for name, x := range m.Columns {
		m.Columns[name] = x[:min(len(x), rows)]
	}
	if rows == 0 || m.Steps[rows-1] < step { // several lines of the same step become one row
		m.Steps = append(m.Steps, step)
		rows++
	}
	for name, v := range values {
		if name == "step" || name == "time" {
			continue
		}
		x := m.Columns[name]
		for len(x) < rows-1 {
			x = append(x, math.NaN())
		}
		if len(x) < rows {
			x = append(x, v)
		} else {
			x[rows-1] = v
		}
		m.Columns[name] = x
	}
	return replaced
}

// names returns the metrics' names in alphabetical order.
func (m *MetricColumns) names() []string { return slices.Sorted(maps.Keys(m.Columns)) }

// fill appends NaN to columns until they have a value for every row.
func (m *MetricColumns) fill() {
	for name, x := range m.Columns {
		for len(x) < len(m.Steps) {
			x = append(x, math.NaN())
		}
		m.Columns[name] = x
	}
}

// last returns the newest finite value of a metric.
func (m *MetricColumns) last(name string) (float64, bool) {
	x := m.Columns[name]
	for i := len(x) - 1; i >= 0; i-- {
		if finite(x[i]) {
			return x[i], true
		}
	}
	return 0, false
}

// seconds returns the total time of all iterations up to each row. The metric time/step of a row is the mean time of
// the iterations since the previous row.
func (m *MetricColumns) seconds() []float64 {
	took := m.Columns["time/step"]
	sums := make([]float64, len(m.Steps))
	sum, before := 0.0, 0.0
	for i, step := range m.Steps {
		if took != nil && took[i] > 0 && finite(took[i]) {
			sum += (step - before) * took[i]
		}
		sums[i], before = sum, step
	}
	return sums
}

// pace returns the work of all iterations.
func (m *MetricColumns) pace() (p metrics.Pace) {
	value := func(name string, i int) float64 {
		if of := m.Columns[name]; of != nil {
			return of[i]
		}
		return math.NaN()
	}
	for i, step := range m.Steps {
		l := metrics.PaceLine{Step: step, Took: value("time/step", i), Eval: value("time/eval", i),
			EnvSteps: value("env/steps", i), Rate: value("time/env_steps_per_second", i)}
		if math.IsNaN(l.Rate) {
			l.Rate = value("time/tokens_per_second", i)
		}
		p.Add(l)
	}
	return p
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

// count returns n with its noun, in the singular or the plural.
func count(n int, one, several string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, several)
}
