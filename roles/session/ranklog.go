package session

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"sync"
)

// A RankLog is the log of a process: standard error, and a file in the run's folder once there is
// one. The file begins with what was written before, and is only made if there is something to
// write. Safe for concurrent use.
type RankLog struct {
	to    io.Writer // in place of standard error; nil: that
	mu    sync.Mutex
	early bytes.Buffer
	path  string // "" while there is no folder
	file  *os.File
}

// Write writes p to both. A file that cannot be written does not end the run: standard error has
// everything.
func (l *RankLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.early.Write(p)
	l.flush()
	if l.to != nil {
		return l.to.Write(p)
	}
	return os.Stderr.Write(p)
}

// Keep writes p to the file alone; to standard error if there is no folder yet.
func (l *RankLog) Keep(p []byte) {
	l.mu.Lock()
	known := l.path != ""
	if known {
		l.early.Write(p)
		l.flush()
	}
	l.mu.Unlock()
	if !known {
		l.Write(p)
	}
}

// Repeat writes p, which is like what was written before, to the file alone, once there is one.
func (l *RankLog) Repeat(p []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.early.Write(p)
	l.flush()
}

// open sets the file of the log.
func (l *RankLog) open(path string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.path = path
	l.flush()
}

// flush writes the rest to the file.
func (l *RankLog) flush() {
	if l.path == "" || l.early.Len() == 0 {
		return
	}
	if l.file == nil {
		if os.MkdirAll(filepath.Dir(l.path), 0o777) != nil {
			return
		}
		var err error
		if l.file, err = os.OpenFile(l.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o666); err != nil {
			return
		}
	}
	l.early.WriteTo(l.file)
}
