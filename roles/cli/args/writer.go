package args

import (
	"cmp"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
	"unicode"
	"unicode/utf8"

	"github.com/rlinf/rlinf/internal/metrics"
	"github.com/rlinf/rlinf/spmd/mpi"
	"github.com/urfave/cli/v2"
)

// A Writer writes the output of a command. When the reader of the output has gone away, the Writer drops the output, so
// that the command goes on. It records any other error, so that a command with lost output ends with an error.
type Writer struct {
	to     io.Writer
	mu     sync.Mutex
	failed error // the first error
	gone   bool  // the reader has gone away
}

// NewWriter returns a Writer that writes to w.
func NewWriter(w io.Writer) *Writer { return &Writer{to: w} }

// Write writes p, unless the reader has gone away.
func (w *Writer) Write(p []byte) (int, error) {
	n, err := w.to.Write(p)
	w.mu.Lock()
	defer w.mu.Unlock()
	if errors.Is(err, syscall.EPIPE) {
		w.gone = true
		return len(p), nil
	}
	w.failed = cmp.Or(w.failed, err)
	return n, err
}

// Err returns the recorded error, or nil if no output was lost.
func (w *Writer) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failed
}

// Gone reports whether the reader of the output has gone away.
func (w *Writer) Gone() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.gone
}

// Terminal returns the terminal behind w, or nil if w is no terminal. It also returns nil under a launcher, because
// ranks of Open MPI see a terminal even if there is none.
func Terminal(w io.Writer) *os.File {
	if o, ok := w.(*Writer); ok {
		w = o.to
	}
	f, ok := w.(*os.File)
	if _, launcher := mpi.Launched(); !ok || launcher != "" || !metrics.IsTerminal(f) {
		return nil
	}
	return f
}

// Progress shows the work of a command on standard error, until stop is called. phase names the first phase of the
// work. stop may be called more than once.
func Progress(c *cli.Context, phase string) (p *metrics.Progress, stop func()) {
	p = metrics.NewProgress(c.App.ErrWriter, metrics.On(Terminal(c.App.ErrWriter)))
	end := p.Watch()
	p.Phase(phase)
	return p, sync.OnceFunc(func() {
		end()
		p.Done()
	})
}

// Printable returns the text of a file as a terminal can show it. Control characters become question marks, and
// combining accents are left out.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t':
			return ' '
		case unicode.Is(unicode.Mn, r) || unicode.Is(unicode.Me, r):
			return -1
		case r == utf8.RuneError || !unicode.IsPrint(r):
			return '?'
		}
		return r
	}, text)
}
