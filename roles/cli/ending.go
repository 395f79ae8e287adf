package cli

import (
	"cmp"
	"errors"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"sync"
	"syscall"
)

// endOnlyAsDocumented keeps two ends from this process that look like something else, until restore
// is called. A write to a reader that has gone away fails and does not kill: programs that this
// process starts keep the kernel's default, which signal.Ignore would change. A crash of Go's
// runtime ends by SIGABRT, exit code 134, because Go's own 2 means wrong usage here. It leaves a
// core file only with GOTRACEBACK=crash in the environment.
func endOnlyAsDocumented() (restore func()) {
	lost := make(chan os.Signal, 1)
	signal.Notify(lost, syscall.SIGPIPE)
	if os.Getenv("GOTRACEBACK") != "crash" {
		var core syscall.Rlimit
		if syscall.Getrlimit(syscall.RLIMIT_CORE, &core) == nil {
			core.Cur = 0
			syscall.Setrlimit(syscall.RLIMIT_CORE, &core) // else there is a core file
		}
	}
	debug.SetTraceback("crash")
	return func() { signal.Stop(lost) }
}

// An output is a Writer that drops what its reader, which has gone away, does not read: the command
// goes on. Any other failure it keeps, so that a command that lost what it wrote ends with an error.
type output struct {
	to     io.Writer
	mu     sync.Mutex
	failed error // the first one
}

// Write writes p, unless nobody reads it.
func (w *output) Write(p []byte) (int, error) {
	n, err := w.to.Write(p)
	if errors.Is(err, syscall.EPIPE) {
		return len(p), nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failed = cmp.Or(w.failed, err)
	return n, err
}

// err returns the failure that was kept; nil: nothing is lost.
func (w *output) err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failed
}
