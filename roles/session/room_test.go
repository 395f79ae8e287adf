package session

import (
	"errors"
	"testing"

	"github.com/rlinf/rlinf/roles/job"
	"github.com/rlinf/rlinf/roles/task"
)

// need returns a plan whose ranks need that many bytes in all, on one node.
func need(bytes int64) *task.Plan {
	return &task.Plan{
		MemoryOf: func(int) job.Footprint { return job.Footprint{Replay: bytes} },
		CheckMemory: func(_ []int, _ int, have job.Available) error {
			if bytes > have.Free {
				return errors.New("too little")
			}
			return nil
		},
	}
}

// TestRoomOfAMove: a move is refused if the next world would never have fit on the node, even if the present world
// has asked for more memory than it has used so far.
func TestRoomOfAMove(t *testing.T) {
	const gib = 1 << 30
	free := job.AvailableOn([]int{0}, 0).Free
	for _, c := range []struct {
		next int64
		fits bool
	}{{free + gib, true}, {free + 3*gib, false}} {
		r := &rank{plan: need(8 * gib), room: free + 2*gib} // of which 2 GiB are used
		m := &mover{rank: r, next: &destination{plan: need(c.next)}}
		if err := m.checkRoom([]int{0}, 0, []float64{0}, []float64{0}); (err == nil) != c.fits {
			t.Errorf("%d GiB on a node with %d: %v", c.next/gib, r.room/gib, err)
		}
	}
}
