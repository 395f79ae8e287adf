package session

import (
	"bytes"
	"cmp"
	"io"
	"os"
	"path/filepath"
	"sync"

	"github.com/rlinf/rlinf/internal/printable"
)

// A RankLog is the log of a process: standard error, and a file in the run's folder. The text written before the folder
// is open goes into the file, too. The first text creates the file. A RankLog is safe for concurrent use.
type RankLog struct {
	to    io.Writer // replaces standard error unless nil
	mu    sync.Mutex
	early bytes.Buffer
	path  string // "" until the folder is open
	file  *os.File
}

// Write writes p to standard error and the file, with escapes in place of control characters. It ignores errors of the
// file, because standard error has the text.
func (l *RankLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	safe := printable.Text(string(p))
	l.early.WriteString(safe)
	l.flush()
	if _, err := io.WriteString(cmp.Or(l.to, io.Writer(os.Stderr)), safe); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Keep writes p only to the file. If the folder is not open, Keep calls Write.
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

// Repeat writes p only to the file, as soon as the folder is open. It is for text that repeats earlier messages.
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

// flush writes pending text to the file.
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
