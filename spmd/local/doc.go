// Package local is a transport whose ranks are goroutines of one process. Programs use it when
// there is no launcher. Most tests use it too.
//
//	err := spmd.Run(ctx, local.New(8), spmd.Options{}, program)
//
// It follows MPI's rules. Sends and receives match by communicator, sender and tag, in the order in
// which they were posted. A small message is copied, and its send completes at once. A large send
// waits for its receive, and its message is copied once. Messages allocate nothing, and waiting
// parks the goroutine.
package local
