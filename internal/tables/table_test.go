package tables

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
)

func every(string) bool { return true }

// records returns the rows of a table.
func records(t *testing.T, path string) (all []any) {
	t.Helper()
	table, err := Open(path)
	test.OK(t, err)
	defer table.Close()
	test.OK(t, table.EachRecord(every, func(row int, record []byte) error {
		if row != len(all)+1 {
			t.Errorf("row %d after %d rows", row, len(all))
		}
		all = append(all, decoded(t, record))
		return nil
	}))
	return all
}

func decoded(t *testing.T, record []byte) (v any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(record))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%s: %v", record, err)
	}
	return plain(v)
}

// plain removes keys that are null from the objects within a record, and makes 0 equal to 0.0: a table does not
// tell a struct's null from a missing key.
func plain(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			if v[k] = plain(x); x == nil {
				delete(v, k)
			}
		}
	case []any:
		for i, x := range v {
			v[i] = plain(x)
		}
	case json.Number:
		if f, err := v.Float64(); err == nil && len(v) <= 15 || strings.Contains(v.String(), ".") {
			return f
		}
	}
	return v
}

// made returns the folder of the tables: those of testdata, and where npm's packages are, new ones.
func made(t *testing.T) string {
	modules := test.NodeModules("@duckdb/node-api", "hyparquet-writer")
	if modules == "" {
		return "testdata"
	}
	dir := t.TempDir()
	cmd := exec.Command("node", "testdata/make.mjs", dir)
	cmd.Env = append(os.Environ(), "NODE_PATH="+modules)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return dir
}

// TestRecords: the rows of tables by two other writers are those that they wrote: codecs, plain, dictionary and delta
// encodings, nulls, structs, nested lists, maps and several groups of rows.
func TestRecords(t *testing.T) {
	dir := made(t)
	tables, err := filepath.Glob(filepath.Join(dir, "*.parquet"))
	test.OK(t, err)
	compared := 0
	for _, path := range tables {
		if strings.Contains(path, "lz4") {
			continue
		}
		writer, _, _ := strings.Cut(strings.TrimSuffix(filepath.Base(path), ".parquet"), "-")
		lines, err := os.ReadFile(filepath.Join(dir, writer+".jsonl"))
		test.OK(t, err)
		want := bytes.Split(bytes.TrimSpace(lines), []byte("\n"))
		got := records(t, path)
		if len(got) != len(want) {
			t.Fatalf("%s: %d rows, expected %d", path, len(got), len(want))
		}
		for i := range got {
			if want := decoded(t, want[i]); !reflect.DeepEqual(got[i], want) {
				t.Fatalf("%s:%d: %v, expected %v", path, i+1, got[i], want)
			}
		}
		compared++
	}
	if compared != 7 {
		t.Errorf("compared %d tables, expected 7", compared)
	}
}

// TestRefused: a codec that is not read is named, with the column and those that are read.
func TestRefused(t *testing.T) {
	_, err := Open("testdata/duck-lz4.parquet")
	if want := "testdata/duck-lz4.parquet: column prompt is compressed with LZ4_RAW: expected zstd, snappy, gzip, " +
		"brotli or none"; err == nil || err.Error() != want {
		t.Errorf("%v, expected %s", err, want)
	}
}

// TestDamaged: no damaged file ends the process.
func TestDamaged(t *testing.T) {
	whole, err := os.ReadFile("testdata/duck-delta-v2.parquet")
	test.OK(t, err)
	path := filepath.Join(t.TempDir(), "x.parquet")
	read := func(b []byte) error {
		test.OK(t, os.WriteFile(path, b, 0o666))
		table, err := Open(path)
		if err != nil {
			return err
		}
		defer table.Close()
		return table.EachRecord(every, func(int, []byte) error { return nil })
	}
	test.OK(t, read(whole))
	failed := 0
	for at := 4; at < len(whole); at += 13 {
		b := bytes.Clone(whole)
		b[at] ^= 0x55
		if read(b) != nil {
			failed++
		}
	}
	for n := 0; n < len(whole); n += 101 {
		if read(whole[:n]) == nil {
			t.Errorf("the first %d bytes are read", n)
		}
	}
	if failed == 0 {
		t.Error("no damage was found")
	}
}
