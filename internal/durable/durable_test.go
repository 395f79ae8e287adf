package durable_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/rlinf/rlinf/internal/durable"
	"github.com/rlinf/rlinf/internal/test"
)

func TestWriteReplacesWholly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "status")
	for _, want := range []string{"a longer first content", "short", ""} {
		test.OK(t, durable.WriteFile(path, []byte(want)))
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
	}
	only(t, path)
}

func TestFailedWriteKeepsTheOldFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "status")
	test.OK(t, durable.WriteFile(path, []byte("old")))
	cause := errors.New("no more")
	err := durable.Write(path, func(w io.Writer) error {
		if _, err := io.WriteString(w, "half of the n"); err != nil {
			return err
		}
		return cause
	})
	if !errors.Is(err, cause) {
		t.Errorf("got %v, want %v", err, cause)
	}
	if got, _ := os.ReadFile(path); string(got) != "old" {
		t.Errorf("the file holds %q, want what it held before", got)
	}
	only(t, path)
}

func TestWritable(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	test.OK(t, os.WriteFile(path, nil, 0o666))
	test.Check(t, durable.Writable(dir))
	only(t, path)
	for below, want := range map[string]string{path: "not a directory",
		filepath.Join(dir, "none"): "no such file or directory"} {
		if err := durable.Writable(below); err == nil || err.Error() != "write in "+below+": "+want {
			t.Errorf("%v, want that %s is %s", err, below, want)
		}
	}
}

func TestOpenOnlyFiles(t *testing.T) {
	dir := t.TempDir()
	pipe, file := filepath.Join(dir, "pipe"), filepath.Join(dir, "file")
	test.OK(t, errors.Join(syscall.Mkfifo(pipe, 0o666), os.WriteFile(file, []byte("text"), 0o666)))
	if got, err := durable.ReadFile(file, durable.Note); err != nil || string(got) != "text" {
		t.Errorf("got %q, %v", got, err)
	}
	for path, want := range map[string]string{pipe: "is a pipe, expected a file", dir: "is a directory",
		"/dev/zero": "is a device, expected a file"} {
		if _, err := durable.ReadFile(path, durable.Note); err == nil || err.Error() != "read "+path+": "+want {
			t.Errorf("%v, expected that %s %s", err, path, want)
		}
	}
	err := durable.WriteFile(pipe, []byte("text"))
	if info, gone := os.Lstat(pipe); err == nil || err.Error() != "write "+pipe+": is a pipe, expected a file" ||
		gone != nil || info.Mode().Type() != os.ModeNamedPipe {
		t.Errorf("%v, expected that the pipe stays", err)
	}
	if _, err := durable.ReadOnce("/dev/zero", 1<<20); err == nil || err.Error() != "read /dev/zero: more than 1 MiB" {
		t.Error(err)
	}
}

func only(t *testing.T, path string) {
	t.Helper()
	if left, _ := os.ReadDir(filepath.Dir(path)); len(left) != 1 {
		t.Errorf("%v beside the file, want nothing left over", left)
	}
}
