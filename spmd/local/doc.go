// Package local is a transport whose ranks are goroutines of one process. Programs use it when
// there is no launcher. Most tests use it too.
//
//	err := spmd.Run(ctx, local.New(8), spmd.Options{}, program)
//
// The transport follows MPI's rules. Sends and receives match by communicator, sender and tag, in the
// order in which they were posted. The send of a small message copies it and completes at once. The send
// of a large message waits for the receive, and the message is copied once. Messages allocate nothing. A
// wait parks the goroutine.
package local
