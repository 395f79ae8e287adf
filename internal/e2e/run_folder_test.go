package e2e

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rlinf/rlinf/internal/runfolder"
	"github.com/rlinf/rlinf/internal/test"
)

// TestRunFolder checks the files of two runs with the same name.
func TestRunFolder(t *testing.T) {
	t.Parallel()
	for _, p := range platforms {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			writeFile(t, dir, "job.yaml", good)
			args := []string{"-c", "job.yaml", "runner.logger.project_name=balance"}
			p.ok(t, dir, 2, append(args, "rollout.enable_offload=true")...)
			run := filepath.Join(dir, "logs", "job")
			want := []string{
				".rlinf-run", "STATUS", "checkpoints/global_step_1", "checkpoints/global_step_2",
				"checkpoints/latest", "config.yaml", "live.json", "logs/rank-0000.log", "metrics.jsonl",
				"provenance.json", "ranks.jsonl", "tensorboard/events",
				"trace/phases.bin", "trace/rank-0000.bin", "trace/rank-0001.bin",
			}
			if got := left(t, run); !slices.Equal(got, want) {
				t.Errorf("left: %q\nwant: %q", got, want)
			}
			if got := readStatus(t, run); got != runfolder.Done {
				t.Errorf("STATUS %q", got)
			}
			if m := readMetrics(t, run); len(m) != 2 {
				t.Errorf("metrics: %v", m)
			}
			log, err := os.ReadFile(runfolder.RankLog(run, 0))
			if err != nil || count(string(log), "    rollout.enable_offload  true  command line") != 1 {
				t.Errorf("rank 0's log: %v\n%s", err, log)
			}

			// config.yaml is itself a configuration, which means the same.
			again := filepath.Join(dir, "again")
			test.OK(t, os.Mkdir(again, 0o777))
			p.ok(t, again, 2, "-c", filepath.Join(run, "config.yaml"))
			if d := readMetrics(t, filepath.Join(again, "logs", "job")).diff(readMetrics(t, run)); d != "" {
				t.Errorf("from config.yaml: %s", d)
			}

			checkOrigin(t, p, run)
			r := p.ok(t, dir, 2, append(args, "runner.logger.logger_backends=[]")...)
			if !strings.Contains(r.stdout, "an earlier run of this name is now in "+filepath.Join("logs", "job",
				"earlier-1")) && !strings.Contains(r.stdout, filepath.Join(run, "earlier-1")) {
				t.Errorf("nothing said of the earlier run: %s", r.stdout)
			}
			if got := left(t, filepath.Join(run, "earlier-1")); !slices.Equal(got, want[1:]) {
				t.Errorf("left in earlier-1: %q\nwant: %q", got, want[1:])
			}
			if got := left(t, run); slices.Contains(got, "tensorboard/events") ||
				!slices.Contains(got, "metrics.jsonl") {
				t.Errorf("without backends: %q", got)
			}
		})
	}
}

// left lists the files of a run in its folder, without the files of checkpoints, the names of event files, and the
// folders of earlier runs.
func left(t *testing.T, run string) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(run, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(run, path)
		switch {
		case err != nil:
			return err
		case strings.HasPrefix(name, "earlier-"):
			return fs.SkipDir
		case strings.HasPrefix(name, "checkpoints/global_step_") && d.IsDir():
			found = append(found, name)
			return fs.SkipDir
		case strings.HasPrefix(name, "tensorboard/events.out."):
			name = "tensorboard/events"
		}
		if !d.IsDir() {
			found = append(found, name)
		}
		return nil
	})
	test.OK(t, err)
	return found
}

// checkOrigin checks that provenance.json and ranks.jsonl say what ran, where, and how.
func checkOrigin(t *testing.T, p *platform, run string) {
	t.Helper()
	text := readFile(t, filepath.Join(run, "provenance.json"))
	var starts []runfolder.Provenance
	if err := json.Unmarshal([]byte(text), &starts); err != nil || len(starts) != 1 {
		t.Fatalf("provenance.json: %d starts, %v\n%s", len(starts), err, text)
	}
	origin := map[*platform][3]string{local: {"local", "", ""}, openmpi: {"mpi", "Open MPI v", "mpirun"},
		mpich: {"mpi", "MPICH Version: ", "mpiexec"}}[p]
	s := starts[0]
	if s.Project != "balance" || s.Transport != origin[0] || !strings.HasPrefix(s.Library, origin[1]) ||
		s.Launcher != origin[2] || len(s.Hosts) != 2 ||
		len(s.Binding) != 2 || s.Binding[1] == "" || !slices.Contains(s.Args, "job.yaml") ||
		!strings.HasPrefix(s.Build.Go, "go1.") {
		t.Errorf("provenance.json: %s", text)
	}
	ranks := readRanks(t, run)
	want := [][]string{{"actor[0]", "env[0]"}, {"actor[1]", "rollout[0]"}}
	if len(ranks) != 2 || (ranks[0].PID == ranks[1].PID) != (p == local) {
		t.Fatalf("ranks.jsonl: %v", ranks)
	}
	for r, about := range ranks {
		if about.Rank != r || about.PID <= 0 || about.Host != s.Hosts[r] || !slices.Equal(about.Components, want[r]) {
			t.Errorf("ranks.jsonl: %+v, want components %q", about, want[r])
		}
	}
}

// TestRequeued starts a job again on another host after it was killed and left its lock. The new job waits until a
// minute has passed since the lock's last heartbeat. The test shortens this wait to twenty seconds.
func TestRequeued(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeFile(t, dir, "job.yaml", good)
	local.ok(t, dir, 0, "-c", "job.yaml", "runner.max_steps=1")
	lock := writeFile(t, filepath.Join(dir, "logs", "job"), "lock",
		`{"host": "elsewhere", "pid": 1, "pids": "", "started": "2026-01-02T03:04:05Z"}`)
	beat := time.Now().Add(-40 * time.Second)
	test.OK(t, os.Chtimes(lock, beat, beat))
	r := local.ok(t, dir, 0, "-c", "job.yaml", "--resume", "auto")
	if count(r.stderr,
		"warning: run folder %: in use by process 1 on elsewhere, %; waiting for a sign that it is over") != 1 ||
		!strings.Contains(r.stdout, "resuming from ") {
		t.Errorf("%s%s", r.stdout, r.stderr)
	}
}

// TestResumeAutoKeepsMetrics: --resume auto of a run without checkpoints begins a new run. The earlier output is set
// aside, as without --resume.
func TestResumeAutoKeepsMetrics(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	run := filepath.Join(dir, "logs", "job")
	writeFile(t, dir, "job.yaml", good)
	none, last := "runner.save_interval=-1", "runner.save_at_end=false"
	local.ok(t, dir, 0, "-c", "job.yaml", "--resume", "auto", none, last, "runner.max_steps=2")
	if _, err := os.Stat(filepath.Join(run, "earlier-1")); err == nil {
		t.Error("something was moved aside where nothing was")
	}
	want := readMetrics(t, run)
	r := local.ok(t, dir, 0, "-c", "job.yaml", "--resume", "auto", none, last, "runner.max_steps=1")
	if !strings.Contains(r.stderr, "starting anew") ||
		!strings.Contains(r.stdout, "an earlier run of this name is now in ") {
		t.Errorf("%s%s", r.stdout, r.stderr)
	}
	if d := readMetrics(t, filepath.Join(run, "earlier-1")).diff(want); d != "" || len(readMetrics(t, run)) != 1 {
		t.Errorf("the earlier run's metrics: %s; there are %d new lines, want 1", d, len(readMetrics(t, run)))
	}
}
