package local

import (
	"runtime"
	"sync"
	"time"

	"github.com/rlinf/rlinf/internal/heap"
)

// A schedule calls its handler at given times, in a thread of its own. The thread waits in the operating system and
// uses no CPU. The schedule's clock counts nanoseconds and starts at 1.
type schedule[T any] struct {
	handler func(T)
	start   time.Time
	alarm   *alarm
	running sync.WaitGroup

	mu     sync.Mutex
	tasks  heap.Heap[task[T]] // the earliest first
	order  uint64
	closed bool
}

func newSchedule[T any](handler func(T)) *schedule[T] {
	s := &schedule[T]{handler: handler, start: time.Now(), alarm: newAlarm()}
	s.tasks.Less = func(a, b *task[T]) bool { return a.due < b.due || a.due == b.due && a.order < b.order }
	s.running.Add(1)
	go s.run()
	return s
}

func (s *schedule[T]) now() int64 { return int64(time.Since(s.start)) + 1 }

// hold schedules a call handler(argument) for the time due. It returns false if due has passed or the schedule is
// closed.
func (s *schedule[T]) hold(argument T, due int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || due <= s.now() {
		return false
	}
	s.order++
	if s.tasks.Push(task[T]{due, s.order, argument}) {
		s.alarm.ring() // the thread sleeps until the time of a later task
	}
	return true
}

func (s *schedule[T]) run() {
	defer s.running.Done()
	runtime.LockOSThread() // never unlocked: tune changes the thread
	s.alarm.tune()
	var come []T
	for {
		s.mu.Lock()
		if s.closed {
			s.alarm.free()
			s.mu.Unlock()
			return
		}
		now, next := s.now(), int64(0)
		for s.tasks.Len() > 0 && s.tasks.First().due <= now {
			come = append(come, s.tasks.Pop().argument)
		}
		if s.tasks.Len() > 0 {
			next = s.tasks.First().due
		}
		s.mu.Unlock()
		for _, argument := range come {
			s.handler(argument)
		}
		switch {
		case len(come) > 0:
			clear(come)
			come = come[:0] // the tasks took time, so read the clock again
		case next == 0:
			s.alarm.sleep(-1)
		default:
			s.alarm.sleep(time.Duration(next - now))
		}
	}
}

// close ends the thread. The remaining tasks do not run.
func (s *schedule[T]) close() {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		s.alarm.ring()
	}
	s.mu.Unlock()
	s.running.Wait()
}

// A task is one scheduled call.
type task[T any] struct {
	due      int64
	order    uint64 // order of creation, for equal times
	argument T
}

// A Timer wakes goroutines at given times. If cores are free, it is late by at most some tens of
// microseconds. A timer of package time may be late by a millisecond. Any number of goroutines may use a
// Timer at the same time.
type Timer struct {
	waits *schedule[chan struct{}]
	idle  sync.Pool // holds unused channels
}

// NewTimer starts a Timer. The caller closes it.
func NewTimer() *Timer {
	return &Timer{waits: newSchedule(func(wake chan struct{}) { wake <- struct{}{} }),
		idle: sync.Pool{New: func() any { return make(chan struct{}, 1) }}}
}

// SleepUntil returns at a given time, or when stop is closed.
func (t *Timer) SleepUntil(wakeTime time.Time, stop <-chan struct{}) {
	wake := t.idle.Get().(chan struct{})
	if t.waits.hold(wake, int64(wakeTime.Sub(t.waits.start))+1) {
		select {
		case <-wake:
		case <-stop:
			return // the channel must not be reused, because the schedule will still send on it
		}
	}
	t.idle.Put(wake)
}

// Close ends the Timer. A SleepUntil in progress then returns only when its stop is closed.
func (t *Timer) Close() { t.waits.close() }
