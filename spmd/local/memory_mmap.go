//go:build unix && !race

package local

import "golang.org/x/sys/unix"

func mmap(size int) ([]byte, error) {
	return unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
}

func munmap(b []byte) error { return unix.Munmap(b) }
