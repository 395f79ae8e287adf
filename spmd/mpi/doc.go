// Package mpi carries a world over MPI: one process is one rank, started by mpirun, mpiexec or srun.
// It is the only package that uses MPI, and only in builds with the tag mpi. scripts/build finds the
// MPI of the machine and sets the tag.
//
//	n, launcher := mpi.Launched()                    // 1, "" without a launcher
//	t, err := mpi.Open(mpi.Options{})                // once per process; t is an spmd.Transport
//	...
//	err = t.Close()                                  // or t.Abort(code) after a failure
//
// gompi starts and stops MPI, gives the rank and size in MPI_COMM_WORLD, and aborts. Everything
// else is in a thin shim in C, the same for Open MPI and MPICH:
//
//   - request.c posts sends and receives without blocking and waits for them in one function, which
//     comes back to Go every few milliseconds to look at the context. No lock is held across a wait.
//   - progress.c is a thread that moves messages while all workers of the process compute, and
//     exchanges heartbeats with the neighbouring ranks.
//   - wake.c lets waits spin where each rank of the node has a core, and sleep after a millisecond.
//     Between the two, shortsleep.go yields the core, without Go's scheduler. wake.c also puts the progress
//     thread to sleep and wakes it.
//   - native.c runs the library's own collectives ([spmd.Native]): by the non-blocking calls with a
//     wait like the wait of request.c, or by the blocking calls.
//   - foreign.c exchanges messages with foreign programs.
//   - world.c finds the processes that run this program, and their nodes.
//   - group.c makes a communicator of MPI for each group ([spmd.Launch]), with the group's name.
//   - node.c carries messages between ranks of a node through the memory that they share.
//   - queue.c has the queues of receives that have no message yet. shared.c tells ranks of a node
//     where each other's memory is.
//   - peers.c detects waits that cannot end: a rank that waits for long asks the rank that it
//     waits for whether its program has ended.
//
// If MPI_Finalize does not return within 10 s, Close goes on without it (finalize.go). The launcher must not think that
// the process crashed: hydra.go tells Hydra that it ends in order, and pmix.c tells PMIx.
//
// World.Alloc's memory is one sparse file per process, without a name (memfd_create). The node's other ranks open it
// through /proc/PID/fd and map it whole. So a killed job leaves nothing behind, and the size of /dev/shm does not
// matter. If some rank cannot do this, for example in containers with process numbers of their own, no rank shares
// memory, and Transport.Describe says why. RLINF_SHM=off in the environment has the same effect. RLINF_SHM=2 splits
// every node into nodes of two ranks: messages between these nodes go by MPI, so that one machine can be tested like
// several.
//
// In a job with foreign programs (mpirun -np 4 rlinf : -np 1 solver) the processes of this program
// form the world. The world is split off by one MPI_Comm_split of MPI_COMM_WORLD. Like any coupled
// program, a foreign program must take part in it with a colour of its own, usually its MPI_APPNUM.
//
// Heartbeats detect a rank that stops (SIGSTOP, a node that hangs). Each rank listens to the previous rank. A rank that
// hears nothing for Options.StallTimeout dumps its own goroutines, names its neighbour and ends the job with exit code
// [ExitStalled]. The heartbeat comes from the progress thread, so a rank that computes for hours counts as alive. A
// process that was itself stopped starts its clock anew.
package mpi

import (
	"io"
	"time"
)

// ExitStalled is the exit code of a job that ended because a rank stopped responding.
const ExitStalled = 76

// Options say how to open the transport. The zero value is ready to use.
type Options struct {
	// StallTimeout is how long a rank may be silent before the job is ended. It is at least 100 ms. 0
	// means one minute, and a negative value means for ever.
	StallTimeout time.Duration
	// Log gets messages that no returned error can carry: a rank that fell silent, a wait that takes
	// longer than StallTimeout. Nil means os.Stderr.
	Log io.Writer
	// Stalled is called with the stacks of this process when another rank fell silent. After the call, or after 5 s,
	// the line that names the silent rank is written to Log and the job ends. If Stalled is nil, the stacks go to Log.
	Stalled func(stacks []byte)
}
