package bench

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// cpuTime returns the processor time of this process.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// mapped returns memory outside the Go heap, and a function that frees it at once.
func mapped(n int) (b []byte, free func() error, err error) {
	b, err = unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	return b, func() error { return unix.Munmap(b) }, err
}
