package algo_test

import (
	"testing"

	"github.com/rlinf/rlinf/algo"
)

// TestProgress: an update reports all of its micro-batches.
func TestProgress(t *testing.T) {
	var done, moves int
	p := mustPPO(t, ppoSetup(func(s *algo.Setup) {
		s.MicroBatch = 8
		s.Progress = func(what string, now, total int) {
			if now < done || what != "update" || total != 32 {
				t.Errorf("%s: %d of %d after %d, expected up to 32 updates", what, now, total, done)
			}
			if now > done {
				done, moves = now, moves+1
			}
		}
	}))
	r := algo.RandomRollout(1, 16, 0, 8)
	p.learn(t, &r)
	if done != 32 || moves != 32 {
		t.Errorf("%d micro-batches in %d moves, expected 32 in 32", done, moves)
	}
	algo.Progress(nil).Report("update", 1, 2) // is ignored
}
