package programs

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rlinf/rlinf/internal/test"
)

var entry Entered

// The test program also serves as a supervisor, and as a parent that the test kills.
func TestMain(m *testing.M) {
	entry = Enter()
	if script, ok := strings.CutPrefix(os.Args[len(os.Args)-1], "parent of "); ok {
		cmd := exec.Command("sh", "-c", script)
		cmd.ExtraFiles = []*os.File{os.NewFile(3, "signs")}
		if strings.HasPrefix(script, "exec") { // such a script has no children, and needs no supervisor
			entry = Entered{}
		}
		if p, err := entry.NewStarter().Start(cmd); err == nil {
			if strings.HasPrefix(script, "trap") {
				p.StopFirst(time.Minute)
				cmd.ExtraFiles[0].WriteString("ready\n")
			}
			select {}
		}
	}
	os.Exit(m.Run())
}

// family is a program with four descendants: a child, a child that called setsid, one that was forked twice, and one
// that did both. Each writes a sign of life.
const family = `me='echo . >&3; exec sleep 1000'
sh -c "$me" & setsid sh -c "$me" & (sh -c "$me" &) & (setsid sh -c "$me" &) & echo . >&3; wait`

// signs returns the ends of a pipe that a family writes to.
func signs(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	test.OK(t, err)
	t.Cleanup(func() { r.Close(); w.Close() })
	r.SetReadDeadline(time.Now().Add(time.Minute))
	return r, w
}

// alive waits until a whole family lives.
func alive(t *testing.T, r *os.File) {
	t.Helper()
	if _, err := io.ReadFull(r, make([]byte, 2*5)); err != nil {
		t.Fatalf("signs of life: %v", err)
	}
}

// gone waits until no process has the other end of r.
func gone(t *testing.T, r *os.File) {
	t.Helper()
	if _, err := r.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("%v, expected the end of all that the program has started", err)
	}
}

// A program that asked for it gets SIGTERM when the process that started it is killed, and time to end.
func TestStopFirst(t *testing.T) {
	t.Parallel()
	r, w := signs(t)
	parent := exec.Command(os.Args[0], "parent of trap 'echo stopped >&3; exit' TERM; echo begun >&3; "+
		"while :; do sleep 0.01; done")
	parent.ExtraFiles = []*os.File{w}
	test.OK(t, parent.Start())
	w.Close()
	_, err := io.ReadFull(r, make([]byte, len("begun\nready\n")))
	test.OK(t, err)
	test.OK(t, parent.Process.Kill())
	parent.Wait()
	rest := test.Must(io.ReadAll(r))(t)
	test.Equal(t, string(rest), "stopped\n", "after SIGKILL")
}

// Programs get their arguments, environment, folder and files, and no other descriptors. They end in the same way as
// without a supervisor.
func TestStart(t *testing.T) {
	if fd, err := syscall.Dup(2); err != nil { // a descriptor that children would inherit, as those of MPI
		t.Fatal(err)
	} else {
		defer syscall.Close(fd)
	}
	dir := t.TempDir()
	starters := map[string]*Starter{"supervisor": entry.NewStarter(), "none": new(Starter)}
	for _, c := range []struct {
		script string
		says   string
		err    string // "": nil
	}{
		{`printf '%s\n' "$0"`, "a \xff b\n", ""},
		{`echo $COLOUR; pwd`, "blue\n" + dir + "\n", ""},
		{`for fd in $(seq 0 100); do [ -e /proc/$$/fd/$fd ] && echo $fd; done; true`, "0\n1\n2\n3\n", ""},
		{`cat; cat <&3`, "extra", ""},
		{`exit 7`, "", "exit status 7"},
		{`kill -9 $$`, "", "signal: killed"},
		{`echo out; echo err >&2; kill -TERM $$`, "out\nerr\n", "signal: terminated"},
	} {
		for name, s := range starters {
			if name == "none" && strings.Contains(c.script, "/fd") {
				continue
			}
			extra := filepath.Join(t.TempDir(), "extra")
			test.OK(t, os.WriteFile(extra, []byte("extra"), 0o600))
			f, err := os.Open(extra)
			test.OK(t, err)
			cmd := exec.Command("sh", "-c", c.script, "a \xff b")
			cmd.Dir, cmd.Env, cmd.ExtraFiles = dir,
				append(os.Environ(), "COLOUR=blue", "LONG="+strings.Repeat("x", 100000)), []*os.File{f}
			said, err := s.CombinedOutput(t.Context(), cmd)
			if string(said) != c.says || (err == nil) != (c.err == "") || err != nil && err.Error() != c.err {
				t.Errorf("%s, %s: it says %q and ends with %v, expected %q and %q", c.script, name, said, err, c.says,
					c.err)
			}
			f.Close()
		}
	}
	for _, s := range starters {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A program that cannot be started gives the errors of exec.Cmd. The next program starts.
func TestCannotStart(t *testing.T) {
	s := entry.NewStarter()
	defer s.Close()
	text := filepath.Join(t.TempDir(), "text")
	test.OK(t, os.WriteFile(text, nil, 0o600))
	for name, want := range map[string]error{"no-such-program": exec.ErrNotFound, text: fs.ErrPermission,
		text + "/x": syscall.ENOTDIR, text + "2": fs.ErrNotExist} {
		cmd := exec.Command(name)
		_, err := s.Start(cmd)
		plain := exec.Command(name).Start()
		if !errors.Is(err, want) || err.Error() != plain.Error() {
			t.Errorf("%v, expected %v", err, plain)
		}
	}
	if _, err := s.Start(&exec.Cmd{Path: "/bin/true", Stdout: io.Discard}); err == nil ||
		!strings.Contains(err.Error(), "expected a file") {
		t.Errorf("%v, expected that a writer is refused", err)
	}
	if err := s.run("true"); err != nil {
		t.Error(err)
	}
}

func (s *Starter) run(name string) error {
	_, err := s.CombinedOutput(context.Background(), exec.Command(name))
	return err
}

// A socket ends without an error if the process at its other end ends before it has read everything.
func TestSocketIsReset(t *testing.T) {
	pair := test.Must(syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0))(t)
	a := test.Must(newSocket(os.NewFile(uintptr(pair[0]), "a")))(t)
	test.OK(t, a.send(report{ID: 1}, nil))
	syscall.Close(pair[1])
	var r report
	if err := a.receive(&r); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("%v, expected a reset", err)
	}
	if err := a.send(report{ID: 1}, nil); !errors.Is(err, syscall.EPIPE) {
		t.Errorf("%v, expected a broken pipe", err)
	}
}

// All processes that a program has started end when its Starter is closed, and when the process of the Starter is
// killed.
func TestFamilyEnds(t *testing.T) {
	t.Run("close", func(t *testing.T) {
		s, cmd := entry.NewStarter(), exec.Command("sh", "-c", family)
		r, w := signs(t)
		cmd.ExtraFiles = []*os.File{w}
		test.Must(s.Start(cmd))(t)
		w.Close()
		alive(t, r)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		gone(t, r)
	})
	alone := "exec sh -c 'printf ..........; exec sleep 1000' >&3"
	for name, script := range map[string]string{"kill": family, "kill, without a supervisor": alone} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command(os.Args[0], "parent of "+script)
			r, w := signs(t)
			cmd.ExtraFiles = []*os.File{w}
			test.OK(t, cmd.Start())
			w.Close()
			alive(t, r)
			cmd.Process.Kill()
			cmd.Wait()
			gone(t, r)
		})
	}
}

// Kill ends a program's process group. CombinedOutput ends a program that still runs after its context has ended.
func TestKill(t *testing.T) {
	for name, s := range map[string]*Starter{"supervisor": entry.NewStarter(), "none": new(Starter)} {
		defer s.Close()
		r, w := signs(t)
		cmd := exec.Command("sh", "-c", "sleep 1000 & echo . >&3; wait")
		cmd.ExtraFiles = []*os.File{w}
		p := test.Must(s.Start(cmd))(t)
		w.Close()
		test.Must(io.ReadFull(r, make([]byte, 2)))(t)
		p.Kill()
		gone(t, r)
		if p.Signal(syscall.SIGTERM); p.Err() == nil || p.Err().Error() != "signal: killed" {
			t.Errorf("%s: %v, expected signal: killed", name, p.Err())
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if said, err := s.CombinedOutput(ctx, exec.Command("sleep", "1000")); err == nil ||
			err.Error() != "signal: terminated" {
			t.Errorf("%s: %q, %v, expected signal: terminated", name, said, err)
		}
	}
}

// Signals of a terminal and of a batch system do not end a supervisor. If a supervisor is killed, its programs end with
// an error, and the next program gets another supervisor.
func TestSupervisorIsSignalled(t *testing.T) {
	s := entry.NewStarter()
	defer s.Close()
	test.OK(t, s.run("true"))
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGUSR1,
		syscall.SIGUSR2, syscall.SIGQUIT} {
		s.link.process.Signal(sig)
	}
	first := s.link
	if err := s.run("true"); err != nil || s.link != first {
		t.Fatalf("after signals: %v, the same supervisor: %v", err, s.link == first)
	}
	r, w := signs(t)
	cmd := exec.Command("sh", "-c", "sleep 1000 & sleep 1000")
	cmd.ExtraFiles = []*os.File{w}
	p := test.Must(s.Start(cmd))(t)
	w.Close()
	s.link.process.Kill()
	<-p.Done()
	gone(t, r)
	if err := p.Err(); err == nil || err.Error() != "its supervisor ended: signal: killed" {
		t.Errorf("%v, expected the end of the supervisor", err)
	}
	<-first.done
	if err := s.run("true"); err != nil {
		t.Error(err)
	}
}
