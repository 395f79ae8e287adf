//go:build mpi

package mpi

import (
	"bytes"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// A hydra forwards the messages between MPI and Hydra, the launcher of MPICH, while MPI_Finalize runs. If MPI_Finalize
// does not return, leave sends the remaining messages. Without them, Hydra assumes a crash and kills the other
// processes.
//
// The messages are lines of PMI 1. MPI_Finalize has one barrier: each process sends "cmd=barrier_in", and the launcher
// replies "cmd=barrier_out" when all processes have sent it. Then the process sends "cmd=finalize", and the launcher
// replies "cmd=finalize_ack". Hydra fails if a process sends "cmd=finalize" before the barrier ends. MPICH may deadlock
// in this barrier, because it serves no connections while it waits.
type hydra struct {
	launcher, mpi *os.File
	out, ack      chan struct{} // closed at barrier_out, and at finalize_ack

	mu            sync.Mutex // guards the fields below and the writes to launcher
	in, finalized bool       // MPI has sent barrier_in; MPI has sent finalize
	left          bool       // leave was called: messages of MPI are not forwarded
}

// openHydra puts a hydra between MPI and the launcher. It returns nil under other launchers. Slurm's PMI
// does not expect a finalize message.
func openHydra() *hydra {
	fd, err := strconv.Atoi(os.Getenv("PMI_FD"))
	if _, launcher := Launched(); err != nil || launcher != "mpiexec" {
		return nil
	}
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		unix.Close(own)
		return nil
	}
	unix.SetNonblock(own, true) // so that waiting reads block no thread
	unix.SetNonblock(pair[0], true)
	h := &hydra{launcher: os.NewFile(uintptr(own), "launcher"), mpi: os.NewFile(uintptr(pair[0]), "mpi"),
		out: make(chan struct{}), ack: make(chan struct{})}
	err = unix.Dup3(pair[1], fd, unix.O_CLOEXEC)
	unix.Close(pair[1])
	if err != nil {
		h.launcher.Close()
		h.mpi.Close()
		return nil
	}
	go h.listen()
	go h.speak()
	return h
}

// speak forwards MPI's messages to the launcher, until MPI closes its end.
func (h *hydra) speak() {
	relay(h.mpi, func(text []byte, lines []string) {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.left {
			return
		}
		h.in = h.in || slices.Contains(lines, "cmd=barrier_in")
		h.finalized = h.finalized || slices.Contains(lines, "cmd=finalize")
		h.launcher.Write(text) // an error means that the launcher has ended
	})
	if !h.hasLeft() {
		h.launcher.Close()
	}
}

// listen forwards the launcher's messages to MPI, until the launcher closes its end.
func (h *hydra) listen() {
	out, ack := sync.OnceFunc(func() { close(h.out) }), sync.OnceFunc(func() { close(h.ack) })
	relay(h.launcher, func(text []byte, lines []string) {
		if slices.Contains(lines, "cmd=barrier_out") {
			out()
		}
		if slices.Contains(lines, "cmd=finalize_ack") {
			ack()
		}
		if !h.hasLeft() {
			h.mpi.Write(text)
		}
	})
	if !h.hasLeft() { // after leave, MPI would treat the closed connection as an error
		h.mpi.Close()
	}
}

func (h *hydra) hasLeft() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.left
}

// relay reads f to its end. It calls forward with the bytes of each read, and the lines that these bytes complete.
func relay(f *os.File, forward func(text []byte, lines []string)) {
	var rest []byte // the beginning of a line
	text := make([]byte, 4096)
	for {
		n, err := f.Read(text)
		rest = append(rest, text[:n]...)
		var lines []string
		for {
			line, after, whole := bytes.Cut(rest, []byte("\n"))
			if !whole {
				break
			}
			lines, rest = append(lines, string(bytes.TrimSpace(line))), after
		}
		forward(text[:n], lines)
		if err != nil {
			return
		}
	}
}

// leave sends the messages that MPI has not sent. It waits at most the given time for each reply. The process must not
// end before the last reply, because Hydra fails if it cannot send its reply.
func (h *hydra) leave(wait time.Duration) {
	h.mu.Lock()
	h.left = true
	if !h.in {
		h.launcher.Write([]byte("cmd=barrier_in\n"))
	}
	finalized := h.finalized
	h.mu.Unlock()
	if !finalized {
		await(h.out, wait)
		h.launcher.Write([]byte("cmd=finalize\n"))
	}
	await(h.ack, wait)
}

// await returns when c is closed, or after the given time.
func await(c <-chan struct{}, wait time.Duration) {
	select {
	case <-c:
	case <-time.After(wait):
	}
}
