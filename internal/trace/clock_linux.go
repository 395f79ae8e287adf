package trace

import (
	"time"

	"golang.org/x/sys/unix"
)

// Clock returns a clock that counts nanoseconds from the start of this machine, the same in all of its processes.
func Clock() func() int64 {
	var t unix.Timespec
	base, start := int64(0), time.Now()
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) == nil {
		base = t.Nano()
	}
	return func() int64 { return base + int64(time.Since(start)) }
}
