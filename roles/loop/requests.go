package loop

import (
	"context"
	"fmt"
	"math"
	"os"
	"os/signal"
	"runtime/pprof"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/rlinf/rlinf/env/external"
)

// Exit codes; see README.
const (
	ExitOK          = 0
	ExitFailed      = 1
	ExitConfig      = 2
	ExitCheck       = 3
	ExitRequeue     = 75
	ExitStalled     = 76
	ExitHungUp      = 129
	ExitInterrupted = 130
	ExitCrashed     = 134 // Go's runtime crashed (SIGABRT), or SIGQUIT asked for all stacks
	ExitTerminated  = 143
)

// Requests has the requests to stop a run: from signals, the clock and failures. Ranks read them when they vote.
type Requests struct {
	parent   *Requests       // the requests of the sweep to which this run belongs; nil if there is none
	stop     atomic.Int64    // the exit code to stop with; 0 if there is no request
	signaled context.Context // cancelled by the first signal that asks to stop
	signal   context.CancelFunc
	pressed  context.Context // cancelled by the first INT, TERM or HUP
	press    context.CancelFunc
	started  time.Time
	deadline atomic.Int64 // when the clock stops the run, in Unix nanoseconds; 0 means never
	limit    atomic.Value // what set the deadline, a string
	urgent   urgency
	mu       sync.Mutex
	exits    map[int]func(code int) // see BeforeExit; protected by mu
	arrived  chan os.Signal
	done     chan struct{}
}

// Watch starts to listen to signals:
//
//   - USR1 stops with a checkpoint and asks for a requeue.
//   - INT and TERM stop the run; a second signal ends the process at once. The same signal within 1 s counts
//     once, because timeout(1) sends it both to the process and to its group, and a launcher may forward it.
//   - HUP counts as TERM. It is ignored if it was ignored at the start of the process, as under nohup.
//   - USR2 writes the stacks of all goroutines to standard error.
//   - QUIT also writes the stacks, and exits with ExitCrashed. Without a handler, the exit code of a binary with
//     C code would differ.
func Watch() *Requests {
	r := &Requests{started: time.Now(), arrived: make(chan os.Signal, 4), done: make(chan struct{})}
	r.signaled, r.signal = context.WithCancel(context.Background())
	r.pressed, r.press = context.WithCancel(context.Background())
	signal.Notify(r.arrived, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT)
	if !signal.Ignored(syscall.SIGHUP) { // Notify would stop ignoring it
		signal.Notify(r.arrived, syscall.SIGHUP)
	}
	go r.listen()
	return r
}

func (r *Requests) listen() {
	defer close(r.done)
	for s := range r.arrived {
		switch s {
		case syscall.SIGUSR1:
			r.stop.CompareAndSwap(0, ExitRequeue)
			r.signal()
		case syscall.SIGINT:
			r.interrupt(ExitInterrupted)
		case syscall.SIGTERM:
			r.interrupt(ExitTerminated)
		case syscall.SIGHUP:
			r.interrupt(ExitHungUp)
		case syscall.SIGUSR2:
			pprof.Lookup("goroutine").WriteTo(os.Stderr, 2)
		case syscall.SIGQUIT:
			pprof.Lookup("goroutine").WriteTo(os.Stderr, 2)
			os.Exit(ExitCrashed)
		}
	}
}

// interrupt handles a signal with this exit code. A second signal can end the process at once: see urgency.
func (r *Requests) interrupt(code int) {
	if r.urgent.add(code, time.Now()) {
		r.mu.Lock() // until the process ends, so that no hook is removed
		for _, f := range r.exits {
			f(code)
		}
		fmt.Fprintln(os.Stderr, "second signal: stopping at once, without a new checkpoint")
		os.Exit(code)
	}
	r.stop.Store(int64(r.urgent.code))
	r.press()
	r.signal()
}

// An urgency decides which signal ends the process at once. HUP counts as TERM, because a login session that ends can
// send both.
type urgency struct {
	code  int // exit code for the first signal; 0 before the first signal
	since time.Time
}

// sameSignal is the time within which equal signals count once.
const sameSignal = time.Second

// add records a signal with this exit code at the time t. It reports whether the process must end at once.
func (u *urgency) add(code int, t time.Time) bool {
	if u.code == 0 {
		u.code, u.since = code, t
		return false
	}
	return (code == ExitInterrupted) != (u.code == ExitInterrupted) || t.Sub(u.since) >= sameSignal
}

// BeforeExit makes r call f with the exit code before a second signal ends the process. cancel removes f. f must not
// wait for the run.
func (r *Requests) BeforeExit(f func(code int)) (cancel func()) {
	if r.parent != nil {
		return r.parent.BeforeExit(f)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.exits == nil {
		r.exits = map[int]func(int){}
	}
	n := len(r.exits)
	for r.exits[n] != nil {
		n++
	}
	r.exits[n] = f
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.exits, n)
	}
}

// Fail asks to stop with a checkpoint, because of an error.
func (r *Requests) Fail() { r.stop.CompareAndSwap(0, ExitFailed) }

// Close stops listening.
func (r *Requests) Close() {
	signal.Stop(r.arrived)
	close(r.arrived)
	<-r.done
	r.signal()
	r.press()
}

// ForRun returns the requests of one run. They include the requests of r. Expire can only shorten the time until r's
// deadline.
func (r *Requests) ForRun() *Requests {
	run := &Requests{parent: r, started: time.Now(), signaled: r.signaled, pressed: r.pressed}
	run.deadline.Store(r.deadline.Load())
	if limit := r.limit.Load(); limit != nil {
		run.limit.Store(limit)
	}
	return run
}

// Vote returns the exit code to stop with, or 0 to go on. save reports whether to save a checkpoint before the end.
func (r *Requests) Vote() (stop int, save bool) {
	stop = int(r.stop.Load())
	if stop == 0 && r.parent != nil {
		stop, _ = r.parent.Vote()
	}
	if at := r.deadline.Load(); stop == 0 && at != 0 && time.Now().UnixNano() > at {
		stop = ExitRequeue
	}
	return stop, stop != 0
}

// Cause returns external.ErrStopRequested. If the clock asked to stop, the error also names the limit.
func (r *Requests) Cause() error {
	asked := r.stop.Load() != 0 || r.parent != nil && r.parent.stop.Load() != 0
	if at := r.deadline.Load(); !asked && at != 0 && time.Now().UnixNano() >= at {
		return fmt.Errorf("%v: %w", r.limit.Load(), external.ErrStopRequested)
	}
	return external.ErrStopRequested
}

// Expire sets the time at which the clock stops the run, as if USR1 had come. The run stops maxTime after its start. If
// maxTime is 0, there is no such limit. In a Slurm job the run also stops before Slurm's time limit, early enough for a
// checkpoint.
func (r *Requests) Expire(maxTime time.Duration) {
	never := time.Unix(0, math.MaxInt64) // in 2262; the nanoseconds of later times overflow
	end := never
	if r.deadline.Load() != 0 {
		end = time.Unix(0, r.deadline.Load())
	}
	if maxTime > 0 {
		if limit := r.started.Add(maxTime); limit.Before(end) {
			end = limit
			r.limit.Store(fmt.Sprintf("runner.max_time %v is over", maxTime))
		}
	}
	s, err := strconv.ParseInt(os.Getenv("SLURM_JOB_END_TIME"), 10, 64)
	if err == nil && s > 0 && s < never.Unix() {
		limit := time.Unix(s, 0)
		if limit = limit.Add(-min(limit.Sub(r.started)/20, 2*time.Minute)); limit.Before(end) {
			end = limit
			r.limit.Store("the time limit of the Slurm job is near")
		}
	}
	if end.Before(never) {
		r.deadline.Store(end.UnixNano())
	}
}

// Deadline returns the time at which the clock stops the run. It returns the zero time if there is no deadline.
func (r *Requests) Deadline() time.Time {
	if at := r.deadline.Load(); at != 0 {
		return time.Unix(0, at)
	}
	return time.Time{}
}

// AtStop makes r call f(true) at the first INT, TERM or HUP. If USR1 or the clock asks to stop earlier, r calls
// f(false) at that time. cancel prevents later calls.
func (r *Requests) AtStop(f func(atOnce bool)) (cancel func()) {
	asked, end := r.signaled, func() {}
	if at := r.deadline.Load(); at != 0 {
		asked, end = context.WithDeadline(asked, time.Unix(0, at))
	}
	onAsked := context.AfterFunc(asked, func() {
		if r.pressed.Err() == nil {
			f(false)
		}
	})
	onPressed := context.AfterFunc(r.pressed, func() { f(true) })
	return func() {
		onAsked()
		onPressed()
		end()
	}
}
