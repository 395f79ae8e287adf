// Package e2e tests the program as its users run it: built, started with a configuration and a
// launcher, killed, and started again. It holds only tests.
//
// The tests need only Go. Tests that need a missing MPI are skipped. Some tests run only a sample
// of their cases; RLINF_TEST_FULL=1 runs all of them.
package e2e
