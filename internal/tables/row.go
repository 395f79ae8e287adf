package tables

import (
	"fmt"
	"strings"

	"github.com/parquet-go/parquet-go"
)

// A Row has the values of some columns in one row.
type Row struct {
	Number  int // counts from 1
	columns []string
	values  [][]parquet.Value
	floats  []float64
}

// Has reports whether the table has a column with one kind of values. The name may lead into a struct, as in
// "image.bytes".
func (t *Table) Has(column string) bool { return t.leafOf(column) >= 0 }

// leafOf returns the only leaf of a column, or -1.
func (t *Table) leafOf(column string) int {
	return leafIn(t.root, column)
}

func leafIn(nodes []*node, column string) int {
	for _, n := range nodes {
		if n.name == column && n.end-n.first == 1 {
			return n.first
		}
	}
	for _, n := range nodes {
		if strings.HasPrefix(column, n.name+".") {
			if leaf := leafIn(n.children, column); leaf >= 0 {
				return leaf
			}
		}
	}
	return -1
}

// Each calls handle for each row with the values of some columns, and reads no others. The row and its values are valid
// until handle returns.
func (t *Table) Each(columns []string, handle func(*Row) error) error {
	leaves := make([]int, len(columns))
	for i, c := range columns {
		if leaves[i] = t.leafOf(c); leaves[i] < 0 {
			return fmt.Errorf("%s: no column %s of numbers, texts or bytes: it has %s", t.path, c,
				strings.Join(t.Columns(), ", "))
		}
	}
	r := Row{columns: columns}
	return t.scan(leaves, func(row int, values [][]parquet.Value) error {
		r.Number, r.values = row, values
		return handle(&r)
	})
}

// Numbers returns the n numbers of a column, which may be a list, or a list of lists. Booleans are 0 and 1. The result
// is valid until the next call.
func (r *Row) Numbers(column, n int) ([]float64, error) {
	r.floats = r.floats[:0]
	for _, v := range r.values[column] {
		x := 0.0
		switch v.Kind() {
		case parquet.Boolean:
			if v.Boolean() {
				x = 1
			}
		case parquet.Int32, parquet.Int64:
			x = float64(v.Int64())
		case parquet.Float:
			x = float64(v.Float())
		case parquet.Double:
			x = v.Double()
		default:
			if !v.IsNull() || n > 0 {
				return nil, fmt.Errorf("column %s is %.20q: expected %d numbers", r.columns[column], v.String(), n)
			}
			continue // an empty list
		}
		r.floats = append(r.floats, x)
	}
	if len(r.floats) != n {
		return nil, fmt.Errorf("column %s has %d numbers: expected %d", r.columns[column], len(r.floats), n)
	}
	return r.floats, nil
}

// Only returns the only number of a column.
func (r *Row) Only(column int) (float64, error) {
	x, err := r.Numbers(column, 1)
	if err != nil {
		return 0, err
	}
	return x[0], nil
}

// Bytes returns the bytes of a column, or those of its text.
func (r *Row) Bytes(column int) ([]byte, error) {
	all := r.values[column]
	if len(all) != 1 || all[0].Kind() != parquet.ByteArray {
		return nil, fmt.Errorf("column %s is %.20q: expected bytes", r.columns[column], all[0].String())
	}
	return all[0].ByteArray(), nil
}

// Texts returns the texts of a column, which may be a list.
func (r *Row) Texts(column int) (texts []string, err error) {
	for _, v := range r.values[column] {
		switch {
		case v.Kind() == parquet.ByteArray:
			texts = append(texts, string(v.ByteArray()))
		case !v.IsNull():
			return nil, fmt.Errorf("column %s is %.20q: expected texts", r.columns[column], v.String())
		}
	}
	return texts, nil
}
