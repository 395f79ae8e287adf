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

// Short sleeps fill the first millisecond of a wait, and most waits are shorter. A short sleep makes
// system calls that Go's scheduler does not see.
//
// The scheduler takes the processor (P) of a thread that waits in C or in a system call of Go's, and gives it to
// another thread. Its monitor thread then checks every 20 µs whether there are more such threads. With eight ranks on
// two cores these checks took a ninth of all processor time, and the work of a rank moved from thread to thread. A
// short sleep keeps the P. There is always a P left for other goroutines. The signal by which the garbage collector
// stops a goroutine also ends a short sleep.
//
// Waking a thread on another core takes 2 to 50 µs, and longest on virtual cores. The waking thread itself is busy for
// a good part of this time. A rank that yields needs no waking, and lets ranks with work go first. So a short sleep
// first yields its core. If the event still has not come, the sleep blocks.
type shortSleeps struct {
	running atomic.Int32 // number of short sleeps now
	lost    atomic.Int64 // time that yields have wasted
	counted atomic.Int64 // when lost was updated
	slow    atomic.Int64 // when the last slow yield was
	yielded atomic.Int64 // counts the short sleeps that have yielded
}

// A yield is in vain if the event has not come after it. Such yields have two costs. First, if no other thread wants
// the core, a yield wastes time of the core. A process may waste 1/wasteShare of its time, and wasteMost in advance,
// but yields only if wasteLeast is left. At most switchTime of each yield counts as wasted. Second, if another program
// has work, a yield lets that program compute for milliseconds, while a thread that is woken gets its core at once. So
// the whole time of a yield that is longer than slowYield counts as wasted, unless the last such yield was longer ago
// than seldom. The process makes up for one such yield in less time than seldom.
const (
	wasteShare = 32
	wasteMost  = 2 * time.Millisecond
	wasteLeast = 300 * time.Microsecond
	switchTime = 10 * time.Microsecond
	slowYield  = 1500 * time.Microsecond
	seldom     = 100 * time.Millisecond
)

// shortSleepTime is the total time of the short sleeps of a wait.
const shortSleepTime = C.RL_SHORT_SLEEP_NS * time.Nanosecond

// An event is what a wait sleeps for: word differs from old, or top is not 0. top may be nil.
type event struct {
	word, sleepers *atomic.Uint32
	top            *atomic.Uint64
	old            uint32
}

func (e *event) came() bool { return e.word.Load() != e.old || e.top != nil && e.top.Load() != 0 }

// sleep makes a short sleep until e comes. The argument waited is the time that the wait has taken so far. The result
// is the time that the wait has taken now. If there should be no further short sleep, the result is at least
// shortSleepTime. If long is set, the wait is expected to be long and does not yield.
func (s *shortSleeps) sleep(e event, waited time.Duration, long bool) time.Duration {
	if int(s.running.Add(1)) >= runtime.GOMAXPROCS(0) {
		s.running.Add(-1)
		return shortSleepTime
	}
	start := clock() - waited
	for done := e.came() || !long && s.yield(&e, start); !done; done = e.came() {
		left := start + shortSleepTime - clock()
		if left <= 0 {
			break
		}
		e.block(left)
	}
	s.running.Add(-1)
	return clock() - start
}

// yield yields the core until the event comes, and then returns true. If that takes too long, it
// returns false. start is when the wait began.
func (s *shortSleeps) yield(e *event, start time.Duration) bool {
	began := clock()
	most, mostOwn := start+shortSleepTime-began, wasteMost-s.wasted(began)
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
			s.slowed(now, now-last)
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

// slowed records a slow yield that took d and ended at now.
func (s *shortSleeps) slowed(now, d time.Duration) {
	if now-time.Duration(s.slow.Swap(int64(now))) < seldom {
		s.waste(now, d)
	}
}

// wasted returns the time that yields have wasted and not made up for.
func (s *shortSleeps) wasted(now time.Duration) time.Duration {
	return max(0, time.Duration(s.lost.Load())-(now-time.Duration(s.counted.Load()))/wasteShare)
}

// waste adds d to the wasted time, up to a bound, because a yield may have any length if the process
// was stopped.
func (s *shortSleeps) waste(now, d time.Duration) {
	s.lost.Store(int64(min(s.wasted(now)+d, 2*wasteMost)))
	s.counted.Store(int64(now))
}

// block blocks until the event comes, but not longer than d. A signal may end it.
func (e *event) block(d time.Duration) {
	timeout := unix.NsecToTimespec(int64(d))
	e.sleepers.Add(1) // incremented before the last test, so that a thread that causes the event later sees it
	if e.top == nil || e.top.Load() == 0 {
		unix.RawSyscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(e.word)), futexWait, uintptr(e.old),
			uintptr(unsafe.Pointer(&timeout)), 0, 0)
	}
	e.sleepers.Add(^uint32(0))
}

// wake wakes all threads that sleep for a word.
func wake(word *atomic.Uint32) {
	unix.RawSyscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexWake, math.MaxInt32, 0, 0, 0)
}

// From linux/futex.h, for words that other processes see.
const (
	futexWait = 0
	futexWake = 1
)

// clock returns the time since the program started.
func clock() time.Duration { return time.Since(epoch) }

var epoch = time.Now()
