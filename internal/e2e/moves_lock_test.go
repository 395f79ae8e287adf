package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rlinf/rlinf/internal/runfolder"
)

// TestMovesKeepTheLock: a job that moves every two seconds for ten minutes keeps the lock of its folder. Each minute a
// second start of the run is refused, also from another PID namespace, which sees only the heartbeat. The job has the
// metrics and the last checkpoint of a job that does not move. TestLockOfAWanderer of roles/session is a sample.
func TestMovesKeepTheLock(t *testing.T) {
	t.Parallel()
	if !full {
		t.Skip("300 moves, one every two seconds, take ten minutes: RLINF_TEST_FULL=1")
	}
	const most, between, perStart = 300, 2 * time.Second, 30
	apart := []string{"unshare", "--pid", "--fork", "--mount-proc"}
	if err := exec.Command(apart[0], append(apart[1:], "true")...).Run(); err != nil {
		t.Logf("no second start from another PID namespace, which needs root: %v", err)
		apart = nil
	}
	for _, on := range platforms[:2] {
		t.Run(on.name, func(t *testing.T) {
			t.Parallel()
			on.program(t, ".") // or skip the test
			n, draw := nomads()[0], draws(t, 0)
			c, start := newCamp(t, n), n.place(draw)
			folder, rare := c.folder("run"), []string{"runner.save_interval=-1", "runner.val_check_interval=-1"}
			j := c.start(t, on, "run", start, append(rare, steps(1_000_000), "++env.train.step_delay=20ms")...)
			asked, next, place := 0, time.Now(), start
			w := j.walk(folder, func() string {
				if status, err := runfolder.ReadStatus(folder); asked > 0 && status != runfolder.Running {
					t.Errorf("after %d moves: status %q, %v", asked, status, err)
				}
				if lock, err := os.Stat(filepath.Join(folder, "lock")); err != nil {
					t.Error(err)
				} else if age := time.Since(lock.ModTime()); age > 45*time.Second {
					t.Errorf("after %d moves: the last heartbeat was %v ago", asked, age)
				}
				if asked == most {
					return ""
				}
				if asked++; asked%perStart == 0 {
					var above []string
					if asked%(2*perStart) == 0 {
						above = apart
					}
					r := c.startBelow(t, above, on, "run", start, append(rare, steps(1_000_000))...).result()
					if r.code != 2 || !strings.Contains(r.stderr, ": in use by process ") {
						t.Errorf("second start after %d moves: exit code %d, expected 2\n%s%s", asked, r.code, r.stdout,
							r.stderr)
					}
				}
				next = next.Add(between)
				time.Sleep(time.Until(next))
				for last := place; place == last; {
					place = n.place(draw)
				}
				return place
			})
			<-w.ended
			j.signal(syscall.SIGUSR1)
			r := j.result()
			if !on.stopped(r.code, 75) || w.made.Load() != most || len(w.refused) > 0 {
				t.Fatalf("exit code %d, %d moves, refused %q\n%s%s", r.code, w.made.Load(), w.refused, r.stdout,
					r.stderr)
			}
			done := len(readMetrics(t, folder))
			t.Logf("%d moves in %d steps", w.made.Load(), done)
			c.settle(t, start, append(rare, fmt.Sprint("runner.max_steps=", done))...)(t, "run")
		})
	}
}
