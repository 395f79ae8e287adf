package runfolder_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rlinf/rlinf/internal/runfolder"
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
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
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
	if err := os.Chtimes(lock, ahead, ahead); err != nil {
		t.Fatal(err)
	}
	if _, err := runfolder.Open(path, ""); !errors.As(err, new(*runfolder.BusyError)) {
		t.Errorf("while its owner lives: %v, expected a BusyError", err)
	}
	text, err := os.ReadFile(lock)
	if err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatalf("of another process with its PID: %v", err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}

	child, said := hold(t, path)
	if said != "held" {
		t.Fatalf("child says %q", said)
	}
	if err := errors.Join(os.Chtimes(lock, ahead, ahead), child.Process.Kill()); err != nil {
		t.Fatal(err)
	}
	child.Wait()
	open(t, path)
}

// A dead process whose parent has not waited for it still has its PID.
func TestZombieIsDead(t *testing.T) {
	path := t.TempDir()
	child, said := hold(t, path)
	if said != "held" {
		t.Fatalf("child says %q", said)
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
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
	f, err := runfolder.Open(path, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := runfolder.Open(path, ""); !errors.As(err, new(*runfolder.BusyError)) {
		t.Errorf("opened twice: %v", err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(path); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
	open(t, path)
}

// A job on another host counts as dead when its heartbeat is a minute old, and no sooner. The same holds for a job that
// died while it took the lock.
func TestForeignLock(t *testing.T) {
	const foreign = `{"host":"elsewhere","pid":1,"pids":"","started":"2026-01-02T03:04:05Z"}`
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
					if err != nil {
						t.Fatal(err)
					}
					if err := f.Close(); err != nil {
						t.Error(err)
					}
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
				if err := f.Close(); err != nil {
					t.Error(err)
				}
			}
		}
		if got != 1 {
			t.Fatalf("%d jobs have the folder, want one", got)
		}
	}
}

func TestKeepAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := t.TempDir()
		f := open(t, path)
		lock := filepath.Join(path, "lock")
		ctx, cancel := context.WithCancel(t.Context())
		result := make(chan error, 1)
		go func() { result <- f.KeepAlive(ctx) }()

		for range 3 {
			old := time.Unix(1_500_000_000, 0)
			if err := os.Chtimes(lock, old, old); err != nil {
				t.Fatal(err)
			}
			time.Sleep(16 * time.Second) // of synctest's clock
			synctest.Wait()
			if info, err := os.Stat(lock); err != nil || info.ModTime().Equal(old) {
				t.Errorf("no heartbeat in 16 s (%v)", err)
			}
		}
		cancel()
		if err := <-result; err != nil {
			t.Errorf("after the end of ctx: %v", err)
		}
	})
}

func TestKeepAliveNoticesALostLock(t *testing.T) {
	for _, c := range []struct {
		name string
		lose func(t *testing.T, path string)
		want string
	}{
		{"removed", func(t *testing.T, path string) {
			if err := os.Remove(filepath.Join(path, "lock")); err != nil {
				t.Fatal(err)
			}
		}, "the file lock is gone"},
		{"taken over", func(t *testing.T, path string) {
			old := time.Unix(1_500_000_000, 0)
			if err := os.Chtimes(filepath.Join(path, "lock"), old, old); err != nil {
				t.Fatal(err)
			}
			if _, err := runfolder.Open(path, "99"); err != nil {
				t.Fatal(err)
			}
		}, "taken over by job 99"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				path := t.TempDir()
				f, err := runfolder.Open(path, "")
				if err != nil {
					t.Fatal(err)
				}
				c.lose(t, path)
				if err := f.KeepAlive(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("got %v, want %q", err, c.want)
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
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), holder+"="+path)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return cmd, strings.TrimSpace(line)
}

// put writes a file whose modification time is age ago.
func put(t *testing.T, path, content string, age time.Duration) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o666); err != nil {
		t.Fatal(err)
	}
	at := time.Now().Add(-age)
	if err := os.Chtimes(path, at, at); err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, path string) *runfolder.Folder {
	t.Helper()
	f, err := runfolder.Open(path, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

// A run with the status running is dead if no job has its lock, or if the job with the lock died or had no heartbeat
// for a minute.
func TestReadStatusOfADeadRun(t *testing.T) {
	dir := t.TempDir()
	f, err := runfolder.Open(dir, "")
	if err != nil {
		t.Fatal(err)
	}
	status := func(want runfolder.Status, when string) {
		t.Helper()
		if got, err := runfolder.ReadStatus(dir); got != want || err != nil {
			t.Errorf("%s: %q, %v, want %q", when, got, err, want)
		}
	}
	lock := filepath.Join(dir, "lock")
	age := func(d time.Duration) {
		t.Helper()
		if err := os.Chtimes(lock, time.Now(), time.Now().Add(-d)); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.SetStatus(runfolder.Running); err != nil {
		t.Fatal(err)
	}
	status(runfolder.Running, "while it runs")
	age(30 * time.Second)
	status(runfolder.Running, "between two heartbeats")
	age(2 * time.Minute)
	status(runfolder.Dead, "silent for two minutes")
	age(0)
	text, err := os.ReadFile(lock)
	if err != nil {
		t.Fatal(err)
	}
	for when, owner := range map[string]string{
		"its process is gone": strings.Replace(string(text), fmt.Sprintf(`"pid":%d`, os.Getpid()), `"pid":0`, 1),
		"on another host":     `{"host": "elsewhere", "pid": 1}`,
	} {
		if err := os.WriteFile(lock, []byte(owner), 0o666); err != nil {
			t.Fatal(err)
		}
		want := runfolder.Dead
		if when == "on another host" { // this host cannot see processes of another host
			want = runfolder.Running
		}
		status(want, when)
	}
	if err := os.Remove(lock); err != nil {
		t.Fatal(err)
	}
	status(runfolder.Dead, "without a lock")
	if err := runfolder.Mark(dir, runfolder.Failed); err != nil {
		t.Fatal(err)
	}
	status(runfolder.Failed, "marked by another rank")
}
