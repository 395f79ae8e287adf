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

// finalizeTime is how long Close waits for MPI_Finalize. It looks at the clock every finalizeBeat, and a
// beat counts at most longestBeat, so that the time in which a debugger stops the process hardly counts.
const (
	finalizeTime = 10 * time.Second
	finalizeBeat = 100 * time.Millisecond
	longestBeat  = time.Second
)

// turnTime is the longest time between two processes of a node that give up MPI_Finalize, and turnsTime
// that between the first and the last. PMIx 4.2.2 of a launcher waits for ever, or crashes, if processes
// leave one of its fences at once (docs/known-issues.md).
const (
	turnTime  = 200 * time.Millisecond
	turnsTime = 10 * time.Second
)

// answerTime is how long Close waits for each answer of a launcher.
const answerTime = 10 * time.Second

// finalize stops MPI and reports whether it has stopped. agreed says that all processes have agreed that
// the job is done. Then, if MPI_Finalize does not return within 10 s and turn, the program goes on without it
// to its end and its exit code, and the launcher is told that the process ends in order. A foreign program
// agrees to nothing, and may compute for long before it calls MPI_Finalize.
func (t *transport) finalize(agreed bool) (stopped bool) {
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

// turn is how long this process waits for those of its node that leave MPI_Finalize before it.
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
