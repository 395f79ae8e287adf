//go:build mpi

package mpi

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rlinf/rlinf/internal/test"
)

func never() event { return event{word: new(atomic.Uint32), sleepers: new(atomic.Uint32)} }

// cpu returns the processor time of the calling thread.
func cpu(t *testing.T) time.Duration {
	var u unix.Rusage
	test.OK(t, unix.Getrusage(unix.RUSAGE_THREAD, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func TestShortSleepSeesEvents(t *testing.T) {
	e := never()
	e.top = new(atomic.Uint64)
	for name, do := range map[string]func(){
		"word":    func() { e.word.Add(1); wake(e.word) },
		"message": func() { e.top.Store(1) },
	} {
		e.old = e.word.Load()
		e.top.Store(0)
		var s shortSleeps
		go do()
		for !e.came() {
			s.sleep(e, 0, false)
		}
		s = shortSleeps{}
		s.sleep(e, 0, false)
		if s.lost.Load() != 0 || s.running.Load() != 0 || e.sleepers.Load() != 0 {
			t.Errorf("%s: a sleep for an event that has come leaves %d ns lost, %d running, %d sleepers; want none",
				name, s.lost.Load(), s.running.Load(), e.sleepers.Load())
		}
	}
}

// On busy cores yields let other threads run. So a test on idle cores only can find a broken bound.
func TestShortSleepsInVainBurnLittle(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var s shortSleeps
	start, used := clock(), cpu(t)
	for clock()-start < 300*time.Millisecond {
		if spent := s.sleep(never(), 0, false); spent < shortSleepTime {
			t.Fatalf("a sleep in vain took %v, want %v", spent, shortSleepTime)
		}
	}
	if share := float64(cpu(t)-used) / float64(clock()-start); share > 0.25 { // 1/32 + 2 ms, and the system calls
		t.Errorf("sleeps in vain use %.0f %% of a core", 100*share)
	}
}

func TestLongWaitsDoNotYield(t *testing.T) {
	var s shortSleeps
	if spent := s.sleep(never(), 0, true); spent < shortSleepTime || s.yielded.Load() != 0 {
		t.Errorf("a short sleep of a long wait took %v and yielded %d times, want %v and none", spent,
			s.yielded.Load(), shortSleepTime)
	}
}

func TestShortSleepsLeaveAProcessor(t *testing.T) {
	var s shortSleeps
	others := int32(runtime.GOMAXPROCS(0) - 1)
	s.running.Store(others)
	e := never()
	e.word.Add(1)
	if spent := s.sleep(e, 0, false); spent != shortSleepTime || s.running.Load() != others {
		t.Errorf("one short sleep too many: %v, %d running; want %v at once, %d", spent, s.running.Load(),
			shortSleepTime, others)
	}
}

func TestSeldomSlowYieldsAreFree(t *testing.T) {
	var s shortSleeps
	now, free := time.Minute, 0
	for _, pause := range []time.Duration{0, 2 * slowGap, slowGap / 2, slowGap / 2, 2 * slowGap} {
		now += pause
		before := s.usedBudget(now)
		if s.recordSlow(now, 3*time.Millisecond); s.usedBudget(now) == before {
			free++
		}
	}
	if free != 3 {
		t.Errorf("%d of 5 slow yields were free, want the 3 that came after a long pause", free)
	}
}

func TestStoppedProcessYieldsOn(t *testing.T) {
	var s shortSleeps
	s.waste(clock(), time.Hour) // a yield during which the process was stopped
	if left := s.usedBudget(clock() + 200*time.Millisecond); left > wasteMost-wasteLeast {
		t.Errorf("%v count as wasted after 200 ms: no yields", left)
	}
}
