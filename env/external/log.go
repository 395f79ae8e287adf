package external

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
)

// A lineWriter serializes writes.
type lineWriter struct {
	mu sync.Mutex
	to io.Writer
}

func (w *lineWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.to.Write(p)
}

// Repeat passes a repeated text to the underlying writer's method Repeat, which may hide the text. It returns false if
// the writer has no such method.
func (w *lineWriter) Repeat(p []byte) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	r, ok := w.to.(interface{ Repeat(p []byte) })
	if ok {
		r.Repeat(p)
	}
	return ok
}

// A novelWriter passes on lines of the form "child: line". It uses lineWriter.Repeat for lines that another child wrote
// before.
type novelWriter struct {
	to *lineWriter
	mu sync.Mutex
	by map[string]string // line → the child that wrote it first
}

// mostNovel is the maximum number of lines that a novelWriter remembers.
const mostNovel = 1 << 12

// Write writes one line.
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

// A Hub logs at most maxOutput bytes of its children's output. Without a limit, children that fail
// again and again could fill the disk.
const maxOutput = 16 << 20

// A limitedWriter passes on a limited number of bytes. Then it writes one notice and drops the
// rest. It is safe for concurrent use.
type limitedWriter struct {
	mu   sync.Mutex
	to   io.Writer
	left int // remaining bytes; < 0 after the notice
}

func (w *limitedWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.left >= 0 {
		if w.left -= len(p); w.left >= 0 {
			return w.to.Write(p)
		}
		fmt.Fprintf(w.to, "simulators have written %d MiB: the rest is left out here, except for the last lines of "+
			"one that fails (docs/bridge.md, Addresses)\n", maxOutput>>20)
	}
	return 0, errTooMuch
}

// errTooMuch is the error of a write that a limitedWriter drops.
var errTooMuch = errors.New("too much was written before")
