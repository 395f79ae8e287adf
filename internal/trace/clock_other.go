//go:build !linux

package trace

import "time"

// Clock returns a clock that counts nanoseconds. It starts from the Unix time.
func Clock() func() int64 {
	start := time.Now()
	base := start.UnixNano()
	return func() int64 { return base + int64(time.Since(start)) }
}
