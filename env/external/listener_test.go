package external

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestSilentConnections: of many that do not greet few take a thread each, and who greets comes in once they are gone.
func TestSilentConnections(t *testing.T) {
	threads := func() int { // that are taken: those that idle may be taken again
		sample := []metrics.Sample{{Name: "/sched/goroutines/not-in-go:goroutines"}}
		metrics.Read(sample)
		return int(sample[0].Value.Uint64())
	}
	hub := NewHub(io.Discard, 0)
	path := filepath.Join(t.TempDir(), "s")
	l, err := hub.listen("unix:"+path, "", 0)
	if err != nil {
		t.Fatal(err)
	}
	dial := func() net.Conn {
		conn, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		return conn
	}
	before, most := threads(), 0
	var silent []net.Conn
	for range 4 * maxGreeting {
		silent = append(silent, dial())
	}
	for range 30 {
		time.Sleep(10 * time.Millisecond)
		most = max(most, threads()-before)
	}
	if most < maxGreeting/2 || most > maxGreeting+maxGreeting/2 {
		t.Errorf("%d silent connections take %d threads, want some %d", len(silent), most, maxGreeting)
	}
	for _, conn := range silent {
		conn.Close()
	}
	conn := dial()
	defer conn.Close()
	conn.Write(frame(header{kind: hello}, []byte(`{"v":1,"name":"a","obs":[{"name":"x","kind":"discrete","n":2}],"action":{"kind":"discrete","n":2}}`), nil))
	select {
	case c := <-l.queue:
		c.close(true)
	case <-time.After(20 * time.Second):
		t.Error("who greets does not come in")
	}
	for i := range 2 * maxGreeting { // it ends while no more are accepted
		silent[i] = dial()
	}
	began := time.Now()
	if err := l.close(); err != nil || time.Since(began) > greetingTime/2 {
		t.Errorf("close: %v after %v", err, time.Since(began))
	}
	for _, conn := range silent {
		conn.Close()
	}
	for threads() > before {
		if time.Sleep(time.Millisecond); time.Since(began) > greetingTime {
			t.Fatalf("%d threads are taken still, %d before", threads(), before)
		}
	}
}

// TestOtherUser: a Unix socket is there for its owner alone from the beginning, and a program of another user that still gets through is refused.
func TestOtherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("it needs root, to connect as another user")
	}
	other := anotherUser(t)
	if other == 0 {
		t.Skip("it needs a user besides root, and this user namespace has none (/proc/self/uid_map)")
	}
	t.Chdir(t.TempDir()) // others may not get here by a path
	old := syscall.Umask(0)
	defer syscall.Umask(old)
	log := make(lines, 1)
	l, err := NewHub(log, 0).listen("unix:s", "", 0)
	if err != nil {
		t.Fatal(err)
	}
	connect := func() (err error) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			runtime.LockOSThread() // never unlocked: the thread that is of another user ends with the goroutine
			if _, _, no := syscall.RawSyscall(syscall.SYS_SETRESUID, other, other, other); no != 0 {
				err = no
				return
			}
			fd, e := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
			if e != nil {
				err = e
				return
			}
			defer unix.Close(fd)
			if err = unix.Connect(fd, &unix.SockaddrUnix{Name: "s"}); err == nil {
				unix.Read(fd, make([]byte, 1)) // until it is closed
			}
		}()
		<-done
		return err
	}
	if info, err := os.Stat("s"); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("the socket's file: %v, %v, want mode 0600", info.Mode(), err)
	}
	if err := connect(); err != unix.EACCES {
		t.Fatalf("another user connects: %v, want %v", err, unix.EACCES)
	}
	if err := os.Chmod("s", 0o666); err != nil {
		t.Fatal(err)
	}
	if err := connect(); err != nil {
		t.Fatal(err)
	}
	if err := l.close(); err != nil {
		t.Error(err)
	}
	want := fmt.Sprintf("child at s: refused: process %d is of user %d, expected one of user 0 or of root\n", os.Getpid(), other)
	if got := <-log; got != want {
		t.Errorf("the log has %q, want %q", got, want)
	}
}

// anotherUser returns a user of this user namespace who is not root, nobody if there is nobody; 0: there is none.
func anotherUser(t *testing.T) uintptr {
	users, err := os.ReadFile("/proc/self/uid_map")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(users)) {
		var first, outside, count uintptr
		if _, err := fmt.Sscan(line, &first, &outside, &count); err != nil {
			t.Fatalf("/proc/self/uid_map: %q: %v", line, err)
		}
		const nobody = 65534
		if user := max(first, min(first+count-1, nobody)); user != 0 {
			return user
		}
	}
	return 0
}

// Lines are what was written, line by line.
type lines chan string

func (l lines) Write(p []byte) (int, error) {
	l <- string(p)
	return len(p), nil
}

// TestMakeRoom: what a job that was killed left where a socket is to be gives way, and nothing else does.
func TestMakeRoom(t *testing.T) {
	socket := func(path string, kind int) int {
		fd, err := unix.Socket(unix.AF_UNIX, kind|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
		if err == nil {
			t.Cleanup(func() { unix.Close(fd) })
			err = unix.Bind(fd, &unix.SockaddrUnix{Name: path})
		}
		if err != nil {
			t.Fatal(err)
		}
		return fd
	}
	for name, c := range map[string]struct {
		put  func(path string) error
		says string // "": it gives way
	}{
		"nothing":        {func(string) error { return nil }, ""},
		"nobody listens": {func(path string) error { socket(path, unix.SOCK_STREAM); return nil }, ""},
		"a file":         {func(path string) error { return os.WriteFile(path, nil, 0o600) }, "there is a file that is no socket (-rw-------)"},
		"a directory":    {func(path string) error { return os.Mkdir(path, 0o700) }, "there is a file that is no socket (drwx------)"},
		"a link": {func(path string) error {
			socket(path+".to", unix.SOCK_STREAM)
			return os.Symlink(path+".to", path)
		}, "there is a file that is no socket (Lrwxrwxrwx)"},
		"somebody listens": {func(path string) error { return unix.Listen(socket(path, unix.SOCK_STREAM), 1) }, "another job listens there"},
		"somebody listens to too many": {func(path string) error {
			fd := socket(path, unix.SOCK_STREAM)
			if err := unix.Listen(fd, 0); err != nil {
				return err
			}
			conn, err := net.Dial("unix", path)
			if err == nil {
				t.Cleanup(func() { conn.Close() })
			}
			return err
		}, "there is a socket that may be another job's ("},
		"datagrams": {func(path string) error { socket(path, unix.SOCK_DGRAM); return nil }, "there is a socket that may be another job's ("},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "s")
			if err := c.put(path); err != nil {
				t.Fatal(err)
			}
			l, err := NewHub(io.Discard, 0).listen("unix:"+path, "", 0)
			if err == nil {
				err = l.close()
			} else if _, gone := os.Lstat(path); gone != nil {
				t.Error(gone)
			}
			if (err == nil) != (c.says == "") || err != nil && !strings.HasPrefix(err.Error(), path+": "+c.says) {
				t.Errorf("%v, want %q", err, c.says)
			}
		})
	}
}

// TestSplitAddress: ranks listen each at an address of their own, and what is none is said.
func TestSplitAddress(t *testing.T) {
	long := strings.Repeat("x", 105)
	for _, tt := range []struct {
		address string
		rank    int
		want    string
	}{
		{"unix:/tmp/s", 0, "unix /tmp/s"}, {"unix:/tmp/s", 3, "unix /tmp/s.3"}, {"tcp:node7:5000", 3, "tcp node7:5003"}, {"tcp::5000", 0, "tcp 127.0.0.1:5000"},
		{"unix:", 0, `"unix:": the path of the socket, "", has 0 bytes, expected 1 to 107`}, {"unix:" + long, 9, "unix " + long + ".9"},
		{"unix:" + long, 10, "has 108 bytes, expected 1 to 107"}, {"tcp:node7:65535", 1, `port "65535", expected a number from 1 to 65534`},
		{"unix:@s", 0, `"unix:@s": the path of the socket, "@s", begins with @, expected ./@ for a file of this name`}, {"unix:./@s", 0, "unix ./@s"},
		{"tcp:5000", 0, `"tcp:5000": address 5000: missing port in address, expected tcp:host:port`},
	} {
		network, at, err := splitAddress(tt.address, tt.rank)
		if got := network + " " + at; err == nil && got != tt.want || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s on rank %d: %s, %v, want %s", tt.address, tt.rank, got, err, tt.want)
		}
	}
}

// TestSecret: ranks that make a token file at the same time have the same secret, and nobody else may read it.
func TestSecret(t *testing.T) {
	for range 50 {
		dir := t.TempDir()
		file := filepath.Join(dir, "token")
		var secrets [8]string
		var ranks sync.WaitGroup
		for i := range secrets {
			ranks.Go(func() {
				var err error
				if secrets[i], err = secret(file); err != nil {
					t.Error(err)
				}
			})
		}
		ranks.Wait()
		for _, s := range secrets {
			if len(s) != 64 || s != secrets[0] {
				t.Fatalf("secrets %q", secrets)
			}
		}
		info, err := os.Stat(file)
		left, _ := os.ReadDir(dir)
		if err != nil || info.Mode().Perm() != 0o600 || len(left) != 1 {
			t.Fatalf("%v, mode %v, %d files", err, info.Mode(), len(left))
		}
	}
}
