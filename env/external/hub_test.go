package external

import (
	"strings"
	"testing"
)

// TestLimitedWriter: each dropped line is an error for its writer, and the log has one notice.
func TestLimitedWriter(t *testing.T) {
	var log strings.Builder
	w := &limitedWriter{to: &log, left: 8}
	for _, c := range []struct {
		line string
		err  error
	}{{"four\n", nil}, {"six\n", errTooMuch}, {"1\n", errTooMuch}} {
		if _, err := w.Write([]byte(c.line)); err != c.err {
			t.Errorf("%q: %v, want %v", c.line, err, c.err)
		}
	}
	if got := log.String(); !strings.HasPrefix(got, "four\nsimulators have written ") || strings.Count(got, "\n") != 2 {
		t.Errorf("the log has %q, want one line, and one that the rest is left out", got)
	}
}
