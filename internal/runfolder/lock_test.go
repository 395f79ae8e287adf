package runfolder_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rlinf/rlinf/internal/runfolder"
	"github.com/rlinf/rlinf/internal/test"
)

// holder is the environment variable with a folder. A child process of these tests opens the folder, and holds it until
// its standard input ends.
const holder = "RLINF_TEST_HOLD_FOLDER"

func TestMain(m *testing.M) {
	if path := os.Getenv(holder); path != "" {
		if _, err := runfolder.Open(path, "4711"); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println("held")
		bufio.NewReader(os.Stdin).ReadByte()
		return // without Close, like a killed process
	}
	os.Exit(m.Run())
}

func TestAnotherProcessIsRefusedUntilTheFirstIsDead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "results", "run")
	child, said := hold(t, path)
	if said != "held" {
		t.Fatalf("child says %q", said)
	}
	_, err := runfolder.Open(path, "")
	var busy *runfolder.BusyError
	if !errors.As(err, &busy) || busy.Owner.PID != child.Process.Pid || busy.Owner.Job != "4711" {
		t.Fatalf("got %v, want a BusyError of job 4711, process %d", err, child.Process.Pid)
	}
	for _, want := range []string{path, "job 4711", fmt.Sprintf("process %d on ", child.Process.Pid)} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not say %q", err, want)
		}
	}
	if _, said := hold(t, path); !strings.Contains(said, "in use by job 4711") {
		t.Errorf("a third process: %q", said)
	}
	test.OK(t, child.Process.Kill())
	child.Wait()
	open(t, path)
}

// After a clock was set back, a lock may be from the future. Then its job holds it exactly while the process of the job
// lives. Another process with the same PID does not count.
func TestLockFromTheFuture(t *testing.T) {
	path := t.TempDir()
	_, said := hold(t, path)
	if said != "held" {
		t.Fatalf("child says %q", said)
	}
	lock, ahead := filepath.Join(path, "lock"), time.Now().Add(time.Hour)
	test.OK(t, os.Chtimes(lock, ahead, ahead))
	if _, err := runfolder.Open(path, ""); !errors.As(err, new(*runfolder.BusyError)) {
		t.Errorf("while its owner lives: %v, expected a BusyError", err)
	}
	text, err := os.ReadFile(lock)
	test.OK(t, err)
	var owner map[string]any
	if err := json.Unmarshal(text, &owner); err != nil || owner["born"] == nil {
		t.Fatalf("lock: %s, %v", text, err)
	}
	owner["born"] = "1"
	if text, err = json.Marshal(owner); err != nil {
		t.Fatal(err)
	}
	put(t, lock, string(text), -time.Hour)
	f, err := runfolder.Open(path, "")
	test.OK(t, err, "of another process with its PID")
	test.Check(t, f.Close())

	child, said := hold(t, path)
	if said != "held" {
		t.Fatalf("child says %q", said)
	}
	test.OK(t, errors.Join(os.Chtimes(lock, ahead, ahead), child.Process.Kill()))
	child.Wait()
	open(t, path)
}

// A process that is seen to live holds its lock, however old its heartbeat: it may be stopped, or its disk slow. On
// another host, or after another boot of a host with this name, only the heartbeat counts. So it does if the start of
// the process is unknown.
func TestOldHeartbeat(t *testing.T) {
	path := t.TempDir()
	child, said := hold(t, path)
	if said != "held" {
		t.Fatalf("child says %q", said)
	}
	test.OK(t, os.WriteFile(filepath.Join(path, "STATUS"), []byte("running\n"), 0o666))
	lock := filepath.Join(path, "lock")
	text := test.Must(os.ReadFile(lock))(t)
	var owner map[string]any
	if err := json.Unmarshal(text, &owner); err != nil || owner["born"] == nil || owner["boot"] == nil {
		t.Skipf("no /proc: lock %s, %v", text, err)
	}
	for _, c := range []struct {
		name, key, value string
		age              time.Duration
		status           runfolder.Status
	}{
		{"silent for a week", "", "", 7 * 24 * time.Hour, runfolder.Running},
		{"silent since before the clock was set back", "", "", -time.Hour, runfolder.Running},
		{"another process with its PID", "born", "1", 0, runfolder.Dead},
		{"of an unknown start, silent for 50 s", "born", "", 50 * time.Second, runfolder.Running},
		{"of an unknown start, silent for 70 s", "born", "", 70 * time.Second, runfolder.Dead},
		{"of an unknown start, before the clock was set back", "born", "", -time.Hour, runfolder.Running},
		{"after another boot, silent for 50 s", "boot", "1", 50 * time.Second, runfolder.Running},
		{"after another boot, silent for 70 s", "boot", "1", 70 * time.Second, runfolder.Dead},
		{"in another container, silent for 70 s", "pids", "pid:[1]", 70 * time.Second, runfolder.Dead},
	} {
		t.Run(c.name, func(t *testing.T) {
			changed := maps.Clone(owner)
			if c.key != "" {
				changed[c.key] = c.value
			}
			text, err := json.Marshal(changed)
			test.OK(t, err)
			put(t, lock, string(text), c.age)
			if got, err := runfolder.ReadStatus(path); got != c.status || err != nil {
				t.Errorf("status %q, %v, expected %q", got, err, c.status)
			}
			f, err := runfolder.Open(path, "")
			var busy *runfolder.BusyError
			if errors.As(err, &busy) != (c.status == runfolder.Running) || busy == nil && err != nil {
				t.Errorf("opened: %v", err)
			}
			if seen := c.key == ""; busy != nil && (busy.Alive != seen || busy.Owner.PID != child.Process.Pid) {
				t.Errorf("%+v, expected process %d, seen: %v", busy, child.Process.Pid, seen)
			}
			if f != nil {
				f.Close()
			}
		})
	}
}

// A dead process whose parent has not waited for it still has its PID.
func TestZombieIsDead(t *testing.T) {
	path := t.TempDir()
	child, said := hold(t, path)
	if said != "held" {
		t.Fatalf("child says %q", said)
	}
	test.OK(t, child.Process.Kill())
	stat := fmt.Sprintf("/proc/%d/stat", child.Process.Pid)
	for {
		b, err := os.ReadFile(stat)
		if err != nil {
			t.Skipf("no /proc: %v", err)
		}
		if strings.Contains(string(b), ") Z ") {
			break
		}
	}
	open(t, path)
}

func TestLockIsFreeAfterClose(t *testing.T) {
	path := t.TempDir()
	f := test.Must(runfolder.Open(path, ""))(t)
	if _, err := runfolder.Open(path, ""); !errors.As(err, new(*runfolder.BusyError)) {
		t.Errorf("opened twice: %v", err)
	}
	test.OK(t, f.Close())
	if left := names(t, path); !slices.Equal(left, []string{".rlinf-run"}) {
		t.Errorf("left over: %v", left)
	}
	open(t, path)
}

// foreign is the lock of a job on another host.
const foreign = `{"host":"elsewhere","pid":1,"pids":"","started":"2026-01-02T03:04:05Z"}`

// A job on another host counts as dead when its heartbeat is a minute old, and no sooner. The same holds for a job that
// died while it took the lock.
func TestForeignLock(t *testing.T) {
	for _, file := range []string{"lock", "lock.claim"} {
		for _, c := range []struct {
			name, content string
			age           time.Duration
			busy          bool
		}{
			{"young", foreign, 50 * time.Second, true},
			{"old", foreign, 70 * time.Second, false},
			{"of a clock that is a little ahead", foreign, -50 * time.Second, true},
			{"from before the clock was set back", foreign, -time.Hour, false},
			{"young and unreadable", "", 50 * time.Second, true},
			{"old and unreadable", "{", 70 * time.Second, false},
		} {
			t.Run(file+" "+c.name, func(t *testing.T) {
				path := t.TempDir()
				put(t, filepath.Join(path, file), c.content, c.age)
				f, err := runfolder.Open(path, "")
				if errors.As(err, new(*runfolder.BusyError)) != c.busy {
					t.Fatalf("got %v, want busy: %v", err, c.busy)
				}
				if !c.busy {
					test.OK(t, err)
					test.Check(t, f.Close())
				}
			})
		}
	}
}

// If many jobs find a stale lock at once, only one gets the folder.
func TestOneOfManyTakesAStaleLock(t *testing.T) {
	for range 30 {
		path := t.TempDir()
		put(t, filepath.Join(path, "lock"), "{}", time.Hour)
		var all sync.WaitGroup
		start := make(chan struct{})
		folders := make([]*runfolder.Folder, 16)
		for i := range folders {
			all.Go(func() {
				<-start
				f, err := runfolder.Open(path, "")
				if err != nil && !errors.As(err, new(*runfolder.BusyError)) {
					t.Error(err)
				}
				folders[i] = f
			})
		}
		close(start)
		all.Wait()
		got := 0
		for _, f := range folders {
			if f != nil {
				got++
				test.Check(t, f.Close())
			}
		}
		if got != 1 {
			t.Fatalf("%d jobs have the folder, want one", got)
		}
	}
}

// The lock is renewed every 15 seconds, however often the job asks whether it is lost: each world of a job that moves
// does so anew.
func TestKeepAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := t.TempDir()
		f := open(t, path)
		lock, old := filepath.Join(path, "lock"), time.Unix(1_500_000_000, 0)
		f.KeepAlive(runfolder.Heartbeat)
		for world := range 300 { // 10 minutes
			if world%10 == 0 {
				test.OK(t, os.Chtimes(lock, old, old))
			}
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second) // of synctest's clock
			test.OK(t, f.Lost(ctx), "after %d worlds", world)
			cancel()
			synctest.Wait()
			if info, err := os.Stat(lock); world%10 == 9 && (err != nil || info.ModTime().Equal(old)) {
				t.Fatalf("no heartbeat in 20 s (%v)", err)
			}
		}
	})
}

// KeepAlive renews the lock at once, so that its age is that of the last heartbeat.
func TestFirstHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := t.TempDir()
		f := open(t, path)
		lock, old := filepath.Join(path, "lock"), time.Unix(1_500_000_000, 0)
		test.OK(t, os.Chtimes(lock, old, old))
		f.KeepAlive(runfolder.Heartbeat)
		synctest.Wait()
		if info, err := os.Stat(lock); err != nil || info.ModTime().Equal(old) {
			t.Errorf("no heartbeat (%v)", err)
		}
	})
}

func TestALostLockIsNoticed(t *testing.T) {
	for _, c := range []struct {
		name string
		lose func(t *testing.T, path string)
		want string
	}{
		{"removed", func(t *testing.T, path string) {
			test.OK(t, os.Remove(filepath.Join(path, "lock")))
		}, "the file lock is gone"},
		{"taken over", func(t *testing.T, path string) {
			put(t, filepath.Join(path, "lock"), foreign, 2*time.Minute)
			test.Must(runfolder.Open(path, "99"))(t)
		}, "taken over by job 99"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				path := t.TempDir()
				f := test.Must(runfolder.Open(path, ""))(t)
				f.KeepAlive(runfolder.Heartbeat)
				synctest.Wait()
				c.lose(t, path)
				for range 2 { // in each world of the job
					test.Fails(t, f.Lost(t.Context()), c.want)
				}
				if err := f.Close(); err == nil {
					t.Error("Close gave a lock free that was lost")
				}
			})
		})
	}
}

// hold starts a child that opens path. It returns the child and its output.
func hold(t *testing.T, path string) (*exec.Cmd, string) {
	t.Helper()
	self := test.Must(os.Executable())(t)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), holder+"="+path)
	in := test.Must(cmd.StdinPipe())(t)
	out := test.Must(cmd.StdoutPipe())(t)
	test.OK(t, cmd.Start())
	t.Cleanup(func() { in.Close(); cmd.Wait() })
	line := test.Must(bufio.NewReader(out).ReadString('\n'))(t)
	return cmd, strings.TrimSpace(line)
}

// put writes a file whose modification time is age ago.
func put(t *testing.T, path, content string, age time.Duration) {
	t.Helper()
	test.OK(t, os.WriteFile(path, []byte(content), 0o666))
	at := time.Now().Add(-age)
	test.OK(t, os.Chtimes(path, at, at))
}

func open(t *testing.T, path string) *runfolder.Folder {
	t.Helper()
	f := test.Must(runfolder.Open(path, ""))(t)
	t.Cleanup(func() {
		test.Check(t, f.Close())
	})
	return f
}

// A run with the status running is dead if no job has its lock, or if the job with the lock died.
func TestReadStatusOfADeadRun(t *testing.T) {
	dir := t.TempDir()
	f := test.Must(runfolder.Open(dir, ""))(t)
	status := func(want runfolder.Status, when string) {
		t.Helper()
		if got, err := runfolder.ReadStatus(dir); got != want || err != nil {
			t.Errorf("%s: %q, %v, want %q", when, got, err, want)
		}
	}
	lock := filepath.Join(dir, "lock")
	age := func(d time.Duration) {
		t.Helper()
		test.OK(t, os.Chtimes(lock, time.Now(), time.Now().Add(-d)))
	}
	test.OK(t, f.SetStatus(runfolder.Running))
	status(runfolder.Running, "while it runs")
	age(30 * time.Second)
	status(runfolder.Running, "between two heartbeats")
	age(2 * time.Hour)
	status(runfolder.Running, "silent for two hours, but seen")
	age(0)
	text := test.Must(os.ReadFile(lock))(t)
	for when, owner := range map[string]string{
		"its process is gone": strings.Replace(string(text), fmt.Sprintf(`"pid":%d`, os.Getpid()), `"pid":0`, 1),
		"on another host":     `{"host": "elsewhere", "pid": 1}`,
	} {
		test.OK(t, os.WriteFile(lock, []byte(owner), 0o666))
		want := runfolder.Dead
		if when == "on another host" { // this host cannot see processes of another host
			want = runfolder.Running
		}
		status(want, when)
	}
	test.OK(t, os.Remove(lock))
	status(runfolder.Dead, "without a lock")
	test.OK(t, runfolder.Mark(dir, runfolder.Failed))
	status(runfolder.Failed, "marked by another rank")
}
