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

// Naps are how a wait passes its first millisecond, and most waits are shorter. A nap makes system
// calls that Go's scheduler does not see.
//
// The scheduler takes the processor (P) of a thread that waits in C or in a system call of Go's,
// and gives it to another thread. Its monitor thread then looks every 20 µs whether there are more.
// With eight ranks on two cores that took a ninth of all processor time, and the work of a rank
// moved from thread to thread. A nap keeps the P. It is short, it always leaves a P for other
// goroutines, and the signal by which the garbage collector stops a goroutine ends its sleep.
//
// To wake a thread on another core takes 2 to 50 µs, most where cores are virtual, and a good part
// of it from the thread that wakes. A rank that yields sees what it waits for without being woken,
// and lets ranks with work go first. So a nap yields its core, and sleeps if that was in vain.
type naps struct {
	now     atomic.Int32 // under way
	lost    atomic.Int64 // time that yields have wasted
	counted atomic.Int64 // when that was
	slow    atomic.Int64 // when the last slow yield was
	tried   atomic.Int64 // counts the naps that have yielded
}

// Yields in vain cost two things. Where no other thread wants the core, they burn it: a process
// spends 1/wasteShare of its time on that, and wasteMost in advance, but tries only if wasteLeast is
// left. A yield that takes less than switchTime counts as such. Where another program has work, a
// yield lets it compute for milliseconds, while a thread that is woken gets its core at once. So a
// yield of more than slowYield counts whole, unless the last was longer than seldom ago: that takes
// longer than to make up for what one wastes.
const (
	wasteShare = 32
	wasteMost  = 2 * time.Millisecond
	wasteLeast = 300 * time.Microsecond
	switchTime = 10 * time.Microsecond
	slowYield  = 1500 * time.Microsecond
	seldom     = 100 * time.Millisecond
)

// napTime is how long the naps of a wait last, together.
const napTime = C.RL_NAP_NS * time.Nanosecond

// A post is what a nap waits for: that word differs from old, or that top is not 0. top may be nil.
type post struct {
	word, asleep *atomic.Uint32
	top          *atomic.Uint64
	old          uint32
}

func (p *post) came() bool { return p.word.Load() != p.old || p.top != nil && p.top.Load() != 0 }

// nap waits for a post, and returns how long the wait has taken, of which waited came before: at
// least napTime when there should be no further nap. A wait that will be long does not yield.
func (n *naps) nap(p post, waited time.Duration, long bool) time.Duration {
	if int(n.now.Add(1)) >= runtime.GOMAXPROCS(0) {
		n.now.Add(-1)
		return napTime
	}
	start := clock() - waited
	for done := p.came() || !long && n.yield(&p, start); !done; done = p.came() {
		left := start + napTime - clock()
		if left <= 0 {
			break
		}
		p.sleep(left)
	}
	n.now.Add(-1)
	return clock() - start
}

// yield lets others run until the post comes: true, or until that takes too long. start is when the
// wait began.
func (n *naps) yield(p *post, start time.Duration) bool {
	began := clock()
	most, mostOwn := start+napTime-began, wasteMost-n.wasted(began)
	if mostOwn < wasteLeast {
		return false
	}
	n.tried.Add(1)
	var own time.Duration // what the yields took, without the work of others
	for now := began; now-began < most && own < mostOwn; {
		unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
		done, last := p.came(), now
		now = clock()
		if now-last > slowYield {
			n.slowed(now, now-last)
			return done
		}
		if done {
			return true
		}
		own += min(now-last, switchTime)
	}
	n.waste(clock(), own)
	return false
}

// slowed counts a slow yield, of time d.
func (n *naps) slowed(now, d time.Duration) {
	if now-time.Duration(n.slow.Swap(int64(now))) < seldom {
		n.waste(now, d)
	}
}

// wasted returns what has been wasted and not made up for.
func (n *naps) wasted(now time.Duration) time.Duration {
	return max(0, time.Duration(n.lost.Load())-(now-time.Duration(n.counted.Load()))/wasteShare)
}

// waste adds to it. A process that was stopped may have seen a yield of any length, so there is a bound.
func (n *naps) waste(now, d time.Duration) {
	n.lost.Store(int64(min(n.wasted(now)+d, 2*wasteMost)))
	n.counted.Store(int64(now))
}

// sleep sleeps until the post comes, but not longer than d. A signal may end it.
func (p *post) sleep(d time.Duration) {
	timeout := unix.NsecToTimespec(int64(d))
	p.asleep.Add(1) // before the last look: whoever posts after that sees it
	if p.top == nil || p.top.Load() == 0 {
		unix.RawSyscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(p.word)), futexWait, uintptr(p.old),
			uintptr(unsafe.Pointer(&timeout)), 0, 0)
	}
	p.asleep.Add(^uint32(0))
}

// wake ends all sleep for a word.
func wake(word *atomic.Uint32) {
	unix.RawSyscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexWake, math.MaxInt32, 0, 0, 0)
}

// Of linux/futex.h, for words that other processes see.
const (
	futexWait = 0
	futexWake = 1
)

// clock returns the time since the program started.
func clock() time.Duration { return time.Since(epoch) }

var epoch = time.Now()
