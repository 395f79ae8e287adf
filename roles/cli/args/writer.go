package args

import (
	"cmp"
	"errors"
	"io"
	"os"
	"sync"
	"syscall"

	"github.com/rlinf/rlinf/internal/metrics"
	"github.com/rlinf/rlinf/spmd/mpi"
	"github.com/urfave/cli/v2"
)

// A Writer is an io.Writer that drops what its reader, which has gone away, does not read: the command
// goes on. Any other failure it keeps, so that a command that lost what it wrote ends with an error.
type Writer struct {
	to     io.Writer
	mu     sync.Mutex
	failed error // the first one
}

// NewWriter returns a Writer that writes to w.
func NewWriter(w io.Writer) *Writer { return &Writer{to: w} }

// Write writes p, unless nobody reads it.
func (w *Writer) Write(p []byte) (int, error) {
	n, err := w.to.Write(p)
	if errors.Is(err, syscall.EPIPE) {
		return len(p), nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failed = cmp.Or(w.failed, err)
	return n, err
}

// Err returns the failure that was kept; nil: nothing is lost.
func (w *Writer) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failed
}

// Terminal returns the terminal that the user looks at, where out is one; else nil. Open MPI's ranks see
// a terminal whatever the user sees.
func Terminal(out io.Writer) *os.File {
	if o, ok := out.(*Writer); ok {
		out = o.to
	}
	f, ok := out.(*os.File)
	if _, launcher := mpi.Launched(); !ok || launcher != "" || !metrics.IsTerminal(f) {
		return nil
	}
	return f
}

// Progress shows the work of a command on standard error, phase first, until stop is called. Calls of
// stop after the first do nothing.
func Progress(c *cli.Context, phase string) (p *metrics.Progress, stop func()) {
	p = metrics.NewProgress(c.App.ErrWriter, metrics.On(Terminal(c.App.ErrWriter)))
	end := p.Watch()
	p.Phase(phase)
	return p, sync.OnceFunc(func() {
		end()
		p.Done()
	})
}
