package report

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rlinf/rlinf/internal/durable"
	"github.com/rlinf/rlinf/internal/plot"
	"github.com/rlinf/rlinf/internal/results"
	"github.com/rlinf/rlinf/internal/runfolder"
)

// Runs has the content of the page about several runs. The runs of a group differ only in their seeds.
type Runs struct {
	Table    results.ComparisonTable // table of the main metric
	Groups   []results.SeedGroup     // the same groups as in Table, with all metrics
	Keys     []runsKey
	States   []string // states of the runs of each group
	Problems []string

	returns func(task string) (least, most float64)
}

// A runsKey is a configuration key whose values differ between runs.
type runsKey struct {
	Key    string   `json:"key"`
	Values []string `json:"values"` // values in each group
}

// GatherRuns reads the runs and sweeps at paths. It leaves out damaged runs and paths without runs, and lists them in
// Problems. bounds gives the lowest and the highest possible return of a task.
func GatherRuns(paths []string, bounds func(task string) (least, most float64)) (*Runs, error) {
	r := &Runs{returns: bounds}
	var failed error
	for _, path := range paths {
		groups, damaged, err := results.LoadWhole(path, "")
		for _, err := range append(damaged, err) {
			if err != nil {
				failed = errors.Join(failed, err)
				r.Problems = append(r.Problems, fmt.Sprintf("Left out: %v.", err))
			}
		}
		r.Groups = append(r.Groups, groups...)
	}
	if len(r.Groups) == 0 {
		return nil, failed
	}
	for _, metric := range results.Headlines() {
		if slices.ContainsFunc(r.Groups, func(g results.SeedGroup) bool { return len(g.At(metric, math.Inf(1))) > 0 }) {
			r.Table.Metric = metric
			break
		}
	}
	if r.Table.Metric == "" {
		return nil, fmt.Errorf("%s: no run has one of the metrics %s", strings.Join(paths, ", "),
			strings.Join(results.Headlines(), ", "))
	}
	r.filterGroups()
	r.Table.At = math.Inf(1)
	for _, g := range r.Groups {
		r.Table.Groups = append(r.Table.Groups, compared(g, r.Table.Metric))
	}
	r.compareSettings()
	r.compareStates()
	r.addTrunks()
	return r, nil
}

// addTrunks adds the rows of its parent to each fork, up to the fork. So the curves of forks are branches.
func (r *Runs) addTrunks() {
	for _, g := range r.Groups {
		for i := range g.Runs {
			run := &g.Runs[i]
			parent, step, fork := runfolder.Parent(run.Name)
			if !fork {
				continue
			}
			trunk, err := results.ReadRun(parent, "")
			if err != nil {
				r.Problems = append(r.Problems, fmt.Sprintf("The curves of %s begin at its fork: %v.", run.Name, err))
				continue
			}
			trunk.Rows = slices.DeleteFunc(trunk.Rows, func(row results.MetricsLine) bool { return row.Step > step })
			run.Rows = append(trunk.Rows, run.Rows...)
		}
	}
}

// filterGroups leaves out groups without the main metric, and gives the other groups distinct names.
func (r *Runs) filterGroups() {
	var kept []results.SeedGroup
	times := map[string]int{}
	for _, g := range r.Groups {
		if len(g.At(r.Table.Metric, math.Inf(1))) == 0 {
			r.Problems = append(r.Problems, fmt.Sprintf("Left out: %s has no %s.", g.Path, r.Table.Metric))
			continue
		}
		kept = append(kept, g)
		times[g.Name]++
	}
	for i := range kept {
		if g := &kept[i]; times[g.Name] > 1 {
			g.Name = g.Path
		}
	}
	r.Groups = kept
}

// compared returns g with only the rows that `rlinf compare` counts. In a run's folder, a row counts if the name of one
// of its metrics begins with metric. In a file of kept results, all rows count.
func compared(g results.SeedGroup, metric string) results.SeedGroup {
	if filepath.Ext(g.Path) == ".csv" {
		return g
	}
	g.Runs = slices.Clone(g.Runs)
	for i := range g.Runs {
		run := &g.Runs[i]
		run.Rows = slices.DeleteFunc(slices.Clone(run.Rows), func(row results.MetricsLine) bool {
			for name := range row.Values {
				if strings.HasPrefix(name, metric) {
					return false
				}
			}
			return true
		})
	}
	return g
}

// compareSettings finds the keys that differ between runs, except for seeds and the paths of logs.
func (r *Runs) compareSettings() {
	values := make([]map[string]string, len(r.Groups))
	var names []string
	for i, g := range r.Groups {
		values[i] = map[string]string{}
		for _, run := range g.Runs {
			text, err := durable.ReadFile(filepath.Join(run.Name, "config.yaml"), durable.Text)
			if err != nil {
				continue // kept results have no config.yaml
			}
			settings, err := flatten(text)
			if err != nil {
				r.Problems = append(r.Problems, fmt.Sprintf("%s: config.yaml is damaged: %v.", run.Name, err))
				continue
			}
			for _, s := range settings {
				if strings.HasSuffix(s.Key, ".seed") || strings.HasPrefix(s.Key, "runner.logger.") {
					continue
				}
				value := s.Value
				if old, ok := values[i][s.Key]; ok && old != value {
					value = severalValues
				}
				values[i][s.Key] = value
				if !slices.Contains(names, s.Key) {
					names = append(names, s.Key)
				}
			}
		}
	}
	for _, name := range names {
		k := runsKey{Key: name}
		differ := false
		for i := range values {
			k.Values = append(k.Values, values[i][name])
			differ = differ || k.Values[i] != k.Values[0] || k.Values[i] == severalValues
		}
		if differ {
			r.Keys = append(r.Keys, k)
		}
	}
}

// severalValues stands for a value that differs between the runs of a group.
const severalValues = "several values"

// compareStates counts the runs of each group by their states.
func (r *Runs) compareStates() {
	tasks := map[string]bool{}
	for _, g := range r.Groups {
		var states []string
		for _, run := range g.Runs {
			tasks[run.Task] = true
			s, err := runfolder.ReadStatus(run.Name)
			word := string(s)
			switch {
			case err != nil || s == "":
				word = "unknown"
			case s == runfolder.Dead:
				word = "killed"
			}
			states = append(states, word)
			if s != runfolder.Done && s != "" {
				r.Problems = append(r.Problems, fmt.Sprintf("%s: %s after iteration %d.", run.Name, word,
					run.Last().Step))
			}
		}
		r.States = append(r.States, tally(states))
	}
	if len(tasks) > 1 {
		r.Problems = append(r.Problems, "The runs are of different tasks, whose figures cannot be compared.")
	}
}

// tally counts equal words, and lists the words with their counts in the order of their first appearance.
func tally(words []string) string {
	var order []string
	counts := map[string]int{}
	for _, w := range words {
		if counts[w]++; counts[w] == 1 {
			order = append(order, w)
		}
	}
	for i, w := range order {
		order[i] = fmt.Sprintf("%d %s", counts[w], w)
	}
	return strings.Join(order, ", ")
}

// runsDocument is the data for the scripts of a page about several runs.
type runsDocument struct {
	Title    string      `json:"title"`
	Several  bool        `json:"several"`
	Facts    []fact      `json:"facts"`
	Problems []string    `json:"problems"`
	Names    []string    `json:"names"`
	States   []string    `json:"states"`
	Metric   string      `json:"metric"`
	Steps    string      `json:"steps"` // environment steps or iterations
	Table    [][]string  `json:"table"`
	Charts   []runsChart `json:"charts"`
	Finals   [][]string  `json:"finals"` // one row per metric: its name, then its mean ± deviation in each group
	Keys     []runsKey   `json:"keys"`
}

// A runsChart has the curves of a metric. Each curve belongs to a group.
type runsChart struct {
	Metric string      `json:"metric"`
	Curves []runsCurve `json:"curves"`
}

type runsCurve struct {
	Group int   `json:"group"`
	X     array `json:"x"`
	Y     array `json:"y"`
	Low   array `json:"low"` // NaN if there is no interval
	High  array `json:"high"`
}

// mostCharts is the maximum number of charts on a page about several runs.
const mostCharts = 24

// WriteRuns writes the page of several runs.
func WriteRuns(w io.Writer, r *Runs) error {
	p := new(packer)
	d := runsDocument{Several: true, Metric: plain(r.Table.Metric), Problems: plains(r.Problems), States: r.States,
		Steps: "environment steps"}
	runs := 0
	iterations := true
	for _, g := range r.Groups {
		d.Names = append(d.Names, plain(g.Name))
		runs += len(g.Runs)
		for _, run := range g.Runs {
			iterations = iterations && run.Iterations
		}
	}
	if iterations {
		d.Steps = "iterations"
	}
	d.Title = count(runs, "run", "runs")
	if len(r.Groups) > 1 {
		d.Title += " in " + count(len(r.Groups), "group", "groups")
	}
	for _, row := range r.Table.Rows() {
		d.Table = append(d.Table, plains(row))
	}
	for _, k := range r.Keys {
		d.Keys = append(d.Keys, runsKey{plain(k.Key), plains(k.Values)})
	}
	var still bytes.Buffer
	fallbackSummary(&still, d.Title, "", nil, d.Problems)
	for _, metric := range r.metrics() {
		row := []string{plain(metric)}
		for i := range r.Groups {
			text := ""
			if e := results.NewEstimate(r.Groups[i].At(metric, math.Inf(1))); e.N > 0 {
				text = e.String()
			}
			row = append(row, text)
		}
		d.Finals = append(d.Finals, row)
	}
	for _, metric := range r.chartMetrics() {
		c := runsChart{Metric: plain(metric)}
		picture := plot.Chart{Title: metric, X: d.Steps, Y: metric,
			Curves: results.Bands(metric, r.Groups, r.returns)}
		for i, curve := range picture.Curves {
			if len(curve.X) > 0 {
				c.Curves = append(c.Curves, runsCurve{i, p.f64(curve.X), p.f64(curve.Y), p.f64(curve.Low),
					p.f64(curve.High)})
			}
		}
		if len(c.Curves) > 0 {
			d.Charts = append(d.Charts, c)
			still.Write(picture.SVG())
		}
	}
	return write(w, p, d.Title, d, nil, still.Bytes())
}

// metrics returns the names of all metrics, in alphabetical order.
func (r *Runs) metrics() (names []string) {
	for _, g := range r.Groups {
		names = append(names, results.Metrics(g.Runs)...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// chartMetrics returns the metrics that get a chart: the main metric, then the metrics that have a chart on the page of
// a single run.
func (r *Runs) chartMetrics() []string {
	names := []string{r.Table.Metric}
	groups, _ := chartsOf(r.metrics())
	for _, g := range groups {
		for _, c := range g.Charts {
			for _, s := range c.Series {
				if !slices.Contains(names, s.Metric) && len(names) < mostCharts {
					names = append(names, s.Metric)
				}
			}
		}
	}
	return names
}
