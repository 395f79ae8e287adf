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
	// NewGroup makes the communicators of a component's members: for each purpose one over ranks, as
	// NewComm makes it, with the label name/purpose. They have a message space of their own, whose
	// name debuggers and profilers show where the layer below has names. It is collective over the
	// ranks concerned alone. ends[p] are the ends for purposes[p] of the members that are here.
	NewGroup(ranks []int, name string, purposes []string) (ends [][]Comm, err error)
	// Spaces lists the message spaces that this rank is in, as the layer below knows them: the
	// world, then the groups in the order in which they were made.
	Spaces() ([]MessageSpace, error)
	// Alloc returns zeroed memory, on 64 bytes, that communication uses without copying. It lives
	// as long as the transport.
	Alloc(n int) ([]byte, error)
	// Abort ends the whole world at once with an exit code; it does not return where ranks are
	// processes.
	Abort(code int)
	// Close leaves the world in order; collective. No communication after it.
	Close() error
}

// A Departer is a Transport that reports waits for a rank whose program has ended.
type Departer interface {
	// Leave ends this rank's program: it sends and posts no more, except on communicators of
	// Outlast. A rank that waits for it gets an error with the rank, the communicator and the
	// request. The error comes when `after` has passed, or never if `after` is 0.
	Leave(after time.Duration)
	// Outlast lets c be served until the transport closes, even if its members' programs end.
	Outlast(c Comm)
}

// ForeignPeers is a Transport whose job may contain processes of other programs, such as solvers
// that the same mpirun started. Messages to and from them are bytes, outside of all communicators.
// Their processes have numbers of their own: MPI's ranks in the whole job.
type ForeignPeers interface {
	// NumForeign returns the number of processes of other programs.
	NumForeign() int
	// SendForeign sends one message, head followed by payload, and returns when the library has taken
	// it. After the deadline by it returns an error that is os.ErrDeadlineExceeded.
	SendForeign(by time.Time, to int, head, payload []byte) error
	// DeliverForeign sends message and returns when the process has begun to receive it.
	DeliverForeign(by time.Time, to int, message []byte) error
	// ReceiveForeign waits for a message of process from, -1 for any process. It returns the sender
	// and the message, in buf if that is large enough. The deadline by is that of SendForeign.
	ReceiveForeign(by time.Time, from int, buf []byte) (process int, message []byte, err error)
}

// A MessageSpace is a set of ranks whose messages are apart from all others: the world's, or those
// of a group.
type MessageSpace struct {
	Name  string // "world", or the group's
	Ranks []int  // in the world, each once, in the order of their first members
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
