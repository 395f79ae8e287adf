// Package collectives implements collective operations over any spmd.Comm: broadcasts, reductions, gathers,
// all-to-all exchanges and barriers.
//
// A Group owns one Comm and the memory that its operations need, so warm operations allocate nothing. Every
// member makes the same calls in the same order. A call takes an operation, which is a value with its
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
// Each algorithm has a file that documents its steps and costs. A Table chooses the algorithm by kind, size
// and group; Options.Algorithm forces one.
//
//	shared          one node: read and write the others' memory, no messages
//	hierarchical    several nodes: shared inside, messages between
//	ring            fewest bytes on every link, latency grows with the members
//	rabenseifner    nearly as few bytes, logarithmic latency
//	doubling, tree  logarithmic latency, for short vectors
//	ordered         two rounds and few bytes, for up to five members
//	direct          one message from a block's owner to its destination
//	mpi             the library's own
//
// Unless Options.Fast is set, every algorithm that the table chooses reduces by one binary tree over members:
//
//	((x₀+x₁) + (x₂+x₃)) + ((x₄+x₅) + x₆)
//
// The tree follows the member numbers: neighbours form pairs, neighbouring pairs form fours, and so on. A last part
// without a neighbour joins at the first level at which it has a neighbour. The bits of the result then do not depend
// on algorithm, transport, library, placement or order of arrival, so a run gives the same numbers everywhere. bfloat16
// is added in float32 and rounded once. "ring" and "mpi" add in another order.
//
// A Reducer sums a gradient in buckets and overlaps their communication with the backward pass. Weights
// distribute versions of a state from sources to readers, through shared memory on a node and by broadcasts
// between nodes.
package collectives
