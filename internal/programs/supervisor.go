package programs

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// supervisorName is the first word of a supervisor's command line.
const supervisorName = "rlinf-supervisor"

// socketFile is a supervisor's descriptor of the socket.
const socketFile = 3

// A supervisor is the state of this process where it is one. All is done in one goroutine.
type supervisor struct {
	socket *socket
	ids    map[int]int // of programs that run, by their process numbers
	pids   map[int]int // the reverse
}

// supervise makes this process a supervisor, until the end of the socket and of all its children.
func supervise() error {
	runtime.LockOSThread() // programs get their parent-death signal when the thread that started them ends
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGCHLD)
	catch()
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return os.NewSyscallError("prctl", err)
	}
	if err := closeInherited(); err != nil {
		return err
	}
	link, err := newSocket(os.NewFile(socketFile, "socket"))
	if err != nil {
		return err
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	if err := unix.Dup3(int(null.Fd()), 2, 0); err != nil { // till now it has said what was wrong
		return os.NewSyscallError("dup", err)
	}
	null.Close()

	defer killAll()
	s := &supervisor{socket: link, ids: map[int]int{}, pids: map[int]int{}}
	type order struct {
		request
		files []*os.File
	}
	orders := make(chan order)
	go func() { // until the parent ends, or sends what cannot be read
		defer close(orders)
		defer func() { recover() }()
		for {
			var o order
			if link.receive(&o.request) != nil {
				return
			}
			o.files = link.take(o.Files)
			orders <- o
		}
	}()
	for {
		select {
		case o, more := <-orders:
			switch {
			case !more:
				return nil
			case o.Path == "":
				if pid := s.pids[o.ID]; pid > 0 {
					syscall.Kill(-pid, o.Signal)
				}
			default:
				s.start(&o.request, o.files)
			}
		case <-ended:
			s.reap()
		}
	}
}

// catch keeps the signals of a terminal and of a batch system from this process. It does not ignore
// them: programs would inherit that.
func catch() {
	for _, sig := range []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1,
		syscall.SIGUSR2, syscall.SIGALRM, syscall.SIGTSTP, syscall.SIGCONT, syscall.SIGXCPU} {
		if !signal.Ignored(sig) {
			signal.Notify(make(chan os.Signal, 1), sig)
		}
	}
}

// closeInherited closes the descriptors that this process got from its parent, except the socket and
// the standard ones. They are those without close-on-exec: the runtime opens none.
func closeInherited() error {
	unix.CloseOnExec(socketFile)
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	for _, e := range entries {
		fd, err := strconv.Atoi(e.Name())
		if err != nil || fd <= socketFile {
			continue
		}
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			unix.Close(fd)
		}
	}
	return nil
}

// start starts a program with these files, in a process group of its own, and reports it.
func (s *supervisor) start(r *request, files []*os.File) {
	fds := make([]uintptr, len(files))
	for i, f := range files {
		fds[i] = f.Fd()
	}
	pid, err := syscall.ForkExec(r.Path, r.Args, &syscall.ProcAttr{Dir: r.Dir, Env: r.Env, Files: fds,
		Sys: &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}})
	for _, f := range files {
		f.Close()
	}
	said := report{ID: r.ID, PID: pid}
	if err != nil {
		said.PID, said.Errno = 0, syscall.EINVAL
		errors.As(err, &said.Errno)
	} else {
		s.ids[pid], s.pids[r.ID] = r.ID, pid
	}
	s.socket.send(said, nil) // an error is the end of the socket, which the other goroutine notices
}

// reap takes note of children that have ended. It kills what is left of the process group of a
// program: it could hold the program's pipes open and hide its end.
func (s *supervisor) reap() {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
		id, ours := s.ids[pid]
		if !ours {
			continue // it was a program's
		}
		syscall.Kill(-pid, syscall.SIGKILL)
		delete(s.ids, pid)
		delete(s.pids, id)
		s.socket.send(report{ID: id, Ended: true, Status: status}, nil)
	}
}

// killAll kills the children of this process until there are none. Only children are killed: no
// other process can get their numbers before they are waited for. Their own children are the next
// round's.
func killAll() {
	for {
		for _, pid := range children() {
			syscall.Kill(pid, syscall.SIGKILL)
		}
		for options := 0; ; options = syscall.WNOHANG {
			pid, err := syscall.Wait4(-1, nil, options, nil)
			if err == syscall.ECHILD {
				return
			}
			if err == nil && pid <= 0 {
				break
			}
		}
	}
}

// children returns the children of this process.
func children() (pids []int) {
	own := strconv.Itoa(os.Getpid())
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		_, rest, _ := strings.Cut(string(stat[bytes.LastIndexByte(stat, ')')+1:]), " ")
		if f := strings.Fields(rest); len(f) > 1 && f[1] == own { // state, parent
			pids = append(pids, pid)
		}
	}
	return pids
}
