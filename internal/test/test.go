// Package test answers: what do the tests of any package share? It ends a test at its first unexpected error, and
// compares a value or an error with what is wanted.
package test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// OK ends the test if err is not nil. about is a format and its values, which say what failed.
func OK(t testing.TB, err error, about ...any) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s%v", said(about), err)
	}
}

// Check is like OK, but the test continues.
func Check(t testing.TB, err error, about ...any) {
	t.Helper()
	if err != nil {
		t.Errorf("%s%v", said(about), err)
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

// Equal reports an error if got is not want. about is a format and its values, which describe got.
func Equal[T comparable](t testing.TB, got, want T, about ...any) {
	t.Helper()
	if got != want {
		t.Errorf("%s%v, want %v", said(about), shown(got), shown(want))
	}
}

// EqualSlices is like Equal, but for slices.
func EqualSlices[S ~[]E, E comparable](t testing.TB, got, want S, about ...any) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s%v, want %v", said(about), got, want)
	}
}

// Fails reports an error if err is nil, or if its text does not contain the text says. about is as in Equal.
func Fails(t testing.TB, err error, says string, about ...any) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), says) {
		t.Errorf("%serror %v, want %q", said(about), err, says)
	}
}

// Err returns the error of a call, for Fails.
func Err[T any](_ T, err error) error { return err }

// NoAllocs reports an error if f allocates memory, on average over the given number of calls. about is as in Equal.
func NoAllocs(t testing.TB, calls int, f func(), about ...any) {
	t.Helper()
	if n := testing.AllocsPerRun(calls, f); n > 0 {
		t.Errorf("%s%v allocations", said(about), n)
	}
}

func said(about []any) string {
	if len(about) == 0 {
		return ""
	}
	return fmt.Sprintf(about[0].(string), about[1:]...) + ": "
}

// shown returns x, in quotes if it is a text.
func shown[T any](x T) string {
	if s, ok := any(x).(string); ok {
		return strconv.Quote(s)
	}
	return fmt.Sprint(x)
}
