package args

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/urfave/cli/v2"
)

type fails struct{ with error }

func (f fails) Write([]byte) (int, error) { return 0, f.with }

// A command succeeds without a reader of its output. It fails if the disk is full.
func TestWriterKeepsFailures(t *testing.T) {
	for _, c := range []struct{ with, kept error }{{syscall.EPIPE, nil},
		{fmt.Errorf("write: %w", syscall.ENOSPC), syscall.ENOSPC}} {
		w := NewWriter(fails{c.with})
		w.Write([]byte("text"))
		if !errors.Is(w.Err(), c.kept) {
			t.Errorf("%v: kept %v, expected %v", c.with, w.Err(), c.kept)
		}
	}
}

// A long command names its work on standard error.
func TestProgressOfACommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var errs bytes.Buffer
		c := cli.NewContext(&cli.App{ErrWriter: &errs}, nil, nil)
		p, stop := Progress(c, "loading the model")
		time.Sleep(31 * time.Second)
		p.Phase("writing the model")
		time.Sleep(30 * time.Second)
		stop()
		stop()
		if want := "loading the model 5s\nwriting the model 5s\n"; errs.String() != want {
			t.Errorf("got %q, expected %q", errs.String(), want)
		}
	})
}

// TestExact: a Writer escapes control characters, but not in the texts that a command is asked for.
func TestExact(t *testing.T) {
	var out strings.Builder
	w := NewWriter(&out)
	for _, to := range []io.Writer{w, Exact(w), Exact(&out)} {
		if n, err := io.WriteString(to, "a\x1b\r\n"); n != 4 || err != nil {
			t.Error(n, err)
		}
	}
	if want := `a\x1b\x0d` + "\n" + strings.Repeat("a\x1b\r\n", 2); out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}
