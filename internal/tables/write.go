package tables

import (
	"fmt"
	"io"
	"slices"

	"github.com/parquet-go/parquet-go"
)

// A Type is the type of the values of a column that is written.
type Type uint8

// Types of columns.
const (
	Bool Type = 1 + iota
	Uint8
	Int32
	Int64
	Float32
	Float64
	Text
	Bytes
	Image // a struct of bytes and path, as LeRobot has it; the path is null
)

// A Column describes a column that is written. It has a number, a text, bytes or an image in each row. With Dims, it
// has lists of lists of numbers of these lengths; with List, a list of texts of any length.
type Column struct {
	Name string
	Type Type
	Dims []int
	List bool
}

// A Cell is the value of a column in one row.
type Cell struct {
	Numbers []float64
	Bytes   []byte   // of an image or a text, or as they are
	Texts   []string // with List
}

// groupBytes is the size of the values after which a group of rows ends. Its values are in memory until then.
const groupBytes = 16 << 20

// A Writer writes a Parquet file, compressed with zstd.
type Writer struct {
	columns []Column
	order   []int // the place of each column's leaf in a row; of an image, that of its bytes
	paths   []int // of an image, the place of its path
	width   int
	out     *parquet.GenericWriter[any]
	cells   [][]parquet.Value
	row     parquet.Row
	bytes   int
}

// NewWriter returns a Writer of a file, which has the given texts in its metadata. The caller must close it.
func NewWriter(w io.Writer, columns []Column, metadata map[string]string) *Writer {
	group := parquet.Group{}
	for _, c := range columns {
		group[c.Name] = c.node()
	}
	schema := parquet.NewSchema("schema", group)
	options := []parquet.WriterOption{schema, parquet.Compression(&parquet.Zstd)}
	for _, key := range sortedKeys(metadata) {
		options = append(options, parquet.KeyValueMetadata(key, metadata[key]))
	}
	t := &Writer{columns: columns, out: parquet.NewGenericWriter[any](w, options...), width: len(schema.Columns())}
	place := func(path ...string) int {
		leaf, _ := schema.Lookup(path...)
		return leaf.ColumnIndex
	}
	for _, c := range columns {
		path, other := []string{c.Name}, -1
		switch {
		case c.Type == Image:
			path, other = []string{c.Name, "bytes"}, place(c.Name, "path")
		case c.List:
			path = append(path, "list", "element")
		}
		for range c.Dims {
			path = append(path, "list", "element")
		}
		t.order, t.paths = append(t.order, place(path...)), append(t.paths, other)
	}
	t.cells = make([][]parquet.Value, t.width)
	return t
}

func (c *Column) node() (n parquet.Node) {
	switch c.Type {
	case Bool:
		n = parquet.Leaf(parquet.BooleanType)
	case Uint8:
		n = parquet.Uint(8)
	case Int32:
		n = parquet.Int(32)
	case Int64:
		n = parquet.Int(64)
	case Float32:
		n = parquet.Leaf(parquet.FloatType)
	case Float64:
		n = parquet.Leaf(parquet.DoubleType)
	case Text:
		n = parquet.String()
	case Bytes:
		n = parquet.Leaf(parquet.ByteArrayType)
	case Image:
		return parquet.Group{"bytes": parquet.Optional(parquet.Leaf(parquet.ByteArrayType)),
			"path": parquet.Optional(parquet.String())}
	}
	if c.List {
		return parquet.List(n)
	}
	for range c.Dims {
		n = parquet.List(n)
	}
	return n
}

// Add writes a row.
func (t *Writer) Add(cells []Cell) error {
	for i := range t.columns {
		c, at := &t.columns[i], t.order[i]
		values := t.cells[at][:0]
		switch {
		case c.Type == Image:
			values = append(values, parquet.ByteArrayValue(cells[i].Bytes).Level(0, 1, at))
			t.cells[t.paths[i]] = append(t.cells[t.paths[i]][:0], parquet.NullValue().Level(0, 0, t.paths[i]))
		case c.List:
			for k, text := range cells[i].Texts {
				values = append(values, parquet.ByteArrayValue([]byte(text)).Level(min(k, 1), 1, at))
			}
			if len(values) == 0 {
				values = append(values, parquet.NullValue().Level(0, 0, at))
			}
		case c.Type == Text || c.Type == Bytes:
			values = append(values, parquet.ByteArrayValue(cells[i].Bytes).Level(0, 0, at))
		default:
			want := 1
			for _, d := range c.Dims {
				want *= d
			}
			if len(cells[i].Numbers) != want || want == 0 {
				return fmt.Errorf("column %s: %d numbers: expected %d", c.Name, len(cells[i].Numbers), want)
			}
			for k, x := range cells[i].Numbers {
				values = append(values, c.value(x).Level(c.repetition(k), len(c.Dims), at))
			}
		}
		t.cells[at] = values
		t.bytes += len(cells[i].Bytes) + 24*len(values)
	}
	t.row = t.row[:0]
	for _, values := range t.cells {
		t.row = append(t.row, values...)
	}
	if _, err := t.out.WriteRows([]parquet.Row{t.row}); err != nil {
		return err
	}
	if t.bytes < groupBytes {
		return nil
	}
	t.bytes = 0
	return t.out.Flush()
}

// repetition returns the repetition level of number k: the lists that begin with it are those below.
func (c *Column) repetition(k int) int {
	level, size := len(c.Dims), 1
	for d := len(c.Dims) - 1; d >= 0; d-- {
		if size *= c.Dims[d]; k%size == 0 {
			level = d
		}
	}
	return level
}

func (c *Column) value(x float64) parquet.Value {
	switch c.Type {
	case Bool:
		return parquet.BooleanValue(x != 0)
	case Uint8, Int32:
		return parquet.Int32Value(int32(x))
	case Int64:
		return parquet.Int64Value(int64(x))
	case Float32:
		return parquet.FloatValue(float32(x))
	}
	return parquet.DoubleValue(x)
}

// Close writes the end of the file.
func (t *Writer) Close() error { return t.out.Close() }

func sortedKeys(m map[string]string) (keys []string) {
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
