package report

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A column is one column of a table.
type column struct {
	head  string
	width int // if negative, texts are aligned to the left
	text  func(*Row) string
}

// cell returns the text of a row in the column, or the head of the column if row is nil.
func (c column) cell(row *Row) string {
	if row == nil {
		return c.head
	}
	return c.text(row)
}

// A detail is a level of detail of the columns.
type detail uint8

const (
	narrow detail = iota // the most important columns, for terminals
	wide                 // all columns
	exact                // all columns, with all digits, for programs
)

// columns returns the columns of the report: keys, times, figures and wrong elements.
func (r *Report) columns(d detail) (cols []column) {
	number, nothing := short, "-"
	if d == exact {
		number, nothing = func(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }, ""
	}
	add := func(head string, width int, text func(*Row) string) { cols = append(cols, column{head, width, text}) }
	times := func(head string, width int, of func(*Row) float64) {
		add(head, width, func(row *Row) string { return number(of(row)) })
	}
	keys := r.keys(d)
	for _, k := range r.Keys {
		if r.shows(d, k) {
			cols = append(cols, keys[k])
		}
	}
	if d == narrow {
		times("med_us", 8, func(r *Row) float64 { return r.Median })
		add("±%", 5, (*Row).precision)
	} else {
		add("iters", 6, func(r *Row) string { return strconv.Itoa(len(r.Samples)) })
		times("min_us", 9, func(r *Row) float64 { return r.Min })
		times("med_us", 9, func(r *Row) float64 { return r.Median })
		if d == exact {
			times("ci_low_us", 0, func(r *Row) float64 { return r.CILow })
			times("ci_high_us", 0, func(r *Row) float64 { return r.CIHigh })
		} else {
			add("[     95% ci     ]", 18, func(r *Row) string {
				return fmt.Sprintf("[%7s, %7s]", short(r.CILow), short(r.CIHigh))
			})
		}
		times("p99_us", 9, func(r *Row) float64 { return r.P99 })
		times("max_us", 9, func(r *Row) float64 { return r.Max })
		times("skew_us", 8, func(r *Row) float64 { return r.Skew })
		times("cpu_us", 8, func(r *Row) float64 { return r.CPU })
	}
	for _, name := range r.Figures {
		if r.shows(d, name) {
			add(name, max(6, len(name)), func(r *Row) string {
				if x, ok := r.Figures[name]; ok {
					return number(x)
				}
				return nothing
			})
		}
	}
	add("#wrong", 6, func(r *Row) string {
		if r.Checked == 0 {
			return nothing
		}
		return strconv.FormatInt(r.Wrong, 10)
	})
	return cols
}

// keys returns the columns that identify a row.
func (r *Report) keys(d detail) map[string]column {
	op, width, size := 14, 10, func(r *Row) string { return strconv.FormatInt(r.Size, 10) }
	if !slices.Contains(r.Keys, "algo") && !slices.Contains(r.Keys, "size") { // the name is the only key
		op = 26
	}
	if d == narrow {
		width, size = 7, func(r *Row) string { return Bytes(r.Size) }
	}
	return map[string]column{
		"op":    {"op", -op, func(r *Row) string { return r.Op }},
		"algo":  {"algo", -13, func(r *Row) string { return r.Algorithm }},
		"n":     {"n", 4, func(r *Row) string { return strconv.Itoa(r.Ranks) }},
		"size":  {"size", width, size},
		"count": {"count", 10, func(r *Row) string { return strconv.FormatInt(r.Count, 10) }},
		"type":  {"type", 5, func(r *Row) string { return r.DType }},
		"redop": {"redop", 6, func(r *Row) string { return r.RedOp }},
		"root":  {"root", 6, func(r *Row) string { return r.Root }},
		"mem":   {"mem", -10, func(r *Row) string { return r.Memory }},
	}
}

// shows reports whether the table has a column for this key or figure.
func (r *Report) shows(d detail, name string) bool {
	return d != narrow || len(r.Brief) == 0 || slices.Contains(r.Brief, name)
}

// precision returns the distance of the median from the farther end of its interval, in per cent of the median.
func (r *Row) precision() string {
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
func table(d detail) form {
	line := func(r *Report, row *Row) string {
		text := " "
		if row == nil {
			text = "#"
		}
		for _, c := range r.columns(d) {
			text += fmt.Sprintf(" %*s", c.width, c.cell(row))
		}
		return strings.TrimRight(text, " ") + "\n"
	}
	return form{
		begin: func(r *Report) string { return lines("# ", r.header(d)) + line(r, nil) },
		row:   line,
		end:   func(r *Report) (string, error) { return lines("# ", r.footer(d)), nil },
	}
}

// commaSeparated returns the CSV form: the columns with all digits of the numbers, without header and footer.
func commaSeparated() form {
	line := func(r *Report, row *Row) string {
		var cells []string
		for _, c := range r.columns(exact) {
			cells = append(cells, c.cell(row))
		}
		return strings.Join(cells, ",") + "\n" // names and numbers contain no commas or quotes
	}
	return form{begin: func(r *Report) string { return strings.ReplaceAll(line(r, nil), "#", "") }, row: line}
}

// markdown returns the form for documents.
func markdown() form {
	line := func(r *Report, row *Row) string {
		text := "|"
		for _, c := range r.columns(wide) {
			text += " " + strings.Join(strings.Fields(c.cell(row)), " ") + " |"
		}
		return text + "\n"
	}
	return form{
		begin: func(r *Report) string {
			numbers := len(r.columns(wide)) - len(r.Keys)
			return lines("    ", r.header(wide)) + "\n" + line(r, nil) +
				"|" + strings.Repeat("---|", len(r.Keys)) + strings.Repeat("---:|", numbers) + "\n"
		},
		row: line,
		end: func(r *Report) (string, error) { return "\n" + lines("    ", r.footer(wide)), nil },
	}
}

// lines returns a text with one line for each entry of list. Each line begins with mark.
func lines(mark string, list []string) string {
	text := ""
	for _, line := range list {
		text += mark + line + "\n"
	}
	return text
}

// footer returns the lines that follow the rows.
func (r *Report) footer(d detail) []string {
	var lines []string
	for _, f := range r.Fits {
		lines = append(lines, fmt.Sprintf("fit %s: %s us x %s + S x %s / %s GB/s, residual %.0f %% over %s",
			f.Name(), short(f.Alpha), f.Rounds, f.Bytes, rate(f.Beta), 100*f.Residual, plural(f.Points, "point")))
		if d == narrow {
			continue
		}
		ranks := 0
		list := func(n int, what, item string) {
			if n != ranks {
				ranks = n
				lines = append(lines, fmt.Sprintf("    n=%d, %s:", n, what))
			} else {
				lines[len(lines)-1] += ","
			}
			lines[len(lines)-1] += " " + item
		}
		for _, row := range r.Rows {
			if x, ok := row.Figures["model_x"]; ok && row.Series() == f.Series {
				list(row.Ranks, "measured/fitted", fmt.Sprintf("%s %.2f", Bytes(row.Size), x))
			}
		}
		for _, p := range f.Predictions {
			list(p.Ranks, "predicted us", Bytes(p.Size)+" "+short(p.TimeUS))
		}
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
			plural(checked, "call")))
	case checked > 0:
		lines = append(lines, fmt.Sprintf("results: all right, of %s checked", plural(checked, "call")))
	}
	state := "complete"
	if !r.Complete {
		state = "*** interrupted: this is what was measured until then ***"
	}
	return append(lines, fmt.Sprintf("ended: %s, %s, %s", r.Ended.UTC().Format(time.RFC3339),
		plural(len(r.Rows), "row"), state))
}

// rate formats a time per byte, in microseconds, as a rate in 10⁹ bytes per second.
func rate(beta float64) string {
	if beta <= 0 {
		return "∞"
	}
	return short(1e-3 / beta)
}
