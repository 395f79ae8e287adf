//go:build mpi

package mpi

import (
	"bufio"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rlinf/rlinf/internal/test"
)

// connected returns the two ends of a connection.
func connected(t *testing.T) (a, b *os.File) {
	t.Helper()
	pair := test.Must(unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0))(t)
	return os.NewFile(uintptr(pair[0]), "a"), os.NewFile(uintptr(pair[1]), "b")
}

// TestHydraLeaves: MPI sends its last message at about the same time as leave. The launcher gets this message once, and
// leave returns after the launcher's reply.
func TestHydraLeaves(t *testing.T) {
	for i := range 2000 {
		h := &hydra{out: make(chan struct{}), ack: make(chan struct{})}
		var launcher, mpi *os.File
		h.launcher, launcher = connected(t)
		h.mpi, mpi = connected(t)
		go h.speak()
		go h.listen()

		var finalized, replied atomic.Int32
		go func() {
			for lines := bufio.NewScanner(launcher); lines.Scan(); {
				switch lines.Text() {
				case "cmd=barrier_in":
					launcher.Write([]byte("cmd=barrier_out\n"))
				case "cmd=finalize":
					finalized.Add(1)
					time.Sleep(100 * time.Microsecond)
					replied.Add(1)
					launcher.Write([]byte("cmd=finalize_ack\n"))
				}
			}
		}()
		mpi.Write([]byte("cmd=barrier_in\n"))
		if lines := bufio.NewScanner(mpi); !lines.Scan() || lines.Text() != "cmd=barrier_out" {
			t.Fatalf("%q, %v", lines.Text(), lines.Err())
		}
		go mpi.Write([]byte("cmd=finalize\n"))
		time.Sleep(time.Duration(i%50) * time.Microsecond)
		h.leave(5 * time.Second)
		if f, r := finalized.Load(), replied.Load(); f != 1 || r != 1 {
			t.Fatalf("round %d: %d last messages, %d replies before leave returned", i, f, r)
		}
		for _, f := range []*os.File{launcher, mpi} {
			f.Close()
		}
	}
}
