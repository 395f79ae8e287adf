package metrics_test

import (
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/rlinf/rlinf/internal/metrics"
)

func state(step int64) metrics.State {
	s := metrics.State{Step: step, MaxStep: 1000, EnvSteps: step * 2048, Return: math.NaN(), Eval: math.NaN()}
	if step >= 120 {
		s.Return = float64(step) / 3
	}
	if step >= 200 {
		s.Eval = 475
	}
	return s
}

// A log gets the first line, one every ten seconds, and the last.
func TestProgressInALog(t *testing.T) {
	var out strings.Builder
	now := at
	p := metrics.NewProgress(&out, false, state(100), func() time.Time { return now })
	for step := int64(101); step <= 225; step++ {
		now = now.Add(time.Second / 4)
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
}

// The last line has the rate of the whole run where it follows the one before at once.
func TestProgressEndsAtOnce(t *testing.T) {
	var out strings.Builder
	now := at
	p := metrics.NewProgress(&out, false, state(100), func() time.Time { return now })
	now = now.Add(time.Second)
	p.Update(state(104))
	now = now.Add(time.Microsecond)
	p.Update(state(108))
	p.Done()
	if last := strings.Split(out.String(), "\n")[1]; !strings.Contains(last, " 16.4k/s ") {
		t.Errorf("got %s, want 8 steps of 2048 in a second", last)
	}
}

// A terminal shows one line, rewritten at most ten times a second, with what is printed above it.
func TestProgressOnATerminal(t *testing.T) {
	var out strings.Builder
	now := at
	p := metrics.NewProgress(&out, true, metrics.State{}, func() time.Time { return now })
	for i := range 5 {
		now = now.Add(60 * time.Millisecond)
		s := state(200)
		s.Step, s.MaxStep, s.EnvSteps = int64(i), 0, int64(60*i)
		p.Update(s)
		if i == 3 {
			p.Print("a remark\n")
		}
	}
	p.Done()
	line := func(step, count, rate string) string {
		return fmt.Sprintf("\r\x1b[K\x1b[?7lstep %s · %s env steps · %s/s · return 66.67 · eval 475 · 0s\x1b[?7h", step, count, rate)
	}
	third := line("2", "120", "1k")
	want := line("0", "0", "0") + third + "\r\x1b[Ka remark\n" + strings.TrimPrefix(third, "\r\x1b[K") + line("4", "240", "1k") + "\n"
	if out.String() != want {
		t.Errorf("got\n%q\nwant\n%q", &out, want)
	}
}

func TestProgressOfNothing(t *testing.T) {
	var out strings.Builder
	metrics.NewProgress(&out, true, state(3), time.Now).Done()
	if out.Len() > 0 {
		t.Errorf("got %q, want nothing", &out)
	}
}

func TestIsTerminal(t *testing.T) {
	f, err := os.Create(t.TempDir() + "/log")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	t.Setenv("TERM", "xterm")
	if metrics.IsTerminal(f) {
		t.Error("a file is taken for a terminal")
	}
}
