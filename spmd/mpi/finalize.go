//go:build mpi

package mpi

/*
#include "shim.h"
*/
import "C"

import (
	"fmt"
	"runtime"
	"time"

	gompi "github.com/sbromberger/gompi"
)

// Close waits so many beats for MPI_Finalize, and each takes finalizeBeat. A process that stands still
// meanwhile, in a debugger for example, misses beats, so that time does not count.
const (
	finalizeBeats = 100
	finalizeBeat  = 100 * time.Millisecond
)

// signOffTime is how long the launcher may take to hear that this process ends without MPI_Finalize.
const signOffTime = 5 * time.Second

// finalize stops MPI and reports whether it has stopped. All ranks have agreed that the job is done.
// So if MPI_Finalize does not return within 10 s, the program goes on without it to its end and its
// exit code. The launcher is told that the process ends in order.
func (t *transport) finalize() (stopped bool) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		C.rl_finalize_begins()
		gompi.Stop()
	}()
	for range finalizeBeats {
		select {
		case <-done:
			return true
		case <-time.After(finalizeBeat):
		}
	}
	if t.rank == 0 {
		fmt.Fprintf(t.log, "MPI_Finalize has not returned for %v: the job is done and ends without it\n",
			finalizeBeats*finalizeBeat)
	}
	told := make(chan struct{})
	go func() {
		defer close(told)
		C.rl_finalize_without()
	}()
	select {
	case <-told:
	case <-time.After(signOffTime):
	}
	return false
}
