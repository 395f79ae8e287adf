package spmd

import (
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
)

// A Failure is the first error of a job, and where it happened.
type Failure struct {
	Component string // the worker's group, the name given to World.Go, or "" for the program's main
	Member    int    // the worker's number in its group; -1 if it was not a worker
	Rank      int
	Host      string
	Step      int64 // last value of World.SetStep; -1 if it was never called
	Err       error
	Stack     []byte // stack of a panic; nil for a returned error
}

// Error returns one line: component[member] rank R host H step S: cause.
func (f *Failure) Error() string {
	var b strings.Builder
	if f.Component != "" {
		b.WriteString(f.Component)
		if f.Member >= 0 {
			fmt.Fprintf(&b, "[%d]", f.Member)
		}
		b.WriteByte(' ')
	}
	fmt.Fprintf(&b, "rank %d host %s", f.Rank, f.Host)
	if f.Step >= 0 {
		fmt.Fprintf(&b, " step %d", f.Step)
	}
	fmt.Fprintf(&b, ": %v", f.Err)
	return b.String()
}

// Unwrap returns the cause.
func (f *Failure) Unwrap() error { return f.Err }

// annotate prefixes *err with a formatted text, unless *err is nil.
func annotate(err *error, format string, args ...any) {
	if *err != nil {
		*err = fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), *err)
	}
}

var errGoexit = errors.New("a goroutine ended by runtime.Goexit")

// A panicError carries the value and stack of a recovered panic.
type panicError struct {
	value any
	stack []byte
}

func (p *panicError) Error() string { return fmt.Sprintf("panic: %v", p.value) }

func (p *panicError) Unwrap() error {
	err, _ := p.value.(error)
	return err
}

// protect runs f and calls report with the error of f, which is nil after a success. A panic or Goexit of f counts as
// an error. protect has no result, because after a Goexit of f it never returns.
func protect(report func(error), f func() error) {
	err := errGoexit
	defer func() {
		if v := recover(); v != nil {
			err = &panicError{value: v, stack: debug.Stack()}
		}
		report(err)
	}()
	err = f()
}
