package trace

// A Trace is a record of the work and the waits of a run's workers.
type Trace struct {
	Attempts []Attempt // starts of the run, in the order of time
	Problems []string  // what is missing or damaged, for the user; in a fixed order
}

// An Attempt is one start of a run: its first start, or a resume.
type Attempt struct {
	ID      int64    // Unix time of the start on rank 0, in nanoseconds
	Ranks   int      // size of the world
	Hosts   []string // host name of each node
	Workers []Lane   // in the order of rank, component and member
	Windows []Window // in the order of iterations
	Sums    []Sum    // in the order of iterations and workers
	Phases  []Phases // in the order of iterations
	Sent    []Sent   // in the order of senders; only pairs of ranks with messages
}

// Sent counts the messages that one rank sent to another, up to the sender's last chunk.
type Sent struct {
	From, To        int
	Messages, Bytes int64
}

// A Lane is a goroutine that was recorded: a member of a component, or the main goroutine of a rank.
type Lane struct {
	Rank, Node int
	Component  string // Runner for the main goroutine of a rank
	Member     int    // number in the component; for a Runner, its rank
	Sites      []Site // the sites of its spans and marks
}

// Runner is the component of the main goroutine of a rank. This goroutine calls the workers.
const Runner = "runner"

// A Site is a place in the work of a worker.
type Site struct {
	Op    SiteKind
	Name  string // name of the work, the channel, the communicator, the weights, or the call
	Key   string // the channel's key, or ""
	Peer  string // the component at the other end of the channel, or the awaited or called component; or ""
	Cause Cause
}

// A SiteKind is the kind of operation at a Site.
type SiteKind uint8

// The operations, with the meaning of Arg in spans and marks.
const (
	Idle    SiteKind = iota // a worker has no call; a runner is between calls
	Work                    // computes. Arg: 0
	Call                    // the part of a call outside other spans: copies items and passes them on. Arg: 0
	Get                     // waits for an item of a channel. Arg: the producer's member
	Room                    // waits until a channel's key has room. Arg: the consumer's member, or -1 for any
	Put                     // only in marks: an item was put. Arg: the consumer's member, or -1 for any
	Collect                 // a collective operation; until the last member has begun, it is a wait. Arg: 0
	Publish                 // publishes a new version of the weights. Arg: the version
	Adopt                   // waits for a version of the weights. Arg: the version
	Receive                 // waits for a direct message. Arg: the sender's member
	Await                   // a runner waits for a call of its rank's workers. Arg: 0
	Vote                    // a runner waits for the other ranks' votes. Arg: 0
	Skipped                 // spans that were not recorded, because the iteration had too many. Arg: 0
)

// A Cause classifies the time of a span. The cause of a wait has the name of the awaited item.
type Cause string

// The causes.
const (
	Working     Cause = "work"        // computes
	Other       Cause = "other"       // the rest of a call, and the time of a runner between calls
	Idling      Cause = "idle"        // has no call, and waits for its turn in the iteration
	Observation Cause = "observation" // waits for observations
	Action      Cause = "action"      // waits for actions
	Trajectory  Cause = "trajectory"  // waits for trajectories or answers
	Reward      Cause = "reward"      // waits for rewards
	Gradient    Cause = "gradient"    // sums gradients or statistics
	Weights     Cause = "weights"     // waits for weights, or for the readers of weights
	Voting      Cause = "vote"        // waits at the loop head
	NoRoom      Cause = "room"        // waits for room in a channel
	Saving      Cause = "save"        // saves a checkpoint, or waits until others have saved
	Message     Cause = "message"     // waits for a message of another kind
	Calling     Cause = "call"        // a runner waits for its workers
	Unrecorded  Cause = "unrecorded"  // the cause of Skipped
)

// Causes are all causes.
var Causes = []Cause{Working, Other, Idling, Observation, Action, Trajectory, Reward, Gradient, Weights, Voting, NoRoom,
	Saving, Message, Calling, Unrecorded}

// IsWait reports whether a worker does nothing useful in spans of this cause.
func (c Cause) IsWait() bool {
	switch c {
	case Working, Other, Saving, Unrecorded:
		return false
	}
	return true
}

// A Window is an iteration whose spans were all kept.
type Window struct {
	Iteration int64  // number of the iteration, from 1
	Why       Reason // why the spans were kept
	Tracks    []Track
	// Bound is the largest error of the times on the clock of rank 0's node, in nanoseconds. It is 0 if there is only
	// one node.
	Bound int64
}

// A Reason says why the spans of an iteration were kept.
type Reason string

// The reasons.
const (
	First   Reason = "first"   // one of the first iterations of an attempt
	Regular Reason = "regular" // every 50th iteration
	Slowest Reason = "slowest" // the slowest of 100
	Last    Reason = "last"    // one of the last iterations before an error or a signal
	All     Reason = "all"     // cluster.tracer.enable keeps all spans
)

// A Track has the spans of one worker in a Window.
type Track struct {
	Worker int    // index in Attempt.Workers
	Spans  []Span // without gaps, in the order of time
	Marks  []Mark // in the order of time
}

// A Span is a stretch of time at a Site. Start and End are nanoseconds on the clock of rank 0's node, from an arbitrary
// zero.
type Span struct {
	Site       int // index in Lane.Sites
	Start, End int64
	Arg        int64 // see SiteKind
	// N counts the spans at this site since the start of the attempt, from 0. The n-th Collect of a communicator is the
	// same operation on all its members.
	N int64
	// Item is set at a Get. It is the Mark.N of the item's Put.
	Item int64
}

// A Mark is an instant at a Site. N counts the marks at this site, like Span.N.
type Mark struct {
	Site   int
	At     int64
	Arg, N int64
}

// A Sum has the time that a worker spent at each of its sites in an iteration. Every iteration has Sums, even if its
// spans were not kept.
type Sum struct {
	Iteration int64
	Worker    int     // index in Attempt.Workers
	Times     []int64 // by site, in nanoseconds
}

// NumPhases is the number of durations in Phases per iteration: the whole step, and each phase of loop.Phases.
const NumPhases = 6

// Phases has the phase times of an iteration, in seconds.
type Phases struct {
	Iteration int64
	// Ranks has the times of every rank. In worlds of more than 64 ranks it is nil, and the fields below are set.
	Ranks         [][NumPhases]float32
	Least, Median [NumPhases]float32
	Slowest       []RankTimes // the slowest ranks by the time of the whole step, slowest first
}

// RankTimes are the times of one rank in an iteration.
type RankTimes struct {
	Rank  int
	Times [NumPhases]float32
}
