package cli

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rlinf/rlinf/internal/results"
	"github.com/rlinf/rlinf/internal/runfolder"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/roles/internal/rolestest"
	"github.com/rlinf/rlinf/roles/loop"
)

// momentary is a job of a moment on two goroutine ranks, whose logs go to dir.
func momentary(dir string) []string {
	return []string{"-c", rolestest.Cartpole, "cluster.component_placement={actor: 0-1, env: 0, rollout: 1}",
		"runner.max_epochs=4", "runner.val_check_interval=2",
		"env.train.max_steps_per_rollout_epoch=16", "env.train.total_num_envs=32", "actor.global_batch_size=256",
		"runner.logger.logger_backends=[]", "runner.logger.experiment_name=grid", "runner.logger.log_path=" + dir}
}

// TestSweep trains a grid, beside a run that cannot begin, twice.
func TestSweep(t *testing.T) {
	dir := t.TempDir()
	grid := append([]string{"sweep", "--seeds", "2", "--jobs", "2", "actor.optim.lr=1e-3,1e-4"}, momentary(dir)...)
	at := func(parts ...string) string { return filepath.Join(append([]string{dir, "grid-sweep"}, parts...)...) }
	test.OK(t, os.MkdirAll(at("lr=1e-3", "seed_2"), 0o777))
	other := test.Must(runfolder.Open(at("lr=1e-3", "seed_2"), ""))(t) // as a job that is under way
	for _, name := range []string{"table.md", "curves.svg"} {          // of the user
		test.OK(t, os.WriteFile(at(name), []byte("my notes\n"), 0o666))
		code, _, errs := run(t, grid...)
		if entries, err := os.ReadDir(at("lr=1e-3")); code != loop.ExitConfig || err != nil || len(entries) > 1 ||
			!strings.HasSuffix(errs, at(name)+": this command did not write the file that is there: expected another "+
				"runner.logger.experiment_name, or --force to replace it\n") {
			t.Fatalf("code %d, %v\n%s", code, entries, errs)
		}
		test.OK(t, os.Remove(at(name)))
	}
	code, out, errs := run(t, grid...)
	if code != loop.ExitFailed || !strings.Contains(errs, "lr=1e-3/seed_2 failed: ") ||
		!strings.HasSuffix(errs, "1 of 4 runs failed\n") || !strings.Contains(out, "3 of 4 runs are finished") {
		t.Fatalf("with a run in the way: code %d\n%s%s", code, out, errs)
	}
	before, err := os.Stat(at("lr=1e-4", "seed_1", "metrics.jsonl"))
	test.OK(t, err)

	// Without the other job, that run alone is left to train. The table has all runs.
	other.Close()
	if code, out, errs = run(t, grid...); code != loop.ExitOK || errs != "" || strings.Count(out, "seed_") != 1 ||
		!strings.Contains(out, "4 of 4 runs are finished") {
		t.Fatalf("again: code %d\n%s%s", code, out, errs)
	}
	if after, err := os.Stat(at("lr=1e-4", "seed_1", "metrics.jsonl")); err != nil ||
		after.ModTime() != before.ModTime() {
		t.Errorf("a finished run was touched: %v, %v", after, err)
	}
	table, err := os.ReadFile(at("table.md"))
	row := regexp.MustCompile(`(?m)^\| lr=1e-[34] \| 2 \| 2048 \| .* ± .* \|$`)
	if err != nil || len(row.FindAll(table, -1)) != 2 {
		t.Errorf("table.md: %v\n%s", err, table)
	}
	if svg, err := os.ReadFile(at("curves.svg")); err != nil || strings.Count(string(svg), ", 2 seeds") != 2 {
		t.Errorf("curves.svg: %v\n%s", err, svg)
	}
	if _, err := os.Stat(filepath.Join(dir, "grid")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the sweep has written into the folder of the single run: %v", err)
	}

	// A run of the sweep is the same as a single run with these settings.
	alone := append(momentary(dir), "actor.optim.lr=1e-4", "runner.seed=2", "runner.logger.experiment_name=alone")
	if code, out, errs := run(t, alone...); code != loop.ExitOK {
		t.Fatalf("alone: code %d\n%s%s", code, out, errs)
	}
	want, got := evaluations(t, filepath.Join(dir, "alone")), evaluations(t, at("lr=1e-4", "seed_2"))
	if len(want) != 2 || !reflect.DeepEqual(got, want) {
		t.Errorf("in the sweep %v, alone %v", got, want)
	}
	if other := evaluations(t, at("lr=1e-4", "seed_1")); reflect.DeepEqual(other, want) {
		t.Errorf("seeds 1 and 2 are alike: %v", other)
	}
}

// A run that stopped half way goes on from its checkpoint, and ends like an undisturbed run.
func TestSweepResumes(t *testing.T) {
	dir := t.TempDir()
	half := append(momentary(dir), "runner.seed=1", "runner.logger.experiment_name=grid-sweep/seed_1",
		"runner.max_epochs=2", "runner.save_interval=2")
	if code, out, errs := run(t, half...); code != loop.ExitOK {
		t.Fatalf("half of a run: code %d\n%s%s", code, out, errs)
	}
	if code, out, errs := run(t, append([]string{"sweep", "--seeds=2", "runner.save_interval=2"},
		momentary(dir)...)...); code != loop.ExitOK {
		t.Fatalf("code %d\n%s%s", code, out, errs)
	}
	provenance, err := os.ReadFile(filepath.Join(dir, "grid-sweep", "seed_1", "provenance.json"))
	if err != nil || !strings.Contains(string(provenance), "global_step_2") {
		t.Errorf("not resumed: %v\n%s", err, provenance)
	}
	if code, out, errs := run(t, append(momentary(dir), "runner.logger.experiment_name=whole",
		"runner.save_interval=2")...); code != loop.ExitOK {
		t.Fatalf("code %d\n%s%s", code, out, errs)
	}
	if got, want := evaluations(t, filepath.Join(dir, "grid-sweep", "seed_1")),
		evaluations(t, filepath.Join(dir, "whole")); !reflect.DeepEqual(got, want) {
		t.Errorf("resumed %v, undisturbed %v", got, want)
	}
}

// TestSweepPlans: each run of a sweep may plan its placement, and no number changes. The sweep counts such runs as
// finished, and does not train them again.
func TestSweepPlans(t *testing.T) {
	dir := t.TempDir()
	auto := slices.Concat([]string{"sweep", "--seeds=2"}, momentary(dir),
		[]string{"-np=2", "cluster.component_placement=auto"})
	var began time.Time
	for range 2 {
		code, out, errs := run(t, auto...)
		if code != loop.ExitOK || !strings.Contains(out, "2 of 2 runs are finished") {
			t.Fatalf("code %d\n%s%s", code, out, errs)
		}
		start, _ := runfolder.LastStart(filepath.Join(dir, "grid-sweep", "seed_2"))
		if !began.IsZero() && start.Started != began {
			t.Errorf("a finished run began again at %v", start.Started)
		}
		began = start.Started
	}
	if _, err := os.Stat(filepath.Join(dir, "grid-sweep", "seed_2", "plan.json")); err != nil {
		t.Error(err)
	}
	if code, out, errs := run(t, append(momentary(dir), "runner.seed=2")...); code != loop.ExitOK {
		t.Fatalf("alone: code %d\n%s%s", code, out, errs)
	}
	if got, want := evaluations(t, filepath.Join(dir, "grid-sweep", "seed_2")),
		evaluations(t, filepath.Join(dir, "grid")); len(want) != 2 || !reflect.DeepEqual(got, want) {
		t.Errorf("in the sweep %v, placed by hand %v", got, want)
	}
}

// TestSweepPicture: runs that were evaluated once have curves of training.
func TestSweepPicture(t *testing.T) {
	dir := t.TempDir()
	if code, out, errs := run(t, append([]string{"sweep", "--seeds=2"},
		append(momentary(dir), "runner.val_check_interval=4")...)...); code != loop.ExitOK {
		t.Fatalf("code %d\n%s%s", code, out, errs)
	}
	svg, err := os.ReadFile(filepath.Join(dir, "grid-sweep", "curves.svg"))
	line := regexp.MustCompile(`<path d="M[\d.]+ [\d.]+(L[\d.]+ [\d.]+)+" fill="none"`)
	if err != nil || !strings.Contains(string(svg), ">CartPole-v1: env/return<") || !line.Match(svg) {
		t.Errorf("curves.svg: %v\n%s", err, svg)
	}
}

// evaluations returns the evaluations of a run, by step.
func evaluations(t *testing.T, dir string) map[int64]float64 {
	t.Helper()
	r := test.Must(results.ReadRun(dir, "eval/return"))(t)
	found := map[int64]float64{}
	for _, row := range r.Rows {
		found[row.Step] = row.Values["eval/return"]
	}
	return found
}

func TestSweepRefuses(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"", "nothing to sweep: expected key=a,b,… or --seeds N"},
		{"--seeds 0 algorithm.gamma=0.9,0.99", "--seeds 0: expected a number from 1 to 2000"},
		{"--seeds 100000000", "--seeds 100000000: expected a number from 1 to 2000"},
		{"--seeds 1001 algorithm.gamma=0.9,0.99", "2002 runs: expected at most 2000: fewer --seeds or values"},
		{"--seeds 2 --jobs 0", "--jobs 0: expected a number from 1 to 2000"},
		{"algorithm.gama=0.9,0.99", "command line: algorithm.gama: unknown key, did you mean gamma?"},
		{"algorithm.gamma=0.9,1.5", "command line: algorithm.gamma: 1.5: expected a number in [0, 1]"},
		{"algorithm.gamma=1.5,0.9,2 actor.micro_batch_size=16,7", "command line: algorithm.gamma: 1.5: expected a " +
			"number in [0, 1] [gamma=1.5,micro_batch_size=16 and 1 more points]\n"},
		{"algorithm.gamma=1.5,0.9,2 actor.micro_batch_size=16,7", "command line: algorithm.gamma: 2: expected a " +
			"number in [0, 1] [gamma=2,micro_batch_size=16 and 1 more points]\n"},
		{"algorithm.gamma=1.5,0.9,2 actor.micro_batch_size=16,7", "(micro_batch_size 7 × 2 actors)"},
		{"algorithm.gamma=0.9,", `algorithm.gamma: "0.9,": expected each value once, and none empty`},
		{"algorithm.gamma=0.9,0.9", `algorithm.gamma: "0.9,0.9": expected each value once, and none empty`},
		{"algorithm.gamma=0.9,1 algorithm.gamma=0.5,1", "algorithm.gamma: expected it once, with all values"},
		{"runner.seed=1,2", "runner.seed: expected --seeds N: seeds are no part of the grid"},
		{"runner.logger.log_path=a,b",
			"runner.logger.log_path: expected one value: the sweep gives every run a folder"},
		{"--seeds 2 env.train.seed=3",
			"--seeds: actor.seed or env.train.seed is given: expected both to follow runner.seed"},
		{"--seeds 2 runner.only_eval=true", "sweep: runner.only_eval: expected a job that trains"},
		{"actor.micro_batch_size=7,8", "(micro_batch_size 7 × 2 actors)"},
	} {
		dir := t.TempDir()
		code, out, errs := run(t, slices.Concat([]string{"sweep"}, momentary(dir), strings.Fields(c.args))...)
		if code != loop.ExitConfig || out != "" || !strings.Contains(errs, c.want) {
			t.Errorf("%s: code %d\n%s%s\nwant %s", c.args, code, out, errs, c.want)
		}
		if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
			t.Errorf("%s: left %v, %v", c.args, entries, err)
		}
	}
}
