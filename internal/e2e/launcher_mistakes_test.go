package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
)

// TestMistakesUnderLaunchers: a job of several processes reports a mistake once, and the launcher passes on the exit
// code.
func TestMistakesUnderLaunchers(t *testing.T) {
	t.Parallel()
	for _, p := range []*platform{openmpi, mpich} {
		t.Run(p.name, func(t *testing.T) {
			own := p.program(t, ".")
			other := func(t *testing.T) string {
				if p == openmpi {
					return mpich.program(t, ".")
				}
				return apart(t, openmpi.program(t, "."))
			}
			cases := []struct {
				name    string
				np      int
				args    string
				program func(*testing.T) string
				want    string
			}{
				{"unknown key", 2, "runner.max_stps=1", nil,
					"command line: runner.max_stps: unknown key, did you mean max_steps?"},
				{"one address for all, taken on one", 2, "--pprof localhost:65535", nil,
					"rank 1: --pprof: listen tcp: address 65536: invalid port"},
				{"another MPI's binary", 2, "", other, "open mpi: binary and launcher do not fit: mpi% started 2 " +
					"processes, but each sees a world of one: this binary is built for %"},
				// The code is the same under each launcher.
				{"world too small", 1, "", nil, "job.yaml:4: cluster.component_placement.actor: 0-1: expected " +
					"resources 0..0, the ranks that were started (-np 1; the placement has 2), not \"0-1\"\n" +
					"job.yaml:6: cluster.component_placement.rollout: 1: expected resources 0..0, the ranks that " +
					"were started (-np 1; the placement has 2), not \"1\""},
				{"ranks within ranks", 2, "-np 2", nil, "-np 2: mpi% has started the ranks already"},
				{"a binary without MPI", 2, "", func(t *testing.T) string { return local.program(t, ".") },
					"open mpi: binary and launcher do not fit: mpi% started 2 processes, but this binary is built " +
						"without MPI: build it with scripts/build --tags mpi%"},
			}
			if p != openmpi && !full {
				cases = cases[:3]
			}
			for _, c := range cases {
				t.Run(c.name, func(t *testing.T) {
					t.Parallel() // Open MPI's launcher takes two seconds to end a job that fails
					dir := t.TempDir()
					writeFile(t, dir, "job.yaml", good)
					program := own
					if c.program != nil {
						program = c.program(t)
					}
					refusedProgram(t, p, program, dir, c.np, c.want,
						append([]string{"-c", "job.yaml"}, strings.Fields(c.args)...)...)
				})
			}
		})
	}
}

// apart returns a script that starts program with a temporary folder of its own. Each process of Open MPI without a
// launcher creates and removes a session folder. Two processes that do so in one temporary folder fail at random.
func apart(t *testing.T, program string) string {
	dir := t.TempDir()
	writeFile(t, dir, "rlinf", "#!/bin/sh\nTMPDIR=$(mktemp -d) exec "+program+" \"$@\"\n")
	script := filepath.Join(dir, "rlinf")
	test.OK(t, os.Chmod(script, 0o777))
	return script
}

// TestUnlikeRanks: if ranks of a job have another binary or another configuration than rank 0, the job names them
// before it starts.
func TestUnlikeRanks(t *testing.T) {
	t.Parallel()
	for _, p := range []*platform{openmpi, mpich} {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			own, dir := p.program(t, "."), t.TempDir()
			writeFile(t, dir, "job.yaml", good)
			writeFile(t, dir, "other.yaml", strings.Replace(good, "lr: 1.0e-3", "lr: 1.0e-4", 1))
			text := readFile(t, own)
			other := filepath.Join(t.TempDir(), "rlinf")
			test.OK(t, os.WriteFile(other, []byte(text+"\x00"), 0o777))
			const expected = ": expected one binary and one configuration for all ranks of a job"
			refused(t, p, dir, 1, "another configuration than that of rank 0 on rank 1"+expected, "-c", "job.yaml", ":",
				"-np", "1", own, "-c", "other.yaml")
			refused(t, p, dir, 1, "another binary than that of rank 0 on rank 1"+expected, "-c", "job.yaml", ":", "-np",
				"1", other, "-c", "job.yaml")
		})
	}
}
