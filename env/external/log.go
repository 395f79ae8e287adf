package external

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
)

// A lineWriter serialises writes.
type lineWriter struct {
	mu sync.Mutex
	to io.Writer
}

func (w *lineWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.to.Write(p)
}

// Repeat writes p, which the log has shown before, to the log's place for repeats. It returns false if the log has
// none. If many simulators write or fail alike, a person needs to see only one.
func (w *lineWriter) Repeat(p []byte) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	r, ok := w.to.(interface{ Repeat(p []byte) })
	if ok {
		r.Repeat(p)
	}
	return ok
}

// A novelWriter takes lines of children, each with the child's name before it. Lines that another child has written
// before go to the log's place for repeats.
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

// maxOutput is the most bytes of output of all children of a Hub that go to its log. Without a
// limit, children that are replaced again and again would fill the disk.
const maxOutput = 16 << 20

// A limitedWriter passes on writes until left bytes are passed on. Then it writes one notice and
// drops the rest. It may be used by several goroutines.
type limitedWriter struct {
	mu   sync.Mutex
	to   io.Writer
	left int // < 0: no bytes are left, and the notice was written
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
