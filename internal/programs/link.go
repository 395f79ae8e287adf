package programs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A link is the connection to a supervisor.
type link struct {
	socket  *socket
	process *os.Process
	done    chan struct{} // closed when the supervisor and all its programs have ended
	why     error         // why the link ended; valid once done is closed

	mu       sync.Mutex
	next     int
	programs map[int]*program // programs that are starting or running
}

// A program is a Process, with the supervisor's answer to the request to start it.
type program struct {
	Process
	started chan error // receives one value
	runs    bool
}

// newLink starts a supervisor.
func newLink() (*link, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socketpair", err)
	}
	theirs := os.NewFile(uintptr(pair[1]), "socket")
	defer theirs.Close()
	ours, err := newSocket(os.NewFile(uintptr(pair[0]), "socket"))
	if err != nil {
		return nil, err
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, errors.Join(err, ours.conn.Close())
	}
	defer null.Close()
	// /proc/self/exe still works if the executable was replaced. The separate process group keeps signals of terminals
	// and launchers away. A separate session would do the same, but it competes with other sessions for busy cores: a
	// simulator's step would take twice as long.
	process, err := os.StartProcess("/proc/self/exe", append([]string{supervisorName}, os.Args[1:]...), &os.ProcAttr{
		Env: Environ(), Files: []*os.File{null, null, os.Stderr, theirs}, Sys: &syscall.SysProcAttr{Setpgid: true}})
	if err != nil {
		return nil, errors.Join(err, ours.conn.Close())
	}
	l := &link{socket: ours, process: process, done: make(chan struct{}), programs: map[int]*program{}}
	go l.listen()
	return l, nil
}

// listen handles the supervisor's reports until the supervisor ends.
func (l *link) listen() {
	for {
		var r report
		if err := l.socket.receive(&r); err != nil {
			break
		}
		l.mu.Lock()
		p := l.programs[r.ID]
		switch {
		case r.Ended:
			delete(l.programs, r.ID)
			p.end(exitError(r.Status))
		case r.PID > 0:
			p.pid, p.runs = r.PID, true
			p.started <- nil
		default:
			delete(l.programs, r.ID)
			p.started <- r.Errno
		}
		l.mu.Unlock()
	}
	l.socket.conn.Close()
	state, err := l.process.Wait()
	if l.why = err; err == nil {
		l.why = fmt.Errorf("its supervisor ended: %v", state)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.programs {
		if !p.runs {
			p.started <- l.why
			continue
		}
		syscall.Kill(-p.pid, syscall.SIGKILL) // the supervisor can no longer kill it
		p.end(l.why)
	}
	l.programs = nil
	close(l.done)
}

func (l *link) hasEnded() bool {
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}

// start starts cmd with the given files.
func (l *link) start(cmd *exec.Cmd, files []*os.File) (*Process, error) {
	p := &program{started: make(chan error, 1)}
	l.mu.Lock()
	if l.programs == nil {
		l.mu.Unlock()
		return nil, l.why
	}
	l.next++
	id := l.next
	l.programs[id] = p
	l.mu.Unlock()
	p.Process = Process{done: make(chan struct{}), giveUp: func() { l.process.Kill() },
		signal: func(sig syscall.Signal) { l.socket.send(request{ID: id, Signal: sig}, nil) },
		stop:   func(grace time.Duration) { l.socket.send(request{ID: id, StopFirst: grace}, nil) }}
	timer := time.AfterFunc(limit, func() { l.process.Kill() })
	defer timer.Stop()
	// An error here means that the supervisor has ended. listen reports it.
	l.socket.send(request{ID: id, Path: cmd.Path, Args: cmd.Args, Env: cmd.Environ(), Dir: cmd.Dir,
		Files: len(files)}, files)
	err := <-p.started
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return nil, &fs.PathError{Op: "fork/exec", Path: cmd.Path, Err: errno}
	}
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	return &p.Process, nil
}

// close ends the supervisor and waits until all programs and their descendants have ended. It returns an error if this
// takes longer than closeLimit.
func (l *link) close() error {
	l.socket.conn.CloseWrite()
	select {
	case <-l.done:
		return nil
	case <-time.After(closeLimit):
		return fmt.Errorf("processes that were to end with this one still run %v after they were killed", closeLimit)
	}
}

// closeLimit is the longest time that close waits.
const closeLimit = 5 * time.Second
