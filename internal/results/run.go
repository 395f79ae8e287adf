package results

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rlinf/rlinf/internal/durable"
	"github.com/rlinf/rlinf/internal/metrics"
	"github.com/rlinf/rlinf/internal/printable"
	"github.com/rlinf/rlinf/internal/runfolder"
	"gopkg.in/yaml.v3"
)

// A Run holds the metrics of one training run, in rows.
type Run struct {
	Name string // the run's folder; for a kept run, the file's name with the seed
	Task string // env_type; task_type for language models
	Seed uint64 // actor.seed
	// Iterations is true if the run makes no environment steps, because it learns from texts or demonstrations. Its
	// EnvSteps are then iterations.
	Iterations bool
	Forked     bool // it continues another run, so forks with the same seed have common random numbers
	Rows       []MetricsLine
	Pace       metrics.Pace // the work of all iterations; zero for a kept run
}

// A MetricsLine is one line of the metrics.
type MetricsLine struct {
	Step     int64
	EnvSteps float64            // environment steps, or iterations; see Run.Iterations
	Seconds  float64            // total time of the iterations so far, over all parts of a resumed run
	Values   map[string]float64 // values of the requested metrics
}

// ReadRun reads the run folder dir. It keeps only the metrics whose names begin with prefix, and only the rows with
// such a metric.
func ReadRun(dir, prefix string) (Run, error) {
	r := Run{Name: filepath.Clean(dir)}
	var config struct {
		Actor struct{ Seed uint64 }
		Env   struct {
			Train struct {
				EnvType string `yaml:"env_type"`
			}
		}
		Runner struct {
			TaskType string `yaml:"task_type"`
		}
	}
	text, err := durable.ReadFile(filepath.Join(dir, "config.yaml"), durable.Text)
	if err == nil {
		err = yaml.Unmarshal(text, &config)
	}
	if err != nil {
		return r, runError(dir, err)
	}
	r.Seed, r.Task = config.Actor.Seed, config.Env.Train.EnvType
	_, _, r.Forked = runfolder.Parent(dir)
	steps, err := r.readRows(filepath.Join(dir, "metrics.jsonl"), prefix)
	if err != nil {
		return r, runError(dir, err)
	}
	if math.IsNaN(steps) { // no line has environment steps
		r.Task = config.Runner.TaskType
	}
	if r.Iterations = !(steps > 0); r.Iterations {
		for i := range r.Rows {
			r.Rows[i].EnvSteps = float64(r.Rows[i].Step)
		}
	}
	return r, nil
}

// runError adds the run's folder to err. It makes names safe to show, because they may come from a listing of files.
func runError(dir string, err error) error {
	if p, ok := err.(*fs.PathError); ok {
		err = &fs.PathError{Op: p.Op, Path: printable.Line(p.Path), Err: p.Err}
	}
	return fmt.Errorf("run %s: %w", printable.Line(dir), err)
}

// readRows reads the metrics.jsonl at path. It returns the largest number of environment steps, or NaN if no line has a
// number. Most lines of a long run lack the wanted metrics, so readRows does not parse these lines as JSON.
func (r *Run) readRows(path, prefix string) (steps float64, err error) {
	wanted := []byte(`"` + prefix)
	var last, seconds float64
	_, err = metrics.ReadLines(path, 0, func(line []byte, _ int64) error {
		step := metrics.Number(line, "step")
		if math.IsNaN(step) {
			return fmt.Errorf("metrics.jsonl: line %q has no step", bytes.TrimSpace(line[:min(len(line), 80)]))
		}
		if took := metrics.Number(line, "time/step"); step > last && took > 0 {
			seconds += (step - last) * took // took is the mean since the last line
		}
		r.Pace.AddJSON(line)
		last, steps = step, max(steps, metrics.Number(line, "env/steps"))
		if !bytes.Contains(line, wanted) {
			return nil
		}
		values := metrics.ParseLine(line)
		if values == nil {
			return fmt.Errorf("metrics.jsonl: the line of step %.0f is damaged", step)
		}
		row := MetricsLine{Step: int64(step), Seconds: seconds, EnvSteps: values["env/steps"],
			Values: map[string]float64{}}
		for name, x := range values {
			if strings.HasPrefix(name, prefix) {
				row.Values[name] = x
			}
		}
		r.Rows = append(r.Rows, row)
		return nil
	})
	return steps, err
}

// StepTimes reads metrics.jsonl in the run folder dir. It returns the steps of the rows that have an iteration time,
// and the mean iteration time since the previous row, in seconds.
func StepTimes(dir string) (steps, seconds []float64, err error) {
	_, err = metrics.ReadLines(filepath.Join(dir, "metrics.jsonl"), 0, func(line []byte, _ int64) error {
		if step, took := metrics.Number(line, "step"), metrics.Number(line, "time/step"); step >= 0 && took >= 0 {
			steps, seconds = append(steps, step), append(seconds, took)
		}
		return nil
	})
	return steps, seconds, err
}

// At returns the metric at envSteps environment steps, interpolated linearly between two rows. With envSteps +Inf, it
// returns the last value. ok is false if the run has made fewer steps or lacks the metric.
func (r *Run) At(metric string, envSteps float64) (value float64, ok bool) {
	var before MetricsLine
	have := false
	for _, row := range r.Rows {
		v, there := row.Values[metric]
		if !there || math.IsNaN(v) {
			continue
		}
		if row.EnvSteps >= envSteps {
			if row.EnvSteps == envSteps {
				return v, true
			}
			if !have {
				return math.NaN(), false
			}
			part := (envSteps - before.EnvSteps) / (row.EnvSteps - before.EnvSteps)
			return before.Values[metric] + part*(v-before.Values[metric]), true
		}
		before, have = row, true
	}
	if have && math.IsInf(envSteps, 1) {
		return before.Values[metric], true
	}
	return math.NaN(), false
}

// Last returns the newest row, or the zero MetricsLine.
func (r *Run) Last() MetricsLine {
	if len(r.Rows) == 0 {
		return MetricsLine{}
	}
	return r.Rows[len(r.Rows)-1]
}

// Metrics returns the sorted names of all metrics in the rows.
func Metrics(runs []Run) []string {
	names := map[string]bool{}
	for _, r := range runs {
		for _, row := range r.Rows {
			for name := range row.Values {
				names[name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}
