package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rlinf/rlinf/internal/checkpoint"
	"github.com/rlinf/rlinf/internal/runfolder"
	"github.com/rlinf/rlinf/internal/test"
)

// TestStoppedWhileWaiting: a job that waits for simulators to start or to answer stops on request or at its time limit,
// with a checkpoint if it has begun. After a second request it stops at once. A mistake in the configuration that is
// found after the time limit gives exit code 2, and not 75, so that a scheduler does not requeue the job.
func TestStoppedWhileWaiting(t *testing.T) {
	t.Parallel()
	program := local.program(t, ".")
	for _, c := range stopsWhileWaiting() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			writeFile(t, dir, "served.yaml", served)
			writeFile(t, dir, "job.yaml", fmt.Sprintf(killed, 10000, program))
			args := append([]string{"-c", "job.yaml", "env.train.external.start_timeout=10m",
				"env.train.external.step_timeout=10m"}, c.more...)
			j := local.start(t, dir, 0, args...)
			run := filepath.Join(dir, "logs", "run")
			if c.name == "one comes" {
				child := exec.Command(program, "bridge", "serve", "-c", "served.yaml")
				child.Dir, child.Env = dir, append(os.Environ(), "RLB_ADDR=unix:s")
				test.OK(t, child.Start())
				defer child.Wait()
			}
			poll(t, j, func() bool { return c.waits(dir, j) })
			if strings.HasPrefix(c.name, "no answer") {
				syscall.Kill(j.children()[0], syscall.SIGSTOP)
			}
			start := time.Now()
			for _, s := range c.signals {
				j.signal(s)
				time.Sleep(100 * time.Millisecond)
			}
			r := j.result()
			// On a busy machine the time limit can end the wait for the simulator, before the mistake is found.
			for try := 0; try < 20 && c.code == 2 && strings.Contains(r.stderr, "not ready to play"); try++ {
				r = local.run(t, dir, 0, args...)
			}
			if took := time.Since(start); r.code != c.code || !strings.Contains(r.stderr, c.says) ||
				took > 2*time.Minute {
				t.Fatalf("exit code %d after %v, want %d and %q\n%s%s", r.code, took, c.code, c.says, r.stdout,
					r.stderr)
			}
			if c.status == "" {
				return
			}
			_, err := checkpoint.Load(filepath.Join(run, "checkpoints", "latest"))
			if s := readStatus(t, run); s != c.status || (err == nil) != (len(c.signals) < 2) {
				t.Errorf("STATUS %v, want %v; latest checkpoint: %v", s, c.status, err)
			}
		})
	}
}

// A stopWhileWaiting is a job that gets signals while it waits for simulators.
type stopWhileWaiting struct {
	name    string
	more    []string
	signals []syscall.Signal
	code    int
	says    string
	status  runfolder.Status // "": the run has not begun
}

func stopsWhileWaiting() []stopWhileWaiting {
	return []stopWhileWaiting{
		{"nobody comes", []string{"env.train.external.command=[]", "env.train.external.listen=unix:s"},
			[]syscall.Signal{syscall.SIGTERM}, 143,
			"before the program was asked to stop", ""},
		{"nobody comes, requeue", []string{"env.train.external.command=[]", "env.train.external.listen=unix:s"},
			[]syscall.Signal{syscall.SIGUSR1}, 75,
			"before the program was asked to stop", ""},
		{"one comes and says nothing", []string{`env.train.external.command=[sh, -c, "> s; exec sleep 1000"]`},
			[]syscall.Signal{syscall.SIGUSR1}, 75,
			"not ready to play before the program was asked to stop", ""},
		{"one comes", []string{"env.train.external.command=[]", "env.train.external.listen=unix:s"},
			[]syscall.Signal{syscall.SIGTERM}, 143,
			"before the program was asked to stop", runfolder.Interrupted},
		{"no answer", nil, []syscall.Signal{syscall.SIGINT}, 130,
			"no other simulator takes over, because the program was asked to stop", runfolder.Interrupted},
		{"nobody comes, max_time", []string{"env.train.external.command=[]", "env.train.external.listen=unix:s",
			"runner.max_time=3s"}, nil, 75,
			"before the program was asked to stop", ""},
		{"a mistake found late, max_time", []string{"actor.model.obs_dim=5", "runner.max_time=1ms"}, nil, 2,
			"a value that fits: 5", ""},
		{"no answer, max_time", []string{"runner.max_time=30s", "env.train.external.step_timeout=35s"}, nil, 75,
			"no other simulator takes over, because the program was asked to stop", runfolder.Checkpointed},
		{"no answer, twice", nil, []syscall.Signal{syscall.SIGINT, syscall.SIGTERM}, 143,
			"second signal: stopping at once", runfolder.Interrupted},
	}
}

// waits reports whether the job in dir waits for simulators to start, or plays.
func (c stopWhileWaiting) waits(dir string, j *job) bool {
	run := filepath.Join(dir, "logs", "run")
	if c.status == "" {
		_, err := os.Stat(filepath.Join(dir, "s"))
		return err == nil || c.signals == nil
	}
	if c.name == "one comes" {
		_, err := os.Stat(run)
		return err == nil
	}
	text, _ := os.ReadFile(filepath.Join(run, "metrics.jsonl"))
	return len(j.children()) == 8 && bytes.Count(text, []byte("\n")) > 0
}
