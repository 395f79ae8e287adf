// Package collectives does what a group of members does together: broadcasts, reductions, gathers,
// exchanges, barriers, over any spmd.Comm.
//
// A Group owns one Comm and the memory that its operations need, so that they do not allocate once
// warm. Every member makes the same calls in the same order, each of which is a value that says
// what to do with which buffers:
//
//	g, err := collectives.New(world, member.Comm("gradients"), collectives.Options{})
//	err = g.Run(ctx, collectives.AllReduce(x, spmd.Sum))                   // x holds the sum on every member
//	f := g.Start(ctx, collectives.Broadcast(y, 0))                         // goes on by itself
//	…
//	err = f.Wait()
//
// Results arrive in place, in buffers of any memory; what World.Alloc gave is not copied. An error
// ends the group, as its members are no longer at the same call.
//
// # Algorithms
//
// Each has a file with its steps, bytes and cost. A Table chooses by kind, size and group;
// Options.Algorithm forces one.
//
//	shared          one node: read and write the others' memory, no messages
//	hierarchical    several nodes: shared inside, messages between
//	ring            fewest bytes on every link, latency grows with the members
//	rabenseifner    as few bytes, logarithmic latency
//	doubling, tree  logarithmic latency, for what is short
//	ordered         reductions in member order by messages
//	direct          one message from where a block is to where it belongs
//	mpi             the library's own
//
// Unless Options.Fast is set, reductions are made in member order, x₀ + x₁ + …, by "shared" or
// "ordered": the same bits whatever the transport, the library, the placement and the order of
// arrival. So a run has the same numbers wherever it runs.
//
// A Reducer sums a gradient in buckets that leave while the backward pass still fills it. Weights
// carry versions of a state from those that have it to those that use it, in memory that a node
// shares and by broadcasts between nodes.
package collectives
