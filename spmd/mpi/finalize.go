//go:build mpi

package mpi

/*
#include "shim.h"
*/
import "C"

import (
	"fmt"
	"time"

	gompi "github.com/sbromberger/gompi"
)

// finalizeTime is how long Close waits for MPI_Finalize. Close reads the clock every finalizeBeat. The time between two
// readings counts as at most longestBeat, so that a long stop in a debugger hardly counts.
const (
	finalizeTime = 10 * time.Second
	finalizeBeat = 100 * time.Millisecond
	longestBeat  = time.Second
)

// The processes of a node stop waiting for MPI_Finalize one after the other, turnTime apart. If a node has many
// processes, the time is shorter, so that the last process stops at most turnsTime after the first. If processes leave
// a fence of PMIx 4.2.2 at the same time, the launcher hangs or crashes (docs/known-issues.md).
const (
	turnTime  = 200 * time.Millisecond
	turnsTime = 10 * time.Second
)

// answerTime is how long Close waits for each reply of the launcher.
const answerTime = 10 * time.Second

// finalize stops MPI and reports whether it has stopped. If agreed is true, all processes have agreed that the job is
// done. finalize then waits for MPI_Finalize for at most finalizeTime + turn(). If that time passes, it notifies the
// launcher that the process exits normally. If agreed is false, finalize waits without limit, because a foreign program
// may compute for a long time before it calls MPI_Finalize.
func (t *transport) finalize(agreed bool) (stopped bool) {
	t.segment.show()
	defer t.segment.drop()
	if !agreed {
		gompi.Stop()
		return true
	}
	launcher := openHydra()
	done := make(chan struct{})
	go func() {
		defer close(done)
		gompi.Stop()
	}()
	last := time.Now()
	for left := finalizeTime + t.turn(); left > 0; {
		select {
		case <-done:
			return true
		case now := <-time.After(min(finalizeBeat, left)):
			left -= min(now.Sub(last), longestBeat)
			last = now
		}
	}
	if t.rank == 0 {
		fmt.Fprintf(t.log, "MPI_Finalize has not returned for %v: the job is done and ends without it\n", finalizeTime)
	}
	if launcher != nil {
		launcher.leave(answerTime)
	}
	told := make(chan struct{})
	go func() {
		defer close(told)
		C.rl_pmix_finalize()
	}()
	await(told, answerTime)
	return false
}

// turn returns how much longer than finalizeTime this process waits for MPI_Finalize. The lower ranks of its node stop
// waiting first.
func (t *transport) turn() time.Duration {
	before, all := 0, 0
	for rank, node := range t.nodes {
		if node == t.nodes[t.rank] {
			all++
			if rank < t.rank {
				before++
			}
		}
	}
	return time.Duration(before) * min(turnTime, turnsTime/time.Duration(all))
}
