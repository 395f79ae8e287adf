package external

import (
	"errors"
	"fmt"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
)

// Errors that differ only in numbers count as the same. Another error, and many well-ended episodes, restart the count.
func TestRepeats(t *testing.T) {
	var r repeats
	for i, c := range []struct {
		err   error
		ended int // well-ended episodes before the error
		want  int
	}{
		{complaint("division by zero in step 7"), 0, 1},
		{fmt.Errorf("simulator 3: %w", complaint("division by zero in step 12")), 5, 2},
		{errors.New("signal: killed"), 0, 0}, // no simulator reported this error
		{complaint("division by zero in step 9"), 94, 3},
		{complaint("out of memory"), 0, 1},
		{complaint("division by zero in step 9"), 0, 1},
		{complaint("division by zero in step 10"), 100, 1},
		{complaint("division by zero in step 11"), 99, 2},
	} {
		for range c.ended {
			r.end()
		}
		test.Equal(t, r.add(c.err), c.want, "error %d, %v: times", i, c.err)
	}
}

// TestRobotsRepeatNothing: outcomes that differ break a rule, but for a robot the rule does not apply.
func TestRobotsRepeatNothing(t *testing.T) {
	t.Parallel()
	got, want := [][]outcome{{{reward: 1}}}, [][]outcome{{{reward: 2}}}
	var skipped notSpoken
	for _, period := range []float64{0, 0.1} {
		c := &trial{conversation: &conversation{greeting: &greeting{Period: period}}}
		test.OK(t, c.compare(want, want))
		if err := c.compare(got, want); err == nil || errors.As(err, &skipped) != (period > 0) {
			t.Errorf("period %v: %v", period, err)
		}
	}
}
