package spmd

import "time"

// A Transport is what carries a world: spmd/mpi's processes or spmd/local's goroutines. One value
// is one rank's end of it. Collective means: called by all the ranks concerned, in the same order.
type Transport interface {
	Rank() int
	Size() int
	// Nodes gives, for each rank, the number of its node; nodes are numbered from 0 in the order of
	// their lowest ranks. Ranks of one node share memory.
	Nodes() []int
	// Describe says what runs underneath, for provenance and doctor.
	Describe() Description
	// NewComm makes a communicator of ranks, in that order; a rank may stand several times, each
	// time a member of its own (workers that share a process). It is collective over the ranks
	// concerned alone, and returns the ends of the members that are here, in order. label names it
	// in messages about stalls and leaks, and pairs the calls.
	NewComm(ranks []int, label string) ([]Comm, error)
	// Alloc returns zeroed memory, on 64 bytes, that communication uses without copying. It lives
	// as long as the transport.
	Alloc(n int) ([]byte, error)
	// Abort ends the whole world at once with an exit code; it does not return where ranks are
	// processes.
	Abort(code int)
	// Close leaves the world in order; collective. No communication after it.
	Close() error
}

// A Departer is a Transport that finds out who waits in vain: for a rank whose program has ended.
type Departer interface {
	// Leave says that the program of this rank has ended, so that it sends and posts no more, but
	// for communicators that Outlast was called for. Who waits for it gets an error that names the
	// rank, the communicator and the request, though not before `after` has passed; 0: never.
	Leave(after time.Duration)
	// Outlast says that c is served until the transport closes, whatever its members' programs do.
	Outlast(c Comm)
}

// An Outsider is a Transport in whose job programs of others may take part, as solvers do that the
// same mpirun started. Messages to and from them are bytes, outside of all communicators; their
// processes have numbers of their own, MPI's ranks in the whole job.
type Outsider interface {
	// Strangers returns how many processes of other programs there are.
	Strangers() int
	// SendOut sends a message of these parts, one after the other, and returns when it was taken:
	// before by, or with an error that is os.ErrDeadlineExceeded.
	SendOut(by time.Time, to int, head, payload []byte) error
	// DeliverOut is SendOut of one part that returns when the process has begun to receive it.
	DeliverOut(by time.Time, to int, message []byte) error
	// ReceiveOut waits for a message of process from, -1 for any, and returns whose it is and what
	// it says, in buf if that is large enough. It may be long in coming: by is as for SendOut.
	ReceiveOut(by time.Time, from int, buf []byte) (who int, message []byte, err error)
}

// A Description says what a world runs on.
type Description struct {
	Transport string // "mpi", "local"
	Library   string // the MPI library's own version string; "" for local
	Launcher  string // "mpirun", "srun", "mpiexec"; "" when there is none
	Host      string
	PID       int
	Threads   string // thread level granted
	Shared    string // how much memory a rank can share with its node, or why it cannot
}
