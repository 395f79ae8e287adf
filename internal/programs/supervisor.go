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
	"time"

	"golang.org/x/sys/unix"
)

// supervisorName is argument 0 of a supervisor's command line.
const supervisorName = "rlinf-supervisor"

// socketFile is the supervisor's descriptor of the socket.
const socketFile = 3

// A supervisor is the state of a supervisor process. One goroutine uses it.
type supervisor struct {
	socket *socket
	ids    map[int]int           // request IDs of running programs, by PID
	pids   map[int]int           // PIDs of running programs, by request ID
	robots map[int]time.Duration // time from SIGTERM to SIGKILL, by PID; see StopFirst
}

// supervise runs the supervisor until the socket is closed and all its children have ended.
func supervise() error {
	runtime.LockOSThread() // a program gets its parent-death signal when the thread that started it ends
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
	if err := unix.Dup3(int(null.Fd()), 2, 0); err != nil { // standard error was kept for errors until now
		return os.NewSyscallError("dup", err)
	}
	null.Close()

	defer killAll()
	s := &supervisor{socket: link, ids: map[int]int{}, pids: map[int]int{}, robots: map[int]time.Duration{}}
	type order struct {
		request
		files []*os.File
	}
	orders := make(chan order)
	go func() { // until the parent ends or sends invalid data
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
				s.stop(ended)
				return nil
			case o.StopFirst > 0:
				if pid := s.pids[o.ID]; pid > 0 {
					s.robots[pid] = o.StopFirst
				}
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

// catch handles and drops the signals of terminals and batch systems. It does not ignore them, because programs would
// inherit ignored signals.
func catch() {
	for _, sig := range []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1,
		syscall.SIGUSR2, syscall.SIGALRM, syscall.SIGTSTP, syscall.SIGCONT, syscall.SIGXCPU} {
		if !signal.Ignored(sig) {
			signal.Notify(make(chan os.Signal, 1), sig)
		}
	}
}

// closeInherited closes the descriptors inherited from the parent, except the socket and the three standard streams.
// Inherited descriptors have no close-on-exec flag. Descriptors of the Go runtime have it.
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

// start starts a program with the given files, in its own process group, and reports the result.
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
	s.socket.send(said, nil) // after an error the receiving goroutine sees the end of the socket
}

// reap reports children that have ended. It also kills the rest of a program's process group, because these processes
// might keep the program's pipes open.
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
			continue // the child was a program's descendant
		}
		syscall.Kill(-pid, syscall.SIGKILL)
		delete(s.ids, pid)
		delete(s.pids, id)
		delete(s.robots, pid)
		s.socket.send(report{ID: id, Ended: true, Status: status}, nil)
	}
}

// stop sends SIGTERM to the programs that called StopFirst. It waits until they have ended, but no longer than the
// longest of their grace times.
func (s *supervisor) stop(ended <-chan os.Signal) {
	longest := time.Duration(0)
	for pid, grace := range s.robots {
		syscall.Kill(-pid, syscall.SIGTERM)
		longest = max(longest, grace)
	}
	for late := time.After(longest); len(s.robots) > 0; s.reap() {
		select {
		case <-ended:
		case <-late:
			return
		}
	}
}

// killAll kills the children of this process until none is left. It kills only children, because the PID of a child
// cannot be reused before its parent has waited for it. The children of a killed process become children of this
// process. The next round kills them.
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

// children returns the PIDs of this process's children.
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
		if f := strings.Fields(rest); len(f) > 1 && f[1] == own { // state, parent PID
			pids = append(pids, pid)
		}
	}
	return pids
}
