package args

import (
	"cmp"
	"errors"
	"io"
	"os"
	"sync"
	"syscall"

	"github.com/rlinf/rlinf/internal/metrics"
	"github.com/rlinf/rlinf/internal/printable"
	"github.com/rlinf/rlinf/spmd/mpi"
	"github.com/urfave/cli/v2"
)

// A Writer writes the output of a command, with escapes in place of control characters (printable.Text). When the
// reader of the output has gone away, the Writer drops the output, so that the command goes on. It records any other
// error, so that a command with lost output ends with an error.
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
	if _, err := w.write([]byte(printable.Text(string(p)))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// write writes p without escapes.
func (w *Writer) write(p []byte) (int, error) {
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

// Exact returns a writer to w that writes texts as they are, for commands whose result is a text. A terminal gets
// escapes.
func Exact(w io.Writer) io.Writer {
	if o, ok := w.(*Writer); ok && Terminal(w) == nil {
		return exact{o}
	}
	return w
}

type exact struct{ to *Writer }

func (e exact) Write(p []byte) (int, error) { return e.to.write(p) }

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
func Progress(c *cli.Context, phase string) (p *metrics.ProgressLine, stop func()) {
	out, terminal := c.App.ErrWriter, Terminal(c.App.ErrWriter)
	if terminal != nil {
		out = terminal // a live line needs control sequences
	}
	p = metrics.NewProgressLine(out, metrics.On(terminal))
	end := p.Watch()
	p.Phase(phase)
	return p, sync.OnceFunc(func() {
		end()
		p.Done()
	})
}
