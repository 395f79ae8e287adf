package report

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// A Writer writes a report in one form. It can write the rows while they are measured.
type Writer struct {
	to    io.Writer
	form  form
	begun bool
	rows  int // number of rows written
}

// A form has a function for each part of a report. A part without a function is left out.
type form struct {
	begin func(r *Report) string
	row   func(r *Report, row *Measurement) string
	end   func(r *Report) (string, error)
}

// Formats returns the names of the formats.
func Formats() []string { return []string{"table", "csv", "json"} }

// removed has the formats of earlier versions, with the format to use instead.
var removed = map[string]string{"wide": "csv", "md": "csv", "osu": "json", "nccl": "json"}

// NewWriter returns a Writer that writes to the given io.Writer, in the named format. It returns an error if the name
// is not one of Formats.
func NewWriter(format string, to io.Writer) (*Writer, error) {
	f, ok := map[string]form{"table": table(), "csv": commaSeparated(), "json": {end: (*Report).json}}[format]
	if other := removed[format]; other != "" {
		return nil, fmt.Errorf("format %q: it was removed: expected %s", format, other)
	}
	if !ok {
		return nil, fmt.Errorf("format %q: expected one of %s", format, strings.Join(Formats(), ", "))
	}
	return &Writer{to: to, form: f}, nil
}

// Update writes the header, if this is the first call, and the rows that the last call did not write.
func (w *Writer) Update(r *Report) error {
	var b strings.Builder
	if !w.begun && w.form.begin != nil {
		b.WriteString(w.form.begin(r))
	}
	w.begun = true
	for ; w.rows < len(r.Rows) && w.form.row != nil; w.rows++ {
		b.WriteString(w.form.row(r, &r.Rows[w.rows]))
	}
	_, err := io.WriteString(w.to, b.String())
	return err
}

// End calls Update, and writes the part after the rows.
func (w *Writer) End(r *Report) error {
	if err := w.Update(r); err != nil || w.form.end == nil {
		return err
	}
	text, err := w.form.end(r)
	if err == nil {
		_, err = io.WriteString(w.to, text)
	}
	return err
}

// json returns the whole report as JSON.
func (r *Report) json() (string, error) {
	// Each row gets one line. With indentation each of its thousands of samples would get a line.
	text, err := json.Marshal(r)
	if err != nil {
		return "", fmt.Errorf("report: %w", err)
	}
	return strings.ReplaceAll(string(text), `{"op":`, "\n"+`{"op":`) + "\n", nil
}
