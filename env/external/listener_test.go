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

	"github.com/rlinf/rlinf/internal/test"
)

// greetingWith returns a greeting with this token and this language.
func greetingWith(token string) []byte {
	return fmt.Appendf(nil, `{"v":1,"token":%q,"name":"a","lang":"stranger",`+
		`"obs":[{"name":"x","kind":"discrete","n":2}],"action":{"kind":"discrete","n":2}}`, token)
}

// takenThreads returns the number of threads that are blocked outside of Go code. It does not count idle threads.
func takenThreads() int {
	sample := []metrics.Sample{{Name: "/sched/goroutines/not-in-go:goroutines"}}
	metrics.Read(sample)
	return int(sample[0].Value.Uint64())
}

// listenTCP returns a listener for simulators with the token, which writes into log, and its address.
func listenTCP(t *testing.T, log io.Writer, token string) (l *listener, address string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "token")
	test.OK(t, os.WriteFile(file, []byte(token+"\n"), 0o600))
	free := test.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	address = free.Addr().String()
	free.Close()
	l = test.Must(NewHub(log, 0).listen("tcp:"+address, file))(t)
	return l, address
}

// connect connects to the address and sends these bytes.
func connect(t *testing.T, address string, sends []byte) net.Conn {
	t.Helper()
	conn := test.Must(net.Dial("tcp", address))(t)
	if sends != nil {
		conn.Write(sends)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// TestStrangers: connections that send no greeting with the token keep no simulator out, take no thread each, and
// cannot write into the log.
func TestStrangers(t *testing.T) {
	const silent, slow, noise = 2000, 70, "\x1b]0;mine\a stranger"
	const most = 4 * (silent + slow)
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil || files.Cur < most {
		t.Skipf("it needs %d open files, and this process may have %d (ulimit -n): %v", most, files.Cur, err)
	}
	var log strings.Builder
	l, address := listenTCP(t, &log, "open sesame")
	said := frame(header{kind: logLine}, []byte(noise), nil)
	for _, sends := range [][]byte{
		said, frame(header{kind: failure}, []byte(noise), nil), []byte("GET /" + noise + " HTTP/1.1\r\n\r\n"),
		frame(header{kind: hello}, []byte(noise), nil),
		frame(header{kind: hello}, greetingWith("open stranger"), nil), {},
	} {
		conn := connect(t, address, sends)
		if len(sends) == 0 {
			conn.(*net.TCPConn).CloseWrite()
		}
		conn.Read(make([]byte, 1)) // waits until the listener refuses the connection
	}
	before := takenThreads()
	for i := range silent + slow {
		var sends []byte
		if i%(silent/slow) == 0 {
			sends = said[:i/(silent/slow)%len(said)] // the rest is never sent
		}
		connect(t, address, sends)
	}
	began := time.Now()
	connect(t, address, frame(header{kind: hello}, greetingWith("open sesame"), nil))
	select {
	case c := <-l.queue:
		t.Logf("accepted after %v", time.Since(began))
		c.close(true)
	case <-time.After(20 * time.Second):
		t.Error("a simulator does not come in")
	}
	if more := takenThreads() - before; more > 50 {
		t.Errorf("strangers take %d threads", more)
	}
	test.Check(t, l.close())
	loggedStrangers(t, log.String())
}

// loggedStrangers checks that the log has the reasons of refusals in few lines, and no bytes that strangers sent.
func loggedStrangers(t *testing.T, text string) {
	t.Helper()
	if strings.Contains(text, "stranger") || strings.Contains(text, "\x1b") {
		t.Errorf("the log has what strangers sent: %.2000q", text)
	}
	for _, want := range []string{
		"refused: its first frame is not HELLO\n",
		"refused: greeting: wrong token\n",
		"refused: it exited before the handshake",
		"refused: no greeting in 500ms, and 1024 connections wait that have not greeted",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the log lacks %q: %.2000q", want, text)
		}
	}
	if n := strings.Count(text, "\n"); n > manyRefusals+12 {
		t.Errorf("%d lines for strangers", n)
	}
}

// TestOtherUser: only its owner may connect to a Unix socket, from the moment that the socket exists. A program of
// another user that connects nevertheless is refused.
func TestOtherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("it needs root, to connect as another user")
	}
	other := anotherUser(t)
	if other == 0 {
		t.Skip("it needs a user besides root, and this user namespace has none (/proc/self/uid_map)")
	}
	t.Chdir(t.TempDir()) // other users cannot reach this folder by its path
	old := syscall.Umask(0)
	defer syscall.Umask(old)
	log := make(lines, 1)
	l := test.Must(NewHub(log, 0).listen("unix:s", ""))(t)
	connect := func() (err error) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			runtime.LockOSThread() // never unlocked, so the thread with another user ends with the goroutine
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
				unix.Read(fd, make([]byte, 1)) // waits until the connection is closed
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
	test.OK(t, os.Chmod("s", 0o666))
	test.OK(t, connect())
	test.Check(t, l.close())
	want := fmt.Sprintf("simulator at s: refused: process %d is of user %d, expected one of user 0 or of root\n",
		os.Getpid(), other)
	if got := <-log; got != want {
		t.Errorf("the log has %q, want %q", got, want)
	}
}

// anotherUser returns the number of a user other than root in this user namespace, preferably nobody; 0: there is none.
func anotherUser(t *testing.T) uintptr {
	users := test.Must(os.ReadFile("/proc/self/uid_map"))(t)
	for line := range strings.Lines(string(users)) {
		var first, outside, count uintptr
		test.OK(t, test.Err(fmt.Sscan(line, &first, &outside, &count)), "/proc/self/uid_map: %q", line)
		const nobody = 65534
		if user := max(first, min(first+count-1, nobody)); user != 0 {
			return user
		}
	}
	return 0
}

// Lines returns the written lines.
type lines chan string

func (l lines) Write(p []byte) (int, error) {
	l <- string(p)
	return len(p), nil
}

// bound returns a Unix socket that is bound to path.
func bound(t *testing.T, path string, kind int) int {
	t.Helper()
	fd, err := unix.Socket(unix.AF_UNIX, kind|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		t.Cleanup(func() { unix.Close(fd) })
		err = unix.Bind(fd, &unix.SockaddrUnix{Name: path})
	}
	test.OK(t, err)
	return fd
}

// TestMakeRoom: a listener replaces the socket of a killed job, and no other file.
func TestMakeRoom(t *testing.T) {
	for name, c := range map[string]struct {
		put  func(path string) error
		says string // the error; "": the file is replaced
	}{
		"nothing":        {func(string) error { return nil }, ""},
		"nobody listens": {func(path string) error { bound(t, path, unix.SOCK_STREAM); return nil }, ""},
		"a file": {func(path string) error {
			return os.WriteFile(path, nil, 0o600)
		}, "there is a file that is no socket (-rw-------)"},
		"a directory": {func(path string) error {
			return os.Mkdir(path, 0o700)
		}, "there is a file that is no socket (drwx------)"},
		"a link": {func(path string) error {
			bound(t, path+".to", unix.SOCK_STREAM)
			return os.Symlink(path+".to", path)
		}, "there is a file that is no socket (Lrwxrwxrwx)"},
		"somebody listens": {func(path string) error {
			return unix.Listen(bound(t, path, unix.SOCK_STREAM), 1)
		}, "another job listens there"},
		"somebody listens to too many": {func(path string) error {
			fd := bound(t, path, unix.SOCK_STREAM)
			if err := unix.Listen(fd, 0); err != nil {
				return err
			}
			conn, err := net.Dial("unix", path)
			if err == nil {
				t.Cleanup(func() { conn.Close() })
			}
			return err
		}, "there is a socket that may be another job's ("},
		"datagrams": {func(path string) error {
			bound(t, path, unix.SOCK_DGRAM)
			return nil
		}, "there is a socket that may be another job's ("},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "s")
			test.OK(t, c.put(path))
			l, err := NewHub(io.Discard, 0).listen("unix:"+path, "")
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

// TestSplitAddress: each rank has an address of its own, and an invalid address is an error.
func TestSplitAddress(t *testing.T) {
	long := strings.Repeat("x", 105)
	for _, tt := range []struct {
		address string
		rank    int
		want    string
	}{
		{"unix:/tmp/s", 0, "unix /tmp/s"}, {"unix:/tmp/s", 3, "unix /tmp/s.3"}, {"tcp:node7:5000", 3, "tcp node7:5003"},
		{"tcp::5000", 0, "tcp 127.0.0.1:5000"},
		{"unix:", 0, `"unix:": the path of the socket, "", has 0 bytes, expected 1 to 107`},
		{"unix:" + long, 9, "unix " + long + ".9"},
		{"unix:" + long, 10, "has 108 bytes, expected 1 to 107"},
		{"tcp:node7:65535", 1, `port "65535", expected a number from 1 to 65534`},
		{"unix:@s", 0, `"unix:@s": the path of the socket, "@s", begins with @, expected ./@ for a file of this name`},
		{"unix:./@s", 0, "unix ./@s"},
		{"tcp:5000", 0, `"tcp:5000": address 5000: missing port in address, expected tcp:host:port`},
	} {
		network, at, err := splitAddress(tt.address, tt.rank)
		if got := network + " " + at; err == nil && got != tt.want ||
			err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s on rank %d: %s, %v, want %s", tt.address, tt.rank, got, err, tt.want)
		}
	}
}

// TestSecret: ranks that make a token file at the same time get the same secret. Only the owner may read the file.
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

// TestLooseSecret: a token file that other users can read or change is refused. So is a path that is no regular file,
// without a wait.
func TestLooseSecret(t *testing.T) {
	dir := t.TempDir()
	file, fifo := filepath.Join(dir, "token"), filepath.Join(dir, "fifo")
	test.OK(t, os.WriteFile(file, []byte("open sesame\n"), 0o600))
	test.OK(t, unix.Mkfifo(fifo, 0o600))
	for mode, want := range map[os.FileMode]string{0o600: "", 0o400: "", 0o640: "chmod 600", 0o604: "chmod 600",
		0o620: "chmod 600"} {
		test.OK(t, os.Chmod(file, mode))
		t.Setenv("RLB_TOKEN_FILE", file)
		line, err := secret(file)
		token, childs := Token()
		if fmt.Sprint(err == nil, childs == nil) != fmt.Sprint(want == "", want == "") ||
			want == "" && (line != "open sesame" || token != line) ||
			err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("mode %v: %q, %v; of a child %q, %v; expected an error with %q", mode, line, err, token, childs,
				want)
		}
	}
	for _, name := range []string{fifo, "/dev/zero", dir} {
		test.Fails(t, test.Err(secret(name)), "it is no file", "%s", name)
	}
}
