// Package e2e tests the program as its users run it: built, started with a configuration and a
// launcher, killed, and started again. It holds only tests.
//
// They need nothing but Go; those of an MPI that the machine lacks are skipped. RLINF_TEST_FULL=1
// runs whole what is otherwise sampled.
package e2e
