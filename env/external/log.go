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

// Repeat writes p, a text that the log has shown before, to the log's place for repeats. It returns false if the log
// has no such place. If many simulators write the same text or fail in the same way, a person needs to see only one of
// them.
func (w *lineWriter) Repeat(p []byte) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	r, ok := w.to.(interface{ Repeat(p []byte) })
	if ok {
		r.Repeat(p)
	}
	return ok
}

// A novelWriter takes lines of children, each after the child's name. Lines that another child has written before go to
// the log's place for repeats.
type novelWriter struct {
	to *lineWriter
	mu sync.Mutex
	by map[string]string // line → the child that wrote it first
}

// mostNovel is the largest number of lines that a novelWriter remembers.
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

// maxOutput limits the output of all children of a Hub together in its log, in bytes. Without a
// limit, children that are replaced again and again would fill the disk.
const maxOutput = 16 << 20

// A limitedWriter passes on writes up to a number of bytes. Then it writes one notice and drops the
// rest. It may be used by several goroutines.
type limitedWriter struct {
	mu   sync.Mutex
	to   io.Writer
	left int // bytes that it may still pass on; < 0 after the notice
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
