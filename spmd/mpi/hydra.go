//go:build mpi

package mpi

import (
	"bytes"
	"os"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// A hydra passes on the messages between MPI and Hydra, the launcher of MPICH, while MPI_Finalize runs. If MPI_Finalize
// does not return, leave ends the conversation in its place. If a process ends without that, Hydra assumes a crash and
// kills the other processes.
//
// The messages are lines of PMI 1. MPI_Finalize has one barrier: each process sends "cmd=barrier_in", and the launcher
// answers "cmd=barrier_out" when all processes have sent it. The last message is "cmd=finalize", and its answer
// "cmd=finalize_ack". A process must not send "cmd=finalize" before the barrier ends, because then Hydra fails. While
// MPICH waits in the barrier, it does not serve connections to processes that have not reached the barrier. So they and
// this process may wait for each other for ever.
type hydra struct {
	launcher, mpi *os.File
	out, ack      chan struct{} // closed when the launcher has answered

	mu            sync.Mutex // guards the fields below and the writes to launcher
	in, finalized bool       // MPI has sent barrier_in, finalize
	left          bool       // leave was called: messages of MPI are not passed on
}

// openHydra puts a hydra between MPI and the launcher. It returns nil under other launchers: Slurm's PMI
// expects no last message.
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

// speak passes MPI's messages on to the launcher, until MPI closes its end.
func (h *hydra) speak() {
	relay(h.mpi, func(text []byte) {
		h.mu.Lock()
		defer h.mu.Unlock()
		if !h.left {
			h.launcher.Write(text) // an error means that the launcher has ended
		}
	}, func(line string) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.in = h.in || line == "cmd=barrier_in"
		h.finalized = h.finalized || line == "cmd=finalize"
	})
	if !h.hasLeft() {
		h.launcher.Close()
	}
}

// listen passes the launcher's messages on to MPI, until the launcher closes its end.
func (h *hydra) listen() {
	out, ack := sync.OnceFunc(func() { close(h.out) }), sync.OnceFunc(func() { close(h.ack) })
	relay(h.launcher, func(text []byte) {
		if !h.hasLeft() {
			h.mpi.Write(text)
		}
	}, func(line string) {
		switch line {
		case "cmd=barrier_out":
			out()
		case "cmd=finalize_ack":
			ack()
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

// relay reads f to its end. It calls pass with the bytes that it reads, and tell with each whole line.
func relay(f *os.File, pass func(text []byte), tell func(line string)) {
	var lines []byte
	text := make([]byte, 4096)
	for {
		n, err := f.Read(text)
		lines = append(lines, text[:n]...)
		for {
			line, rest, whole := bytes.Cut(lines, []byte("\n"))
			if !whole {
				break
			}
			tell(string(bytes.TrimSpace(line)))
			lines = rest
		}
		pass(text[:n])
		if err != nil {
			return
		}
	}
}

// leave sends the messages that MPI has not sent. It waits for each answer for at most the duration wait.
func (h *hydra) leave(wait time.Duration) {
	h.mu.Lock()
	h.left = true
	if !h.in {
		h.launcher.Write([]byte("cmd=barrier_in\n"))
	}
	finalized := h.finalized
	h.mu.Unlock()
	if finalized {
		return
	}
	await(h.out, wait)
	h.launcher.Write([]byte("cmd=finalize\n"))
	await(h.ack, wait)
}

// await returns when c is closed, or after the duration wait.
func await(c <-chan struct{}, wait time.Duration) {
	select {
	case <-c:
	case <-time.After(wait):
	}
}
