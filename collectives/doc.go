// Package collectives implements collective operations over any spmd.Comm: broadcasts, reductions, gathers,
// all-to-all exchanges and barriers.
//
// A Group owns one Comm and the memory that its operations need, so repeated operations allocate nothing. Every
// member makes the same calls in the same order. The argument of a call is an operation, a value that holds its
// buffers:
//
//	g, err := collectives.New(world, member.Comm("gradients"), collectives.Options{})
//	err = g.Run(ctx, collectives.AllReduce(x, spmd.Sum))                   // x holds the sum on every member
//	f := g.Start(ctx, collectives.Broadcast(y, 0))                         // runs in the background
//	…
//	err = f.Wait()
//
// Results are written in place. Buffers may be any memory; memory of World.Alloc is used without a copy.
// After an error the group cannot be used, because its members may be at different calls.
//
// # Algorithms
//
// Each algorithm has a file that documents its steps and costs. A TuningTable chooses the algorithm by kind, size and
// group; Options.Algorithm forces an algorithm.
//
//	shared          one node: members read and write each other's memory, without messages
//	hierarchical    several nodes: shared memory in a node, messages between nodes
//	ring            fewest bytes on every link, latency linear in the number of members
//	rabenseifner    few bytes, logarithmic latency
//	doubling, tree  logarithmic latency, for short vectors
//	ordered         two rounds and few bytes, for up to five members
//	direct          one message from a block's owner to its destination
//	mpi             the MPI library's own barrier, broadcast and allreduce
//
// Unless Options.Fast is set, every algorithm that the table chooses reduces by one binary tree over members:
//
//	((x₀+x₁) + (x₂+x₃)) + ((x₄+x₅) + x₆)
//
// The tree follows the member numbers: neighbours form pairs, neighbouring pairs form groups of four, and so on. If the
// last group has no neighbour at some level, it is added at a later level. The bits of the result do not depend on
// algorithm, transport, library, placement or order of arrival, so a run gives the same numbers everywhere. bfloat16 is
// added in float32 and rounded once. "ring" and "mpi" add in another order.
//
// A Reducer sums a gradient in buckets and overlaps their communication with the backward pass. Weights
// distribute versions of a state from sources to readers, through shared memory on a node and by broadcasts
// between nodes.
package collectives
