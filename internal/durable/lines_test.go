package durable_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/durable"
	"github.com/rlinf/rlinf/internal/test"
)

func TestLines(t *testing.T) {
	const most = 16 << 20
	long := strings.Repeat("x", 100_000)
	text := "a\n\n" + long + "\n" + strings.Repeat("y", 3*most) + "\nb\nrest"
	l := durable.NewLines(strings.NewReader(text))
	for i, want := range []struct {
		line string
		read int64
		err  error
	}{{"a\n", 2, nil}, {"\n", 1, nil}, {long + "\n", int64(len(long)) + 1, nil},
		{strings.Repeat("y", most-1) + "\n", 3*most + 1, nil}, {"b\n", 2, nil}, {"rest", 4, io.EOF}, {"", 0, io.EOF}} {
		line, read, err := l.Next()
		if string(line) != want.line || read != want.read || err != want.err {
			t.Errorf("line %d: %.20q of %d bytes, %d read, %v, expected %.20q of %d, %d, %v", i, line, len(line), read,
				err, want.line, len(want.line), want.read, want.err)
		}
	}
}

func TestReadFileHasALimit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "STATUS")
	test.OK(t, os.WriteFile(path, []byte("done\n"), 0o666))
	if text, err := durable.ReadFile(path, durable.Note); err != nil || string(text) != "done\n" {
		t.Errorf("%q, %v", text, err)
	}
	if err := os.Truncate(path, 1<<40); err != nil { // no data: the file takes no room
		t.Fatal(err)
	}
	var failed *os.PathError
	if _, err := durable.ReadFile(path, durable.Note); !errors.As(err, &failed) || failed.Path != path ||
		!strings.Contains(err.Error(), "more than 1 MiB") {
		t.Errorf("of 1 TiB: %v", err)
	}
	if tail, cut, err := durable.Tail(path, 3); err != nil || string(tail) != "\x00\x00\x00" || !cut {
		t.Errorf("tail %q, %v, %v", tail, cut, err)
	}
	test.OK(t, os.Truncate(path, 3))
	for _, n := range []int64{3, 1 << 20} {
		if tail, cut, err := durable.Tail(path, n); err != nil || string(tail) != "don" || cut {
			t.Errorf("tail of %d: %q, %v, %v", n, tail, cut, err)
		}
	}
}
