package spmd

import "time"

// A Transport connects the ranks of a world, which are processes (spmd/mpi) or goroutines
// (spmd/local). Each rank has its own Transport value. All ranks concerned call the collective
// methods in the same order.
type Transport interface {
	Rank() int
	Size() int
	// Nodes returns the node number of each rank. Nodes are numbered from 0 in the order of their
	// lowest ranks. Ranks of one node share memory.
	Nodes() []int
	// Describe describes the transport and the machine, for provenance and doctor.
	Describe() Description
	// NewComm makes a communicator of ranks, in that order. A rank that is listed n times has n
	// members (workers that share a process). The call is collective over these ranks only, and
	// returns the ends of this rank's members, in order. label identifies the call. It pairs the
	// ranks' calls and names the communicator in messages about stalls and leaks.
	NewComm(ranks []int, label string) ([]Comm, error)
	// NewGroup makes a component's communicators, one for each purpose. Each is like the communicator of NewComm over
	// ranks with the label name/purpose. The group has a message space of its own. If the library below supports names,
	// debuggers and profilers show name. The call is collective over these ranks only. ends[p] are the ends of this
	// rank's members for purposes[p].
	NewGroup(ranks []int, name string, purposes []string) (ends [][]Comm, err error)
	// Spaces lists the message spaces of this rank as the library below knows them: the world, then
	// the groups in the order of their creation.
	Spaces() ([]MessageSpace, error)
	// Alloc returns zeroed memory, aligned to 64 bytes, that communication uses without copying. It
	// is valid until the transport closes, or until a Renew that does not keep it.
	Alloc(n int) ([]byte, error)
	// Renew begins a new world: it resets the transport to its state at the start, except for the pieces of Alloc
	// memory in keep, which stay valid. It undoes Leave and frees groups and all other memory. Messages that nobody
	// received are lost. Ranks close their communicators before they call Renew. Renew is collective over all ranks.
	Renew(keep [][]byte) error
	// Abort ends the whole world at once with an exit code. It does not return if ranks are
	// processes.
	Abort(code int)
	// Close shuts the transport down. It is collective. No communication may follow.
	Close() error
}

// A Departer is a Transport that reports an error when a rank waits for a rank whose program has
// ended.
type Departer interface {
	// Leave records that this rank's program has ended. From then on the rank sends and receives only on communicators
	// passed to Outlast. When the duration `after` has passed, a rank that waits for this one gets an error. The error
	// names this rank, the communicator and the request. If `after` is 0, there is no error.
	Leave(after time.Duration)
	// Outlast exempts c from Leave: c is served until the world ends.
	Outlast(c Comm)
}

// ForeignPeers is a Transport whose job may contain processes of other programs, such as solvers that
// the same mpirun started. Messages to and from these processes are bytes and use no communicator.
// Processes are numbered by their MPI rank in the whole job.
type ForeignPeers interface {
	// NumForeign returns the number of processes of other programs.
	NumForeign() int
	// SendForeign sends one message, head followed by payload, and returns when the library has taken it. The argument
	// by is the deadline. If it passes first, the error is os.ErrDeadlineExceeded.
	SendForeign(by time.Time, to int, head, payload []byte) error
	// DeliverForeign sends message and returns when the receiver has begun to receive it.
	DeliverForeign(by time.Time, to int, message []byte) error
	// ReceiveForeign waits for a message of the process with number `from`, or of any process if `from` is -1. It
	// returns the sender's number and the message. The message is in buf if it fits. After the deadline `by`,
	// ReceiveForeign fails like SendForeign.
	ReceiveForeign(by time.Time, from int, buf []byte) (process int, message []byte, err error)
}

// A MessageSpace is a set of ranks whose messages are isolated from all other messages: the ranks of
// the world, or of a group.
type MessageSpace struct {
	Name  string // "world", or the group's name
	Ranks []int  // world ranks, each once, in the order of their first members
}

// A Description describes what a world runs on.
type Description struct {
	Transport string // "mpi", "local"
	Library   string // the MPI library's own version string; "" for local
	Launcher  string // "mpirun", "srun", "mpiexec"; "" when there is none
	Host      string
	PID       int
	Threads   string // thread level granted
	Shared    string // how much memory a rank can share with its node, or why it cannot
}
