//go:build !unix

package bench

import "time"

// cpuTime returns 0: the processor time is not known on this system.
func cpuTime() time.Duration { return 0 }

// mapped returns memory of the Go heap, because this system has no other. The garbage collector
// frees it.
func mapped(n int) (b []byte, free func() error, err error) {
	return make([]byte, n), func() error { return nil }, nil
}
