// Package spmdtest is the conformance suite of transports: programs that every rank of a world runs
// to check the promises of package spmd.
//
// A transport whose ranks are goroutines runs it from a test:
//
//	spmdtest.Run(t, func(n int) []spmd.Transport { return local.New(n) })
//
// A transport whose ranks are processes runs each of Cases on the world that its launcher made. A
// case leaves the world unchanged, so one program can run all cases, in any order that is the same
// on every rank.
package spmdtest
