// Package spmd runs one program on every rank of a world and lets the parts of that program work together.
//
// A rank is one member of the world: an MPI process, or a goroutine where there is no launcher. The workers of a component form a group:
//
//	err := spmd.Run(ctx, opts, func(ctx context.Context, w *spmd.World) error {
//		place, err := spmd.Place(cluster, w.Nodes())                       // component_placement → ranks per component
//		actor, err := spmd.Launch(w, place.Group("actor"), newActor)       // collective: every rank, in the same order
//		res, err := spmd.Call(actor, ctx, "train", (*Actor).Train).Wait(ctx) // works on the group's ranks, done at once elsewhere
//	})
//
// A worker's calls run one at a time, in the order they were made; two workers of one rank run side by side. Workers exchange
// data through Channels, and through Comms made for the group. The first error anywhere ends the job on every rank.
package spmd
