//go:build unix

package bench

import "golang.org/x/sys/unix"

// mapped returns memory outside the Go heap, and what gives it back at once.
func mapped(n int) (b []byte, free func() error, err error) {
	b, err = unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	return b, func() error { return unix.Munmap(b) }, err
}
