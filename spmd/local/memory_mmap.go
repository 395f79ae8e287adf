//go:build !race

package local

import (
	"errors"
	"runtime"

	"golang.org/x/sys/unix"
)

func mmap(size int) ([]byte, error) {
	return unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
}

func munmap(b []byte) error { return unix.Munmap(b) }

// giveBack returns pages to the system. It works only on Linux, which guarantees that the pages then read as zeros.
func giveBack(pages []byte) error {
	if runtime.GOOS != "linux" {
		return errors.ErrUnsupported
	}
	return unix.Madvise(pages, unix.MADV_DONTNEED)
}
