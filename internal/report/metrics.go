package report

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rlinf/rlinf/internal/durable"
)

// Metrics are the lines of metrics.jsonl, as columns.
type Metrics struct {
	Steps   []float64            // iterations, ascending
	Times   []float64            // Unix time in seconds; NaN if unknown
	Columns map[string][]float64 // by name, as long as Steps; NaN: no value
}

// readMetrics reads the file path. Lines that are not JSON with a step are left out, and so are lines that a later line
// replaces, because the run went back to an earlier step. problems says which.
func readMetrics(path string) (m *Metrics, problems []string) {
	m = &Metrics{Columns: map[string][]float64{}}
	var replaced, backwards int
	clock := math.Inf(-1)
	problems, missing := readLines(path, func(values map[string]float64) {
		at := values["time"]
		if at < clock {
			backwards++
		}
		clock = at
		replaced += m.add(values)
	})
	if missing {
		return m, []string{"metrics.jsonl is missing: the run made no iteration, or the file was removed."}
	}
	m.fill()
	if replaced > 0 {
		problems = append(problems, fmt.Sprintf("metrics.jsonl: the run went back to an earlier iteration. "+
			"%s replaced.", count(replaced, "older line is", "older lines are")))
	}
	if backwards > 0 {
		problems = append(problems, fmt.Sprintf("metrics.jsonl: the clock of rank 0 was set back %s. "+
			"Durations on this page come from the iterations' own times.", count(backwards, "time", "times")))
	}
	if len(m.Steps) == 0 && len(problems) == 0 {
		problems = append(problems, "metrics.jsonl is empty: no iteration has ended.")
	}
	for _, name := range m.names() {
		if strings.HasSuffix(name, "loss") || strings.HasSuffix(name, "grad_norm") {
			if x := m.Columns[name]; len(x) > 0 && !slices.ContainsFunc(x, finite) {
				problems = append(problems, fmt.Sprintf("%s is never a finite number.", plain(name)))
			}
		}
	}
	return m, problems
}

// readLines calls add with the numbers of each line of the file path, but for damaged lines.
func readLines(path string, add func(map[string]float64)) (problems []string, missing bool) {
	name := filepath.Base(path)
	f, err := durable.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, true
	} else if err != nil {
		return []string{fmt.Sprintf("%s cannot be read: %v.", name, err)}, false
	}
	defer f.Close()
	damaged, firstDamaged := 0, 0
	in := bufio.NewReaderSize(f, 1<<16)
	for number := 1; ; number++ {
		line, err := in.ReadBytes('\n')
		if err != nil && err != io.EOF {
			problems = append(problems, fmt.Sprintf("%s cannot be read after line %d: %v.", name, number-1, err))
		}
		if err != nil && len(bytes.TrimSpace(line)) == 0 {
			break
		}
		if values, ok := parseLine(line); ok {
			add(values)
		} else if damaged++; firstDamaged == 0 {
			firstDamaged = number
		}
		if err != nil {
			break
		}
	}
	if damaged > 0 {
		problems = append(problems, fmt.Sprintf("%s: %s damaged, the first is line %d. They are left out.", name,
			count(damaged, "line is", "lines are"), firstDamaged))
	}
	return problems, false
}

// parseLine returns the numbers of a line; those that are not finite are NaN. ok is false without a step.
func parseLine(line []byte) (values map[string]float64, ok bool) {
	var read map[string]*float64
	if json.Unmarshal(line, &read) != nil || read["step"] == nil {
		return nil, false
	}
	values = map[string]float64{"time": math.NaN()}
	for name, x := range read {
		if values[name] = math.NaN(); x != nil {
			values[name] = *x
		}
	}
	step := values["step"]
	return values, step >= 0 && step < 1<<53
}

// add appends a line, and returns how many rows it replaces.
func (m *Metrics) add(values map[string]float64) (replaced int) {
	step, rows := values["step"], len(m.Steps)
	for rows > 0 && m.Steps[rows-1] > step {
		rows--
	}
	replaced = len(m.Steps) - rows
	m.Steps, m.Times = m.Steps[:rows], m.Times[:rows]
	for name, x := range m.Columns {
		m.Columns[name] = x[:min(len(x), rows)]
	}
	if rows == 0 || m.Steps[rows-1] < step { // several lines of one step are one row
		m.Steps, m.Times = append(m.Steps, step), append(m.Times, values["time"])
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
func (m *Metrics) names() []string { return slices.Sorted(maps.Keys(m.Columns)) }

// fill appends NaN to columns until they have a value for every row.
func (m *Metrics) fill() {
	for name, x := range m.Columns {
		for len(x) < len(m.Steps) {
			x = append(x, math.NaN())
		}
		m.Columns[name] = x
	}
}

// last returns the newest finite value of a metric.
func (m *Metrics) last(name string) (float64, bool) {
	x := m.Columns[name]
	for i := len(x) - 1; i >= 0; i-- {
		if finite(x[i]) {
			return x[i], true
		}
	}
	return 0, false
}

// seconds returns the time that all iterations until each row took. A row's time/step is the mean since the last row.
func (m *Metrics) seconds() []float64 {
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

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

// count returns a number with a word for one or for several.
func count(n int, one, several string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, several)
}
