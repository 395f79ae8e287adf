package report

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
)

// A column is what a table shows of a row.
type column struct {
	head  string
	width int
	text  func(*Row) string
}

// A form is how much the columns show.
type form uint8

const (
	narrow form = iota // what most readers want, for terminals
	wide               // everything
	exact              // everything, with numbers in full, for programs
)

// columns are those of the report: what a row is about, its times, its figures, what was wrong.
func (r *Report) columns(f form) []column {
	number := short
	if f == exact {
		number = func(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }
	}
	op := 14
	if !slices.Contains(r.Keys, "algo") && !slices.Contains(r.Keys, "size") { // the name is all there is
		op = 26
	}
	keys := map[string]column{
		"op":    {"op", op, func(r *Row) string { return r.Op }},
		"algo":  {"algo", 13, func(r *Row) string { return r.Algorithm }},
		"n":     {"n", 4, func(r *Row) string { return strconv.Itoa(r.Ranks) }},
		"size":  {"size", 10, func(r *Row) string { return strconv.FormatInt(r.Size, 10) }},
		"count": {"count", 10, func(r *Row) string { return strconv.FormatInt(r.Count, 10) }},
		"type":  {"type", 5, func(r *Row) string { return r.DType }},
		"redop": {"redop", 6, func(r *Row) string { return r.RedOp }},
		"root":  {"root", 6, func(r *Row) string { return r.Root }},
		"mem":   {"mem", 10, func(r *Row) string { return r.Memory }},
	}
	var cols []column
	for _, k := range r.Keys {
		if f == narrow {
			keys["size"] = column{"size", 7, func(r *Row) string { return Bytes(r.Size) }}
		}
		if r.shows(f, k) {
			cols = append(cols, keys[k])
		}
	}
	times := func(head string, width int, of func(*Row) float64) {
		cols = append(cols, column{head, width, func(row *Row) string { return number(of(row)) }})
	}
	if f == narrow {
		times("med_us", 8, func(r *Row) float64 { return r.Median })
		cols = append(cols, column{"±%", 5, (*Row).precision})
		return append(cols, r.figures(f, number)...)
	}
	cols = append(cols, column{"iters", 6, func(r *Row) string { return strconv.Itoa(len(r.Samples)) }})
	times("min_us", 9, func(r *Row) float64 { return r.Min })
	times("med_us", 9, func(r *Row) float64 { return r.Median })
	if f == exact {
		times("ci_low_us", 0, func(r *Row) float64 { return r.CILow })
		times("ci_high_us", 0, func(r *Row) float64 { return r.CIHigh })
	} else {
		cols = append(cols, column{"[     95% ci     ]", 18, func(r *Row) string {
			return fmt.Sprintf("[%7s, %7s]", short(r.CILow), short(r.CIHigh))
		}})
	}
	times("p99_us", 9, func(r *Row) float64 { return r.P99 })
	times("max_us", 9, func(r *Row) float64 { return r.Max })
	times("skew_us", 8, func(r *Row) float64 { return r.Skew })
	times("cpu_us", 8, func(r *Row) float64 { return r.CPU })
	return append(cols, r.figures(f, number)...)
}

// figures are the columns of the figures, and of what was wrong.
func (r *Report) figures(f form, number func(float64) string) []column {
	nothing := "-"
	if f == exact {
		nothing = ""
	}
	var cols []column
	for _, name := range r.Figures {
		if !r.shows(f, name) {
			continue
		}
		cols = append(cols, column{name, max(6, len(name)), func(r *Row) string {
			if x, ok := r.Figures[name]; ok {
				return number(x)
			}
			return nothing
		}})
	}
	return append(cols, column{"#wrong", 6, func(r *Row) string {
		if r.Checked == 0 {
			return nothing
		}
		return strconv.FormatInt(r.Wrong, 10)
	}})
}

// shows reports whether a form has the column of a key or a figure.
func (r *Report) shows(f form, name string) bool {
	return f != narrow || len(r.Brief) == 0 || slices.Contains(r.Brief, name)
}

// precision is the larger distance of the ends of the median's interval from it, in per cent.
func (r *Row) precision() string {
	if !(r.Median > 0) || len(r.Samples) < 2 {
		return "-"
	}
	if part := 100 * max(r.Median-r.CILow, r.CIHigh-r.Median) / r.Median; part < 1000 {
		return fmt.Sprintf("%.1f", part)
	}
	return ">999"
}

// short writes x with four digits, or all those before the point.
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

// table is the form for terminals: narrow unless it is wide.
type table struct {
	w    io.Writer
	wide bool
}

func (t *table) form() form {
	if t.wide {
		return wide
	}
	return narrow
}

func (t *table) Begin(r *Report) error {
	var b strings.Builder
	for _, line := range r.header(t.form()) {
		b.WriteString("# " + line + "\n")
	}
	b.WriteString("#")
	t.line(&b, r, func(c column) string { return c.head })
	_, err := io.WriteString(t.w, b.String())
	return err
}

func (t *table) Row(r *Report, row *Row) error {
	var b strings.Builder
	b.WriteString(" ")
	t.line(&b, r, func(c column) string { return c.text(row) })
	_, err := io.WriteString(t.w, b.String())
	return err
}

func (t *table) line(b *strings.Builder, r *Report, text func(column) string) {
	for _, c := range r.columns(t.form()) {
		width := c.width
		if c.head == "op" || c.head == "algo" || c.head == "mem" {
			width = -width // names to the left
		}
		fmt.Fprintf(b, " %*s", width, text(c))
	}
	trimmed := strings.TrimRight(b.String(), " ")
	b.Reset()
	b.WriteString(trimmed + "\n")
}

func (t *table) End(r *Report) error {
	var b strings.Builder
	for _, line := range r.footer(t.form()) {
		b.WriteString("# " + line + "\n")
	}
	_, err := io.WriteString(t.w, b.String())
	return err
}

// footer returns the lines that follow the rows.
func (r *Report) footer(form form) []string {
	var lines []string
	for _, f := range r.Fits {
		name := strings.Join(strings.Fields(strings.Join([]string{f.Op, f.Algorithm, f.DType, f.Memory}, " ")), " ")
		line := fmt.Sprintf("fit %s: %s us x %s + S x %s / %s GB/s, residual %.0f %% over %s", name, short(f.Alpha),
			f.Rounds, f.Bytes,
			rate(f.Beta), 100*f.Residual, plural(f.Points, "point"))
		lines = append(lines, line)
		if form == narrow {
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
			if x, ok := row.Figures["model_x"]; ok && row.Op == f.Op && row.Algorithm == f.Algorithm &&
				row.DType == f.DType && row.Memory == f.Memory {
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
	return append(lines, fmt.Sprintf("ended: %s, %s, %s", r.Ended.UTC().Format("2006-01-02T15:04:05Z07:00"),
		plural(len(r.Rows), "row"), state))
}

// rate writes a time per byte, in microseconds, as 10⁹ bytes per second.
func rate(beta float64) string {
	if beta <= 0 {
		return "∞"
	}
	return short(1e-3 / beta)
}

// csvForm is the columns of the table, numbers in full, without header and footer.
type csvForm struct{ w io.Writer }

func (f *csvForm) Begin(r *Report) error {
	return f.line(r, func(c column) string { return strings.TrimPrefix(c.head, "#") })
}

func (f *csvForm) Row(r *Report, row *Row) error {
	return f.line(r, func(c column) string { return c.text(row) })
}

func (f *csvForm) End(*Report) error { return nil }

func (f *csvForm) line(r *Report, text func(column) string) error {
	var cells []string
	for _, c := range r.columns(exact) {
		cells = append(cells, text(c))
	}
	_, err := fmt.Fprintln(f.w, strings.Join(cells, ",")) // no cell has a comma or a quote: names and numbers
	return err
}

// markdown is the table for documents.
type markdown struct{ w io.Writer }

func (m *markdown) Begin(r *Report) error {
	var b strings.Builder
	for _, line := range r.header(wide) {
		b.WriteString("    " + line + "\n")
	}
	b.WriteString("\n|")
	cols := r.columns(wide)
	for _, c := range cols {
		b.WriteString(" " + strings.Join(strings.Fields(c.head), " ") + " |")
	}
	b.WriteString("\n|")
	for i := range cols {
		if i < len(r.Keys) {
			b.WriteString("---|")
		} else {
			b.WriteString("---:|")
		}
	}
	_, err := fmt.Fprintln(m.w, b.String())
	return err
}

func (m *markdown) Row(r *Report, row *Row) error {
	var b strings.Builder
	b.WriteString("|")
	for _, c := range r.columns(wide) {
		b.WriteString(" " + strings.Join(strings.Fields(c.text(row)), " ") + " |")
	}
	_, err := fmt.Fprintln(m.w, b.String())
	return err
}

func (m *markdown) End(r *Report) error {
	var b strings.Builder
	b.WriteString("\n")
	for _, line := range r.footer(wide) {
		b.WriteString("    " + line + "\n")
	}
	_, err := io.WriteString(m.w, b.String())
	return err
}
