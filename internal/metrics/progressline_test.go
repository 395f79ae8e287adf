package metrics_test

import (
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rlinf/rlinf/internal/metrics"
	"github.com/rlinf/rlinf/internal/test"
)

func state(step int64) metrics.RunStatus {
	s := metrics.RunStatus{Step: step, MaxStep: 1000, EnvSteps: step * 2048, Return: math.NaN(), Eval: math.NaN()}
	if step >= 120 {
		s.Return = float64(step) / 3
	}
	if step >= 200 {
		s.Eval = 475
	}
	return s
}

// begin returns a ProgressLine of a run that goes on from start, without a time limit.
func begin(out io.Writer, start metrics.RunStatus, opts metrics.Options) *metrics.ProgressLine {
	p := metrics.NewProgressLine(out, opts)
	p.Begin(start, time.Time{})
	return p
}

// A log gets the first line, a line every ten seconds, and the last line.
func TestProgressInALog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		p := begin(&out, state(100), metrics.Options{})
		for step := int64(101); step <= 225; step++ {
			time.Sleep(time.Second / 4)
			p.Update(state(step))
			if step == 130 {
				p.Print("a remark\n")
			}
		}
		p.Done()
		want := `step 101/1000 · 207k env steps · 8.19k/s · 0s · ETA 3m45s
a remark
step 141/1000 · 289k env steps · 8.19k/s · return 47 · 10s · ETA 3m35s
step 181/1000 · 371k env steps · 8.19k/s · return 60.33 · 20s · ETA 3m25s
step 221/1000 · 453k env steps · 8.19k/s · return 73.67 · eval 475 · 30s · ETA 3m15s
step 225/1000 · 461k env steps · 8.19k/s · return 75 · eval 475 · 31s · ETA 3m14s
`
		if out.String() != want {
			t.Errorf("got\n%swant\n%s", &out, want)
		}
	})
}

// If the last line follows the line before at once, it has the rate of the whole run.
func TestProgressEndsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		p := begin(&out, state(100), metrics.Options{})
		time.Sleep(time.Second)
		p.Update(state(104))
		time.Sleep(time.Microsecond)
		p.Update(state(108))
		p.Done()
		if last := strings.Split(out.String(), "\n")[1]; !strings.Contains(last, " 16.4k/s ") {
			t.Errorf("got %s, want 8 steps of 2048 in a second", last)
		}
	})
}

// Rates count the time of iterations, without evaluations and checkpoints. The last line has the rate of the whole run,
// with its earlier parts.
func TestProgressCountsIterations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		p := begin(&out, state(100), metrics.Options{})
		for step := int64(101); step <= 120; step++ {
			time.Sleep(time.Second) // of which 0.5 are an iteration
			s := state(step)
			s.MaxStep, s.Seconds, s.Earlier = 120, float64(step-100)/2, metrics.Pace{Done: 2048 * 60, Seconds: 10}
			p.Update(s)
		}
		p.Done()
		lines := strings.Split(out.String(), "\n")
		if len(lines) != 4 || !strings.Contains(lines[1], " 4.1k/s ") || !strings.Contains(lines[2], " 8.19k/s ") {
			t.Errorf("got %s, want 2 steps of 2048 in a second, and at the end 80 steps in 20 s", &out)
		}
	})
}

// A terminal shows one line, which is updated at most ten times a second. Printed text is above the line.
func TestProgressOnATerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		p := begin(&out, metrics.RunStatus{}, metrics.Options{Live: true})
		for i := range 5 {
			time.Sleep(60 * time.Millisecond)
			s := state(200)
			s.Step, s.MaxStep, s.EnvSteps = int64(i), 0, int64(60*i)
			p.Update(s)
			if i == 3 {
				p.Print("a remark\n")
			}
		}
		p.Done()
		line := func(step, count, rate string) string {
			return fmt.Sprintf("\r\x1b[K\x1b[?7lstep %s · %s env steps · %s/s · return 66.67 · eval 475 · 0s\x1b[?7h",
				step, count, rate)
		}
		third := line("2", "120", "1k")
		want := line("0", "0", "0") + third + "\r\x1b[Ka remark\n" + strings.TrimPrefix(third, "\r\x1b[K") +
			line("4", "240", "1k") + "\n"
		if out.String() != want {
			t.Errorf("got\n%q\nwant\n%q", &out, want)
		}
	})
}

func TestProgressOfNothing(t *testing.T) {
	var out strings.Builder
	begin(&out, state(3), metrics.Options{Live: true}).Done()
	if out.Len() > 0 {
		t.Errorf("got %q, want nothing", &out)
	}
}

func TestIsTerminal(t *testing.T) {
	f := test.Must(os.Create(t.TempDir() + "/log"))(t)
	defer f.Close()
	t.Setenv("TERM", "xterm")
	if metrics.IsTerminal(f) {
		t.Error("a file is taken for a terminal")
	}
}

// The line leaves out fields to fit into the present width of the terminal.
func TestProgressOnANarrowTerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		width := 20
		p := begin(&out, metrics.RunStatus{}, metrics.Options{Live: true, Width: func() int { return width }})
		p.Update(state(200))
		width = 40
		time.Sleep(time.Second)
		p.Update(state(201))
		p.Done()
		want := "\r\x1b[K\x1b[?7lstep 200/1000\x1b[?7h\r\x1b[K\x1b[?7lstep 201/1000 · 1s · ETA 4s\x1b[?7h\n"
		if out.String() != want {
			t.Errorf("got\n%q\nwant\n%q", &out, want)
		}
		for width, want := range map[int]string{0: "ab·de", 6: "ab·de", 5: "ab·…", 2: "…", 1: "…"} {
			test.Equal(t, metrics.Cut("ab·de", width), want, "width %d", width)
		}
	})
}

// The remaining time is at most the time to the time limit. If the last step is unknown, it is the time to the time
// limit.
func TestProgressHeedsTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			name    string
			maxStep int64
			until   time.Duration
			want    string
		}{
			{"no limit", 1000, 0, " · ETA 2m28s"},
			{"a limit that comes first", 1000, 62 * time.Second, " · ETA 1m00s"},
			{"a limit that comes later", 1000, time.Hour, " · ETA 2m28s"},
			{"a limit alone", 0, 62 * time.Second, " · ETA 1m00s"},
			{"a limit that is over", 1000, time.Second, " · 2s"},
			{"neither", 0, 0, " · 2s"},
		} {
			var out strings.Builder
			var until time.Time
			if c.until > 0 {
				until = time.Now().Add(c.until)
			}
			p := metrics.NewProgressLine(&out, metrics.Options{})
			p.Begin(state(100), until)
			time.Sleep(2 * time.Second)
			s := state(112)
			s.MaxStep = c.maxStep
			p.Update(s)
			if line := strings.TrimSpace(out.String()); !strings.HasSuffix(line, c.want) {
				t.Errorf("%s: %q, want %q at its end", c.name, line, c.want)
			}
		}
	})
}

// The line shows lost episodes once there are any.
func TestProgressOfLostEpisodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		p := begin(&out, state(0), metrics.Options{})
		s := state(50)
		p.Update(s)
		s.Lost, s.Episodes = 3, 120
		p.Update(s)
		p.Done()
		lines := strings.Split(out.String(), "\n")
		if strings.Contains(lines[0], "lost") || !strings.Contains(lines[1], " · lost 3 of 120 episodes · ") {
			t.Errorf("got %s", &out)
		}
	})
}
