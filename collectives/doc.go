// Package collectives does what a group of members does together: broadcast, gather, sums, barriers, over any spmd.Comm.
//
// A Group owns one Comm and the scratch memory that its operations need, so that they do not allocate once warm. Like the Comm,
// it belongs to one goroutine at a time, and every member makes the same calls in the same order:
//
//	g := collectives.New(member.Comm("gradients"), world.Alloc)
//	err := g.Sum64(ctx, sums)                  // the same bits on every member
//
// Sums are ordered: each element is x₀ + x₁ + … in member order, whatever the transport, the library, the placement or the order of
// arrival. So a run has the same numbers wherever it runs. A Reducer sums a gradient in buckets while the backward pass still fills it.
package collectives
