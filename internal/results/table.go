package results

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
)

// A Table compares groups by one metric.
type Table struct {
	Metric string
	At     float64 // environment steps at which the metric counts; +Inf: each run's last
	Groups []Group
}

// Estimates returns that of each group.
func (t *Table) Estimates() []Estimate {
	es := make([]Estimate, len(t.Groups))
	for i := range t.Groups {
		es[i] = NewEstimate(t.Groups[i].At(t.Metric, t.At))
	}
	return es
}

// Write writes the table for people; WriteMarkdown for documents.
func (t *Table) Write(w io.Writer) error {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range t.rows() {
		fmt.Fprintln(out, strings.Join(row, "\t"))
	}
	return out.Flush()
}

// WriteMarkdown writes the table in Markdown.
func (t *Table) WriteMarkdown(w io.Writer) error {
	rows := t.rows()
	line := func(cells []string) string { return "| " + strings.Join(cells, " | ") + " |\n" }
	text := line(rows[0]) + "|---" + strings.Repeat("|--:", len(rows[0])-1) + "|\n"
	for _, row := range rows[1:] {
		text += line(row)
	}
	_, err := io.WriteString(w, text)
	return err
}

// rows returns the cells, the head first.
func (t *Table) rows() [][]string {
	steps := "env steps"
	if inIterations(t.Groups) {
		steps = "iterations"
	}
	head := []string{"", "seeds", steps, t.Metric + " ± std", "95 % interval", "lowest"}
	if len(t.Groups) > 1 {
		head = append(head, "difference from "+t.Groups[0].Name)
	}
	rows := [][]string{append(head, steps+"/s")}
	es := t.Estimates()
	for i, g := range t.Groups {
		e := es[i]
		row := []string{g.Name, fmt.Sprint(e.N), g.envSteps(t.At), e.String(), e.Interval(), figure(e.Least)}
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
		rows = append(rows, append(row, g.rate()))
	}
	return rows
}

// inIterations reports whether EnvSteps of all groups are iterations.
func inIterations(groups []Group) bool {
	return !slices.ContainsFunc(groups, func(g Group) bool {
		return slices.ContainsFunc(g.Runs, func(r Run) bool { return !r.Iterations })
	})
}

// envSteps tells after how many environment steps the figures are.
func (g *Group) envSteps(at float64) string {
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

// rate tells the mean number of environment steps per second.
func (g *Group) rate() string {
	var steps, seconds float64
	for _, r := range g.Runs {
		steps, seconds = steps+r.Last().EnvSteps, seconds+r.Last().Seconds
	}
	if !(seconds > 0) { // or unknown
		return ""
	}
	return fmt.Sprintf("%.0f", steps/seconds)
}
