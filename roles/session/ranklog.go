package session

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"sync"
)

// A RankLog is where a process says what went wrong: standard error, and, once its run has a
// folder, the log of its rank there. The file begins with what was said before, and is not made
// where nothing was. Safe for concurrent use.
type RankLog struct {
	to    io.Writer // in place of standard error; nil: that
	mu    sync.Mutex
	early bytes.Buffer
	path  string // "" while there is no folder
	file  *os.File
}

// Write writes p to both. An unwritable log is no reason to end a run: the other has it all.
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

// open says where the log goes from now on.
func (l *RankLog) open(path string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.path = path
	l.flush()
}

// flush moves what was said to the file.
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
