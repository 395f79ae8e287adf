// Package spmd runs one program on every rank of a world and lets the parts of that program work together.
//
// A rank is one member of the world: an MPI process, or a goroutine where there is no launcher. The workers of a
// component form a group:
//
//	err := spmd.Run(ctx, ranks, opts, func(ctx context.Context, w *spmd.World) error {
//		place, err := spmd.Place(cluster, w.Nodes())                 // component_placement → ranks per component
//		actor, err := spmd.Launch(w, place.Group("actor"), newActor) // collective: every rank, in the same order
//		train := func(ctx context.Context, a *Actor) (Metrics, error) { return a.Train(ctx) }
//		res, err := spmd.Call(actor, ctx, "train", train).Wait(ctx)  // runs train and waits for this rank's members
//	})
//
// A worker's calls run one at a time, in the order they were made; two workers of one rank run side by side. The
// first error anywhere (returned, or a panic in a worker or a goroutine of World.Go) ends the job on every rank,
// with one line that names the place.
//
// A group may be a mesh, whose axes are in GroupSpec.Axes. Each member is one point of the mesh and has a coordinate on
// each axis. Along each axis it has a communicator (Member.AxisComm) with the members that have the same coordinates on
// all other axes.
//
// Workers exchange data in three ways. Communicators (Member.Comm, World.NewComm) carry tagged messages between
// numbered members; package collectives builds on them. Direct messages (Member.SendTo, RecvFrom) are for rare data.
// Channels are bounded queues from the members of one group to the members of another. An item is a set of tensors in
// one slab of memory. The producer fills the slab in place and the consumer reads it in place:
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
// Sending, receiving and waiting allocate nothing. The doc of each type says who owns its memory, and for how long.
//
// The job may go through several worlds. If main returns Again on every rank, the world ends in order, with its groups,
// channels and communicators. Run then calls main in a new world, which may place its groups on other ranks. Memory
// that World.Keep names stays:
//
//	var weights []byte // one for each rank of this process, in a longer program
//	err := spmd.Run(ctx, ranks, opts, func(ctx context.Context, w *spmd.World) error {
//		…
//		w.Keep(weights)
//		return spmd.Again
//	})
//
// A Transport carries all messages, between processes (spmd/mpi) or goroutines (spmd/local). Package spmdtest is the
// conformance suite of transports.
package spmd
