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
	// Describe describes the transport and the machine, for the provenance of a run and for rlinf doctor.
	Describe() WorldInfo
	// NewComm makes a communicator whose member m is on ranks[m]. A rank may be listed more than once, if several
	// workers share it. The call is collective over these ranks only, and returns one Comm for each member on this
	// rank, in order. All ranks pass the same label. The transport uses the label to match the calls of the ranks, and
	// in messages about stalls and leaks.
	NewComm(ranks []int, label string) ([]Comm, error)
	// NewGroup makes a component's communicators, one for each purpose. Each is like a communicator of NewComm with the
	// label name/purpose. The group has a message space of its own. If the MPI library supports names, debuggers and
	// profilers show the group's name. The call is collective over these ranks only. ends[p] holds, for purposes[p],
	// one Comm for each member on this rank.
	NewGroup(ranks []int, name string, purposes []string) (ends [][]Comm, err error)
	// Spaces returns the message spaces of this rank, as reported by the MPI library if there is one: the world, then
	// the groups in the order of their creation.
	Spaces() ([]MessageSpace, error)
	// Alloc returns zeroed memory, aligned to 64 bytes, that communication uses without copying. It
	// is valid until the transport closes, or until a Renew that does not keep it.
	Alloc(n int) ([]byte, error)
	// Renew resets the transport for a new world. It undoes Leave, frees groups and drops messages that nobody
	// received. It also frees the memory of Alloc, except for the given pieces. Ranks close their communicators
	// before they call Renew. Renew is collective over all ranks.
	Renew(pieces [][]byte) error
	// Abort ends the whole world at once with an exit code. It does not return if ranks are
	// processes.
	Abort(code int)
	// Close shuts the transport down. It is collective. No communication may follow.
	Close() error
}

// A Departer is a Transport in which waits for a rank can fail because the program of that rank has ended.
type Departer interface {
	// Leave records that this rank's program has ended. From then on the rank sends and receives only on communicators
	// passed to Outlast. Other ranks' waits for this rank fail once the timeout has passed. Their error names this
	// rank, the communicator and the request. If the timeout is 0, the waits do not fail.
	Leave(timeout time.Duration)
	// Outlast exempts c from Leave. This rank sends and receives on c until the world ends.
	Outlast(c Comm)
}

// ForeignPeers is a Transport whose job may contain processes of other programs, such as solvers that
// the same mpirun started. Messages to and from these processes are bytes and use no communicator.
// Processes are numbered by their MPI rank in the whole job.
type ForeignPeers interface {
	// NumForeign returns the number of processes of other programs.
	NumForeign() int
	// SendForeign sends one message to a process: the bytes of head, then those of payload. It returns when the buffers
	// may be reused. If the deadline passes first, it returns os.ErrDeadlineExceeded.
	SendForeign(deadline time.Time, process int, head, payload []byte) error
	// DeliverForeign is like SendForeign, but returns only when the receiver has begun to receive the message.
	DeliverForeign(deadline time.Time, process int, message []byte) error
	// ReceiveForeign waits for a message of one process, or of any process if the process is -1. It returns the
	// sender's number and the message. If the message fits in buf, it is stored there. If the deadline passes first,
	// ReceiveForeign returns os.ErrDeadlineExceeded.
	ReceiveForeign(deadline time.Time, process int, buf []byte) (sender int, message []byte, err error)
}

// A MessageSpace is a set of ranks whose messages are isolated from all other messages: the ranks of
// the world, or of a group.
type MessageSpace struct {
	Name  string // "world", or the group's name
	Ranks []int  // world ranks, each once, in the order of their first members
}

// A WorldInfo describes what a world runs on.
type WorldInfo struct {
	Transport string // "mpi", "local"
	Library   string // the MPI library's own version string; "" for local
	Launcher  string // "mpirun", "srun", "mpiexec"; "" when there is none
	Host      string
	PID       int
	Threads   string // thread level that MPI granted
	Shared    string // memory that a rank can share with its node, or why it can share none
	Quota     int    // cores that a limit on processor time grants to the ranks of the host together; 0 without a limit
}
