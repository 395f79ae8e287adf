package metrics

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/rlinf/rlinf/internal/printable"
)

// A RunStatus is the progress of a run.
type RunStatus struct {
	Step, MaxStep int64 // MaxStep is 0 if it is unknown
	EnvSteps      int64
	Learnt        int64   // number of Units used in training
	Unit          string  // "tokens" or "samples"
	Return, Eval  float64 // mean return in training and in evaluation; NaN if there is none yet
	// Measure is the meaning of Return: "loss", "reward", or "" for returns of environments. EnvSteps are shown only
	// with returns of environments.
	Measure string
	// EvalMeasure is the meaning of Eval, such as "loss", or "" for returns of environments.
	EvalMeasure string
	// Lost is the number of Episodes that were lost because their simulators failed.
	Lost, Episodes int64
	// Stop describes the rule of an early stop, and how close the stop is. It is "" if there is no rule.
	Stop string
	// Seconds is the time of the iterations since Begin, without evaluations and checkpoints. Earlier is the work of
	// iterations before. If Seconds is 0, rates count all time.
	Seconds float64
	Earlier Pace
}

// Options configure how a ProgressLine shows states. The zero value writes to a log.
type Options struct {
	Live  bool       // update one line of a terminal in place; see IsTerminal
	Width func() int // columns of the terminal; unknown if Width is nil or returns <= 0
}

// On returns the options for a terminal. If terminal is nil, it returns the options for a log.
func On(terminal *os.File) Options {
	return Options{Live: terminal != nil, Width: func() int { return Width(terminal) }}
}

// ProgressLine shows the RunStatus of a run and its current work in one line. On a terminal it updates the line in
// place; in a log it writes a line from time to time. It is safe for concurrent use. Methods of a nil ProgressLine do
// nothing.
type ProgressLine struct {
	out   io.Writer
	opts  Options
	every time.Duration

	mu    sync.Mutex
	run   bool // Begin was called
	ended bool // Done was called
	last  bool // the next line is the last
	start RunStatus
	began time.Time
	until time.Time // the run's time limit; zero if there is none
	state RunStatus // last state of Update
	work

	shown   RunStatus // last state written
	shownAt time.Time // when shown was first written
	rate    float64   // environment steps or Units per second since the line before; in the last line, of the whole run
	at      time.Time // time of the line that is being written
	working int64     // step in progress; 0 if there is none
	wrote   time.Time // when a line was last written, or the first work began
	pending bool      // the newest state was not shown yet
	live    string    // current line on the terminal; "" if there is none
	told    string    // the phase of the last line in a log
}

// liveEvery and logEvery are the shortest times between two lines, on a terminal and in a log. If no line was written
// for liveLong or logLong, the current work is shown. Before the first state, a log shows each phase of the start after
// logStart.
const (
	liveEvery = 100 * time.Millisecond
	logEvery  = 10 * time.Second
	liveLong  = time.Second - 100*time.Millisecond // the tick after one second may come a little early
	logLong   = 30 * time.Second
	logStart  = 5 * time.Second
)

// NewProgressLine returns a ProgressLine before its run begins.
func NewProgressLine(out io.Writer, opts Options) *ProgressLine {
	p := &ProgressLine{out: out, opts: opts, every: logEvery}
	if opts.Live {
		p.every = liveEvery
	}
	return p
}

// Begin begins to show a run. start is the run's first state. deadline is its time limit, or zero if there is none.
func (p *ProgressLine) Begin(start RunStatus, deadline time.Time) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.run, p.start, p.shown, p.state, p.began, p.until = true, start, start, start, now, deadline
	if p.wrote.IsZero() {
		p.wrote = now
	}
}

// Watch shows the current work until stop is called.
func (p *ProgressLine) Watch() (stop func()) {
	if p == nil {
		return func() {}
	}
	return Every(time.Second, p.tick)
}

// Every calls f at each interval, on one goroutine, until stop is called. stop waits for a running call.
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

// tick shows the current work if it takes long.
func (p *ProgressLine) tick() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended || p.wrote.IsZero() { // no work has begun
		return
	}
	now := time.Now()
	silent, bound := now.Sub(p.wrote), logLong
	switch {
	case p.opts.Live:
		bound = liveLong
	case p.shownAt.IsZero() && p.phase != p.told:
		silent, bound = min(silent, now.Sub(p.since)), logStart
	}
	if silent >= bound {
		p.show(now)
	}
}

// IsTerminal reports whether f is a terminal that can update a line in place.
func IsTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb" && os.Getenv("TERM") != ""
}

// Iterate records that the iteration of a step begins.
func (p *ProgressLine) Iterate(step int64) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.working = step
	p.begin("")
}

// Update shows s if enough time has passed since the last line. The first state is always shown.
func (p *ProgressLine) Update(s RunStatus) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.state, p.pending = s, true
	p.begin("")
	if !p.ended && (p.shownAt.IsZero() || now.Sub(p.shownAt) >= p.every) {
		p.show(now)
	}
}

// Print writes text, which must end in a newline, above the live line.
func (p *ProgressLine) Print(text string) {
	if p != nil {
		io.WriteString(p.Above(p.out), printable.Text(text))
	}
}

// Above returns a writer that writes to w, and keeps the live line below the output. w may be the terminal of the live
// line, or the log of p: lines do not mix.
func (p *ProgressLine) Above(w io.Writer) io.Writer {
	if p == nil {
		return w
	}
	return above{p, w}
}

type above struct {
	*ProgressLine
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

// Done shows the last state, unless Update has shown it, and ends the line. Later calls show nothing.
func (p *ProgressLine) Done() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	working := p.phase != "" || p.counted != ""
	p.begin("")
	p.last = true
	if p.pending || p.live != "" && working && p.run {
		p.show(time.Now())
	}
	if p.live != "" && p.run {
		io.WriteString(p.out, "\n")
	} else if p.live != "" {
		io.WriteString(p.out, clearLine)
	}
	p.live, p.ended = "", true
}

// liveLine returns the line for a terminal, cut to the width of the terminal. The line disables wrapping, because the
// terminal may become narrower.
func (p *ProgressLine) liveLine() string {
	width := 0
	if p.opts.Width != nil {
		width = p.opts.Width()
	}
	width -= Echo
	return noWrap + Cut(p.line(width), width) + wrap
}

// Echo is the number of columns that a live line leaves free at its end. A terminal shows ^C there, without a new line.
const Echo = 2

// Cut shortens text to width-1 columns, so that the last column stays free. It marks the cut with an ellipsis. All
// characters must be one column wide. If width is unknown (<= 0), Cut returns text.
func Cut(text string, width int) string {
	line := []rune(text)
	if width <= 0 || len(line) < width {
		return text
	}
	return string(line[:max(width-2, 0)]) + "…"
}

// clearLine moves to the beginning of a terminal's line, and erases the line. Between noWrap and wrap, a terminal cuts
// long lines.
const (
	clearLine = "\r\x1b[K"
	noWrap    = "\x1b[?7l"
	wrap      = "\x1b[?7h"
)

// show writes the line with the newest state.
func (p *ProgressLine) show(now time.Time) {
	if p.pending {
		p.advance(now)
	}
	p.at, p.wrote = now, now
	if p.opts.Live {
		p.live = p.liveLine()
		io.WriteString(p.out, clearLine+p.live)
	} else {
		p.told = p.phase
		io.WriteString(p.out, p.line(0)+"\n")
	}
}

// advance makes the newest state the shown state, and updates the rate.
func (p *ProgressLine) advance(now time.Time) {
	from, since := p.shown, p.shownAt
	// A state may come too soon after the previous state to measure a rate. Then the rate is the mean since Begin.
	if now.Sub(since) < p.every || since.IsZero() {
		from, since = p.start, p.began
	}
	took := now.Sub(since).Seconds()
	if p.state.Seconds > 0 {
		took = p.state.Seconds - from.Seconds
	}
	done := float64(p.state.EnvSteps - from.EnvSteps + p.state.Learnt - from.Learnt)
	if s := &p.state; p.last || s.MaxStep > 0 && s.Step >= s.MaxStep { // the line of the whole run
		took = cmp.Or(s.Seconds, now.Sub(p.began).Seconds())
		done = float64(s.EnvSteps - p.start.EnvSteps + s.Learnt - p.start.Learnt)
		if s.Earlier.Done > 0 {
			took, done = took+s.Earlier.Seconds, done+s.Earlier.Done
		}
	}
	if took > 0 && done != 0 {
		p.rate = done / took
	}
	p.shown, p.shownAt, p.pending = p.state, now, false
}

// A field is a part of the progress line.
type field struct {
	text string
	drop int // a narrow terminal leaves out the fields with the highest number first, but never fields with 0
}

// line returns the shown state and the current work in one line. It leaves out fields to fit width; 0 means no limit.
func (p *ProgressLine) line(width int) string {
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

// step returns the number of finished steps as text. If the number of all steps is known, it adds that: "3/10".
func (p *ProgressLine) step() string {
	done := max(p.shown.Step, p.working-1) // the state of the last step may not have arrived yet
	if p.shown.MaxStep > 0 {
		return fmt.Sprintf("%d/%d", done, p.shown.MaxStep)
	}
	return fmt.Sprint(done)
}

// describeState adds the fields of the shown state.
func (p *ProgressLine) describeState(add func(drop int, format string, args ...any)) {
	s := p.shown
	name := s.Measure
	if s.Measure == "" && !p.shownAt.IsZero() {
		add(7, "%s env steps · %s/s", Short(float64(s.EnvSteps)), Short(p.rate))
	}
	if s.Measure == "" {
		name = "return"
	}
	if !math.IsNaN(s.Return) {
		add(4, "%s %.4g", name, s.Return)
	}
	if !math.IsNaN(s.Eval) {
		add(5, "%s %.4g", strings.TrimSpace("eval "+s.EvalMeasure), s.Eval)
	}
	if s.Learnt > 0 {
		add(6, "%s %s/s", Short(p.rate), s.Unit)
	}
	if s.Stop != "" {
		add(7, "%s", s.Stop)
	}
	if s.Lost > 0 {
		add(4, "lost %d of %d episodes", s.Lost, s.Episodes)
	}
	add(1, "%s", Clock(p.at.Sub(p.began)))
	if left := p.remaining(); left > 0 {
		add(2, "ETA %s", Clock(left))
	}
}

// join joins the fields to one line.
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

// length returns the length of the joined fields, in columns.
func length(fields []field) int { return utf8.RuneCountInString(join(fields)) }

// remaining estimates the remaining time of the run, from the rate of its steps and its time limit. It returns 0 if the
// time is unknown or the run is finished.
func (p *ProgressLine) remaining() (left time.Duration) {
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

// Short formats a count with three or four digits: 950, 12.3k, 4.56M.
func Short(x float64) string {
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

// Clock formats a duration as 7s, 3m07s, 2h05m or 3d04h.
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
