package e2e

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/rlinf/rlinf/internal/runfolder"
	"github.com/rlinf/rlinf/internal/test"
)

// grid is a sweep of four runs, with the seeds 1 and 2.
var grid = []string{"sweep", "-c", "job.yaml", "--seeds", "2", "runner.val_check_interval=1",
	"algorithm.gamma=0.9,0.99"}

// TestSweepOnProcesses trains a grid on processes of each MPI. Three workers take four runs, and one run cannot begin
// at first. The results are those of a sweep without a launcher.
func TestSweepOnProcesses(t *testing.T) {
	t.Parallel()
	want := filepath.Join(t.TempDir(), "expected")
	test.OK(t, os.Mkdir(want, 0o777))
	writeFile(t, want, "job.yaml", good)
	local.ok(t, want, 0, grid...)
	for _, p := range platforms[1:] {
		t.Run(p.name, func(t *testing.T) {
			dir := t.TempDir()
			writeFile(t, dir, "job.yaml", good)
			run := filepath.Join(dir, "logs", "job-sweep", "gamma=0.9", "seed_1")
			test.OK(t, os.MkdirAll(run, 0o777))
			other := test.Must(runfolder.Open(run, ""))(t) // as a job that is under way
			r := p.run(t, dir, 3, grid...)
			if r.code == 0 || strings.Count(r.stderr, "gamma=0.9/seed_1 failed: ") != 1 ||
				!strings.Contains(r.stdout, "3 of 4 runs are finished") {
				t.Fatalf("with a run in the way: exit code %d\n%s%s", r.code, r.stdout, r.stderr)
			}
			other.Close()
			r = p.ok(t, dir, 3, grid...)
			if !strings.Contains(r.stdout, "4 of 4 runs are finished") || strings.Count(r.stdout, "/4 · ") != 1 {
				t.Errorf("again:\n%s%s", r.stdout, r.stderr)
			}
			for _, run := range []string{"gamma=0.9/seed_1", "gamma=0.9/seed_2", "gamma=0.99/seed_1",
				"gamma=0.99/seed_2"} {
				run = filepath.Join("logs", "job-sweep", run)
				if d := readMetrics(t, filepath.Join(dir, run)).diff(readMetrics(t, filepath.Join(want, run))); d !=
					"" {
					t.Errorf("%s: %s", run, d)
				}
			}
			refused(t, p, dir, 2, "--jobs 2: % has started 2 processes, each of which takes one run at a time",
				append(grid, "--jobs", "2")...)
		})
	}
}

// TestSweepOfSimulator sweeps a job whose start completes the configuration, because an external simulator greets. The
// sweep ends in a table. Started again, it trains no finished run, but each run with a new value.
func TestSweepOfSimulator(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeFile(t, dir, "served.yaml", served)
	writeFile(t, dir, "job.yaml", good)
	args := []string{"sweep", "-c", "job.yaml", "--seeds", "2", "runner.save_interval=-1", "runner.max_steps=1",
		"env.train.env_type=external",
		"env.train.external.command=[" + local.program(t, ".") + ",bridge,serve,-c,served.yaml]"}
	for _, s := range []struct {
		args    []string
		trained int
	}{{nil, 2}, {nil, 0}, {[]string{"algorithm.gamma=0.5"}, 2}} {
		r := local.ok(t, dir, 0, append(args, s.args...)...)
		if strings.Count(r.stdout, "/2 · seed_") != s.trained ||
			!strings.Contains(r.stdout, "2 of 2 runs are finished") {
			t.Errorf("%q: want %d trained runs\n%s%s", s.args, s.trained, r.stdout, r.stderr)
		}
		for _, name := range []string{"table.md", "curves.svg"} {
			if _, err := os.Stat(filepath.Join(dir, "logs", "job-sweep", name)); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestSweepStops interrupts a sweep, which stops all its runs with a checkpoint. Started again, the sweep completes
// them.
func TestSweepStops(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeFile(t, dir, "job.yaml", good)
	args := append(grid, "--jobs", "2", "runner.save_interval=10", "runner.val_check_interval=10")
	first, second := filepath.Join(dir, "logs", "job-sweep", "gamma=0.9", "seed_1"),
		filepath.Join(dir, "logs", "job-sweep", "gamma=0.9", "seed_2")
	j := local.start(t, dir, 0, append(args, "runner.max_steps=1000000")...)
	poll(t, j, func() bool { return len(readMetrics(t, first)) > 0 && len(readMetrics(t, second)) > 0 })
	j.signal(syscall.SIGINT)
	if code := j.wait(); code != 130 || strings.Count(j.stdout.String(), "stopped before its end") != 2 ||
		strings.Count(j.stdout.String(),
			"finishing the steps under way, then saving checkpoints; again to stop now\n") != 1 ||
		readStatus(t, first) != runfolder.Interrupted {
		t.Fatalf("exit code %d, STATUS %s\n%s%s", code, readStatus(t, first), j.stdout.String(), j.stderr.String())
	}
	steps := len(readMetrics(t, first))
	steps += 10 - steps%10
	r := local.ok(t, dir, 0, append(args, "runner.max_steps="+strconv.Itoa(steps))...)
	if !strings.Contains(r.stdout, "4 of 4 runs are finished") || len(readMetrics(t, first)) != steps {
		t.Errorf("again: %d lines, want %d\n%s%s", len(readMetrics(t, first)), steps, r.stdout, r.stderr)
	}
}
