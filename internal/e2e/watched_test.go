package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/rlinf/rlinf/internal/runfolder"
	"github.com/rlinf/rlinf/internal/test"
)

// TestCPUProfile profiles every process of a job.
func TestCPUProfile(t *testing.T) {
	t.Parallel()
	for _, p := range []*platform{local, mpich} {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			writeFile(t, dir, "job.yaml", good)
			p.ok(t, dir, 2, "-c", "job.yaml", "--cpu-profile", "cpu")
			files, err := filepath.Glob(filepath.Join(dir, "cpu-*"))
			want := []string{filepath.Join(dir, "cpu-rank-0.pprof"), filepath.Join(dir, "cpu-rank-1.pprof")}
			if p == local { // all ranks are in one process
				want = want[:1]
			}
			if err != nil || !slices.Equal(files, want) {
				t.Fatalf("%q, %v, want %q", files, err, want)
			}
			for _, file := range files {
				// the magic number of gzip, which pprof reads
				if b, err := os.ReadFile(file); err != nil || !bytes.HasPrefix(b, []byte{0x1f, 0x8b}) {
					t.Errorf("%s: %d bytes, %v", file, len(b), err)
				}
			}
		})
	}
}

// TestWatched inspects every rank of a running job, over HTTP and by the signal USR2. The job is not disturbed.
func TestWatched(t *testing.T) {
	t.Parallel()
	for _, p := range []*platform{local, mpich} {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			writeFile(t, dir, "job.yaml", good)
			port := freePorts(t)
			j := p.start(t, dir, 2, "-c", "job.yaml", "--pprof", fmt.Sprintf("127.0.0.1:%d", port),
				"runner.max_steps=-1", "runner.max_time=1h", "runner.save_interval=-1")
			ranks := 2
			if p == local {
				ranks = 1
			}
			for r := range ranks {
				if text := fetch(t, j, fmt.Sprintf("http://127.0.0.1:%d/debug/pprof/goroutine?debug=1",
					port+r)); !strings.Contains(text, "embodied.(*EmbodiedRunner)") {
					t.Errorf("rank %d: no runner among its goroutines:\n%s", r, text)
				}
			}
			run := filepath.Join(dir, "logs", "job")
			poll(t, j, func() bool { return len(readMetrics(t, run)) > 0 }) // ranks.jsonl exists by then
			for _, about := range readRanks(t, run)[:ranks] {
				test.OK(t, syscall.Kill(about.PID, syscall.SIGUSR2))
			}
			seen := len(readMetrics(t, run))
			poll(t, j, func() bool { return len(readMetrics(t, run)) > seen+2 })
			if got := readStatus(t, run); got != runfolder.Running {
				t.Errorf("STATUS %q", got)
			}
			// By now every rank has taken two steps since the signal.
			j.signal(syscall.SIGTERM)
			j.wait()
			if dumps := strings.Count(j.stderr.String(), "spmd.Run("); dumps < ranks {
				t.Errorf("%d dumps, want %d:\n%s", dumps, ranks, &j.stderr)
			}
		})
	}
}

// freePorts returns a free port. The next port is free, too.
func freePorts(t *testing.T) int {
	t.Helper()
	for range 100 {
		a, err := net.Listen("tcp", "127.0.0.1:0")
		test.OK(t, err)
		port := a.Addr().(*net.TCPAddr).Port
		b, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port+1))
		if err == nil {
			err = b.Close()
		}
		if err := errors.Join(err, a.Close()); err == nil {
			return port
		}
	}
	t.Fatal("no two free ports")
	return 0
}

// fetch returns the content of url, once the job answers.
func fetch(t *testing.T, j *job, url string) (text string) {
	t.Helper()
	poll(t, j, func() bool {
		r, err := http.Get(url)
		if err != nil {
			return false
		}
		defer r.Body.Close()
		b, err := io.ReadAll(r.Body)
		text = string(b)
		return err == nil && strings.Contains(text, "EmbodiedRunner)")
	})
	return text
}
