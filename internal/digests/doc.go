// Package digests tests that a short run of each kind of training gives the same numbers, to the
// last bit. It holds only tests.
//
// A configuration is a file testdata/NAME.yaml. Its run has four iterations on goroutine ranks.
// testdata/digests.txt has a line for each configuration: its name, a digest of all metrics except
// times, and a digest of the tensors in the last checkpoint. If a change of the numbers is intended,
// record the new digests with
//
//	go test ./internal/digests -update
//
// The digests are valid for vector code on amd64. AVX2 with FMA gives the same digests as AVX-512.
// On other machines the test is skipped, because compilers may fuse products with sums there. The
// numbers also depend on Go's mathematical functions: if only a new Go version changes the digests,
// record them again with unchanged code.
//
// The digests do not cover asynchronous runs with a staleness bound above 0, because these runs
// depend on the clock. In asynchronous runs with bound 0, they do not cover the metrics env/…. They
// also do not cover MuJoCo, environments in other processes, MPI or OpenBLAS. Package e2e compares
// most of these cases with plain runs.
//
// testdata/resumed has checkpoints that an older program wrote. TestResumed continues from them, and
// compares the metrics with those of that program.
package digests
