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

// Must takes the results of a call. The function that it returns ends the test if err is not nil, and returns v:
//
//	text := test.Must(os.ReadFile(path))(t)
func Must[T any](v T, err error) func(t testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		OK(t, err)
		return v
	}
}
