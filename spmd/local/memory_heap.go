//go:build race

package local

import (
	"errors"

	"github.com/rlinf/rlinf/tensor"
)

// mmap allocates on the Go heap, because the race detector checks no other memory.
func mmap(size int) ([]byte, error) { return tensor.Heap(size) }

func munmap([]byte) error { return nil }

func giveBack([]byte) error { return errors.ErrUnsupported }
