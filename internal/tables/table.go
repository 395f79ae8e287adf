package tables

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
	"github.com/rlinf/rlinf/internal/durable"
)

// A Table is an open Parquet file.
type Table struct {
	path string
	disk *os.File
	file *parquet.File
	root []*node // columns of the table
}

// A node is a column of a table, or a part of a column that has structs, lists or maps.
type node struct {
	name               string // with the names of the nodes above, as in "image.bytes"
	key                string // last part of name
	kind               kind
	optional, repeated bool
	def, rep           int // definition level of a value that is there, repetition level of its items
	first, end         int // leaves of the file that belong to the node
	leaf               parquet.Node
	children           []*node
}

// kind says how the children of a node are shown.
type kind int

const (
	isLeaf kind = iota
	isStruct
	isList // has one child, which is repeated
	isMap  // has one child, which is repeated and has a key and a value
)

// codecs are the compressions that this package reads. LZ4_RAW is not among them: some writers frame it in ways that
// cannot be told apart.
var codecs = []format.CompressionCodec{format.Uncompressed, format.Snappy, format.Gzip, format.Zstd, format.Brotli}

// Open opens the Parquet file at path. The caller must close it.
func Open(path string) (*Table, error) {
	disk, err := durable.Open(path)
	if err != nil {
		return nil, err
	}
	t := &Table{path: path, disk: disk}
	if err := t.open(); err != nil {
		disk.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return t, nil
}

func (t *Table) open() (err error) {
	defer damaged(&err)
	info, err := t.disk.Stat()
	if err != nil {
		return err
	}
	t.file, err = parquet.OpenFile(t.disk, info.Size(), parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true),
		parquet.ReadBufferSize(1<<18))
	if err != nil {
		return fmt.Errorf("expected a whole Parquet file: %w", err)
	}
	for _, g := range t.file.Metadata().RowGroups {
		for _, c := range g.Columns {
			if !slices.Contains(codecs, c.MetaData.Codec) {
				return fmt.Errorf("column %s is compressed with %v: expected zstd, snappy, gzip, brotli or none",
					strings.Join(c.MetaData.PathInSchema, "."), c.MetaData.Codec)
			}
		}
	}
	leaves := 0
	t.root = nodesOf(t.file.Schema(), &node{}, &leaves)
	return nil
}

// damaged turns a panic of the reading library into an error. The library panics at some damaged files.
func damaged(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("the file is damaged: %v", r)
	}
}

// nodesOf returns the children of a node. leaves is the number of leaves before them.
func nodesOf(of parquet.Node, above *node, leaves *int) (nodes []*node) {
	for _, f := range of.Fields() {
		n := &node{key: f.Name(), name: f.Name(), optional: f.Optional(), repeated: f.Repeated(), def: above.def,
			rep: above.rep, first: *leaves}
		if above.name != "" {
			n.name = above.name + "." + n.key
		}
		if n.optional || n.repeated {
			n.def++
		}
		if n.repeated {
			n.rep++
		}
		if f.Leaf() {
			n.leaf = f
			*leaves++
		} else {
			n.kind = kindOf(f)
			n.children = nodesOf(f, n, leaves)
		}
		n.end = *leaves
		nodes = append(nodes, n)
	}
	return nodes
}

func kindOf(f parquet.Node) kind {
	is := f.Type().LogicalType()
	children := f.Fields()
	if is == nil || len(children) != 1 || !children[0].Repeated() {
		return isStruct
	}
	switch is.Value.(type) {
	case *format.ListType:
		return isList
	case *format.MapType:
		if !children[0].Leaf() && len(children[0].Fields()) == 2 {
			return isMap
		}
	}
	return isStruct
}

// Close closes the file.
func (t *Table) Close() error { return t.disk.Close() }

// Len returns the number of rows.
func (t *Table) Len() int { return int(t.file.NumRows()) }

// Columns returns the names of the columns, in the order of the file.
func (t *Table) Columns() []string {
	names := make([]string, len(t.root))
	for i, n := range t.root {
		names[i] = n.name
	}
	return names
}

// scan calls handle for each row, with the values of the given leaves. The values are valid until handle returns.
// Indices of values are indices in leaves. Errors of handle get the number of the row.
func (t *Table) scan(leaves []int, handle func(row int, values [][]parquet.Value) error) error {
	row := 0
	for _, group := range t.file.RowGroups() {
		cursors := make([]*cursor, len(leaves))
		values := make([][]parquet.Value, len(leaves))
		chunks := group.ColumnChunks()
		for i, leaf := range leaves {
			c := &cursor{in: parquet.NewColumnChunkValueReader(chunks[leaf])}
			defer c.close()
			cursors[i] = c
		}
		for range group.NumRows() {
			row++
			for i, c := range cursors {
				var err error
				if values[i], err = c.next(); err != nil {
					return fmt.Errorf("%s:%d: column %s: %w", t.path, row,
						strings.Join(t.file.Schema().Columns()[leaves[i]], "."), err)
				}
			}
			if err := handle(row, values); err != nil {
				return fmt.Errorf("%s:%d: %w", t.path, row, err)
			}
		}
		for _, c := range cursors {
			c.close()
		}
	}
	return nil
}

// A cursor reads the values of one leaf in one group of rows.
type cursor struct {
	in     parquet.ColumnChunkValueReader
	buf    [64]parquet.Value
	unread []parquet.Value // part of buf
	row    []parquet.Value
	err    error
}

// next returns the values of the next row.
func (c *cursor) next() ([]parquet.Value, error) {
	c.row = c.row[:0]
	for {
		for len(c.unread) > 0 {
			v := c.unread[0]
			if v.RepetitionLevel() == 0 && len(c.row) > 0 {
				return c.row, nil
			}
			c.row, c.unread = append(c.row, v), c.unread[1:]
		}
		switch {
		case c.err == io.EOF && len(c.row) > 0:
			return c.row, nil
		case c.err == io.EOF:
			return nil, io.ErrUnexpectedEOF
		case c.err != nil:
			return nil, c.err
		}
		for i, v := range c.row { // the next page replaces the memory of this one
			c.row[i] = v.Clone()
		}
		c.fill()
	}
}

func (c *cursor) fill() {
	var n int
	n, c.err = c.read()
	c.unread = c.buf[:n]
	if n == 0 && c.err == nil {
		c.err = io.ErrNoProgress
	}
}

func (c *cursor) read() (n int, err error) {
	defer damaged(&err)
	return c.in.ReadValues(c.buf[:])
}

// close may be called several times.
func (c *cursor) close() { _ = c.in.Close() } // nothing was written
