//go:build !unix

package bench

import "time"

// cpuTime is not known here.
func cpuTime() time.Duration { return 0 }

// mapped returns memory of the Go heap, where there is no other; the collector frees it.
func mapped(n int) (b []byte, free func() error, err error) {
	return make([]byte, n), func() error { return nil }, nil
}
