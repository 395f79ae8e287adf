package results

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/rlinf/rlinf/internal/printable"
)

// A ComparisonTable compares groups by one metric.
type ComparisonTable struct {
	Metric string
	Mode   string  // ModeMin, ModeMax, or "" for ModeOf(Metric)
	At     float64 // environment steps at which groups are compared; +Inf compares the last value of each run
	Groups []SeedGroup
}

// best returns the index of the group with the best mean, or -1 if no group has the metric.
func (t *ComparisonTable) best() int {
	mode, best, mean := cmp.Or(t.Mode, ModeOf(t.Metric)), -1, math.NaN()
	for i, e := range t.Estimates() {
		if Better(mode, e.Mean, mean) {
			best, mean = i, e.Mean
		}
	}
	return best
}

// Best returns a line that names the group with the best mean, and a group whose difference from it may be chance. It
// returns "" for a single group.
func (t *ComparisonTable) Best() string {
	i := t.best()
	if i < 0 || len(t.Groups) < 2 {
		return ""
	}
	how := "highest"
	if cmp.Or(t.Mode, ModeOf(t.Metric)) == ModeMin {
		how = "lowest"
	}
	return fmt.Sprintf("best: %s, with the %s mean %s, %s", t.Groups[i].Name, how, t.Metric,
		figure(t.Estimates()[i].Mean)) + t.chance(i)
}

// chance describes the groups whose difference from the best group may be chance: see near. It names the closest of
// them. It returns "" if there is no such group.
func (t *ComparisonTable) chance(best int) string {
	es, least, closest := t.Estimates(), math.Inf(1), -1
	near := near(es, best)
	for _, i := range near {
		if d, _ := es[best].Minus(es[i]); math.Abs(d) < least {
			least, closest = math.Abs(d), i
		}
	}
	if closest < 0 {
		return ""
	}
	name, more := t.Groups[closest].Name, ""
	if len(near) > 1 {
		more = fmt.Sprintf(" (and %d more)", len(near)-1)
	}
	d, margin := es[best].Minus(es[closest])
	if math.IsInf(margin, 1) {
		return fmt.Sprintf("; this may be chance: its difference from %s has no interval without a second seed of "+
			"both%s", name, more)
	}
	return fmt.Sprintf("; this may be chance: its difference from %s is %s ± %s%s", name, figure(d), figure(margin),
		more)
}

// near returns the indices of the estimates whose difference from the best estimate may be chance. Such a difference
// has no 95 % interval, or an interval that contains 0.
func near(es []Estimate, best int) (indices []int) {
	for i, e := range es {
		if d, margin := es[best].Minus(e); i != best && e.N > 0 && math.Abs(d) <= margin {
			indices = append(indices, i)
		}
	}
	return indices
}

// Estimates returns the estimate of each group, at t.At environment steps.
func (t *ComparisonTable) Estimates() []Estimate {
	es := make([]Estimate, len(t.Groups))
	for i := range t.Groups {
		es[i] = NewEstimate(t.Groups[i].At(t.Metric, t.At))
	}
	return es
}

// Write writes the table as text, in aligned columns.
func (t *ComparisonTable) Write(w io.Writer) error {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range t.Rows() {
		fmt.Fprintln(out, strings.Join(row, "\t"))
	}
	return out.Flush()
}

// WriteMarkdown writes the table in Markdown.
func (t *ComparisonTable) WriteMarkdown(w io.Writer) error {
	rows := t.Rows()
	line := func(cells []string) string { return "| " + strings.Join(cells, " | ") + " |\n" }
	text := line(rows[0]) + "|---" + strings.Repeat("|--:", len(rows[0])-1) + "|\n"
	for _, row := range rows[1:] {
		text += line(row)
	}
	_, err := io.WriteString(w, text)
	return err
}

// A jsonGroup is a group in the JSON of a table. Missing numbers are left out.
type jsonGroup struct {
	Name     string      `json:"name"`
	Path     string      `json:"path"`
	Seeds    int         `json:"seeds"`
	Steps    float64     `json:"steps"` // largest number of steps of all runs, in the table's step_unit
	Mean     *float64    `json:"mean,omitempty"`
	Std      *float64    `json:"std,omitempty"`
	Interval *[2]float64 `json:"interval,omitempty"` // 95 % confidence interval of the mean
	Lowest   *float64    `json:"lowest,omitempty"`
	// Difference is the mean minus the mean of the first group. Margin is half the width of the difference's 95 %
	// confidence interval.
	Difference *float64 `json:"difference,omitempty"`
	Margin     *float64 `json:"difference_margin,omitempty"`
	// Chance is true if the difference from the best group may be chance: it has no 95 % interval, or one that contains
	// 0.
	Chance bool `json:"may_be_chance,omitempty"`
	// Paired is the mean difference from the first group, seed by seed. It is set only for forks with the same seeds.
	Paired       *float64 `json:"paired_difference,omitempty"`
	PairedMargin *float64 `json:"paired_difference_margin,omitempty"`
}

// WriteJSON writes the table as a JSON object with the keys "metric", "mode", "best", "step_unit" ("env steps" or
// "iterations") and "groups". If t.At is finite, the object also has the key "at".
func (t *ComparisonTable) WriteJSON(w io.Writer) error {
	all := struct {
		Metric   string      `json:"metric"`
		Mode     string      `json:"mode"`
		Best     string      `json:"best,omitempty"` // name of the group with the best mean
		StepUnit string      `json:"step_unit"`
		At       *float64    `json:"at,omitempty"`
		Groups   []jsonGroup `json:"groups"`
	}{Metric: t.Metric, Mode: cmp.Or(t.Mode, ModeOf(t.Metric)), StepUnit: t.stepUnit(), At: number64(t.At)}
	es, best, chance := t.Estimates(), t.best(), []int(nil)
	if best >= 0 {
		all.Best, chance = t.Groups[best].Name, near(es, best)
	}
	for i, g := range t.Groups {
		e := es[i]
		j := jsonGroup{Name: g.Name, Path: g.Path, Seeds: e.N, Mean: number64(e.Mean), Lowest: number64(e.Least),
			Chance: slices.Contains(chance, i)}
		for _, r := range g.Runs {
			j.Steps = max(j.Steps, r.Last().EnvSteps)
		}
		if e.N > 1 {
			j.Std, j.Interval = &e.Std, &[2]float64{e.Mean - e.Margin, e.Mean + e.Margin}
		}
		if d, margin := e.Minus(es[0]); i > 0 {
			j.Difference, j.Margin = number64(d), number64(margin)
		}
		if p, ok := t.Paired(i); ok && i > 0 {
			j.Paired, j.PairedMargin = number64(p.Mean), number64(p.Margin)
		}
		all.Groups = append(all.Groups, j)
	}
	return json.NewEncoder(w).Encode(all)
}

// number64 returns a pointer to x, or nil if x is not finite, which JSON cannot express.
func number64(x float64) *float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return nil
	}
	return &x
}

// stepUnit returns the unit of steps in the table.
func (t *ComparisonTable) stepUnit() string {
	if inIterations(t.Groups) {
		return "iterations"
	}
	return "env steps"
}

// workUnit returns the unit of the work whose rate the table has. Language models work on tokens.
func (t *ComparisonTable) workUnit() string {
	for _, g := range t.Groups {
		if slices.ContainsFunc(g.Runs, func(r Run) bool { return !r.Iterations || r.Pace.Done == 0 }) {
			return t.stepUnit()
		}
	}
	return "tokens"
}

// Rows returns the cells of the table. The first row is the header.
func (t *ComparisonTable) Rows() [][]string {
	steps := t.stepUnit()
	metric := printable.Line(t.Metric)
	head := []string{"", "seeds", steps, metric + " ± std", "95 % interval", "lowest"}
	if len(t.Groups) > 1 {
		head = append(head, "difference from "+printable.Line(t.Groups[0].Name))
	}
	pairs := false
	for i := range t.Groups {
		_, ok := t.Paired(i)
		pairs = pairs || i > 0 && ok
	}
	if pairs {
		head = append(head, "paired difference")
	}
	rows := [][]string{append(head, t.workUnit()+"/s")}
	es := t.Estimates()
	for i, g := range t.Groups {
		e := es[i]
		row := []string{printable.Line(g.Name), fmt.Sprint(e.N), g.envSteps(t.At), e.String(), e.Interval(),
			figure(e.Least)}
		if len(t.Groups) > 1 {
			difference := ""
			if d, margin := e.Minus(es[0]); i > 0 {
				difference = figure(d)
				if !math.IsInf(margin, 0) {
					difference += " ± " + figure(margin)
				}
			}
			row = append(row, difference)
		}
		if pairs {
			text := ""
			if p, ok := t.Paired(i); ok && i > 0 {
				text = p.String()
			}
			row = append(row, text)
		}
		rows = append(rows, append(row, g.rate()))
	}
	return rows
}

// inIterations reports whether every run counts its progress in iterations, not in environment steps.
func inIterations(groups []SeedGroup) bool {
	return !slices.ContainsFunc(groups, func(g SeedGroup) bool {
		return slices.ContainsFunc(g.Runs, func(r Run) bool { return !r.Iterations })
	})
}

// envSteps returns the number of environment steps at which the values were taken, as text.
func (g *SeedGroup) envSteps(at float64) string {
	if !math.IsInf(at, 1) {
		return fmt.Sprintf("%.0f", at)
	}
	least, most := math.Inf(1), 0.0
	for _, r := range g.Runs {
		n := r.Last().EnvSteps
		least, most = min(least, n), max(most, n)
	}
	if least < most {
		return fmt.Sprintf("%.0f … %.0f", least, most)
	}
	return fmt.Sprintf("%.0f", most)
}

// rate returns the mean work per second of all iterations, as text, or "" if no time is known. It leaves out
// evaluations. A run without known work counts its steps and its whole time. So a kept run includes evaluations,
// because its file lacks their times.
func (g *SeedGroup) rate() string {
	var steps, seconds float64
	for _, r := range g.Runs {
		if r.Pace.Done > 0 {
			steps, seconds = steps+r.Pace.Done, seconds+r.Pace.Seconds
		} else {
			steps, seconds = steps+r.Last().EnvSteps, seconds+r.Last().Seconds
		}
	}
	if !(seconds > 0) { // or NaN
		return ""
	}
	return fmt.Sprintf("%.0f", steps/seconds)
}
