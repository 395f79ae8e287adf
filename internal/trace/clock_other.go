//go:build !linux

package trace

import "time"

// Clock returns a clock in nanoseconds of Unix time. It does not follow later changes of the machine's clock.
func Clock() func() int64 {
	start := time.Now()
	base := start.UnixNano()
	return func() int64 { return base + int64(time.Since(start)) }
}
