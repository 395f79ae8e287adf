package mpi_test

import (
	"os"
	"regexp"
	"testing"
)

// A process does not grow with the number of its worlds.
func TestManyWorlds(t *testing.T) {
	each(t, func(t *testing.T, _ *flavour, r rig) {
		if os.Getenv("RLINF_TEST_FULL") == "" {
			r.ok(t, job{np: 2, args: []string{"many", "200"}})
			return
		}
		for _, np := range []int{1, 2, 3, 5, 8} {
			r.ok(t, job{np: np, args: []string{"many", "1000"}})
			r.ok(t, job{np: np, env: []string{"RLINF_SHM=off"}, args: []string{"many", "400"}})
		}
	})
}

// After a change of worlds no rank counts as having left. A rank that leaves the last world does.
func TestLeavingInSeveralWorlds(t *testing.T) {
	each(t, func(t *testing.T, _ *flavour, r rig) {
		t.Parallel()
		r.ok(t, job{np: 3, env: []string{"RANKTEST_STALL=1s"}, args: []string{"leaving"}})
	})
}

// If a rank fails while worlds change, the job ends with its exit code and says why.
func TestFailuresBetweenWorlds(t *testing.T) {
	each(t, func(t *testing.T, f *flavour, r rig) {
		for _, c := range []struct {
			how  string
			want string
		}{
			{"mix", `(?m)^rank 0 host .* step 42: main has returned spmd.Again on rank 0, and nil on rank 1: `},
			{"error", `(?m)^rank 1 host .* step 42: out of patience$`},
			{"panic", `(?m)^rank 1 host .* step 42: panic: out of its mind$`},
			{"keep", `(?m)^rank \d host .* step 42: renew: keep 8 bytes: they are not of this rank's Alloc$`},
			{"kill", ``},
		} {
			t.Run(c.how, func(t *testing.T) {
				out, code := r.run(t, job{np: 3, args: []string{"again", c.how}})
				if killed := c.how == "kill"; !killed && code != 77 || killed && code == 0 {
					t.Errorf("exit code %d\n%s", code, out)
				}
				if !regexp.MustCompile(c.want).MatchString(out) {
					t.Errorf("want %s in\n%s", c.want, out)
				}
			})
		}
	})
}
