package tables

import (
	"encoding/json"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/parquet-go/parquet-go"
)

// EachRecord calls handle for each row as a JSON object. The object has the columns for whose names the function want
// returns true. A column without a value is null. A struct lacks the parts without a value, because a struct has no
// other way to lack a key. Bytes that are not text become {"bytes": N}, where N is their number. Dates and times are
// the numbers in the file.
func (t *Table) EachRecord(want func(column string) bool, handle func(row int, record []byte) error) error {
	columns := parquet.Group{}
	for _, f := range t.file.Schema().Fields() {
		if want(f.Name()) {
			columns[f.Name()] = f
		}
	}
	schema := parquet.NewSchema("record", columns)
	var leaves []int
	for _, path := range schema.Columns() {
		leaves = append(leaves, slices.IndexFunc(t.leaves, func(p []string) bool { return slices.Equal(p, path) }))
	}
	var flat parquet.Row
	return t.scan(leaves, func(row int, values []parquet.Row) error {
		flat = flat[:0]
		for i, column := range values {
			for _, v := range column {
				flat = append(flat, v.Level(v.RepetitionLevel(), v.DefinitionLevel(), i))
			}
		}
		record := map[string]any{}
		if err := whole(func() error { return schema.Reconstruct(&record, flat) }); err != nil {
			return err
		}
		for name, v := range record {
			record[name] = shown(v)
		}
		text, err := json.Marshal(record)
		if err != nil {
			return fmt.Errorf("expected texts and finite numbers: %w", err)
		}
		return handle(row, text)
	})
}

// shown returns v in the form of EachRecord's JSON.
func shown(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key, x := range v {
			if v[key] = shown(x); x == nil {
				delete(v, key)
			}
		}
	case []any:
		for i, x := range v {
			v[i] = shown(x)
		}
	case float32:
		return float64(v) // with all its digits
	case string:
		if !utf8.ValidString(v) {
			return map[string]int{"bytes": len(v)}
		}
	}
	return v
}
