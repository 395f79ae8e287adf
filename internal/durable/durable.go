// Package durable answers: how does a file survive a crash? It writes files atomically: after a crash a reader sees
// either the old or the new content, never a part.
package durable

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"syscall"
)

// WriteFile writes data to the file at path, in the same way as Write.
func WriteFile(path string, data []byte) error {
	return Write(path, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

// Write replaces the file at path by the output of fill. It writes to a temporary file in the same folder, syncs that
// file and renames it. After an error the old file is unchanged. Two writers must not write the same path at the same
// time. A device or a pipe at path is an error: to replace /dev/null would break a machine.
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

// Create creates or overwrites the file at path with the output of fill, and syncs the content. The name of the file is
// durable only after SyncDir. After an error the file does not exist.
func Create(path string, fill func(io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	err = fill(f)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}

// SyncDir syncs the folder dir, so that the names of its files survive a crash. It ignores file systems that cannot
// sync folders.
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

// Open opens the file at path for reading. A pipe or a device is an error, because a read could block forever.
func Open(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // does not block on a pipe without a writer
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

// irregular returns the error for a file that is not a regular file.
func irregular(mode os.FileMode) error {
	switch {
	case mode.IsDir():
		return syscall.EISDIR
	case mode&os.ModeNamedPipe != 0:
		return errors.New("is a pipe, expected a file")
	case mode&os.ModeDevice != 0:
		return errors.New("is a device, expected a file")
	}
	return errors.New("is not a regular file")
}

// The limits of ReadFile, by the kind of file, in bytes.
const (
	Note   = 1 << 20       // a word or a few numbers: STATUS, a lock, a request
	Text   = 16 << 20      // a configuration, or a list of ranks or starts
	Data   = 1 << 30       // a vocabulary or an index of a model
	NoSize = math.MaxInt64 // data that its user needs in memory: demonstrations, weights
)

// ReadFile returns the content of the file at path. It opens the file with Open. A file of more than limit bytes is an
// error, and is not read.
func ReadFile(path string, limit int64) ([]byte, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size() > limit {
		return nil, tooLarge(path, limit)
	}
	var data bytes.Buffer
	data.Grow(int(info.Size()) + bytes.MinRead)
	_, err = data.ReadFrom(io.LimitReader(f, limit)) // the file may grow
	return data.Bytes(), err
}

// ReadOnce reads all of path, which may be a pipe. It fails if there are more than limit bytes.
func ReadOnce(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = tooLarge(path, limit)
	}
	return data, err
}

func tooLarge(path string, limit int64) error {
	return &os.PathError{Op: "read", Path: path, Err: fmt.Errorf("more than %d MiB", limit>>20)}
}

// Tail returns the last n bytes of the file at path, or the whole file. cut reports whether the file has more.
func Tail(path string, n int64) (tail []byte, cut bool, err error) {
	f, err := Open(path)
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, false, err
	}
	from := max(info.Size()-n, 0)
	tail, err = io.ReadAll(io.NewSectionReader(f, from, n))
	return tail, from > 0, err
}

// ErrForeign reports a file that the program did not write.
var ErrForeign = errors.New("this command did not write the file that is there")

// Replaceable returns an error if path is a folder, or ErrForeign if it is a file that the program did not write. The
// callback made reports whether the program wrote a file with the given Head. A missing or empty file may be replaced.
// Replaceable does not check whether the file can be written.
func Replaceable(path string, made func(head []byte) bool) error {
	info, err := os.Stat(path)
	if err == nil && info.IsDir() {
		return errors.New("there is a folder: expected the name of a file")
	}
	if err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
		return nil
	}
	if head, err := Head(path); err != nil || !made(head) {
		return ErrForeign
	}
	return nil
}

// Head returns the first bytes of the file at path, at most 64 KiB.
func Head(path string) ([]byte, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, 64<<10))
}

// Creatable returns an error if dir, or the nearest existing folder above it, does not accept new files.
func Creatable(dir string) error {
	for {
		if _, err := os.Stat(dir); err == nil || dir == filepath.Dir(dir) {
			return Writable(dir)
		}
		dir = filepath.Dir(dir)
	}
}

// Writable returns an error if no file can be created in dir.
func Writable(dir string) error {
	f, err := os.CreateTemp(dir, ".writing-")
	if failed, ok := errors.AsType[*os.PathError](err); ok {
		return &os.PathError{Op: "write in", Path: dir, Err: failed.Err}
	} else if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}
