package external

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rlinf/rlinf/internal/printable"
	"github.com/rlinf/rlinf/internal/programs"
)

// A process is a child that this process started.
type process struct {
	program *programs.Process
	memory  *os.File      // shared memory that the child inherits
	stops   bool          // it is a robot, which gets SIGTERM before it is killed
	done    chan struct{} // closed when the child has exited and its output was read

	mu       sync.Mutex
	lines    []string // the last lines of its output
	unlogged bool     // some of the output is not in the log
}

// lastLines is the number of output lines in the report of a failure. lineLimit is the maximum
// length of a line in bytes.
const (
	lastLines = 10
	lineLimit = 4096
)

// grace is the time that a child has to exit before it is killed.
const grace = 2 * time.Second

// start runs command as a child process, and returns a stream to the child. The child's output goes
// to log, each line after the child's name and a colon.
func start(s *programs.Starter, command []string, name string, log io.Writer) (p *process, link *stream, err error) {
	p = &process{done: make(chan struct{})}
	var files []*os.File // files to close before start returns
	defer func() {
		for _, f := range files {
			f.Close()
		}
	}()
	pipe := func() (r, w *os.File) {
		if err == nil {
			if r, w, err = os.Pipe(); err == nil {
				files = append(files, r, w)
			}
		}
		return r, w
	}
	requestsOut, requestsIn := pipe()
	answersOut, answersIn := pipe()
	linesOut, linesIn := pipe()
	if err == nil {
		p.memory, err = newAnonymous()
	}
	if err != nil {
		return nil, nil, err
	}
	cmd := exec.Command(command[0], command[1:]...)
	own := slices.DeleteFunc(programs.Environ(), func(e string) bool { return strings.HasPrefix(e, "RLB_") })
	cmd.Env = append(withClient(own, os.Executable), "RLB_ADDR=fd:3,4")
	cmd.ExtraFiles = []*os.File{requestsOut, answersIn, p.memory} // 3, 4, inherited
	cmd.Stdout, cmd.Stderr = linesIn, linesIn
	if p.program, err = s.Start(cmd); err != nil {
		return nil, nil, errors.Join(err, p.memory.Close())
	}
	files = []*os.File{requestsOut, answersIn, linesIn}
	go p.watch(linesOut, name, log)
	if link, err = newPipes(answersOut, requestsIn); err != nil {
		return nil, nil, errors.Join(err, p.end(true))
	}
	return p, link, nil
}

// watch copies the child's output to log, and closes p.done when the child has exited.
func (p *process) watch(out *os.File, name string, log io.Writer) {
	written := make(chan struct{})
	go func() {
		defer close(written)
		defer out.Close()
		lines := bufio.NewReaderSize(out, lineLimit)
		for {
			text, _, err := lines.ReadLine() // splits longer lines
			if err != nil {
				return
			}
			line := printable.Text(string(text))
			p.mu.Lock()
			p.lines = append(p.lines[max(0, len(p.lines)-lastLines+1):], line)
			p.mu.Unlock()
			if _, err := fmt.Fprintf(log, "%s: %s\n", name, line); err != nil {
				p.mu.Lock()
				p.unlogged = true
				p.mu.Unlock()
			}
		}
	}()
	<-p.program.Done()
	select { // a process outside the child's group may still hold the pipe open
	case <-written:
	case <-time.After(time.Second):
	}
	close(p.done)
}

// end kills the child and its descendants. If useless is false, the child first has some time (grace) to exit. A robot
// then gets SIGTERM, and the same time again.
func (p *process) end(useless bool) error {
	wait := func() {
		select {
		case <-p.done:
		case <-time.After(grace):
		}
	}
	if !useless {
		wait()
	}
	if p.stops {
		p.program.Signal(syscall.SIGTERM)
		wait()
	}
	p.program.Kill()
	<-p.done
	return p.memory.Close()
}

// fate returns the exit status of the child, or "" if the child does not exit soon. It waits longer
// if err indicates that the child is about to exit.
func (p *process) fate(err error) string {
	patience := 200 * time.Millisecond
	if errors.Is(err, ErrGone) || errors.Is(err, errMute) || errors.As(err, new(complaint)) {
		patience = grace
	}
	select {
	case <-p.done:
		if err := p.program.Err(); err != nil {
			return fmt.Sprintf(" (%v)", err)
		}
		return " (exit status 0)"
	case <-time.After(patience):
		return ""
	}
}

// logged reports whether the log has all of the child's output.
func (p *process) logged() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.unlogged
}

// withClient adds the folder clients/python beside this program to PYTHONPATH, so that a child in Python finds rlinf's
// client. The user's own folders come first. If there is no such folder, withClient returns environ unchanged.
func withClient(environ []string, executable func() (string, error)) []string {
	path, err := executable()
	client := filepath.Join(filepath.Dir(path), "clients", "python")
	if _, missing := os.Stat(filepath.Join(client, "rlb")); err != nil || missing != nil {
		return environ
	}
	const key = "PYTHONPATH="
	for i, e := range environ {
		if of, ok := strings.CutPrefix(e, key); ok && of != "" {
			environ[i] = e + string(os.PathListSeparator) + client
			return environ
		}
	}
	return append(environ, key+client)
}

// outputTail returns the last lines of the child's output, to append to a message. It returns "" if
// there is no output.
func (p *process) outputTail() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.lines) == 0 {
		return ""
	}
	lines := p.lines
	if !p.unlogged { // a Python traceback is already in the log
		lines = slices.DeleteFunc(slices.Clone(lines), func(line string) bool {
			return strings.HasPrefix(line, "  ") || strings.HasPrefix(line, "Traceback (")
		})
	}
	if len(lines) == 0 {
		lines = p.lines
	}
	text := "; its last output:\n    " + strings.Join(lines, "\n    ")
	if strings.Contains(text, "No module named 'rlb'") {
		text += "\nPython does not find rlinf's client: pip install clients/python of rlinf's folder, or put it into " +
			"PYTHONPATH"
	}
	if strings.Contains(text, "No module named 'numpy'") {
		text += "\nThis Python has no NumPy: pip install numpy for it, or name another Python in the command " +
			"(.venv/bin/python)"
	}
	return text
}
