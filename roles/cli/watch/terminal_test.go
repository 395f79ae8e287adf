package watch

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rlinf/rlinf/internal/runfolder"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/roles/loop"
	"golang.org/x/sys/unix"
)

// child names the run that a child process of these tests watches; panics is for a Reader that panics.
const child, panics = "RLINF_TEST_WATCH", "panics"

func TestMain(m *testing.M) {
	dir := os.Getenv(child)
	if dir == "" {
		os.Exit(m.Run())
	}
	if dir == panics {
		t := &terminal{in: os.Stdin, out: os.Stdout, screen: screen{out: os.Stdout}}
		defer t.leave()
		if err := t.enter(); err == nil {
			t.show(nil, running())
		}
	}
	code, err := onTerminal(NewReader(dir), os.Stdin, os.Stdout)
	if err != nil {
		fmt.Println(err)
	}
	os.Exit(code)
}

// A window is a pseudoterminal with a child process in it.
type window struct {
	t       *testing.T
	keys    *os.File // the other end
	tty     *os.File
	cmd     *exec.Cmd
	before  *unix.Termios
	got     []byte
	arrived chan []byte
	closed  bool
}

// openWindow opens a pseudoterminal, and watches a run in it.
func openWindow(t *testing.T, dir string) *window {
	t.Helper()
	keys, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no pseudoterminals here: mount devpts: %v", err)
	}
	test.OK(t, unix.IoctlSetPointerInt(int(keys.Fd()), unix.TIOCSPTLCK, 0))
	n := test.Must(unix.IoctlGetInt(int(keys.Fd()), unix.TIOCGPTN))(t)
	tty := test.Must(os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0))(t)
	w := &window{t: t, keys: keys, tty: tty, arrived: make(chan []byte, 100)}
	w.resize(80, 24)
	if w.before, err = unix.IoctlGetTermios(int(tty.Fd()), unix.TCGETS); err != nil {
		t.Fatal(err)
	}
	w.cmd = exec.Command(os.Args[0])
	w.cmd.Env = append(os.Environ(), child+"="+dir, "TERM=xterm")
	w.cmd.Stdin, w.cmd.Stdout, w.cmd.Stderr = tty, tty, tty
	w.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	test.OK(t, w.cmd.Start())
	go func() {
		defer close(w.arrived)
		for {
			b := make([]byte, 4096)
			n, err := keys.Read(b)
			if err != nil {
				return
			}
			w.arrived <- b[:n]
		}
	}()
	t.Cleanup(func() {
		w.cmd.Process.Kill()
		w.tty.Close()
		if !w.closed {
			w.keys.Close()
		}
	})
	return w
}

func (w *window) resize(width, height uint16) {
	w.t.Helper()
	err := unix.IoctlSetWinsize(int(w.keys.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: width, Row: height})
	if err != nil {
		w.t.Fatal(err)
	}
}

// wait returns when the output satisfies done.
func (w *window) wait(what string, done func(out string) bool) {
	w.t.Helper()
	for limit := time.After(time.Minute); !done(string(w.got)); {
		select {
		case b, ok := <-w.arrived:
			if !ok {
				w.t.Fatalf("no %s in %q", what, w.got)
			}
			w.got = append(w.got, b...)
		case <-limit:
			w.t.Fatalf("no %s in %q", what, w.got)
		}
	}
}

func (w *window) shows(text string) {
	w.t.Helper()
	w.wait(text, func(out string) bool { return strings.Contains(show(out, 100, 24), text) })
}

func (w *window) press(keys string) {
	w.t.Helper()
	if _, err := w.keys.WriteString(keys); err != nil {
		w.t.Fatal(err)
	}
}

// left waits for the end of the child, and checks its exit code and the terminal.
func (w *window) left(code int) {
	w.t.Helper()
	w.cmd.Wait()
	if got := w.cmd.ProcessState.ExitCode(); got != code {
		w.t.Errorf("exit code %d, want %d: %q", got, code, w.got)
	}
	if w.closed {
		return
	}
	w.wait("the end of the screen", func(out string) bool { return strings.Contains(out, leaveScreen) })
	after, err := unix.IoctlGetTermios(int(w.tty.Fd()), unix.TCGETS)
	if err != nil || *after != *w.before {
		w.t.Errorf("settings %+v, %v; before %+v", after, err, w.before)
	}
	for code, undo := range map[string]string{"\x1b[?1049h": "\x1b[?1049l", "\x1b[?25l": "\x1b[?25h",
		"\x1b[?7l": "\x1b[?7h"} {
		if strings.LastIndex(string(w.got), code) > strings.LastIndex(string(w.got), undo) {
			w.t.Errorf("%q without %q", code, undo)
		}
	}
}

// code matches a code, or a character.
var code = regexp.MustCompile(`(?s)\x1b\[([0-9;?]*)([a-zA-Z])|.`)

// show returns the lines of a terminal of that size after output to it. It does not wrap lines.
func show(out string, width, height int) string {
	out, _, _ = strings.Cut(out, leaveScreen)
	cells, row, col := make([][]string, height), 0, 0
	for i := range cells {
		cells[i] = make([]string, width)
	}
	erase := func(row, from int) {
		for i := from; i < width; i++ {
			cells[row][i] = " "
		}
	}
	for _, m := range code.FindAllStringSubmatch(out, -1) {
		switch {
		case m[2] == "J":
			for row := range cells {
				erase(row, 0)
			}
		case m[2] == "H":
			fmt.Sscanf(m[1], "%d;%d", &row, &col)
			row, col = min(row, height)-1, col-1
		case m[2] == "K":
			erase(row, min(col, width-1)) // the cursor does not leave the last column
		case m[2] == "" && m[0] >= " ":
			n := columns(m[0])
			if n == 0 { // it combines with the character before
				at := col - 1
				for at > 0 && cells[row][at] == "" { // the second half of a wide character
					at--
				}
				cells[row][at] += m[0]
				continue
			}
			col = min(col, width-n)
			cells[row][col] = m[0]
			if n == 2 {
				cells[row][col+1] = ""
			}
			col += n
		}
	}
	lines := make([]string, height)
	for i := range lines {
		lines[i] = strings.TrimRight(strings.Join(cells[i], ""), " ")
	}
	return strings.Join(lines, "\n")
}

// watched is the folder of a run that runs in this process.
func watched(t *testing.T) folder {
	f := newFolder(t, runfolder.Running)
	own := test.Must(runfolder.Open(f.dir, ""))(t)
	t.Cleanup(func() { own.Close() })
	f.extend(`{"step":1,"env/return":4,"time/step":2}` + "\n")
	return f
}

// TestLeaving: the terminal is as before after q, Ctrl-C, a signal, and a panic. A line with the state stays.
func TestLeaving(t *testing.T) {
	t.Parallel()
	f := watched(t)
	for _, c := range []struct {
		name  string
		leave func(w *window)
		code  int
	}{
		{"q", func(w *window) { w.press("aq") }, 0},
		{"Ctrl-D", func(w *window) { w.press("\x04") }, 0},
		{"Ctrl-D before", func(w *window) { w.press("\x00") }, 0},
		{"Ctrl-C", func(w *window) { w.press("\x03") }, 130},
		{"TERM", func(w *window) { w.cmd.Process.Signal(unix.SIGTERM) }, 143},
		{"HUP", func(w *window) { w.cmd.Process.Signal(unix.SIGHUP) }, 129},
		{"closed window", func(w *window) { w.closed = true; w.keys.Close() }, 129},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := openWindow(t, f.dir)
			w.shows("return   4")
			c.leave(w)
			w.left(c.code)
			if c.code == 0 {
				w.wait("last line", func(out string) bool {
					return strings.HasSuffix(out, leaveScreen+"running · step 1 · return 4\r\n")
				})
			}
		})
	}
	t.Run("panic", func(t *testing.T) {
		t.Parallel()
		w := openWindow(t, panics)
		w.left(2)
		w.wait("panic", func(out string) bool { return strings.Contains(out, "nil pointer") })
	})
}

// TestContinuesWithoutTerminal: when a window closes, the kernel sends SIGHUP and SIGCONT. Either may come first.
func TestContinuesWithoutTerminal(t *testing.T) {
	null := test.Must(os.OpenFile(os.DevNull, os.O_RDWR, 0))(t)
	defer null.Close()
	gone := &terminal{in: null, out: null, screen: screen{out: null}}
	test.Equal(t, gone.obey(unix.SIGCONT), loop.ExitHungUp, "exit code")
}

// TestWindowChanges: the screen follows the size of the window, new metrics, Ctrl-Z and the end of the run. It draws
// only lines that have changed.
func TestWindowChanges(t *testing.T) {
	t.Parallel()
	f := newFolder(t, runfolder.Done)
	f.extend(`{"step":1,"env/return":4}` + "\n")
	w := openWindow(t, f.dir)
	w.shows("return   4")
	w.shows("q or Ctrl-C leaves")
	before := len(w.got)
	f.extend(`{"step":2,"env/return":5}` + "\n")
	w.shows("return   5")
	if got := string(w.got[before:]); strings.Contains(got, "leaves") || strings.Contains(got, clearScreen) {
		t.Errorf("draws lines that have not changed: %q", got)
	}
	w.resize(60, 3)
	w.shows("window 60x3")
	w.resize(100, 20)
	w.shows("return   5")
	before = len(w.got)
	w.press("\x1a") // Ctrl-Z
	w.wait("stop", func(out string) bool { return strings.Contains(out[before:], leaveScreen) })
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(w.cmd.Process.Pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
		t.Fatalf("%v, %v", status, err)
	}
	w.got = w.got[:0]
	w.cmd.Process.Signal(unix.SIGCONT)
	w.shows("return   5")
	if !bytes.HasPrefix(w.got, []byte(enterScreen)) {
		t.Errorf("draws before it is back on the screen: %q", w.got)
	}
	w.press("q")
	w.left(0)
}

// TestDrawing: after any sequence of draws the terminal shows the last screen.
func TestDrawing(t *testing.T) {
	var out bytes.Buffer
	s := &screen{out: &out, colours: true}
	for _, name := range []string{"running", "ended", "hostile", "begun", "large", "killed"} {
		for _, size := range [][2]int{{80, 24}, {80, 24}, {100, 10}} {
			lines := Render(runs[name](), size[0], size[1])
			test.OK(t, s.draw(lines, size[0], size[1]))
			want := make([]string, size[1])
			for i, l := range lines {
				want[i] = l.Text
			}
			if got := strings.Split(show(out.String(), size[0], size[1]), "\n"); !slices.Equal(got, want) {
				t.Errorf("%s: got\n%s\nwant\n%s", name, strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		}
		n := out.Len()
		if s.draw(Render(runs[name](), 100, 10), 100, 10); out.Len() != n {
			t.Errorf("%s: the same screen is drawn again: %q", name, out.Bytes()[n:])
		}
	}
}

// TestColours: without colours an alarm is bold.
func TestColours(t *testing.T) {
	for _, colours := range []bool{false, true} {
		var out bytes.Buffer
		s := &screen{out: &out, colours: colours}
		s.draw([]ScreenLine{{"x", Alarm}}, 10, 1)
		if got := strings.Contains(out.String(), "\x1b[1;31mx"); got != colours {
			t.Errorf("%v: %q", colours, out.String())
		}
	}
}
