package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/rlinf/rlinf/collectives"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/tensor"
)

// A Suite says what a benchmark measures. It is the same on every rank. Fields of other benchmarks have no effect.
type Suite struct {
	Bench string // collectives, overlap, p2p, channel or weights
	// Sizes are in bytes. Collectives and overlap round them up to whole elements. If an operation has a block for each
	// member, they are rounded up to whole blocks.
	Sizes []int
	Check bool // results are compared with the correct results

	// Collectives and overlap measure every kind × group size × type × algorithm × size. Overlap has only the group of
	// all ranks, one memory and results in place.

	Kinds      []spmd.CollectiveKind
	Ranks      []int // group sizes: the first n ranks of the world
	Types      []tensor.DType
	Op         spmd.Op
	Algorithms []string // names from collectives.Algorithms
	Table      *collectives.TuningTable
	Memory     []string // "arena", "go"; measured in turns
	InPlace    bool     // the result overwrites the input
	OutOfPlace bool     // the input is in another buffer; if the call must copy it, the time includes the copy
	Root       int      // root of the operations that have a root
	Rotate     bool     // the root of call i is i modulo the group size
	OffCache   bool     // calls rotate among buffers of twice the size of the last-level cache
	Real       bool     // the inputs are numbers whose sums must be rounded
	// Baseline adds three measurements: the library's blocking call in a loop in C, the same call from Go, and the
	// library's non-blocking call with the wait of spmd/mpi. They take turns with the algorithms, and each sample
	// follows the library's barrier.
	Baseline bool
	// Shuffle makes the order of the measurements random, so that drift of the machine does not look like an effect of
	// size.
	Shuffle bool
	Seed    uint64

	// P2p and channel measure between two ranks.

	Ops  []string // operations of p2p
	Pair [2]int   // of a channel: the rank of the producer, the rank of the consumer
	// Window is the number of items in a stream of a channel, or of messages in flight for bandwidths and the message
	// rate of p2p. There are fewer messages if together they would take more than 64 MiB, or too much of the host's
	// free memory.
	Window  int
	Depth   int           // capacity of a channel's queue in items
	Consume time.Duration // computation of a channel's consumer on each item

	// Weights measures versions of float32 weights, on their way from the source to the readers.

	Source  int          // the rank that has the state
	Readers []int        // the ranks that read the state; the source may be one of them
	Slots   []int        // numbers of slots (see collectives.WeightsSpec); each gets a row
	Wire    tensor.DType // F32 or BF16
	Bucket  int          // bytes sent at once
	Patch   bool         // send only the changes
	Changed float64      // the fraction of the elements that changes from version to version
}

// Measure measures all of p. It is collective over the world.
func (r *Run) Measure(ctx context.Context, p Suite) error {
	switch p.Bench {
	case "collectives":
		return r.collectives(ctx, &p)
	case "overlap":
		return r.overlap(ctx, &p)
	case "p2p":
		return r.messages(ctx, &p)
	case "channel":
		return r.channels(ctx, &p)
	case "weights":
		return r.weights(ctx, &p)
	}
	return fmt.Errorf("no such benchmark: %q", p.Bench)
}
