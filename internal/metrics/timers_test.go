package metrics_test

import (
	"slices"
	"testing"
	"time"

	"github.com/rlinf/rlinf/internal/metrics"
)

func TestTimers(t *testing.T) {
	now := at
	timers := metrics.NewTimers(func() time.Time { return now }, "step", "eval")
	step := timers.Start("step")
	for range 2 {
		eval := timers.Start("eval")
		now = now.Add(1500 * time.Millisecond)
		if d := eval.Stop(); d != 1500*time.Millisecond {
			t.Errorf("Stop gave %v", d)
		}
	}
	now = now.Add(time.Second)
	step.Stop()
	if got := timers.Names(); !slices.Equal(got, []string{"time/step", "time/eval"}) {
		t.Errorf("names %v", got)
	}
	if got := timers.Take(nil); !slices.Equal(got, []float64{4, 3}) {
		t.Errorf("got %v, want 4 s and 3 s", got)
	}
	if got := timers.Take(nil); !slices.Equal(got, []float64{0, 0}) {
		t.Errorf("after Take: %v, want zeros", got)
	}
}
