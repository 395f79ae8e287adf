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
	ExitCrashed     = 134 // Go's runtime crashed, by SIGABRT, or SIGQUIT asked for all stacks
	ExitTerminated  = 143
)

// Requests are reasons to stop from outside of the run: signals, and the clock. Ranks read them
// when they vote.
type Requests struct {
	parent   *Requests       // of the sweep that the run belongs to; nil: none
	stop     atomic.Int64    // exit code; 0: none
	signaled context.Context // ends with the first signal that asks to stop
	signal   context.CancelFunc
	pressed  context.Context // ends with the first that gives little time for it: INT, TERM or HUP
	press    context.CancelFunc
	started  time.Time
	deadline atomic.Int64 // in Unix nanoseconds; 0: none
	urgent   urgency
	mu       sync.Mutex
	exits    map[int]func(code int) // called before the process ends at once; under mu
	arrived  chan os.Signal
	done     chan struct{}
}

// Watch starts to listen to signals. USR1 stops with a checkpoint and asks for a requeue, INT and
// TERM stop, and end the process at once when they come again. The same signal within a second
// counts once: timeout sends it to the process and to its group, and a launcher may pass it on
// beside the terminal. HUP counts as TERM, and is ignored if it was when the process started, as
// nohup has it. USR2 writes all goroutines to standard error. QUIT does so, too, and ends the process
// with ExitCrashed: Go's runtime has other ends where the binary has C in it.
func Watch() *Requests {
	r := &Requests{started: time.Now(), arrived: make(chan os.Signal, 4), done: make(chan struct{})}
	r.signaled, r.signal = context.WithCancel(context.Background())
	r.pressed, r.press = context.WithCancel(context.Background())
	signal.Notify(r.arrived, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGINT, syscall.SIGTERM,
		syscall.SIGQUIT)
	if !signal.Ignored(syscall.SIGHUP) { // Notify would end that
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

// interrupt asks to stop with code, or ends the process at once.
func (r *Requests) interrupt(code int) {
	if r.urgent.add(code, time.Now()) {
		r.mu.Lock() // no hook comes or goes any more
		for _, f := range r.exits {
			f(code)
		}
		fmt.Fprintln(os.Stderr, "second signal: stopping at once, without a new checkpoint")
		os.Exit(code)
	}
	r.stop.Store(int64(r.urgent.code))
	r.signal()
	r.press()
}

// An urgency decides which signals, of those that ask to stop, ask to stop at once. HUP and TERM are
// the same signal to it: a session that ends may send both.
type urgency struct {
	code  int // of the first signal; 0: none has come
	since time.Time
}

// sameSignal is how long the same signal counts once.
const sameSignal = time.Second

// add takes the signal with this exit code, which arrives at now. It reports whether the process is
// to end at once.
func (u *urgency) add(code int, now time.Time) bool {
	if u.code == 0 {
		u.code, u.since = code, now
		return false
	}
	return (code == ExitInterrupted) != (u.code == ExitInterrupted) || now.Sub(u.since) >= sameSignal
}

// BeforeExit has f called, with the exit code, before a second signal ends the process, unless
// cancel was called. f must not wait for the run.
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

// Fail asks to stop, with a checkpoint, because of an error that ends the run.
func (r *Requests) Fail() { r.stop.CompareAndSwap(0, ExitFailed) }

// Close stops listening.
func (r *Requests) Close() {
	signal.Stop(r.arrived)
	close(r.arrived)
	<-r.done
	r.signal()
	r.press()
}

// ForRun returns the requests of one run, which stops when r does, and has a clock of its own.
func (r *Requests) ForRun() *Requests {
	return &Requests{parent: r, started: time.Now(), signaled: r.signaled, pressed: r.pressed}
}

// Vote returns the exit code to stop with, or 0 to go on, and whether to save first.
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

// Expire stops the run as USR1 does, maxTime after its start (0: never), or in time for a
// checkpoint before Slurm's limit.
func (r *Requests) Expire(maxTime time.Duration) {
	end := int64(math.MaxInt64)
	if maxTime > 0 {
		end = r.started.Add(maxTime).UnixNano()
	}
	if s, err := strconv.ParseInt(os.Getenv("SLURM_JOB_END_TIME"), 10, 64); err == nil {
		limit := time.Unix(s, 0)
		limit = limit.Add(-min(limit.Sub(r.started)/20, 2*time.Minute))
		end = min(end, limit.UnixNano())
	}
	if end != math.MaxInt64 {
		r.deadline.Store(end)
	}
}

// Deadline returns when the clock stops the run; the zero time: never.
func (r *Requests) Deadline() time.Time {
	if at := r.deadline.Load(); at != 0 {
		return time.Unix(0, at)
	}
	return time.Time{}
}

// AtStop calls f when a signal or the clock asks to stop; the argument is true for INT, TERM or HUP.
// cancel prevents later calls.
func (r *Requests) AtStop(f func(atOnce bool)) (cancel func()) {
	asked, end := r.signaled, func() {}
	if at := r.deadline.Load(); at != 0 {
		asked, end = context.WithDeadline(asked, time.Unix(0, at))
	}
	onAsked := context.AfterFunc(asked, func() { f(false) })
	onPressed := context.AfterFunc(r.pressed, func() { f(true) })
	return func() {
		onAsked()
		onPressed()
		end()
	}
}
