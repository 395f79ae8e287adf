// Package spmdtest is the conformance suite of transports: what spmd promises, as programs that
// every rank of a world runs.
//
// A transport whose ranks are goroutines runs it from a test:
//
//	spmdtest.Run(t, func(n int) []spmd.Transport { return local.New(n) })
//
// A transport whose ranks are processes runs each of Cases on the world that its launcher made.
// Every case leaves that world as it found it. So they can follow each other in one program, in any
// order that is the same on every rank.
package spmdtest
