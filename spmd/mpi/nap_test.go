//go:build mpi

package mpi

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func never() post { return post{word: new(atomic.Uint32), asleep: new(atomic.Uint32)} }

// cpu is the processor time of the calling thread.
func cpu(t *testing.T) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func TestNapSeesPosts(t *testing.T) {
	p := never()
	p.top = new(atomic.Uint64)
	for name, do := range map[string]func(){
		"word":   func() { p.word.Add(1); wake(p.word) },
		"letter": func() { p.top.Store(1) },
	} {
		p.old = p.word.Load()
		p.top.Store(0)
		var n naps
		go do()
		for !p.came() {
			n.nap(p, 0, false)
		}
		n = naps{}
		n.nap(p, 0, false)
		if n.lost.Load() != 0 || n.now.Load() != 0 || p.asleep.Load() != 0 {
			t.Errorf("%s: a nap for what has come leaves %d ns lost, %d naps, %d asleep; want none", name,
				n.lost.Load(), n.now.Load(), p.asleep.Load())
		}
	}
}

// On busy cores others take what yields in vain would burn, so a broken bound shows on idle ones alone.
func TestNapsInVainBurnLittle(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var n naps
	start, used := clock(), cpu(t)
	for clock()-start < 300*time.Millisecond {
		if spent := n.nap(never(), 0, false); spent < napTime {
			t.Fatalf("a nap in vain took %v, want %v", spent, napTime)
		}
	}
	if share := float64(cpu(t)-used) / float64(clock()-start); share > 0.25 { // 1/32 + 2 ms, and what sleeps take
		t.Errorf("naps in vain use %.0f %% of a core", 100*share)
	}
}

func TestLongWaitsDoNotYield(t *testing.T) {
	var n naps
	if spent := n.nap(never(), 0, true); spent < napTime || n.tried.Load() != 0 {
		t.Errorf("a nap of a long wait took %v and yielded %d times, want %v and none", spent, n.tried.Load(), napTime)
	}
}

func TestNapsLeaveAProcessor(t *testing.T) {
	var n naps
	others := int32(runtime.GOMAXPROCS(0) - 1)
	n.now.Store(others)
	p := never()
	p.word.Add(1)
	if spent := n.nap(p, 0, false); spent != napTime || n.now.Load() != others {
		t.Errorf("one nap too many: %v, %d under way; want %v at once, %d", spent, n.now.Load(), napTime, others)
	}
}

func TestSeldomSlowYieldsAreFree(t *testing.T) {
	var n naps
	now, free := time.Minute, 0
	for _, pause := range []time.Duration{0, 2 * seldom, seldom / 2, seldom / 2, 2 * seldom} {
		now += pause
		before := n.wasted(now)
		if n.slowed(now, 3*time.Millisecond); n.wasted(now) == before {
			free++
		}
	}
	if free != 3 {
		t.Errorf("%d of 5 slow yields were free, want the 3 that came after a long pause", free)
	}
}

func TestStoppedProcessNapsOn(t *testing.T) {
	var n naps
	n.waste(clock(), time.Hour) // a yield during which the process was stopped
	if left := n.wasted(clock() + 200*time.Millisecond); left > wasteMost-wasteLeast {
		t.Errorf("%v count as wasted after 200 ms: no yields", left)
	}
}
