package programs

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// An Entered proves that the program has called Enter, so its executable can be a supervisor.
type Entered struct{ entered bool }

// Enter must be the first call in main: before MPI starts, and before threads or files are made. If a Starter started
// this process as its supervisor, Enter runs the supervisor and does not return.
func Enter() Entered {
	if len(os.Args) > 0 && os.Args[0] == supervisorName {
		if err := supervise(); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v; expected to be started by rlinf\n", supervisorName, err)
			os.Exit(2)
		}
		os.Exit(0)
	}
	return Entered{entered: true}
}

// NewStarter returns a Starter with its own supervisor.
func (e Entered) NewStarter() *Starter { return &Starter{entry: e} }

// Environ returns the environment of this process without the variables of the MPI launcher. With these variables, a
// program that uses MPI would try to join the job.
func Environ() []string {
	return slices.DeleteFunc(os.Environ(), func(e string) bool {
		return slices.ContainsFunc([]string{"OMPI_", "PMI_", "PMIX_", "PMI2_", "PRTE_", "HYDI_", "HYDRA_", "MPIR_"},
			func(prefix string) bool { return strings.HasPrefix(e, prefix) })
	})
}

// A Starter starts programs, each in its own process group. The zero Starter starts them without a supervisor. A
// Starter is safe for concurrent use.
type Starter struct {
	entry Entered

	mu     sync.Mutex
	link   *link       // connection to the supervisor; nil before it is started
	thread chan func() // starts programs without a supervisor; nil before the first program
}

// limit is the maximum time in which a supervisor starts a program, and in which a program ends after SIGKILL. After
// this time the supervisor is killed, because it may be stopped or may wait for a disk.
const limit = 5 * time.Minute

// A Process is a program started by a Starter.
type Process struct {
	pid    int // also the ID of the process group
	done   chan struct{}
	err    error // valid once done is closed
	signal func(syscall.Signal)
	stop   func(time.Duration) // nil without a supervisor
	giveUp func()              // called if the process does not end after SIGKILL
}

// Done returns a channel that closes when the program has ended and the other processes of its group have been killed.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err returns the program's outcome after Done: nil for exit status 0, otherwise an ExitError.
func (p *Process) Err() error { return p.err }

// Signal sends sig to the program and its process group, unless the program has ended.
func (p *Process) Signal(sig syscall.Signal) { p.signal(sig) }

// StopFirst tells the supervisor how to end the program if this process ends first: with SIGTERM, and with SIGKILL
// after the time grace. Without a supervisor it does nothing.
func (p *Process) StopFirst(grace time.Duration) {
	if p.stop != nil {
		p.stop(grace)
	}
}

// Kill kills the program and its process group, and waits until the program has ended.
func (p *Process) Kill() {
	p.Signal(syscall.SIGKILL)
	select {
	case <-p.done:
	case <-time.After(limit):
		p.giveUp()
		<-p.done
	}
}

func (p *Process) end(err error) {
	p.err = err
	close(p.done)
}

// An ExitError is the error of a program whose exit status is not 0.
type ExitError struct{ Status syscall.WaitStatus }

// Error returns the same text as exec.ExitError, such as "exit status 7" or "signal: killed".
func (e *ExitError) Error() string {
	if !e.Status.Signaled() {
		return "exit status " + strconv.Itoa(e.Status.ExitStatus())
	}
	text := "signal: " + e.Status.Signal().String()
	if e.Status.CoreDump() {
		text += " (core dumped)"
	}
	return text
}

// exitError returns the ExitError of a status, or nil for status 0.
func exitError(status syscall.WaitStatus) error {
	if status == 0 {
		return nil
	}
	return &ExitError{status}
}

// Start starts cmd. It uses cmd's Path, Args, Env, Dir and ExtraFiles. It also uses Stdin, Stdout and Stderr, which
// must be files or nil. The files may be closed after Start has returned. Start returns the same errors as
// exec.Cmd.Start.
func (s *Starter) Start(cmd *exec.Cmd) (*Process, error) {
	if cmd.Err != nil {
		return nil, cmd.Err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.entry.entered {
		return s.startHere(cmd)
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	files := []*os.File{null, null, null}
	for i, stream := range []any{cmd.Stdin, cmd.Stdout, cmd.Stderr} {
		switch f := stream.(type) {
		case nil:
		case *os.File:
			files[i] = f
		default:
			return nil, fmt.Errorf("start %s: descriptor %d is a %T, expected a file", cmd.Path, i, stream)
		}
	}
	files = append(files, cmd.ExtraFiles...)
	if len(files) > maxFiles {
		return nil, fmt.Errorf("start %s: %d files, expected at most %d", cmd.Path, len(files), maxFiles)
	}
	if s.link == nil || s.link.hasEnded() {
		if s.link, err = newLink(); err != nil {
			return nil, fmt.Errorf("start a supervisor: %w", err)
		}
	}
	return s.link.start(cmd, files)
}

// startHere starts cmd as a child of this process. All programs start on one thread, because a child gets its
// parent-death signal when the thread that started it ends.
func (s *Starter) startHere(cmd *exec.Cmd) (*Process, error) {
	if s.thread == nil {
		jobs := make(chan func())
		s.thread = jobs
		go func() {
			runtime.LockOSThread() // for good: the thread ends with the goroutine
			for job := range jobs {
				job()
			}
		}()
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	s.thread <- func() { started <- cmd.Start() }
	if err := <-started; err != nil {
		return nil, err
	}
	p := &Process{pid: cmd.Process.Pid, done: make(chan struct{}), giveUp: func() {}}
	p.signal = func(sig syscall.Signal) {
		select {
		case <-p.done:
		default:
			syscall.Kill(-p.pid, sig)
		}
	}
	go func() {
		err := cmd.Wait()
		syscall.Kill(-p.pid, syscall.SIGKILL)
		if cmd.ProcessState != nil {
			err = exitError(cmd.ProcessState.Sys().(syscall.WaitStatus))
		}
		p.end(err)
	}()
	return p, nil
}

// CombinedOutput runs cmd and returns its standard output and standard error. When ctx ends, the program gets SIGTERM,
// and SIGKILL 5 s later.
func (s *Starter) CombinedOutput(ctx context.Context, cmd *exec.Cmd) ([]byte, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	cmd.Stdout, cmd.Stderr = w, w
	p, err := s.Start(cmd)
	if w.Close(); err != nil {
		return nil, err
	}
	read := make(chan []byte, 1)
	go func() {
		text, _ := io.ReadAll(r)
		read <- text
	}()
	select {
	case <-p.Done():
	case <-ctx.Done():
		p.Signal(syscall.SIGTERM)
		select {
		case <-p.Done():
		case <-time.After(5 * time.Second):
			p.Kill()
		}
	}
	r.SetReadDeadline(time.Now().Add(time.Second)) // a process outside of the group may keep the pipe open
	return <-read, p.Err()
}

// Close ends all programs of s and their descendants. After that, s can start other programs.
func (s *Starter) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.thread != nil {
		close(s.thread)
		s.thread = nil
	}
	if s.link == nil {
		return nil
	}
	err := s.link.close()
	s.link = nil
	return err
}
