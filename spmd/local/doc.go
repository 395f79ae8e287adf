// Package local carries a world of goroutine ranks inside one process: the default where there is
// no launcher, and the ground of every unit test.
//
//	err := spmd.Run(ctx, local.New(8), spmd.Options{}, program)
//
// Its rules are MPI's: a send and the receive that matches it meet by communicator, sender and tag,
// in the order posted; a small message leaves at once, a large one waits for its receive and is
// copied once. Nothing allocates per message, and waiting parks the goroutine.
package local
