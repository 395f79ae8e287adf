package mpi_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestNatives tests cases that the conformance suite of package collectives leaves out. RLINF_TEST_FULL=1 adds more
// elements than MPI counts, which takes gigabytes of memory.
func TestNatives(t *testing.T) {
	args := []string{"natives"}
	if os.Getenv("RLINF_TEST_FULL") != "" {
		args = append(args, "huge")
	}
	each(t, func(t *testing.T, _ *flavour, r rig) { r.ok(t, job{np: 2, args: args}) })
}

// If a member gives up a collective, the other members still complete it.
func TestNativeAbandoned(t *testing.T) {
	each(t, func(t *testing.T, _ *flavour, r rig) { r.ok(t, job{np: 3, args: []string{"abandon", t.TempDir()}}) })
}

func TestNativeNoAllocations(t *testing.T) {
	eachAlone(t, func(t *testing.T, _ *flavour, r rig) { r.ok(t, job{np: 2, args: []string{"callocs"}}) })
}

// If a member leaves or stops while others wait for it in a collective of the library, the error names it.
func TestNativeFailures(t *testing.T) {
	each(t, func(t *testing.T, _ *flavour, r rig) {
		for _, c := range []struct {
			args  []string
			code  int
			names string
		}{
			{[]string{"leave", "collective"}, 77,
				`(?m)^rank [02] host .*: communicator "waiting", member [02]: ` +
					`allreduce of 2 I32 \(sum\): rank 1 \(host .*, pid \d+\) has left`},
			{[]string{"stop", "collective"}, 76, rank1Silent},
			{[]string{"stop", "blocking"}, 76, rank1Silent},
		} {
			t.Run(strings.Join(c.args, " "), func(t *testing.T) {
				t.Parallel()
				out, code := r.run(t, job{np: 3, env: shortStall, args: append([]string{"fail"}, c.args...)})
				if code != c.code || !regexp.MustCompile(c.names).MatchString(out) {
					t.Errorf("exit code %d, want %d and %s in\n%s", code, c.code, c.names, out)
				}
			})
		}
	})
}
