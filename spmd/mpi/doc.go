// Package mpi carries a world over MPI: one process is one rank, started by mpirun, mpiexec or
// srun. It is the only package that sees MPI, and it does so only in builds with the tag mpi;
// scripts/build finds the MPI of the machine and sets the tag.
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
//   - wake.c lets waits spin where each rank of the node has a core, and sleep after a millisecond. In
//     between shortsleep.go yields the core, without Go's scheduler. wake.c also puts the progress
//     thread to sleep and wakes it.
//   - native.c runs the library's own collectives ([spmd.Native]): by the non-blocking calls with a
//     wait like that, or by the blocking ones.
//   - foreign.c exchanges messages with foreign programs.
//   - world.c finds the processes that run this program, and their nodes.
//   - group.c makes a communicator of MPI for each group ([spmd.Launch]), with the group's name.
//   - node.c carries messages between ranks of a node through the memory that they share.
//   - queue.c has the queues of receives that have no message yet. shared.c tells ranks of a node
//     where each other's memory is.
//   - peers.c detects waits that cannot end: a rank that waits for long asks the other whether
//     its program has ended.
//
// World.Alloc's memory is one sparse file per process, without a name (memfd_create), which the
// node's other ranks open through /proc/PID/fd and map whole: nothing is left behind by a killed
// job, and the size of /dev/shm does not matter. Where some rank cannot, as in containers with
// process numbers of their own, no rank shares: Transport.Describe says why. RLINF_SHM=off in the
// environment asks for that. RLINF_SHM=2 cuts every node into nodes of two ranks: messages between
// these go by MPI, so that one machine can try what several do.
//
// In a job with foreign programs (mpirun -np 4 rlinf : -np 1 solver) the processes of this program
// form the world. Splitting it off is one MPI_Comm_split of MPI_COMM_WORLD, in which a foreign
// program must take part with a colour of its own, usually its MPI_APPNUM, as coupled programs do.
//
// Heartbeats detect a rank that stops (SIGSTOP, a node that hangs): each rank listens to the one
// before it. A rank that hears nothing for Options.StallTimeout dumps its own goroutines, names its
// neighbour and ends the job with exit code [ExitStalled]. The heartbeat comes from the progress
// thread, so a rank that computes for hours is alive. A process that was itself stopped restarts
// its clock.
package mpi

import (
	"io"
	"time"
)

// ExitStalled is the exit code of a job that ended because a rank stopped responding.
const ExitStalled = 76

// Options say how to open the transport. The zero value is ready to use.
type Options struct {
	// StallTimeout is how long a rank may be silent before the job is ended: at least 100 ms; 0 is
	// one minute, negative is for ever.
	StallTimeout time.Duration
	// Log gets what must be said without an error to return: a rank that fell silent, a wait that
	// takes longer than StallTimeout. Nil is os.Stderr.
	Log io.Writer
	// Stalled is called with the stacks of this process when another rank fell silent, before the line
	// that names it is written to Log and the job ends. It has 5 s. Nil: the stacks go to Log.
	Stalled func(stacks []byte)
}
