// Package durable writes files that a crash cannot leave half-written: a reader sees the
// old content or the new, whole.
package durable

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
)

// WriteFile puts data into the file path, as Write does.
func WriteFile(path string, data []byte) error {
	return Write(path, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

// Write replaces the file path by what fill writes: into a temporary file beside it, which is
// synced and then renamed. When it returns an error the old file is untouched. Two writers of one
// path at the same time are the callers' mistake. A device or a pipe is an error: a file in place of
// /dev/null would be the end of a machine.
func Write(path string, fill func(io.Writer) error) error {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return &os.PathError{Op: "write", Path: path, Err: irregular(info.Mode())}
	}
	temp := filepath.Join(filepath.Dir(path), ".writing-"+filepath.Base(path))
	if err := Create(temp, fill); err != nil {
		return err
	}
	if err := os.Rename(temp, path); err != nil {
		return errors.Join(err, os.Remove(temp))
	}
	return SyncDir(filepath.Dir(path))
}

// Create makes the file path, replacing what was there, lets fill write it, and returns when its
// bytes are on disk. The name is safe only after SyncDir. On an error there is no such file.
func Create(path string, fill func(io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	err = fill(f)
	if err == nil {
		err = f.Sync()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}

// SyncDir returns when the names in dir are on disk. A file system that cannot sync folders is
// taken at its word.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.ENOTSUP) {
		return err
	}
	return nil
}

// Open opens the file path for reading. A pipe or a device in its place is an error: it could keep
// its reader waiting for ever.
func Open(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // which opens a pipe that nobody writes, too
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &os.PathError{Op: "read", Path: path, Err: irregular(info.Mode())}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// irregular returns the error of a file that is none.
func irregular(mode os.FileMode) error {
	switch {
	case mode.IsDir():
		return syscall.EISDIR
	case mode&os.ModeNamedPipe != 0:
		return errors.New("is a pipe, expected a file")
	case mode&os.ModeDevice != 0:
		return errors.New("is a device, expected a file")
	}
	return errors.New("is no file")
}

// ReadFile returns the content of the file path, opened by Open.
func ReadFile(path string) ([]byte, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	var data bytes.Buffer
	data.Grow(int(info.Size()) + bytes.MinRead)
	_, err = data.ReadFrom(f)
	return data.Bytes(), err
}

// ReadOnce returns what path has, which may be a pipe, up to its end. More than most bytes are an
// error.
func ReadOnce(path string, most int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(data)) > most {
		err = &os.PathError{Op: "read", Path: path, Err: fmt.Errorf("more than %d MiB", most>>20)}
	}
	return data, err
}

// Writable returns an error where no file can be made in dir.
func Writable(dir string) error {
	f, err := os.CreateTemp(dir, ".writing-")
	if failed := (*os.PathError)(nil); errors.As(err, &failed) {
		return &os.PathError{Op: "write in", Path: dir, Err: failed.Err}
	} else if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}
