package metrics_test

import (
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/rlinf/rlinf/internal/metrics"
	"github.com/rlinf/rlinf/internal/test"
)

// tell reports n pieces of work, one every d.
func tell(count func(string, int, int), what string, n int, d time.Duration) {
	for i := range n + 1 {
		count(what, i, n)
		time.Sleep(d)
	}
}

// lives returns the lines that a terminal showed, one after the other, without control sequences.
func lives(out string) (lines []string) {
	for _, line := range strings.Split(out, "\r\x1b[K") {
		line = strings.TrimSuffix(strings.TrimPrefix(strings.TrimSuffix(line, "\n"), "\x1b[?7l"), "\x1b[?7h")
		if line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

// narrow checks that lines have fewer columns.
func narrow(t *testing.T, lines []string, columns int) {
	t.Helper()
	for _, line := range lines {
		if n := utf8.RuneCountInString(line); n >= columns {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

// If an iteration takes more than a second, the line shows the phase and its count every second.
func TestLongWorkOnATerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		p := metrics.NewProgressLine(&out, metrics.Options{Live: true, Width: func() int { return 80 }})
		stop := p.Watch()
		count := p.Counter()
		time.Sleep(time.Millisecond) // the first tick comes when nearly a second has passed
		p.Phase("loading the model")
		time.Sleep(5499 * time.Millisecond)
		p.Begin(state(240), time.Time{})
		p.Phase("restoring the state")
		time.Sleep(time.Second)
		p.Update(state(241)) // a short iteration
		p.Iterate(243)       // the state of this step comes later
		p.Phase("rollout")
		tell(count, "rollout", 8, time.Second)
		p.Phase("update")
		tell(count, "update", 4, 2600*time.Millisecond)
		p.Phase("saving a checkpoint")
		time.Sleep(3 * time.Second)
		p.Update(state(242))
		stop()
		p.Done()
		want := []string{
			"loading the model 1s", "loading the model 2s", "loading the model 3s", "loading the model 4s",
			"loading the model 5s",
			"step 240/1000 · restoring the state 1s · return 80 · eval 475 · 1s",
			"step 241/1000 · return 80.33 · eval 475 · 1s · ETA 12m39s",
		}
		for i := 1; i < 8; i++ {
			want = append(want,
				fmt.Sprintf("step 242/1000 · rollout %d/8 · return 80.33 · eval 475 · %ds · ETA 12m%02ds", i, i+2,
					39-i))
		}
		lines := lives(out.String())
		for i, w := range want {
			if i >= len(lines) || !strings.HasPrefix(lines[i], w) {
				t.Errorf("line %d: got %q, expected %q", i, lines[min(i, len(lines)-1)], w)
			}
		}
		all := strings.Join(lines, "\n")
		for _, w := range []string{"update 1/4 · ", "update 2/4 (8s)", "update 4/4 · ", "saving a checkpoint 1s",
			"saving a checkpoint 2s", "step 242/1000"} {
			if !strings.Contains(all, w) {
				t.Errorf("no %q in\n%s", w, all)
			}
		}
		narrow(t, lines, 80)
		if got := lines[len(lines)-1]; strings.Contains(got, "saving") {
			t.Errorf("at the end: %q", got)
		}
	})
}

// A log gets a line with the current work every 30 seconds if no other line is written. Before the first step it gets
// the first line of each phase after five seconds.
func TestLongWorkInALog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		p := metrics.NewProgressLine(&out, metrics.Options{})
		stop := p.Watch()
		first, second := p.Counter(), p.Counter()
		p.Phase("starting simulators")
		time.Sleep(45*time.Second + time.Second/4)
		s := metrics.RunStatus{MaxStep: 3, Measure: "loss", Return: math.NaN(), Eval: math.NaN()}
		p.Begin(s, time.Time{})
		p.Phase("generation")
		second("generation", 0, 300)
		tell(first, "generation", 200, time.Second/2)
		p.Phase("update")
		time.Sleep(20 * time.Second)
		first("update", 7, 7) // this work ends with the step, too
		s.Step, s.Return, s.Learnt, s.Unit, s.Stop = 1, 0.5, 1200, "tokens", "early stop 1/3"
		p.Update(s)
		stop()
		p.Done()
		want := `starting simulators 5s
starting simulators 35s
step 0/3 · generation 11/500 · 6s
step 0/3 · generation 71/500 · 36s
step 0/3 · generation 131/500 · 1m06s
step 0/3 · generation 191/500 · 1m36s
step 0/3 · update 5s · 1m46s
step 1/3 · loss 0.5 · 10 tokens/s · early stop 1/3 · 2m01s · ETA 4m01s
`
		if out.String() != want {
			t.Errorf("got\n%sexpected\n%s", &out, want)
		}
	})
}

// The first line comes after a second, even if an iteration begins before.
func TestFirstLineOfLongWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		p := metrics.NewProgressLine(&out, metrics.Options{Live: true})
		stop := p.Watch()
		p.Phase("starting the workers")
		time.Sleep(400 * time.Millisecond)
		p.Begin(state(0), time.Time{})
		p.Iterate(1)
		p.Phase("rollout")
		time.Sleep(time.Second)
		stop()
		if got := lives(out.String()); len(got) != 1 || !strings.HasPrefix(got[0], "step 0/1000 · rollout 1s") {
			t.Errorf("after 1.4 s: %q", got)
		}
	})
}

// An evaluation without a run leaves nothing on the terminal.
func TestLongWorkWithoutARun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		p := metrics.NewProgressLine(&out, metrics.Options{Live: true})
		stop := p.Watch()
		p.Phase("evaluation")
		tell(p.Counter(), "evaluation", 3, time.Second+time.Millisecond)
		io.WriteString(p.Above(&out), "a warning\n")
		stop()
		p.Done()
		p.Done()
		want := "evaluation 0/3 (1s),evaluation 1/3 (2s),evaluation 2/3 (3s),evaluation 3/3 (4s),a " +
			"warning\n\x1b[?7levaluation 3/3 (4s)"
		if got := strings.Join(lives(out.String()), ","); got != want || !strings.HasSuffix(out.String(), "\r\x1b[K") {
			t.Errorf("got %q\nexpected %q", got, want)
		}
	})
}

// A counter allocates nothing, and a nil ProgressLine counts nothing.
func TestCountersAreFree(t *testing.T) {
	count := metrics.NewProgressLine(io.Discard, metrics.Options{}).Counter()
	test.NoAllocs(t, 100, func() { count("update", 1, 2) })
	var none *metrics.ProgressLine
	if none.Counter() != nil {
		t.Error("a nil Progress has a counter")
	}
	none.Phase("update")
	none.Update(metrics.RunStatus{})
	none.Print("text\n")
	none.Watch()()
	none.Done()
}
