package e2e

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/rlinf/rlinf/internal/runfolder"
	"github.com/rlinf/rlinf/internal/test"
)

// An illness is a failure of the disk, and the error of a run on that disk.
type illness struct {
	name   string
	strike func(t *testing.T, logs string) (cure func())
	says   string
	status runfolder.Status
}

var illnesses = []illness{
	{"full", func(t *testing.T, logs string) func() {
		filler := filepath.Join(logs, "filler")
		f, err := os.Create(filler)
		test.OK(t, err)
		for err == nil {
			_, err = f.Write(make([]byte, 1<<12))
		}
		f.Close()
		return func() { os.Remove(filler) }
	}, "no space left on device", runfolder.Failed},
	{"no inodes", func(t *testing.T, logs string) func() {
		fillers := filepath.Join(logs, "fillers")
		err := os.Mkdir(fillers, 0o777)
		for i := 0; err == nil; i++ {
			err = os.WriteFile(filepath.Join(fillers, strconv.Itoa(i)), nil, 0o666)
		}
		return func() { os.RemoveAll(fillers) }
	}, "no space left on device", runfolder.Failed},
	{"read-only", func(t *testing.T, logs string) func() {
		run := filepath.Join(logs, "run")
		test.OK(t, syscall.Mount(run, run, "", syscall.MS_BIND, ""))
		err := syscall.EBUSY // the error while a file is open for writing
		for err == syscall.EBUSY {
			err, _ = syscall.Mount("", run, "", syscall.MS_BIND|syscall.MS_REMOUNT|syscall.MS_RDONLY,
				"").(syscall.Errno)
		}
		if err != 0 {
			t.Fatal(err)
		}
		return func() { syscall.Unmount(run, syscall.MNT_DETACH) }
	}, "read-only file system", runfolder.Dead},
}

// TestIllDisk: if the disk is full or becomes read-only at any instant, the run fails and says so, and STATUS says that
// it failed. Once the disk works again the run can be resumed, and has the metrics of an undisturbed run.
func TestIllDisk(t *testing.T) {
	t.Parallel()
	const slow = "env.train.step_delay=1ms"
	n := 8
	if full {
		n = 30
	}
	for i, ill := range illnesses {
		t.Run(ill.name, func(t *testing.T) {
			t.Parallel()
			task := 2 * i % len(tasks)
			want := undisturbed(t, task, 2, n)
			for instant := range repeats() {
				c := newCourse(t, task)
				logs := filepath.Join(c.dir, "logs")
				test.OK(t, os.Mkdir(logs, 0o777))
				if err := syscall.Mount("tmpfs", logs, "tmpfs", 0, "size=16m,nr_inodes=1000"); err != nil {
					t.Skipf("mounting a small tmpfs needs root: %v", err)
				}
				t.Cleanup(func() { syscall.Unmount(logs, syscall.MNT_DETACH) })
				on := platforms[(i+instant)%len(platforms)]
				np, cluster := placements[3].place(2)
				if !full {
					on = local
				}
				j := c.start(on, np, cluster, steps(n), slow)
				poll(t, j, func() bool { return len(c.metrics()) > instant })
				cure := ill.strike(t, logs)
				r := j.result()
				status, err := statusAtEnd(c.folder())
				if (r.code != 1 && on == local) || r.code == 0 || !strings.Contains(r.stderr, ill.says) ||
					status != ill.status || err != nil {
					t.Errorf("%s, after %d steps: exit code %d, status %s, %v, expected %s and %q\n%s", on.name,
						instant+1, r.code, status, err, ill.status, ill.says, r.stderr)
				}
				cure()
				again := c.ok(on, np, cluster, steps(n), slow, "--resume", "auto")
				if diff := c.metrics().diff(want); diff != "" &&
					!strings.Contains(again.stderr, "lacks the metrics of step") {
					t.Errorf("%s, after %d steps: not the metrics of the undisturbed run:\n%s%s", on.name, instant+1,
						diff, r.stderr)
				}
				test.Equal(t, c.status(), "done", "STATUS")
				if err := syscall.Unmount(logs, 0); err != nil && !errors.Is(err, syscall.EINVAL) {
					t.Error(err)
				}
			}
		})
	}
}
