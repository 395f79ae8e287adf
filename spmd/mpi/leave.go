//go:build mpi

package mpi

/*
#include "shim.h"

#cgo noescape rl_departed
#cgo nocallback rl_departed
#cgo noescape rl_end_request
#cgo nocallback rl_end_request
*/
import "C"

import (
	"fmt"
	"time"

	"github.com/rlinf/rlinf/spmd"
)

var _ spmd.Departer = (*transport)(nil)

func (t *transport) Leave(timeout time.Duration) { C.rl_leave(t.world, C.int64_t(timeout)) }

func (t *transport) Outlast(c spmd.Comm) { c.(*comm).served = true }

// overdue reports whether a wait has taken so long that it must check for ranks that have left.
func (t *transport) overdue(waited time.Duration) bool { return t.stall > 0 && waited > t.stall/2 }

// departed returns an error if the program of the rank has ended. It asks the rank. The answer takes some
// time, so a wait calls departed repeatedly.
func (t *transport) departed(rank int) error {
	if where := C.rl_departed(t.world, C.int(rank)); where != nil {
		return fmt.Errorf("rank %d (%s) has left: its program has ended", rank, C.GoString(where))
	}
	return nil
}

// checkDeparted returns an error if a wait for reqs can never end. WaitAny never ends if the peers of all open requests
// have left. Wait never ends if the peer of the first open request has left.
func (c *comm) checkDeparted(reqs []spmd.Request, waitAny bool) error {
	var first error
	still := false // a peer has not left, or has not answered yet
	for _, r := range reqs {
		var f C.rl_fault
		if r.Handle == 0 || C.rl_end_request(c.end, C.uint64_t(r.Handle), &f) != 0 {
			continue
		}
		err := c.t.departed(c.rankOf(int(f.peer)))
		still = still || err == nil
		if first == nil && err != nil {
			first = c.errorf(c.requestText(&f), err)
		}
		if !waitAny {
			break
		}
	}
	if still {
		return nil
	}
	return first
}
