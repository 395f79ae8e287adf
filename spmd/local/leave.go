package local

import (
	"fmt"
	"os"
	"time"

	"github.com/rlinf/rlinf/spmd"
)

var _ spmd.Departer = (*transport)(nil)

// Leave wakes, when the time has come, all that wait for anything, so that each can see whether
// this is the rank it waits for.
func (t *transport) Leave(after time.Duration) {
	w := t.world
	w.mu.Lock()
	defer w.mu.Unlock()
	if after <= 0 || t.leave != nil || t.closed {
		return
	}
	t.leave = time.AfterFunc(after, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.aborted.Load() {
			return
		}
		w.gone[t.rank].Store(true)
		w.departures.Add(1)
		close(*w.told.Swap(new(make(chan struct{}))))
	})
}

func (t *transport) Outlast(c spmd.Comm) { c.(*comm).served = true }

// departed returns an error that names rank if nobody should wait for it any more.
func (w *world) departed(rank int) error {
	if !w.gone[rank].Load() {
		return nil
	}
	host, _ := os.Hostname()
	return fmt.Errorf("rank %d (host %s, pid %d) has left: its program has ended", rank, host, os.Getpid())
}

// vain returns an error if c, which waits for reqs, waits for a rank that has left: with the first
// of reqs that is open, or, where any will do, with all.
func (c *comm) vain(reqs []spmd.Request, any bool) error {
	s := c.shared
	s.mu.Lock()
	defer s.mu.Unlock()
	var first error
	for _, r := range reqs {
		if r.Handle == 0 {
			continue
		}
		o := c.ops[r.Handle-1]
		err := s.world.departed(s.ranks[o.peer()])
		if err == nil || o.state != pending {
			return nil
		}
		if first == nil {
			first = c.errorf(o.kind, o.peer(), o.tag, err)
		}
		if !any {
			break
		}
	}
	return first
}
