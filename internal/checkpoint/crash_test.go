package checkpoint_test

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rlinf/rlinf/internal/checkpoint"
	"github.com/rlinf/rlinf/internal/test"
)

// crashStore is the environment variable with the store to which a child process of the crash test writes until it is
// killed.
const crashStore = "RLINF_TEST_CRASH_STORE"

func TestMain(m *testing.M) {
	if dir := os.Getenv(crashStore); dir != "" {
		fmt.Fprintln(os.Stderr, saveForever(dir))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// saveForever resumes from the newest checkpoint, saves again and again, and prints the steps that Save confirmed.
func saveForever(dir string) error {
	s, err := checkpoint.Open(dir, 2)
	if err != nil {
		return err
	}
	c, _, err := s.Newest()
	if err != nil {
		return err
	}
	var step int64
	if c != nil {
		step = c.Step
	}
	for {
		step++
		if _, err := s.Save(crashInfo(step), crashFiles(step)...); err != nil {
			return err
		}
		fmt.Println(step)
	}
}

func crashInfo(step int64) checkpoint.Info {
	return checkpoint.Info{Step: step, Ranks: 1, Config: []byte(fmt.Sprintf("step: %d\n", step))}
}

func crashFiles(step int64) []checkpoint.File {
	return []checkpoint.File{
		checkpoint.BytesFile("actor", pattern(300_000, step)),
		checkpoint.BytesFile("env", pattern(2_000, -step)),
	}
}

// A process is killed again and again at instants spread over its saves, always in the same store. The newest
// checkpoint is then complete, has the saved content, and is at least as new as the last one that Save confirmed.
func TestKillWhileSaving(t *testing.T) {
	dir := t.TempDir()
	kills := 40
	if testing.Short() {
		kills = 8
	}
	var reached int64
	for kill := range kills {
		confirmed := killedAfter(t, dir, time.Duration(kill)*700*time.Microsecond)
		s, err := checkpoint.Open(dir, 2)
		test.OK(t, err)
		c, rejected, err := s.Newest()
		if err != nil || c == nil || len(rejected) > 0 {
			t.Fatalf("kill %d: %v, %v, rejected %v", kill, c, err, rejected)
		}
		if c.Step < confirmed || c.Step > confirmed+1 {
			t.Errorf("kill %d: newest is step %d, want %d or one more", kill, c.Step, confirmed)
		}
		for name, want := range map[string][]byte{"actor": pattern(300_000, c.Step), "env": pattern(2_000, -c.Step)} {
			if got, err := c.Read(name); err != nil || !bytes.Equal(got, want) {
				t.Errorf("kill %d: %s of step %d is not what was saved (%v)", kill, name, c.Step, err)
			}
		}
		if latest, err := checkpoint.Load(dir + "/latest"); err != nil || latest.Step < confirmed {
			t.Errorf("kill %d: latest: %v, %v, want step %d or one more", kill, latest, err, confirmed)
		}
		reached = c.Step
	}
	t.Logf("%d kills, reached step %d", kills, reached)
}

// killedAfter starts a child, and kills it when delay has passed since its first confirmed save. It returns the last
// confirmed step.
func killedAfter(t *testing.T, dir string, delay time.Duration) int64 {
	t.Helper()
	self, err := os.Executable()
	test.OK(t, err)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), crashStore+"="+dir)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out := test.Must(cmd.StdoutPipe())(t)
	test.OK(t, cmd.Start())
	var confirmed int64
	for lines := bufio.NewScanner(out); lines.Scan(); { // the loop ends with the child
		if confirmed == 0 {
			time.AfterFunc(delay, func() { cmd.Process.Kill() })
		}
		if confirmed, err = strconv.ParseInt(lines.Text(), 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	if err := cmd.Wait(); confirmed == 0 || stderr.Len() > 0 {
		t.Fatalf("child ended by itself: %v: %s", err, &stderr)
	}
	return confirmed
}
