package loop

import (
	"slices"
	"testing"
	"time"

	"github.com/rlinf/rlinf/internal/test"
)

// A signal that comes twice within a second counts once, as timeout and launchers send it; later, or
// with another code, it ends the process at once.
func TestSameSignalWithinASecondCountsOnce(t *testing.T) {
	start := time.Unix(1_800_000_000, 0)
	type signal struct {
		code  int
		after time.Duration
		want  bool
	}
	for name, signals := range map[string][]signal{
		"timeout": {{ExitTerminated, 0, false}, {ExitTerminated, time.Millisecond, false},
			{ExitTerminated, 999 * time.Millisecond, false}},
		"twice":      {{ExitInterrupted, 0, false}, {ExitInterrupted, time.Second, true}},
		"long after": {{ExitTerminated, 0, false}, {ExitTerminated, time.Hour, true}},
		"session":    {{ExitTerminated, 0, false}, {ExitHungUp, time.Millisecond, false}},
		"hung up":    {{ExitHungUp, 0, false}, {ExitHungUp, time.Millisecond, false}, {ExitHungUp, time.Second, true}},
		"another":    {{ExitInterrupted, 0, false}, {ExitTerminated, time.Millisecond, true}},
		"three times": {{ExitInterrupted, 0, false}, {ExitInterrupted, 10 * time.Millisecond, false},
			{ExitInterrupted, 2 * time.Second, true}},
	} {
		var u urgency
		for i, s := range signals {
			test.Equal(t, u.add(s.code, start.Add(s.after)), s.want, "%s: signal %d: at once", name, i)
		}
	}
}

// Hooks run until they are cancelled. A sweep calls the hooks of its runs.
func TestBeforeExit(t *testing.T) {
	all := &Requests{}
	var called []string
	hook := func(name string) func(int) { return func(int) { called = append(called, name) } }
	cancel := all.BeforeExit(hook("first"))
	all.ForRun().BeforeExit(hook("of a run"))
	cancel()
	all.BeforeExit(hook("third"))
	for _, f := range all.exits {
		f(0)
	}
	slices.Sort(called)
	test.EqualSlices(t, called, []string{"of a run", "third"}, "called")
}
