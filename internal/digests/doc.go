// Package digests holds a short run of each kind of training to its numbers, to the last bit. It
// holds only tests.
//
// A configuration is a file testdata/NAME.yaml. Its run has four iterations on goroutine ranks.
// testdata/digests.txt has a line for it: the name, a digest of all metrics but those of the clock,
// and a digest of the tensors in the last checkpoint. A change of the numbers that is meant is
// recorded by
//
//	go test ./internal/digests -update
//
// The digests are those of vector code (AVX2 with FMA, or AVX-512, which gives the same bits) on
// amd64, where the compiler fuses no product with a sum. Elsewhere the test is skipped. Go's own
// mathematical functions take part: if a new Go alone changes the digests, record them again with
// unchanged code.
//
// Not covered: asynchronous runs with a staleness bound above 0, which depend on the clock, and with
// a bound of 0 the metrics env/…; MuJoCo; environments in other processes; resumed runs; messages
// through MPI; products by OpenBLAS. Package e2e compares most of these with plain runs.
package digests
