package mpi_test

import (
	"regexp"
	"testing"
)

// Every collective of the library, as this package calls it, against a plain reference: one start per MPI for groups of 1 to 5.
func TestNatives(t *testing.T) {
	each(t, func(t *testing.T, _ *flavour, r rig) {
		if out := r.ok(t, job{np: 5, args: []string{"natives"}}); !regexp.MustCompile(`(?m)^\d{4,} collectives$`).MatchString(out) {
			t.Errorf("not all collectives were run\n%s", out)
		}
	})
}

func TestNativeShortMessage(t *testing.T) {
	each(t, func(t *testing.T, _ *flavour, r rig) { r.ok(t, job{np: 2, args: []string{"short"}}) })
}

// Who gives up a collective does not keep the others from it.
func TestNativeAbandoned(t *testing.T) {
	each(t, func(t *testing.T, _ *flavour, r rig) { r.ok(t, job{np: 3, args: []string{"abandon", t.TempDir()}}) })
}

func TestNativeNoAllocations(t *testing.T) {
	each(t, func(t *testing.T, _ *flavour, r rig) { r.ok(t, job{np: 2, args: []string{"callocs"}}) })
}
