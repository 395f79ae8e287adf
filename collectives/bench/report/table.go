package report

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rlinf/rlinf/internal/figures"
)

// A column is one column of a table.
type column struct {
	head  string
	width int // if negative, texts are aligned to the left
	text  func(*Measurement) string
}

// cell returns the text of a row in the column, or the head of the column if row is nil.
func (c column) cell(row *Measurement) string {
	if row == nil {
		return c.head
	}
	return c.text(row)
}

// columns returns the columns of the report: keys, times, figures and wrong elements. If exact is true, they are all
// columns with all digits, for programs. Otherwise they are the most important columns, for terminals.
func (r *Report) columns(exact bool) (cols []column) {
	number, nothing := short, "-"
	if exact {
		number, nothing = func(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }, ""
	}
	shown := func(name string) bool { return exact || len(r.Brief) == 0 || slices.Contains(r.Brief, name) }
	add := func(head string, width int, text func(*Measurement) string) {
		cols = append(cols, column{head, width, text})
	}
	times := func(head string, of func(*Measurement) float64) {
		add(head, 8, func(row *Measurement) string { return number(of(row)) })
	}
	keys := r.keys(exact)
	for _, k := range r.Keys {
		if shown(k) {
			cols = append(cols, keys[k])
		}
	}
	if exact {
		add("iters", 0, func(r *Measurement) string { return strconv.Itoa(len(r.Samples)) })
		times("min_us", func(r *Measurement) float64 { return r.Min })
	}
	times("med_us", func(r *Measurement) float64 { return r.Median })
	if exact {
		times("ci_low_us", func(r *Measurement) float64 { return r.CILow })
		times("ci_high_us", func(r *Measurement) float64 { return r.CIHigh })
		times("p99_us", func(r *Measurement) float64 { return r.P99 })
		times("max_us", func(r *Measurement) float64 { return r.Max })
		times("skew_us", func(r *Measurement) float64 { return r.Skew })
		times("cpu_us", func(r *Measurement) float64 { return r.CPU })
	} else {
		add("±%", 5, (*Measurement).precision)
	}
	for _, name := range r.Figures {
		if shown(name) {
			add(name, max(6, len(name)), func(r *Measurement) string {
				if x, ok := r.Figures[name]; ok {
					return number(x)
				}
				return nothing
			})
		}
	}
	add("#wrong", 6, func(r *Measurement) string {
		if r.Checked == 0 {
			return nothing
		}
		return strconv.FormatInt(r.Wrong, 10)
	})
	return cols
}

// keys returns the columns that identify a row.
func (r *Report) keys(exact bool) map[string]column {
	op, size := 14, func(r *Measurement) string { return Bytes(r.Size) }
	if !slices.Contains(r.Keys, "algo") && !slices.Contains(r.Keys, "size") { // the name is the only key
		op = 26
	}
	if exact {
		size = func(r *Measurement) string { return strconv.FormatInt(r.Size, 10) }
	}
	return map[string]column{
		"op":    {"op", -op, func(r *Measurement) string { return r.Op }},
		"algo":  {"algo", -13, func(r *Measurement) string { return r.Algorithm }},
		"n":     {"n", 4, func(r *Measurement) string { return strconv.Itoa(r.Ranks) }},
		"size":  {"size", 7, size},
		"count": {"count", 10, func(r *Measurement) string { return strconv.FormatInt(r.Count, 10) }},
		"type":  {"type", 5, func(r *Measurement) string { return r.DType }},
		"redop": {"redop", 6, func(r *Measurement) string { return r.RedOp }},
		"root":  {"root", 6, func(r *Measurement) string { return r.Root }},
		"mem":   {"mem", -10, func(r *Measurement) string { return r.Memory }},
	}
}

// precision returns the distance of the median from the farther end of its interval, in per cent of the median.
func (r *Measurement) precision() string {
	if !(r.Median > 0) || len(r.Samples) < 2 {
		return "-"
	}
	if part := 100 * max(r.Median-r.CILow, r.CIHigh-r.Median) / r.Median; part < 1000 {
		return fmt.Sprintf("%.1f", part)
	}
	return ">999"
}

// short formats x with four digits, or with all digits before the point if there are more.
func short(x float64) string {
	switch a := math.Abs(x); {
	case a >= 1000:
		return strconv.FormatFloat(x, 'f', 0, 64)
	case a >= 100:
		return strconv.FormatFloat(x, 'f', 1, 64)
	case a >= 10:
		return strconv.FormatFloat(x, 'f', 2, 64)
	case a >= 0.001 || a == 0:
		return strconv.FormatFloat(x, 'f', 3, 64)
	}
	return strconv.FormatFloat(x, 'g', 2, 64)
}

// table returns the form for terminals.
func table() form {
	line := func(r *Report, row *Measurement) string {
		text := " "
		if row == nil {
			text = "#"
		}
		for _, c := range r.columns(false) {
			text += fmt.Sprintf(" %*s", c.width, c.cell(row))
		}
		return strings.TrimRight(text, " ") + "\n"
	}
	return form{
		begin: func(r *Report) string { return comments(r.header()) + line(r, nil) },
		row:   line,
		end:   func(r *Report) (string, error) { return comments(r.footer()), nil },
	}
}

// comments returns a text with one line for each entry of list. Each line begins with "# ".
func comments(list []string) string { return "# " + strings.Join(list, "\n# ") + "\n" }

// commaSeparated returns the CSV form: the columns with all digits of the numbers, without header and footer.
func commaSeparated() form {
	line := func(r *Report, row *Measurement) string {
		var cells []string
		for _, c := range r.columns(true) {
			cells = append(cells, c.cell(row))
		}
		return strings.Join(cells, ",") + "\n" // names and numbers contain no commas or quotes
	}
	return form{begin: func(r *Report) string { return strings.ReplaceAll(line(r, nil), "#", "") }, row: line}
}

// footer returns the lines that follow the rows.
func (r *Report) footer() []string {
	var lines []string
	for _, f := range r.Fits {
		lines = append(lines, fmt.Sprintf("fit %s: %s us x %s + S x %s / %s GB/s, residual %.0f %% over %s",
			f.Name(), short(f.Alpha), f.Rounds, f.Bytes, rate(f.Beta), 100*f.Residual,
			figures.Count(f.Points, "point")))
	}
	lines = append(lines, r.Notes...)
	checked, wrong := 0, int64(0)
	for _, row := range r.Rows {
		checked += row.Checked
		wrong += row.Wrong
	}
	switch {
	case wrong > 0:
		lines = append(lines, fmt.Sprintf("*** WRONG RESULTS: %d elements in %s checked ***", wrong,
			figures.Count(checked, "call")))
	case checked > 0:
		lines = append(lines, fmt.Sprintf("results: all right, of %s checked", figures.Count(checked, "call")))
	}
	state := "complete"
	if !r.Complete {
		state = "*** interrupted: this is what was measured until then ***"
	}
	return append(lines, fmt.Sprintf("ended: %s, %s, %s", r.Ended.UTC().Format(time.RFC3339),
		figures.Count(len(r.Rows), "row"), state))
}

// rate formats a time per byte, in microseconds, as a rate in 10⁹ bytes per second.
func rate(beta float64) string {
	if beta <= 0 {
		return "∞"
	}
	return short(1e-3 / beta)
}
