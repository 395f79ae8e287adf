// Package mpi carries a world over MPI: one process is one rank, started by mpirun, mpiexec or srun. No other package
// uses MPI. This package uses MPI only in builds with the tag mpi. scripts/build finds the MPI of the machine and sets
// the tag.
//
//	n, launcher := mpi.Launched()                    // 1, "" without a launcher
//	t, err := mpi.Open(mpi.Options{})                // once per process; t is an spmd.Transport
//	...
//	err = t.Close()                                  // or t.Abort(code) after a failure
//
// The package gompi starts and stops MPI, returns the rank and size in MPI_COMM_WORLD, and aborts. All other
// MPI calls are in a thin shim in C, the same for Open MPI and MPICH:
//
//   - request.c posts sends and receives without blocking and waits for them in one function, which
//     returns to Go every few milliseconds to check the context. No lock is held across a wait.
//   - progress.c is a thread that progresses messages while all workers of the process compute, and
//     exchanges heartbeats with the neighbouring ranks.
//   - wake.c lets waits spin if each rank of the node has a core, and sleep after a millisecond.
//     After spinning, shortsleep.go yields the core, without Go's scheduler. wake.c also puts the progress
//     thread to sleep and wakes it.
//   - native.c runs the library's own barrier, broadcast and allreduce ([spmd.Native]), by blocking calls, or
//     by non-blocking calls and a wait like that of request.c.
//   - foreign.c exchanges messages with foreign programs.
//   - world.c finds the processes that run this program, and their nodes.
//   - group.c makes an MPI communicator for each group ([spmd.Launch]), with the group's name.
//   - node.c carries messages between ranks of a node through shared memory.
//   - queue.c holds the receives that have no message yet. shared.c has the collectives by which ranks
//     agree on shared memory.
//   - peers.c detects waits that cannot end: if a wait takes long, it asks the other rank whether its
//     program has ended.
//
// If MPI_Finalize does not return within 10 s, Close returns without it (finalize.go). To prevent the report of a
// crash, hydra.go or pmix.c then notifies the launcher that the process exits normally.
//
// Open MPI's own shared memory is a file with a name in /dev/shm. segment.go removes the name once all ranks of the
// node have mapped the file, so that a job whose launcher is killed leaves nothing either.
//
// World.Alloc's memory is one sparse file per process, without a name (memfd_create). The node's other ranks open it
// through /proc/PID/fd and map it whole. So a killed job leaves nothing behind, and the size of /dev/shm does not
// matter. If some rank cannot map the others' files (it may be in another container), no rank shares memory, and
// Transport.Describe gives the reason. RLINF_SHM=off in the environment turns shared memory off. For tests,
// RLINF_SHM=2 splits every node into nodes of two ranks, which exchange messages by MPI.
//
// In a job with foreign programs (mpirun -np 4 rlinf : -np 1 solver) the processes of this program
// form the world. One MPI_Comm_split of MPI_COMM_WORLD makes its communicator. Like any coupled program, a
// foreign program must take part in that call with a colour of its own, usually its MPI_APPNUM.
//
// Heartbeats detect a rank that stops (SIGSTOP, a node that hangs). Each rank receives the heartbeats of the previous
// rank. If none comes for Options.StallTimeout, the rank dumps its own goroutines, logs the name of the previous rank
// and ends the job with exit code [ExitStalled]. The progress thread sends the heartbeats, so a rank that computes for
// hours counts as alive. A process that was itself stopped restarts its clock.
package mpi

import (
	"io"
	"time"
)

// ExitStalled is the exit code of a job that ended because a rank stopped responding.
const ExitStalled = 76

// Options configure Open. The zero value is ready to use.
type Options struct {
	// StallTimeout is the time without a sign of life from a rank after which the job ends. It is at least 100 ms. 0
	// means one minute, and a negative value means no limit.
	StallTimeout time.Duration
	// Log receives messages that no returned error can carry: a rank that stopped responding, or a wait that takes
	// longer than StallTimeout. Nil means os.Stderr.
	Log io.Writer
	// Stalled is called with the stacks of this process if another rank stops responding. After the call, or after 5 s,
	// a line about that rank is written to Log and the job ends. If Stalled is nil, the stacks go to Log.
	Stalled func(stacks []byte)
}
