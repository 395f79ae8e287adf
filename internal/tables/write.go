package tables

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/parquet-go/parquet-go"
)

// types has the Parquet types of numbers, by their names in NumPy.
var types = map[string]parquet.Node{"bool": parquet.Leaf(parquet.BooleanType), "uint8": parquet.Uint(8),
	"int32": parquet.Int(32), "int64": parquet.Int(64), "float32": parquet.Leaf(parquet.FloatType),
	"float64": parquet.Leaf(parquet.DoubleType)}

// A Column describes a column to write. In each row it has a number, or nested lists of numbers with the lengths Dims.
// An image is a struct of bytes and path, as in LeRobot. Its path is null.
type Column struct {
	Name string
	Type string // type of the numbers by its name in NumPy, or "image"
	Dims []int
}

// A Value is the value of a column in one row.
type Value struct {
	Numbers []float64
	Bytes   []byte // of an image
}

// groupBytes is the size of the values after which a group of rows ends. Its values are in memory until then.
const groupBytes = 16 << 20

// A Writer writes a Parquet file, compressed with zstd.
type Writer struct {
	leaves  [][]string
	columns []int // for each leaf, its column
	of      []Column
	out     *parquet.GenericWriter[any]
	row     parquet.Row
	bytes   int
}

// NewWriter returns a Writer of a Parquet file to w. The file's metadata has the text under the key. The caller must
// call Close.
func NewWriter(w io.Writer, columns []Column, key, text string) (*Writer, error) {
	group, at := parquet.Group{}, map[string]int{}
	for i, c := range columns {
		n, ok := types[c.Type]
		switch {
		case c.Type == "image":
			n = parquet.Group{"bytes": parquet.Optional(parquet.Leaf(parquet.ByteArrayType)),
				"path": parquet.Optional(parquet.String())}
		case !ok:
			return nil, fmt.Errorf("column %s: type %q cannot be written", c.Name, c.Type)
		}
		for range c.Dims {
			n = parquet.List(n)
		}
		group[c.Name], at[c.Name] = n, i
	}
	schema := parquet.NewSchema("schema", group)
	t := &Writer{of: columns, leaves: schema.Columns(), out: parquet.NewGenericWriter[any](w, schema,
		parquet.Compression(&parquet.Zstd), parquet.KeyValueMetadata(key, text))}
	for _, path := range t.leaves {
		t.columns = append(t.columns, at[path[0]])
	}
	return t, nil
}

// Add writes a row.
func (t *Writer) Add(cells []Value) error {
	t.row = t.row[:0]
	for at, path := range t.leaves {
		c, cell := &t.of[t.columns[at]], cells[t.columns[at]]
		if c.Type == "image" {
			v := parquet.NullValue().Level(0, 0, at)
			if path[1] == "bytes" {
				v = parquet.ByteArrayValue(cell.Bytes).Level(0, 1, at)
				t.bytes += len(cell.Bytes)
			}
			t.row = append(t.row, v)
			continue
		}
		want := 1
		for _, d := range c.Dims {
			want *= d
		}
		if len(cell.Numbers) != want || want == 0 {
			return fmt.Errorf("column %s: %d numbers: expected %d", c.Name, len(cell.Numbers), want)
		}
		for k, x := range cell.Numbers {
			v, err := types[c.Type].Type().ConvertValue(parquet.DoubleValue(x), parquet.DoubleType)
			if err != nil {
				return fmt.Errorf("column %s: %w", c.Name, err)
			}
			t.row = append(t.row, v.Level(c.repetition(k), len(c.Dims), at))
		}
	}
	if _, err := t.out.WriteRows([]parquet.Row{t.row}); err != nil {
		return err
	}
	if t.bytes += 24 * len(t.row); t.bytes < groupBytes {
		return nil
	}
	t.bytes = 0
	return t.out.Flush()
}

// repetition returns the repetition level of number k: how many of the nested lists continue at k. The lists below
// begin anew.
func (c *Column) repetition(k int) int {
	level, size := len(c.Dims), 1
	for d := len(c.Dims) - 1; d >= 0; d-- {
		if size *= c.Dims[d]; k%size == 0 {
			level = d
		}
	}
	return level
}

// Close writes the end of the file.
func (t *Writer) Close() error { return t.out.Close() }

// Write writes a file of rows, which are structs with tags of parquet-go. The file's metadata has the text under the
// key.
func Write[T any](path string, rows []T, key, text string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	out := parquet.NewGenericWriter[T](f, parquet.Compression(&parquet.Zstd), parquet.KeyValueMetadata(key, text))
	_, err = out.Write(rows)
	return errors.Join(err, out.Close(), f.Close())
}
