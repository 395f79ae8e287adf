// Package spmd runs one program on every rank of a world and lets the parts of that program work together.
//
// A rank is one member of the world: an MPI process, or a goroutine if there is no launcher. The workers of a component
// form a group:
//
//	err := spmd.Run(ctx, ranks, opts, func(ctx context.Context, w *spmd.World) error {
//		place, err := spmd.Place(cluster, w.Nodes())                 // component_placement → ranks per component
//		actor, err := spmd.Launch(w, place.Group("actor"), newActor) // collective: every rank, in the same order
//		train := func(ctx context.Context, a *Actor) (Metrics, error) { return a.Train(ctx) }
//		res, err := spmd.Call(actor, ctx, "train", train).Wait(ctx)  // runs train and waits for this rank's members
//	})
//
// A worker runs its calls one at a time, in the order in which they were made. Workers of one rank run concurrently.
// The first error or panic, in a worker or in a goroutine of World.Go, ends the job on every rank. One line of the log
// then names the component, the rank and the cause.
//
// A group may be a mesh: see GroupSpec.Axes. Each member is one point of the mesh and has a coordinate on each axis.
// Along each axis it has a communicator (Member.AxisComm) with the members that have the same coordinates on all other
// axes.
//
// Workers exchange data in three ways. Communicators (Member.Comm, World.NewComm) carry tagged messages between
// numbered members; package collectives builds on them. Direct messages (Member.SendTo, RecvFrom) are for tensors that
// are sent rarely. Channels are bounded queues from the members of one group to the members of another group. An item
// is a set of tensors in one slab of memory. The producer fills the slab in place and the consumer reads it in place:
//
//	obs, err := spmd.NewChannel(w, spmd.ChannelSpec{
//		Name: "obs", From: env.Spec(), To: rollout.Spec(), ItemBytes: layout.Size(),
//	})
//
//	s, err := obs.Sender(member, spmd.Key{To: 3, Name: "stage 0"}) // once
//	it, err := s.Take(ctx, layout)                                 // waits until the key has room
//	err = s.Put(ctx, it)
//
//	r, err := obs.Receiver(member, spmd.Key{To: 3, Name: "stage 0"}) // on member 3 of rollout
//	it, err := r.Get(ctx)
//	r.Release(it)
//
// Sending, receiving and waiting allocate nothing. The comment of each type describes who owns its memory, and when.
//
// The job may go through several worlds. If main returns Again on every rank, Run closes the groups, channels and
// communicators of the world. It then calls main in a new world, which may place its groups on other ranks. Memory
// passed to World.Keep survives:
//
//	var weights []byte // a process with several ranks needs one per rank
//	err := spmd.Run(ctx, ranks, opts, func(ctx context.Context, w *spmd.World) error {
//		…
//		w.Keep(weights)
//		return spmd.Again
//	})
//
// A Transport carries all messages, between processes (spmd/mpi) or goroutines (spmd/local). Package spmdtest is the
// conformance suite of transports.
package spmd
