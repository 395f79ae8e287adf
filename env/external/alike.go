package external

import (
	"io"
	"strings"
	"sync"
)

// A repeater is a log that has a place apart for what it has shown before: of simulators that write or
// fail alike a person need see one.
type repeater interface{ Repeat(p []byte) }

// Repeat writes p to the place apart of the log. It reports whether the log has one.
func (w *lineWriter) Repeat(p []byte) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	r, ok := w.to.(repeater)
	if ok {
		r.Repeat(p)
	}
	return ok
}

// A novelWriter takes lines of children, each with the child's name before it, and passes on those that
// no other child has written before. Others go to the place apart of the log.
type novelWriter struct {
	to *lineWriter
	mu sync.Mutex
	by map[string]string // line → the child that wrote it first
}

// mostNovel bounds the lines that a novelWriter remembers.
const mostNovel = 1 << 12

// Write takes a line.
func (w *novelWriter) Write(p []byte) (int, error) {
	who, line, _ := strings.Cut(string(p), ": ")
	w.mu.Lock()
	first, known := w.by[line]
	if !known && len(w.by) < mostNovel {
		w.by[line] = who
	}
	w.mu.Unlock()
	if known && first != who && w.to.Repeat(p) {
		return len(p), nil
	}
	return w.to.Write(p)
}

var _ io.Writer = (*novelWriter)(nil)
