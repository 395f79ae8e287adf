//go:build mpi

package mpi

/*
#include "shim.h"
*/
import "C"

import (
	"math"
	"runtime"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Short sleeps fill the first millisecond of a wait, and most waits are shorter. A short sleep makes raw
// system calls, which Go's scheduler does not see, so that the thread keeps its P (Go's processor).
//
// If a thread waits in C or in an ordinary system call, the scheduler gives its P to another thread, and its monitor
// thread checks every 20 µs for more such threads. With eight ranks on two cores these checks took a ninth of all
// processor time. Short sleeps always leave a P for other goroutines. The signal by which the garbage collector stops a
// goroutine also ends a short sleep.
//
// A short sleep first yields its core, because waking a thread on another core takes 2 to 50 µs and keeps the waking
// thread busy. If the event still has not come, the sleep blocks.
type shortSleeps struct {
	running atomic.Int32 // number of short sleeps in progress
	lost    atomic.Int64 // time that yields had wasted at the last update
	counted atomic.Int64 // time of the last update
	slow    atomic.Int64 // time of the last slow yield
	yielded atomic.Int64 // number of short sleeps that have yielded
}

// A yield wastes time if it ends before the event comes. The budget for wasted time grows by 1/wasteShare of the time
// that passes, up to wasteMost. A short sleep yields only if the budget is at least wasteLeast. A yield counts as at
// most switchTime. A yield that takes longer than slowYield is slow: another program computes on the core, and a
// blocked thread would be woken sooner. If two slow yields are less than slowGap apart, the whole time of the second
// counts.
const (
	wasteShare = 32
	wasteMost  = 2 * time.Millisecond
	wasteLeast = 300 * time.Microsecond
	switchTime = 10 * time.Microsecond
	slowYield  = 1500 * time.Microsecond
	slowGap    = 100 * time.Millisecond
)

// shortSleepTime is the total time of the short sleeps of a wait.
const shortSleepTime = C.RL_SHORT_SLEEP_NS * time.Nanosecond

// An event ends a wait. It has come once the word differs from its old value, or top is not 0. top may be nil.
type event struct {
	word, sleepers *atomic.Uint32
	top            *atomic.Uint64
	old            uint32
}

func (e *event) came() bool { return e.word.Load() != e.old || e.top != nil && e.top.Load() != 0 }

// sleep makes a short sleep until e comes. elapsed is the time that the wait has taken so far. The result is elapsed
// plus the time of this sleep. It is at least shortSleepTime if the caller must not sleep here again. If expectLong is
// true, the wait is expected to be long, and the sleep does not yield.
func (s *shortSleeps) sleep(e event, elapsed time.Duration, expectLong bool) time.Duration {
	if int(s.running.Add(1)) >= runtime.GOMAXPROCS(0) {
		s.running.Add(-1)
		return shortSleepTime
	}
	start := clock() - elapsed
	for done := e.came() || !expectLong && s.yield(&e, start); !done; done = e.came() {
		left := start + shortSleepTime - clock()
		if left <= 0 {
			break
		}
		e.block(left)
	}
	s.running.Add(-1)
	return clock() - start
}

// yield yields the core until the event comes, and returns true. It returns false if the event takes too
// long. start is the time at which the wait began.
func (s *shortSleeps) yield(e *event, start time.Duration) bool {
	began := clock()
	most, mostOwn := start+shortSleepTime-began, wasteMost-s.usedBudget(began)
	if mostOwn < wasteLeast {
		return false
	}
	s.yielded.Add(1)
	var own time.Duration // time of the yields, at most switchTime each
	for now := began; now-began < most && own < mostOwn; {
		unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
		done, last := e.came(), now
		now = clock()
		if now-last > slowYield {
			s.recordSlow(now, now-last)
			return done
		}
		if done {
			return true
		}
		own += min(now-last, switchTime)
	}
	s.waste(clock(), own)
	return false
}

// recordSlow records a slow yield that took d and has ended now.
func (s *shortSleeps) recordSlow(now, d time.Duration) {
	if now-time.Duration(s.slow.Swap(int64(now))) < slowGap {
		s.waste(now, d)
	}
}

// usedBudget returns how much of the budget is used up now.
func (s *shortSleeps) usedBudget(now time.Duration) time.Duration {
	return max(0, time.Duration(s.lost.Load())-(now-time.Duration(s.counted.Load()))/wasteShare)
}

// waste adds d to the wasted time. The total is bounded, because a yield may take any time if the process
// is stopped.
func (s *shortSleeps) waste(now, d time.Duration) {
	s.lost.Store(int64(min(s.usedBudget(now)+d, 2*wasteMost)))
	s.counted.Store(int64(now))
}

// block blocks until the event comes, but not longer than d. A signal may end the sleep.
func (e *event) block(d time.Duration) {
	timeout := unix.NsecToTimespec(int64(d))
	e.sleepers.Add(1) // before the last test, so that a thread that causes the event later sees the sleeper
	if e.top == nil || e.top.Load() == 0 {
		unix.RawSyscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(e.word)), futexWait, uintptr(e.old),
			uintptr(unsafe.Pointer(&timeout)), 0, 0)
	}
	e.sleepers.Add(^uint32(0))
}

// wake wakes all threads that sleep on a word.
func wake(word *atomic.Uint32) {
	unix.RawSyscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexWake, math.MaxInt32, 0, 0, 0)
}

// Futex operations from linux/futex.h, for words that other processes see, too.
const (
	futexWait = 0
	futexWake = 1
)

// clock returns the time since the program started.
func clock() time.Duration { return time.Since(epoch) }

var epoch = time.Now()
