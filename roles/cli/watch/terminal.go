package watch

import (
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/rlinf/rlinf/internal/metrics"
	"github.com/rlinf/rlinf/roles/loop"
	"golang.org/x/sys/unix"
)

// drawEvery is the shortest time between two draws.
const drawEvery = 250 * time.Millisecond

// A terminal is a window that shows States.
type terminal struct {
	in, out *os.File
	before  *unix.Termios // the original settings; nil after they are restored
	signals chan os.Signal
	screen  screen
}

// onTerminal shows the run on the terminal until the user leaves, and returns the exit code. The last state stays on
// the terminal as a line.
func onTerminal(r *Reader, in, out *os.File) (code int, err error) {
	s, err := r.Read(time.Now())
	if err != nil {
		return 0, fmt.Errorf("watch: %w", err)
	}
	t := &terminal{in: in, out: out, screen: screen{out: out, colours: os.Getenv("NO_COLOR") == ""}}
	t.signals = make(chan os.Signal, 16)
	// No signal.Stop: a closed window may fail a write before its SIGHUP comes, which must not kill the process then.
	signal.Notify(t.signals, unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGTSTP, unix.SIGCONT, unix.SIGWINCH)
	if err := t.enter(); err != nil {
		return 0, fmt.Errorf("watch: terminal: %w", err)
	}
	defer t.leave() // after a panic, too
	code, s = t.show(r, s)
	t.leave()
	if code != loop.ExitHungUp {
		fmt.Fprintln(out, Summary(s))
	}
	return code, nil
}

// enter changes to the alternate screen, and makes every pressed key readable at once. Ctrl-C and Ctrl-Z still send
// signals. enter may be called again.
func (t *terminal) enter() error {
	if t.before == nil {
		before, err := unix.IoctlGetTermios(int(t.out.Fd()), unix.TCGETS)
		if err != nil {
			return err
		}
		t.before = before
	}
	keys := *t.before
	keys.Lflag &^= unix.ICANON | unix.ECHO
	keys.Lflag |= unix.ISIG
	keys.Cc[unix.VMIN], keys.Cc[unix.VTIME], keys.Cc[unix.VQUIT] = 1, 0, 0
	if err := unix.IoctlSetTermios(int(t.out.Fd()), unix.TCSETS, &keys); err != nil {
		return err
	}
	t.screen.forget()
	_, err := t.out.WriteString(enterScreen)
	return err
}

// leave restores the terminal. It may be called more than once. It ignores errors, because the terminal may be gone.
func (t *terminal) leave() {
	if t.before == nil {
		return
	}
	t.out.WriteString(leaveScreen)
	unix.IoctlSetTermios(int(t.out.Fd()), unix.TCSETSW, t.before)
	t.before = nil
}

// A reading is a result of the goroutine that calls the Reader.
type reading struct {
	state State
	panic string // the text of a panic; "" if there is none
}

// show shows s and newer states until the user leaves. It returns the exit code and the last state. The Reader has a
// goroutine of its own, because a file system that does not answer must not stop Ctrl-C.
func (t *terminal) show(r *Reader, s State) (int, State) {
	states, keys, end := make(chan reading, 1), make(chan byte), make(chan struct{})
	defer close(end)
	go read(r, states, end)
	if _, err := unix.IoctlGetTermios(int(t.in.Fd()), unix.TCGETS); err == nil {
		go t.keys(keys, end)
	}
	ticks := time.NewTicker(drawEvery)
	defer ticks.Stop()
	received, drawn, changed := time.Now(), time.Now(), false
	for err := t.draw(s); ; {
		if err != nil { // the terminal is gone
			return loop.ExitHungUp, s
		}
		select {
		case sig := <-t.signals:
			if code := t.obey(sig); code != loop.ExitOK {
				return code, s
			}
			changed = true
		case key := <-keys:
			switch key {
			case 'q', 'Q', ctrlC, ctrlD, earlyD:
				return loop.ExitOK, s
			}
		case got := <-states:
			if got.panic != "" {
				panic(got.panic)
			}
			s, received, changed = got.state, time.Now(), true
		case now := <-ticks.C: // draw only here, at most once for each tick
			if !changed && now.Sub(drawn) < readEvery {
				continue
			}
			shown := s
			shown.Now = now
			if silent := now.Sub(received); silent >= oldAfter {
				shown.Problem = "no answer from the file system for " + metrics.Clock(silent)
			}
			err, drawn, changed = t.draw(shown), now, false
		}
	}
}

// obey returns the exit code for a signal that ends the command, or ExitOK. On Ctrl-Z it suspends the process.
func (t *terminal) obey(sig os.Signal) int {
	switch sig {
	case unix.SIGINT:
		return loop.ExitInterrupted
	case unix.SIGTERM:
		return loop.ExitTerminated
	case unix.SIGHUP:
		return loop.ExitHungUp
	case unix.SIGTSTP:
		t.leave()
		syscall.Kill(os.Getpid(), syscall.SIGSTOP) // until SIGCONT; never fails
	case unix.SIGCONT:
		if t.enter() != nil { // the terminal is gone: the kernel sends SIGHUP and SIGCONT, in any order
			return loop.ExitHungUp
		}
	}
	return loop.ExitOK
}

// ctrlC is the key Ctrl-C, for terminals that send no signal for it. ctrlD is the key Ctrl-D, which programs such as
// script send at the end of their input. If it came before enter, the kernel makes it earlyD.
const (
	ctrlC  = 3
	ctrlD  = 4
	earlyD = 0
)

// draw shows s in the present size of the window. While the terminal is restored, draw does nothing: after Ctrl-Z, a
// tick may come before SIGCONT.
func (t *terminal) draw(s State) error {
	if t.before == nil {
		return nil
	}
	width, height := 80, 24
	if size, err := unix.IoctlGetWinsize(int(t.out.Fd()), unix.TIOCGWINSZ); err == nil && size.Col > 0 && size.Row > 0 {
		width, height = int(size.Col), int(size.Row)
	}
	return t.screen.draw(Render(s, width, height), width, height)
}

// read sends states until done is closed. A panic is sent as a text, so that the terminal is restored.
func read(r *Reader, states chan<- reading, done <-chan struct{}) {
	defer func() {
		if x := recover(); x != nil {
			states <- reading{panic: fmt.Sprintf("%v\n%s", x, debug.Stack())}
		}
	}()
	for {
		s, _ := r.Read(time.Now()) // only the first call returns errors
		select {
		case states <- reading{state: s}:
		case <-done:
			return
		}
		select {
		case <-time.After(readEvery):
		case <-done:
			return
		}
	}
}

// keys sends the pressed keys. It ends with the first key that is pressed after done is closed.
func (t *terminal) keys(keys chan<- byte, done <-chan struct{}) {
	var b [1]byte
	for {
		if n, err := t.in.Read(b[:]); n == 0 || err != nil {
			return
		}
		select {
		case keys <- b[0]:
		case <-done:
			return
		}
	}
}
