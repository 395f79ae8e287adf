// Package spmdtest is the conformance suite of transports. Its cases are programs that every rank of a
// world runs.
//
// A transport whose ranks are goroutines runs it from a test:
//
//	spmdtest.Run(t, func(n int) []spmd.Transport { return local.New(n) })
//
// A transport whose ranks are processes runs the Cases in the world that its launcher started. A case
// leaves the world unchanged. So one program can run all cases, in the same order on every rank.
package spmdtest
