package local

import (
	"fmt"
	"os"
	"time"

	"github.com/rlinf/rlinf/spmd"
)

var _ spmd.Departer = (*transport)(nil)

// Leave wakes all waiting goroutines of the world after the timeout. Each of them then checks whether it
// waits for this rank.
func (t *transport) Leave(timeout time.Duration) {
	w := t.world
	w.mu.Lock()
	defer w.mu.Unlock()
	if timeout <= 0 || t.leave != nil || t.closed {
		return
	}
	left := w.worlds
	t.leave = time.AfterFunc(timeout, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.aborted.Load() || w.worlds != left {
			return
		}
		w.gone[t.rank].Store(true)
		w.departures.Add(1)
		close(*w.changed.Swap(new(make(chan struct{}))))
	})
}

// stopLeaving stops the timer of Leave. The caller holds world.mu.
func (t *transport) stopLeaving() {
	if t.leave != nil {
		t.leave.Stop()
		t.leave = nil
	}
}

func (t *transport) Outlast(c spmd.Comm) { c.(*comm).served = true }

// departed returns an error if the rank has left, and nil otherwise.
func (w *world) departed(rank int) error {
	if !w.gone[rank].Load() {
		return nil
	}
	host, _ := os.Hostname()
	return fmt.Errorf("rank %d (host %s, pid %d) has left: its program has ended", rank, host, os.Getpid())
}

// leftError returns an error if a wait for reqs can never end. WaitAny never ends if the peers of all open
// requests have left. Wait never ends if the peer of the first open request has left.
func (c *comm) leftError(reqs []spmd.Request, waitAny bool) error {
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
		if !waitAny {
			break
		}
	}
	return first
}
