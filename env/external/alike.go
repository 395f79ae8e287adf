package external

import (
	"io"
	"strings"
	"sync"
)

// A repeater is a log with a separate place for lines and failures that it has shown before. If
// many simulators write or fail alike, a person needs to see only one.
type repeater interface{ Repeat(p []byte) }

// Repeat writes p to the log's place for repeats. It returns false if the log has none.
func (w *lineWriter) Repeat(p []byte) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	r, ok := w.to.(repeater)
	if ok {
		r.Repeat(p)
	}
	return ok
}

// A novelWriter takes lines of children, each with the child's name before it. It passes on lines
// that no other child has written before; others go to the log's place for repeats.
type novelWriter struct {
	to *lineWriter
	mu sync.Mutex
	by map[string]string // line → the child that wrote it first
}

// mostNovel is the most lines that a novelWriter remembers.
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
