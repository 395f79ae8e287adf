package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rlinf/rlinf/collectives/bench/stats"
	"github.com/rlinf/rlinf/internal/figures"
)

// A Trend classifies the change of a row from one report to another.
type Trend string

const (
	Slower Trend = "REGRESSION" // by more than the threshold; the starts show that this is not chance
	Faster Trend = "faster"     // by more than the threshold; the starts show that this is not chance
	Within Trend = "within"     // the medians differ by less than the threshold
	Noise  Trend = "noise"      // the medians differ by more, but this may be chance
	// The medians and the samples differ, but starts of one program may differ as much, and there are too few starts to
	// know.
	Unclear Trend = "one start"
)

// Significance is the limit of the p-value. If p is smaller, a difference counts as real and not as chance.
const Significance = 0.01

// A Change compares a row that both reports have.
type Change struct {
	Key      string
	Old, New float64 // medians, in microseconds
	// Ratio is New/Old, and [Low, High] is its interval over starts (see stats.RatioInterval). Without an interval, Low
	// and High are 0.
	Ratio, Low, High float64
	Verdict          Trend
}

// A Comparison is the result of Compare.
type Comparison struct {
	Changes  []Change
	starts   [2]int   // number of starts in the old and in the new report
	OnlyOld  []string // keys of rows that only the old report has
	OnlyNew  []string // keys of rows that only the new report has
	Warnings []string // reasons why the two reports may not be comparable
	limit    float64  // the threshold
}

// Compare compares the rows that both reports have. Medians that differ by a smaller fraction than threshold count as
// equal: 0.05 means 5 %.
func Compare(before, after *Report, threshold float64) Comparison {
	c := Comparison{limit: threshold, starts: [2]int{before.Starts(), after.Starts()}}
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
	old := map[string]*Measurement{}
	for _, row := range before.rows() {
		old[row.Key()] = row
	}
	for _, now := range after.rows() {
		key := now.Key()
		was := old[key]
		if was == nil {
			c.OnlyNew = append(c.OnlyNew, key)
			continue
		}
		delete(old, key)
		c.Changes = append(c.Changes, compareRows(was, now, threshold))
	}
	c.OnlyOld = slices.Sorted(maps.Keys(old))
	return c
}

// compareRows returns the change of one row, with its verdict.
func compareRows(was, now *Measurement, threshold float64) Change {
	ch := Change{Key: now.Key(), Old: was.Median, New: now.Median, Ratio: now.Median / was.Median}
	ratio, low, high, known := stats.RatioInterval(now.medians(), was.medians())
	if known {
		ch.Ratio, ch.Low, ch.High = ratio, low, high
	}
	_, p := stats.MannWhitney(now.Samples, was.Samples)
	switch slower, faster := ch.Ratio > 1+threshold, 1 > ch.Ratio*(1+threshold); {
	case !slower && !faster:
		ch.Verdict = Within
	case !known && p < Significance:
		ch.Verdict = Unclear
	case !known, low <= 1 && high >= 1:
		ch.Verdict = Noise
	case slower:
		ch.Verdict = Slower
	default:
		ch.Verdict = Faster
	}
	return ch
}

func (m *Platform) cpus() string {
	var models []string
	for _, h := range m.Hosts {
		models = append(models, h.CPU)
	}
	return strings.Join(Distinct(models), ", ")
}

// Regressions returns the number of rows with the verdict Slower.
func (c *Comparison) Regressions() int {
	n := 0
	for _, ch := range c.Changes {
		if ch.Verdict == Slower {
			n++
		}
	}
	return n
}

// String returns a line for every row, then a summary line.
func (c *Comparison) String() string {
	var b strings.Builder
	for _, text := range c.Warnings {
		fmt.Fprintf(&b, "# compare: not the same conditions: %s\n", text)
	}
	width := 10
	for _, ch := range c.Changes {
		width = max(width, len(ch.Key))
	}
	fmt.Fprintf(&b, "# %-*s %10s %10s %8s %18s  verdict\n", width, "compare", "old med_us", "new med_us", "change",
		"[     95% ci     ]")
	counts := map[Trend]int{}
	for _, ch := range c.Changes {
		counts[ch.Verdict]++
		ci := "-"
		if ch.High > 0 {
			ci = fmt.Sprintf("[%+6.1f%%, %+6.1f%%]", 100*(ch.Low-1), 100*(ch.High-1))
		}
		fmt.Fprintf(&b, "  %-*s %10s %10s %+7.1f%% %18s  %s\n", width, ch.Key, short(ch.Old), short(ch.New),
			100*(ch.Ratio-1), ci, ch.Verdict)
	}
	for _, key := range c.OnlyOld {
		fmt.Fprintf(&b, "  %-*s only in the old report\n", width, key)
	}
	for _, key := range c.OnlyNew {
		fmt.Fprintf(&b, "  %-*s only in this report\n", width, key)
	}
	fmt.Fprintf(&b, "# compare: %d slower, %d faster, %d within ±%g %%, %d noise, %d not to be told; %s before, "+
		"%s now\n", counts[Slower], counts[Faster], counts[Within], 100*c.limit, counts[Noise], counts[Unclear],
		figures.Count(c.starts[0], "start"), figures.Count(c.starts[1], "start"))
	if counts[Unclear] > 0 {
		b.WriteString("# compare: two starts of one program may differ as much. Measure both with --starts 5.\n")
	}
	return b.String()
}
