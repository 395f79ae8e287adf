package metrics

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// A State is where a run stands.
type State struct {
	Step, MaxStep int64 // MaxStep 0: no end is known
	EnvSteps      int64
	Learnt        int64   // how many Units training has used, where EnvSteps are not shown
	Unit          string  // tokens or samples
	Return, Eval  float64 // mean return of training and of evaluation; NaN: none yet
	// Measure is what Return and Eval are where they are no returns of environments: loss or reward. Then
	// EnvSteps are not shown. "": they are returns of environments.
	Measure string
	// Lost is how many of Episodes were lost, because their simulators failed.
	Lost, Episodes int64
	// Stop names the rule of an early stop, and says how near it is; "": there is none.
	Stop string
}

// Options say how a Progress shows states. The zero value writes to a log.
type Options struct {
	Live  bool             // in place, on a terminal; see IsTerminal
	Width func() int       // columns of the terminal, ≤ 0: not known; nil: not known
	Now   func() time.Time // nil: time.Now
}

// On returns the options of a Progress on a terminal; nil: in a log.
func On(terminal *os.File) Options {
	return Options{Live: terminal != nil, Width: func() int { return Width(terminal) }}
}

// Progress shows the State of a run and the work under way on one line: on a terminal in place,
// elsewhere a line now and then. It is safe for concurrent use. A nil Progress ignores all calls.
type Progress struct {
	out   io.Writer
	opts  Options
	every time.Duration

	mu    sync.Mutex
	run   bool // Begin was called
	ended bool // Done was called
	start State
	began time.Time
	until time.Time // when the clock ends the run; zero: never
	state State     // the last one of Update
	work

	shown   State // the last one that was written, when, and the env steps or tokens per second up to it
	shownAt time.Time
	rate    float64
	at      time.Time // when the line was written
	working int64     // the step under way; 0: none
	wrote   time.Time // when a line was last written, or the first work began
	pending bool      // state is newer than shown
	live    string    // the line that stands on the terminal; "": none
}

// How often a line is written, at most; and when the work under way is shown: when nothing
// was written for so long, on a terminal or in a log.
const (
	liveEvery = 100 * time.Millisecond
	logEvery  = 10 * time.Second
	liveLong  = time.Second - 100*time.Millisecond // so that the tick after a second counts
	logLong   = 30 * time.Second
)

// NewProgress returns a Progress without a run.
func NewProgress(out io.Writer, opts Options) *Progress {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	p := &Progress{out: out, opts: opts, every: logEvery}
	if opts.Live {
		p.every = liveEvery
	}
	return p
}

// Begin shows a run that goes on from start, and which the clock ends at until, if that is not zero.
func (p *Progress) Begin(start State, until time.Time) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.opts.Now()
	p.run, p.start, p.shown, p.state, p.began, p.until = true, start, start, start, now, until
	if p.wrote.IsZero() {
		p.wrote = now
	}
}

// Watch shows the work under way, until stop is called.
func (p *Progress) Watch() (stop func()) {
	if p == nil {
		return func() {}
	}
	return Every(time.Second, p.tick)
}

// Every calls f after each interval, from one goroutine, until stop is called. stop waits for a call
// under way.
func Every(interval time.Duration, f func()) (stop func()) {
	ticks, end, ended := time.NewTicker(interval), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-ticks.C:
				f()
			case <-end:
				return
			}
		}
	}()
	return func() {
		ticks.Stop()
		close(end)
		<-ended
	}
}

// tick shows the work under way if it takes long.
func (p *Progress) tick() {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.opts.Now()
	switch {
	case p.ended || p.wrote.IsZero(): // nothing is under way
	case p.opts.Live && now.Sub(p.wrote) >= liveLong, !p.opts.Live && now.Sub(p.wrote) >= logLong:
		p.show(now)
	}
}

// IsTerminal reports whether f is a terminal that can rewrite a line.
func IsTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb" && os.Getenv("TERM") != ""
}

// Iterate says that the iteration of this step begins.
func (p *Progress) Iterate(step int64) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.working = step
	p.begin("")
}

// Update shows s if it is time to. The first one always is.
func (p *Progress) Update(s State) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.opts.Now()
	p.state, p.pending = s, true
	p.begin("")
	if !p.ended && (p.shownAt.IsZero() || now.Sub(p.shownAt) >= p.every) {
		p.show(now)
	}
}

// Print writes text, which ends in a newline, above the live line.
func (p *Progress) Print(text string) {
	if p != nil {
		io.WriteString(p.Above(p.out), text)
	}
}

// Above returns a writer to w, which may be the same terminal. It keeps the live line below what is
// written.
func (p *Progress) Above(w io.Writer) io.Writer {
	if p == nil || !p.opts.Live {
		return w
	}
	return above{p, w}
}

type above struct {
	*Progress
	to io.Writer
}

func (a above) Write(b []byte) (n int, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.live == "" {
		return a.to.Write(b)
	}
	io.WriteString(a.out, clearLine)
	if n, err = a.to.Write(b); err == nil && !bytes.HasSuffix(b, []byte("\n")) {
		_, err = io.WriteString(a.to, "\n")
	}
	io.WriteString(a.out, a.live)
	return n, err
}

// Finishing returns the step after which a run ends that is asked to now: the one under way, or where
// that takes ranks a step to agree on the next one; 0: the first has not begun.
func (p *Progress) Finishing(late bool) int64 {
	if p == nil {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if late && p.working > 0 && (p.state.MaxStep == 0 || p.working < p.state.MaxStep) {
		return p.working + 1
	}
	return p.working
}

// Done shows the last state, if Update did not, and ends the line. Nothing is shown after it.
func (p *Progress) Done() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	working := p.phase != "" || p.counted != ""
	p.begin("")
	if p.pending || p.live != "" && working && p.run {
		p.show(p.opts.Now())
	}
	if p.live != "" && p.run {
		io.WriteString(p.out, "\n")
	} else if p.live != "" {
		io.WriteString(p.out, clearLine)
	}
	p.live, p.ended = "", true
}

// liveLine is the line as a terminal shows it, cut to its width. A terminal that has become narrower
// since shows what fits.
func (p *Progress) liveLine() string {
	width := 0
	if p.opts.Width != nil {
		width = p.opts.Width()
	}
	width -= Echo
	return noWrap + Cut(p.line(width), width) + wrap
}

// Echo is how many columns a live line leaves free at its end: there terminals write ^C, which must not
// begin another line.
const Echo = 2

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

// show writes the line, with the newest state.
func (p *Progress) show(now time.Time) {
	if p.pending {
		p.advance(now)
	}
	p.at, p.wrote = now, now
	if p.opts.Live {
		p.live = p.liveLine()
		io.WriteString(p.out, clearLine+p.live)
	} else {
		io.WriteString(p.out, p.line(0)+"\n")
	}
}

// advance makes the newest state the one that is shown, with its rate.
func (p *Progress) advance(now time.Time) {
	from, since := p.shown, p.shownAt
	// the last line may follow at once: states of two iterations come together then
	if now.Sub(since) < p.every || since.IsZero() {
		from, since = p.start, p.began
	}
	more := p.state.EnvSteps - from.EnvSteps + p.state.Learnt - from.Learnt
	if d := now.Sub(since).Seconds(); d > 0 && more != 0 {
		p.rate = float64(more) / d
	}
	p.shown, p.shownAt, p.pending = p.state, now, false
}

// A field is a part of the line. In a narrow terminal those with the highest drop go first; 0 stays.
type field struct {
	text string
	drop int
}

// line is the state shown last, and the work under way. Fields are left out to fit into width; 0: none.
func (p *Progress) line(width int) string {
	var fields []field
	add := func(drop int, format string, args ...any) {
		fields = append(fields, field{fmt.Sprintf(format, args...), drop})
	}
	if p.run {
		add(0, "step %s", p.step())
	}
	if work := p.describe(p.at, !p.run); work != "" {
		add(0, "%s", work)
	}
	if p.run {
		p.describeState(add)
	}
	for drop := 7; drop > 0 && width > 0 && length(fields) >= width; drop-- {
		fields = slices.DeleteFunc(fields, func(f field) bool { return f.drop == drop })
	}
	return join(fields)
}

// step is how many steps are done, and how many there are, where that is known. The state of the last
// one may not have come yet.
func (p *Progress) step() string {
	done := max(p.shown.Step, p.working-1)
	if p.shown.MaxStep > 0 {
		return fmt.Sprintf("%d/%d", done, p.shown.MaxStep)
	}
	return fmt.Sprint(done)
}

// describeState adds the fields of the state shown last.
func (p *Progress) describeState(add func(drop int, format string, args ...any)) {
	s := p.shown
	name := s.Measure
	if s.Measure == "" && !p.shownAt.IsZero() {
		add(7, "%s env steps · %s/s", short(float64(s.EnvSteps)), short(p.rate))
	}
	if s.Measure == "" {
		name = "return"
	}
	if !math.IsNaN(s.Return) {
		add(4, "%s %.4g", name, s.Return)
	}
	if !math.IsNaN(s.Eval) {
		add(5, "eval %.4g", s.Eval)
	}
	if s.Learnt > 0 {
		add(6, "%s %s/s", short(p.rate), s.Unit)
	}
	if s.Stop != "" {
		add(7, "%s", s.Stop)
	}
	if s.Lost > 0 {
		add(4, "lost %d of %d episodes", s.Lost, s.Episodes)
	}
	add(1, "%s", Clock(p.at.Sub(p.began)))
	if left := p.left(); left > 0 {
		add(2, "ETA %s", Clock(left))
	}
}

// join returns the line of fields, and length how many columns it has.
func join(fields []field) string {
	var b strings.Builder
	for i, f := range fields {
		if i > 0 {
			b.WriteString(" · ")
		}
		b.WriteString(f.text)
	}
	return b.String()
}

func length(fields []field) int { return utf8.RuneCountInString(join(fields)) }

// left returns how long the run will go on, at the rate of its steps so far and no longer than the
// clock lets it; 0: that is not known, or nothing is left.
func (p *Progress) left() (left time.Duration) {
	s := p.shown
	if done, todo := s.Step-p.start.Step, s.MaxStep-s.Step; s.MaxStep > 0 {
		if todo <= 0 || done <= 0 {
			return 0
		}
		left = time.Duration(float64(p.shownAt.Sub(p.began))/float64(done)*float64(todo)) - p.at.Sub(p.shownAt)
	}
	if !p.until.IsZero() {
		if clock := max(p.until.Sub(p.at), 0); s.MaxStep == 0 || clock < left {
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
