package metrics

import (
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"time"
)

// A State is where a run stands.
type State struct {
	Step, MaxStep int64 // MaxStep 0: no end is known
	EnvSteps      int64
	Return, Eval  float64 // mean return of training and of evaluation; NaN: none yet
	// Measure is what Return and Eval are of a language model, loss or reward. It has no environment
	// steps. "": they are returns of environments.
	Measure string
	// Lost is how many of Episodes were lost, because their simulators failed.
	Lost, Episodes int64
}

// Options say how a Progress shows states. The zero value writes to a log.
type Options struct {
	Live  bool             // in place, on a terminal; see IsTerminal
	Width func() int       // columns of the terminal, ≤ 0: not known; nil: not known
	Until time.Time        // when the clock ends the run; zero: never
	Now   func() time.Time // nil: time.Now
}

// Progress shows the State of a run on one line: on a terminal in place, elsewhere a line now and
// then.
type Progress struct {
	out   io.Writer
	opts  Options
	every time.Duration

	start State
	began time.Time
	state State // the last one of Update

	shown     State // the last one that was written, when, and the env steps per second up to it
	shownAt   time.Time
	rate      float64
	pending   bool // state is newer than shown
	lineStays bool // a live line stands on the terminal
}

// How often a line is written, at most.
const (
	liveEvery = 100 * time.Millisecond
	logEvery  = 10 * time.Second
)

// NewProgress shows a run that goes on from start. It reads the clock now.
func NewProgress(out io.Writer, start State, opts Options) *Progress {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	p := &Progress{out: out, opts: opts, every: logEvery, start: start, began: opts.Now(), shown: start}
	if opts.Live {
		p.every = liveEvery
	}
	return p
}

// IsTerminal reports whether f is a terminal that can rewrite a line.
func IsTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb" && os.Getenv("TERM") != ""
}

// Update shows s if it is time to. The first one always is.
func (p *Progress) Update(s State) {
	p.state, p.pending = s, true
	if now := p.opts.Now(); p.shownAt.IsZero() || now.Sub(p.shownAt) >= p.every {
		p.show(now)
	}
}

// Print writes text, which ends in a newline, above the live line.
func (p *Progress) Print(text string) {
	if p.lineStays {
		text = clearLine + text + p.liveLine()
	}
	io.WriteString(p.out, text)
}

// Done shows the last state, if Update did not, and ends the line.
func (p *Progress) Done() {
	if p.pending {
		p.show(p.opts.Now())
	}
	if p.lineStays {
		io.WriteString(p.out, "\n")
		p.lineStays = false
	}
}

// liveLine is the line as a terminal shows it, cut to its width. A terminal that has become narrower
// since shows what fits.
func (p *Progress) liveLine() string {
	width := 0
	if p.opts.Width != nil {
		width = p.opts.Width()
	}
	return noWrap + Cut(p.line(), width) + wrap
}

// Cut returns the beginning of text that leaves the last of width columns free, with … where something
// is missing. All its characters are one column wide. Without a width it returns text.
func Cut(text string, width int) string {
	line := []rune(text)
	if width <= 0 || len(line) < width {
		return text
	}
	return string(line[:max(width-2, 0)]) + "…"
}

// clearLine goes to the beginning of a terminal's line and erases it. Between noWrap and wrap a
// narrow terminal shows what fits of a line.
const (
	clearLine = "\r\x1b[K"
	noWrap    = "\x1b[?7l"
	wrap      = "\x1b[?7h"
)

func (p *Progress) show(now time.Time) {
	from, since := p.shown, p.shownAt
	// the last line may follow at once: states of two iterations come together then
	if now.Sub(since) < p.every || since.IsZero() {
		from, since = p.start, p.began
	}
	if d := now.Sub(since).Seconds(); d > 0 && p.state.EnvSteps != from.EnvSteps {
		p.rate = float64(p.state.EnvSteps-from.EnvSteps) / d
	}
	p.shown, p.shownAt, p.pending = p.state, now, false
	if p.opts.Live {
		io.WriteString(p.out, clearLine+p.liveLine())
		p.lineStays = true
	} else {
		io.WriteString(p.out, p.line()+"\n")
	}
}

// line is the state shown last.
func (p *Progress) line() string {
	s := p.shown
	var b strings.Builder
	fmt.Fprintf(&b, "step %d", s.Step)
	if s.MaxStep > 0 {
		fmt.Fprintf(&b, "/%d", s.MaxStep)
	}
	name := " · " + s.Measure
	if s.Measure == "" {
		fmt.Fprintf(&b, " · %s env steps · %s/s", short(float64(s.EnvSteps)), short(p.rate))
		name = " · return"
	}
	if !math.IsNaN(s.Return) {
		fmt.Fprintf(&b, "%s %.4g", name, s.Return)
	}
	if !math.IsNaN(s.Eval) {
		fmt.Fprintf(&b, " · eval %.4g", s.Eval)
	}
	if s.Lost > 0 {
		fmt.Fprintf(&b, " · lost %d of %d episodes", s.Lost, s.Episodes)
	}
	fmt.Fprintf(&b, " · %s", Clock(p.shownAt.Sub(p.began)))
	if left := p.left(); left > 0 {
		fmt.Fprintf(&b, " · ETA %s", Clock(left))
	}
	return b.String()
}

// left returns how long the run will go on, at the rate of its steps so far and no longer than the
// clock lets it; 0: that is not known, or nothing is left.
func (p *Progress) left() (left time.Duration) {
	s := p.shown
	if done, todo := s.Step-p.start.Step, s.MaxStep-s.Step; s.MaxStep > 0 {
		if todo <= 0 || done <= 0 {
			return 0
		}
		left = time.Duration(float64(p.shownAt.Sub(p.began)) / float64(done) * float64(todo))
	}
	if !p.opts.Until.IsZero() {
		if clock := max(p.opts.Until.Sub(p.shownAt), 0); s.MaxStep == 0 || clock < left {
			left = clock
		}
	}
	return left
}

// short writes a count in three or four digits: 950, 12.3k, 4.56M.
func short(x float64) string {
	for _, unit := range []string{"", "k", "M", "G"} {
		if x < 999.5 || unit == "G" {
			if unit == "" || x >= 100 {
				return fmt.Sprintf("%.0f%s", x, unit)
			}
			return fmt.Sprintf("%.3g%s", x, unit)
		}
		x /= 1000
	}
	panic("unreachable")
}

// Clock writes a duration as 7s, 3m07s, 2h05m or 3d04h.
func Clock(d time.Duration) string {
	s := int64(d.Round(time.Second) / time.Second)
	switch {
	case s < 60:
		return fmt.Sprintf("%ds", s)
	case s < 3600:
		return fmt.Sprintf("%dm%02ds", s/60, s%60)
	case s < 24*3600:
		return fmt.Sprintf("%dh%02dm", s/3600, s/60%60)
	}
	return fmt.Sprintf("%dd%02dh", s/(24*3600), s/3600%24)
}
