package algo

import (
	"testing"

	"github.com/rlinf/rlinf/internal/test"
)

// TestProgress: an update reports all of its micro-batches.
func TestProgress(t *testing.T) {
	var done, moves int
	p := mustPPO(t, setup(func(s *Setup) {
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
	r := randomRollout(1, 16, 0, 8)
	test.OK(t, p.Prepare(&r))
	test.Must(p.Update(r))(t)
	if done != 32 || moves != 32 {
		t.Errorf("%d micro-batches in %d moves, expected 32 in 32", done, moves)
	}
	Progress(nil).Report("update", 1, 2) // is ignored
}
