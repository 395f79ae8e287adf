// Package test answers: what do the tests of any package share? It ends a test at its first
// unexpected error.
package test

import "testing"

// OK ends the test if err is not nil.
func OK(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
