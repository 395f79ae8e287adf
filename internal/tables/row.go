package tables

import (
	"fmt"
	"strings"

	"github.com/parquet-go/parquet-go"
)

// A Row has the values of some columns in one row.
type Row struct {
	columns []string
	values  []parquet.Row
	floats  []float64
}

// Each calls handle for each row, with the values of the given columns. It reads no other columns. The row and its
// values are valid until handle returns.
func (t *Table) Each(columns []string, handle func(*Row) error) error {
	leaves := make([]int, len(columns))
	for i, c := range columns {
		if leaves[i] = t.leaf(c); leaves[i] < 0 {
			return fmt.Errorf("%s: no column %s of numbers, texts or bytes: it has %s", t.path, c,
				strings.Join(t.Columns(), ", "))
		}
	}
	r := Row{columns: columns}
	return t.scan(leaves, func(_ int, values []parquet.Row) error {
		r.values = values
		return handle(&r)
	})
}

// Numbers returns the n numbers of a column, which may be a list, or a list of lists. Booleans are 0 and 1. The result
// is valid until the next call.
func (r *Row) Numbers(column, n int) ([]float64, error) {
	r.floats = r.floats[:0]
	for _, v := range r.values[column] {
		switch v.Kind() {
		case parquet.Boolean:
			r.floats = append(r.floats, 0)
			if v.Boolean() {
				r.floats[len(r.floats)-1] = 1
			}
		case parquet.Int32, parquet.Int64:
			r.floats = append(r.floats, float64(v.Int64()))
		case parquet.Float:
			r.floats = append(r.floats, float64(v.Float()))
		case parquet.Double:
			r.floats = append(r.floats, v.Double())
		default:
			return nil, fmt.Errorf("column %s is %.20q: expected %d numbers", r.columns[column], v.String(), n)
		}
	}
	if len(r.floats) != n {
		return nil, fmt.Errorf("column %s has %d numbers: expected %d", r.columns[column], len(r.floats), n)
	}
	return r.floats, nil
}

// Only returns the number of a column that has exactly one number.
func (r *Row) Only(column int) (float64, error) {
	x, err := r.Numbers(column, 1)
	if err != nil {
		return 0, err
	}
	return x[0], nil
}

// Bytes returns the value of a column of bytes or text, as bytes.
func (r *Row) Bytes(column int) ([]byte, error) {
	if v := r.values[column][0]; len(r.values[column]) == 1 && v.Kind() == parquet.ByteArray {
		return v.ByteArray(), nil
	}
	return nil, fmt.Errorf("column %s is %.20q: expected bytes", r.columns[column], r.values[column][0].String())
}
