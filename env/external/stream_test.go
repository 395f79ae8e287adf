package external

import "testing"

// TestSpinPolicy: after a failed poll, the caller blocks for 1, 3, 7, … answers before it polls again. An answer that
// polling finds resets the number.
func TestSpinPolicy(t *testing.T) {
	var l spinPolicy
	inVain := func() {
		t.Helper()
		if !l.again() {
			t.Fatal("it sleeps, want a look")
		}
		for l.again() {
		}
	}
	for sleeps := 1; sleeps < 3*maxSleeps; sleeps = 2*sleeps + 1 {
		inVain()
		for i := range min(sleeps, maxSleeps) {
			if l.again() {
				t.Fatalf("it looks again after sleeping %d times, want %d", i, sleeps)
			}
			l.found() // the answer comes while the caller blocks
		}
	}
	if !l.again() {
		t.Fatal("it sleeps, want a look")
	}
	l.found()
	inVain()
	if l.sleeps != 1 {
		t.Errorf("it sleeps %d times after the first failure since it found something, want 1", l.sleeps)
	}
}
