package session

import (
	"errors"
	"testing"

	"github.com/rlinf/rlinf/roles/job"
	"github.com/rlinf/rlinf/roles/task"
)

// A need is a plan whose ranks need that many bytes in all, on one node.
type need struct {
	task.Plan
	bytes int64
}

func (n need) MemoryOf(int) job.Footprint { return job.Footprint{Replay: n.bytes} }

func (n need) CheckMemory(_ []int, _ int, have job.Available) error {
	if n.bytes > have.Free {
		return errors.New("too little")
	}
	return nil
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
		r := &rank{plan: need{bytes: 8 * gib}, room: free + 2*gib} // of which 2 GiB are used
		m := &mover{rank: r, next: &destination{plan: need{bytes: c.next}}}
		if err := m.checkRoom([]int{0}, 0, []float64{0}, []float64{0}); (err == nil) != c.fits {
			t.Errorf("%d GiB on a node with %d: %v", c.next/gib, r.room/gib, err)
		}
	}
}
