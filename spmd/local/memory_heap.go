//go:build !unix || race

package local

import (
	"errors"

	"github.com/rlinf/rlinf/tensor"
)

// mmap allocates on the Go heap, the only memory that the race detector watches.
func mmap(size int) ([]byte, error) { return tensor.Heap(size) }

func munmap([]byte) error { return nil }

func giveBack([]byte) error { return errors.ErrUnsupported }
