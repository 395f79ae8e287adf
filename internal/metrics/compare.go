package metrics

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A Difference is a metric that differs between two runs, in one step. One and Other are the values as written in the
// files, so that all digits count. A value is "" if the run lacks the metric.
type Difference struct {
	Step       int64
	Name       string
	One, Other string
}

func (d Difference) String() string {
	text := func(s string) string {
		if s == "" {
			return "missing"
		}
		return s
	}
	return fmt.Sprintf("step %d: %s: %s, and %s", d.Step, d.Name, text(d.One), text(d.Other))
}

// Repeats reports whether a repeated run gives the same values of a metric. Times differ between the runs. Metrics of
// the scheduler differ too, because the scheduler depends on the clock.
func Repeats(name string) bool {
	return name != "time" && !strings.HasPrefix(name, "time/") && !strings.HasPrefix(name, "schedule/")
}

// Texts has the values of metrics as texts, by step and name.
type Texts map[int64]map[string]string

// ReadTexts reads the metrics of the steps first to last from the metrics.jsonl at path. It leaves out metrics that a
// repeated run would change: see Repeats. A damaged line is an error.
func ReadTexts(path string, first, last int64) (Texts, error) {
	all := Texts{}
	number := 0
	_, err := ReadLines(path, 0, func(line []byte, _ int64) error {
		number++
		step, ok := stepOf(line)
		if ok && (step < first || step > last) {
			return nil
		}
		var values map[string]json.RawMessage
		if err := json.Unmarshal(line, &values); err != nil || !ok {
			return fmt.Errorf("%s: line %d is damaged", path, number)
		}
		if all[step] == nil {
			all[step] = map[string]string{}
		}
		for name, text := range values {
			if name != "step" && Repeats(name) {
				all[step][name] = string(text)
			}
		}
		return nil
	})
	return all, err
}

// Compare returns the metrics that differ between two runs, by step and name.
func Compare(one, other Texts) (all []Difference) {
	steps := maps.Clone(one)
	maps.Copy(steps, other)
	for _, step := range slices.Sorted(maps.Keys(steps)) {
		names := map[string]string{}
		maps.Copy(names, one[step])
		maps.Copy(names, other[step])
		for _, name := range slices.Sorted(maps.Keys(names)) {
			if a, b := one[step][name], other[step][name]; a != b {
				all = append(all, Difference{step, name, a, b})
			}
		}
	}
	return all
}
