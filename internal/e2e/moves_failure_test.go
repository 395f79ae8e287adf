package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/rlinf/rlinf/internal/runfolder"
	"github.com/rlinf/rlinf/internal/test"
)

// TestMovesFail: a worker that fails while it is packed, or while another worker takes over, ends the job with an error
// that names the worker.
func TestMovesFail(t *testing.T) {
	t.Parallel()
	for _, p := range platforms {
		for fault, says := range map[string]string{
			"pack-panic":   "rank 2 host % step %: panic: out of boxes",
			"unpack-error": "rank 3 host % step %: env 0: env.safetensors: out of shelves",
			"unpack-panic": "rank 3 host % step %: panic: out of shelves",
		} {
			if !full && p != local && (p != openmpi || fault != "unpack-error") {
				continue
			}
			t.Run(p.name+"/"+fault, func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				writeFile(t, dir, "job.yaml", still)
				j := p.startProgram(t, p.program(t, "./internal/e2e/testdata/faulty"), dir, 4, "-c", "job.yaml",
					"env.train.env_type=CartPole-"+fault, steps(1_000_000))
				run, asked := filepath.Join(dir, "logs", "job"), false
				w := j.walk(run, func() string {
					if asked {
						return ""
					}
					asked = true
					return "{env: 3}"
				})
				r := j.result()
				<-w.ended
				if r.code != 1 || count(r.stderr, says) != 1 || strings.Contains(r.stderr, "goroutine ") {
					t.Errorf("exit code %d, want 1, and once %q\n%s%s", r.code, says, r.stdout, r.stderr)
				}
				if s := readStatus(t, run); s != runfolder.Failed {
					t.Errorf("STATUS %s", s)
				}
			})
		}
	}
}

// TestMovesUnrecorded: a job that cannot record a move warns, and goes on.
func TestMovesUnrecorded(t *testing.T) {
	t.Parallel()
	n, draw := nomads()[0], draws(t, 1)
	c, start := newCamp(t, n), n.place(draw)
	same := c.settle(t, start, steps(12))
	j := c.start(t, local, "run", start, steps(12))
	made := 0
	j.walk(c.folder("run"), func() string {
		if made++; made == 1 {
			for _, name := range []string{"moves.jsonl", "move-answers.jsonl"} {
				test.Check(t, os.Mkdir(filepath.Join(c.folder("run"), name), 0o777))
			}
		}
		return n.place(draw)
	})
	r := j.result()
	if r.code != 0 || strings.Count(r.stdout, "moved to ") != 1 || count(r.stderr, "warning: %moves.jsonl: is a "+
		"directory") != 1 || count(r.stderr, "warning: answer %move-answers.jsonl: is a directory") != 1 {
		t.Errorf("exit code %d, want 0, one move and two warnings\n%s%s", r.code, r.stdout, r.stderr)
	}
	same(t, "run")
}

// TestMovesIllDisk: if the disk is full while members move, the job fails and says so. When there is room again, the
// job can be resumed like any other.
func TestMovesIllDisk(t *testing.T) {
	t.Parallel()
	for instant := range repeats() {
		n, draw := nomads()[instant%6], draws(t, instant)
		c, start := newCamp(t, n), n.place(draw)
		logs := filepath.Join(c.dir, "logs")
		test.OK(t, os.Mkdir(logs, 0o777))
		if err := syscall.Mount("tmpfs", logs, "tmpfs", 0, "size=16m,nr_inodes=1000"); err != nil {
			t.Skipf("mounting a small tmpfs needs root: %v", err)
		}
		t.Cleanup(func() { syscall.Unmount(logs, syscall.MNT_DETACH) })
		on := platforms[instant%len(platforms)]
		j := c.start(t, on, "run", start, steps(1_000_000))
		w := c.wander(j, "run", start, draw)
		poll(t, j, func() bool { return int(w.made.Load()) > 1+instant%3 })
		cure := illnesses[0].strike(t, logs)
		r := j.result()
		<-w.ended
		status, err := statusAtEnd(c.folder("run"))
		if r.code == 0 || r.code != 1 && on == local || !strings.Contains(r.stderr, illnesses[0].says) ||
			status != illnesses[0].status || err != nil {
			t.Errorf("%s, after %d moves: exit code %d, status %s, %v, expected %q\n%s", on.name, w.made.Load(), r.code,
				status, err, illnesses[0].says, r.stderr)
		}
		cure()
		done := len(readMetrics(t, c.folder("run")))
		j = c.start(t, on, "run", start, steps(done+4), "--resume", "auto")
		c.wander(j, "run", start, draw).end(t, j, 0)
		c.settle(t, start, steps(done+4))(t, "run")
	}
}
