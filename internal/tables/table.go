package tables

import (
	"cmp"
	"errors"
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
	path   string
	disk   *os.File
	file   *parquet.File
	leaves [][]string // paths of the columns' parts
}

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
	if err := whole(t.open); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), disk.Close())
	}
	return t, nil
}

func (t *Table) open() error {
	info, err := t.disk.Stat()
	if err != nil {
		return err
	}
	t.file, err = parquet.OpenFile(t.disk, info.Size(), parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true),
		parquet.ReadBufferSize(1<<18))
	if err != nil {
		return fmt.Errorf("expected a whole Parquet file: %w", err)
	}
	t.leaves = t.file.Schema().Columns()
	for _, g := range t.file.Metadata().RowGroups {
		if len(g.Columns) != len(t.leaves) {
			return fmt.Errorf("a group of rows has %d columns: expected %d", len(g.Columns), len(t.leaves))
		}
		for _, c := range g.Columns {
			if !slices.Contains(codecs, c.MetaData.Codec) {
				return fmt.Errorf("column %s is compressed with %v: expected zstd, snappy, gzip, brotli or none",
					strings.Join(c.MetaData.PathInSchema, "."), c.MetaData.Codec)
			}
		}
	}
	return nil
}

// whole calls f, and turns a panic into an error. parquet-go panics at some damaged files, and at the lists and maps of
// early writers.
func whole(f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the file is damaged, or has an unknown form: %v", r)
		}
	}()
	return f()
}

// Close closes the file.
func (t *Table) Close() error { return t.disk.Close() }

// Columns returns the names of the columns, in the order of the file.
func (t *Table) Columns() (names []string) {
	for _, f := range t.file.Schema().Fields() {
		names = append(names, f.Name())
	}
	return names
}

// Has reports whether the table has the column, and the column has only one part. A struct may have several parts. The
// name may lead into a struct, as in "image.bytes".
func (t *Table) Has(column string) bool { return t.leaf(column) >= 0 }

// leaf returns the index of a column's only part, or -1 if there is no such column or it has several parts.
func (t *Table) leaf(column string) int {
	found := -1
	for i, path := range t.leaves {
		if strings.Join(path, ".") == column {
			return i
		}
		if strings.HasPrefix(strings.Join(path, "."), column+".") {
			if found >= 0 {
				return -1
			}
			found = i
		}
	}
	return found
}

// Bytes returns the size of a column without compression, or 0 if the table lacks it.
func (t *Table) Bytes(column string) (n int64) {
	if leaf := t.leaf(column); leaf >= 0 {
		for _, g := range t.file.Metadata().RowGroups {
			n += max(g.Columns[leaf].MetaData.TotalUncompressedSize, 0)
		}
	}
	return n
}

// scan calls handle for each row, with the values of the given leaves. The values are valid until handle returns.
// Errors have the number of the row.
func (t *Table) scan(leaves []int, handle func(row int, values []parquet.Row) error) error {
	row := 0
	for _, group := range t.file.RowGroups() {
		chunks, values := group.ColumnChunks(), make([]parquet.Row, len(leaves))
		readers := make([]parquet.RowReadSeekCloser, len(leaves))
		for i, leaf := range leaves {
			readers[i] = parquet.NewColumnChunkRowReader(chunks[leaf : leaf+1])
		}
		read := func() error {
			for i, in := range readers {
				err := whole(func() error {
					n, err := in.ReadRows(values[i : i+1])
					if n == 0 {
						return cmp.Or(err, io.ErrNoProgress)
					}
					return nil
				})
				if errors.Is(err, io.EOF) {
					err = io.ErrUnexpectedEOF
				}
				if err != nil {
					return fmt.Errorf("column %s: %w", strings.Join(t.leaves[leaves[i]], "."), err)
				}
			}
			return handle(row, values)
		}
		var err error
		for n := group.NumRows(); n > 0 && err == nil; n-- {
			row++
			err = read()
		}
		for _, in := range readers {
			_ = whole(in.Close) // nothing was written
		}
		if err != nil {
			return fmt.Errorf("%s:%d: %w", t.path, row, err)
		}
	}
	return nil
}
