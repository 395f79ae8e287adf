package report

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/rlinf/rlinf/collectives/bench/stats"
)

// A Verdict says what a row's times did from one report to another.
type Verdict string

const (
	Slower Verdict = "REGRESSION" // slower by more than the threshold, and the rank test says that it is no accident
	Faster Verdict = "faster"     // the same the other way round
	Within Verdict = "within"     // differs by less than the threshold
	// medians differ by more than the threshold, but the samples do not show that the times do
	Noise Verdict = "noise"
)

// Significance is the probability below which a difference is no accident.
const Significance = 0.01

// A Change is a row that both reports have.
type Change struct {
	Key      string
	Old, New float64 // medians, in microseconds
	P        float64 // of the rank test; see stats.MannWhitney
	Verdict  Verdict
}

// A Comparison is what Compare found.
type Comparison struct {
	Changes  []Change
	OnlyOld  []string // keys of rows that the other report has not
	OnlyNew  []string
	Warnings []string // why the two may not be comparable at all
	limit    float64
}

// Compare compares the rows that both reports have. threshold is the part by which a median must
// differ to matter: 0.05 is 5 %.
func Compare(before, after *Report, threshold float64) Comparison {
	c := Comparison{limit: threshold}
	if before.Bench != after.Bench {
		c.Warnings = append(c.Warnings, fmt.Sprintf("the old report is of bench %s, this one of bench %s", before.Bench,
			after.Bench))
	}
	differ := func(what, was, is string) {
		if was != is {
			c.Warnings = append(c.Warnings, fmt.Sprintf("%s: was %q, is %q", what, was, is))
		}
	}
	differ("CPU", before.Machine.cpus(), after.Machine.cpus())
	differ("transport", before.Machine.Transport, after.Machine.Transport)
	differ("MPI library", before.Machine.Library, after.Machine.Library)
	differ("ranks per CPU", fmt.Sprintf("%.2g", before.Machine.Load()), fmt.Sprintf("%.2g", after.Machine.Load()))
	old := map[string]*Row{}
	for i := range before.Rows {
		old[before.Rows[i].Key()] = &before.Rows[i]
	}
	for i := range after.Rows {
		now := &after.Rows[i]
		key := now.Key()
		was := old[key]
		if was == nil {
			c.OnlyNew = append(c.OnlyNew, key)
			continue
		}
		delete(old, key)
		ch := Change{Key: key, Old: was.Median, New: now.Median}
		_, ch.P = stats.MannWhitney(now.Samples, was.Samples)
		switch slower, faster := now.Median > was.Median*(1+threshold), was.Median > now.Median*(1+threshold); {
		case !slower && !faster:
			ch.Verdict = Within
		case ch.P >= Significance:
			ch.Verdict = Noise
		case slower:
			ch.Verdict = Slower
		default:
			ch.Verdict = Faster
		}
		c.Changes = append(c.Changes, ch)
	}
	for key := range old {
		c.OnlyOld = append(c.OnlyOld, key)
	}
	slices.Sort(c.OnlyOld)
	return c
}

func (m *Machine) cpus() string {
	var models []string
	for _, h := range m.Hosts {
		if !slices.Contains(models, h.CPU) {
			models = append(models, h.CPU)
		}
	}
	return strings.Join(models, ", ")
}

// Regressions returns how many rows are slower.
func (c *Comparison) Regressions() int {
	n := 0
	for _, ch := range c.Changes {
		if ch.Verdict == Slower {
			n++
		}
	}
	return n
}

// Write writes a line for every row, and one that sums up.
func (c *Comparison) Write(w io.Writer) error {
	var b strings.Builder
	for _, text := range c.Warnings {
		fmt.Fprintf(&b, "# compare: not the same conditions: %s\n", text)
	}
	width := 10
	for _, ch := range c.Changes {
		width = max(width, len(ch.Key))
	}
	fmt.Fprintf(&b, "# %-*s %10s %10s %8s %9s  verdict\n", width, "compare", "old med_us", "new med_us", "change", "p")
	counts := map[Verdict]int{}
	for _, ch := range c.Changes {
		counts[ch.Verdict]++
		fmt.Fprintf(&b, "  %-*s %10s %10s %+7.1f%% %9.2g  %s\n", width, ch.Key, short(ch.Old), short(ch.New),
			100*(ch.New/ch.Old-1), ch.P, ch.Verdict)
	}
	for _, key := range c.OnlyOld {
		fmt.Fprintf(&b, "  %-*s only in the old report\n", width, key)
	}
	for _, key := range c.OnlyNew {
		fmt.Fprintf(&b, "  %-*s only in this report\n", width, key)
	}
	fmt.Fprintf(&b, "# compare: %d slower, %d faster, %d within ±%g %%, %d noise (p >= %g by Mann-Whitney)\n",
		counts[Slower], counts[Faster], counts[Within], 100*c.limit, counts[Noise], Significance)
	_, err := io.WriteString(w, b.String())
	return err
}
