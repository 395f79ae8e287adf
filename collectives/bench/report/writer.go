package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// A Writer writes a report in one form while it grows.
type Writer interface {
	Begin(r *Report) error
	Row(r *Report, row *Row) error // row has just been measured
	End(r *Report) error
}

// Write writes a whole report.
func Write(w Writer, r *Report) error {
	err := w.Begin(r)
	for i := range r.Rows {
		err = errors.Join(err, w.Row(r, &r.Rows[i]))
	}
	return errors.Join(err, w.End(r))
}

// Formats are the names that NewWriter knows.
func Formats() []string { return []string{"table", "wide", "csv", "json", "md", "osu", "nccl"} }

// NewWriter returns a Writer of a form, for a benchmark: the layouts of OSU and of nccl-tests have
// no place for some.
func NewWriter(format, bench string, w io.Writer) (Writer, error) {
	switch format {
	case "table":
		return &table{w: w}, nil
	case "wide":
		return &table{w: w, wide: true}, nil
	case "csv":
		return &csvForm{w: w}, nil
	case "json":
		return &jsonForm{w: w}, nil
	case "md":
		return &markdown{w: w}, nil
	case "osu":
		if bench == "collectives" || bench == "p2p" || bench == "overlap" {
			return &osu{w: w}, nil
		}
		return nil, fmt.Errorf("format osu: there is no such benchmark as %s in OSU's: expected table, wide, csv, "+
			"json or md", bench)
	case "nccl":
		if bench == "collectives" {
			return &nccl{w: w}, nil
		}
		return nil, fmt.Errorf("format nccl: nccl-tests has collectives only, not %s: expected table, wide, csv, json "+
			"or md", bench)
	}
	return nil, fmt.Errorf("format %q: expected one of %s", format, strings.Join(Formats(), ", "))
}

// jsonForm writes everything, once it is there.
type jsonForm struct{ w io.Writer }

func (f *jsonForm) Begin(*Report) error     { return nil }
func (f *jsonForm) Row(*Report, *Row) error { return nil }
func (f *jsonForm) End(r *Report) error {
	// Rows on lines of their own: thousands of samples, one below the other, are of use to nobody.
	text, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	_, err = fmt.Fprintf(f.w, "%s\n", strings.ReplaceAll(string(text), `{"op":`, "\n"+`{"op":`))
	return err
}
