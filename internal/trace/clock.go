package trace

import (
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Clock returns a clock that counts nanoseconds since the start of this machine. All processes of the machine have the
// same clock.
func Clock() func() int64 { return clock() }

// clock makes the clock once, so that all goroutine ranks share it.
var clock = sync.OnceValue(func() func() int64 {
	start := time.Now()
	now := func() int64 { return int64(time.Since(start)) }
	base := offset(now, func() int64 {
		var t unix.Timespec
		if unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) != nil {
			return 0
		}
		return t.Nano()
	})
	return func() int64 { return base + now() }
})
