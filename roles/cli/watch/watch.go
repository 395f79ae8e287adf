// Package watch answers: how is that run doing? It is the command rlinf watch, which shows a run in a terminal while
// it runs and afterwards.
//
// A Reader reads the files in the run's folder, so it works on any machine that has this folder, and does not disturb
// the run. Render makes the lines of a screen from a State. A terminal shows them.
package watch

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/rlinf/rlinf/internal/metrics"
	"github.com/rlinf/rlinf/internal/results"
	"github.com/rlinf/rlinf/internal/runfolder"
	"github.com/rlinf/rlinf/roles/cli/args"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/urfave/cli/v2"
)

// Usage is the usage text of rlinf watch.
const Usage = "rlinf watch RUN        # on a terminal: a screen; q or Ctrl-C leaves it\n" +
	"rlinf watch RUN | cat  # a line for each change, until the run ends"

// readEvery is the time between two reads of the run's folder. beginTime is how long the command waits for a run that
// has not begun, if no job holds its folder.
const (
	readEvery = time.Second
	beginTime = 30 * time.Second
)

// Run shows the run that the argument names, and returns the exit code.
func Run(c *cli.Context) (int, error) {
	dir, err := awaitRun(c.Args().Slice(), c.App.ErrWriter, time.Sleep)
	if err != nil {
		return 0, config.Usagef("watch: %w", err)
	}
	r := NewReader(dir)
	if out := args.Terminal(c.App.Writer); out != nil {
		return onTerminal(r, os.Stdin, out)
	}
	return loop.ExitOK, follow(r, c.App.Writer, time.Sleep)
}

// awaitRun is OneRun for a run that may be about to begin: it waits for a folder that is missing, that a job holds, or
// in which a job may begin.
func awaitRun(dirs []string, out io.Writer, sleep func(time.Duration)) (dir string, err error) {
	for waited := time.Duration(0); ; waited += readEvery {
		if dir, err = OneRun(dirs); err == nil || len(dirs) != 1 {
			return dir, err
		}
		held, _ := runfolder.Held(dirs[0])
		if _, other := os.ReadDir(dirs[0]); !held && !errors.Is(other, fs.ErrNotExist) {
			if other = cmp.Or(other, runfolder.Check(dirs[0])); other != nil {
				return "", err
			}
		}
		if !held && waited >= beginTime {
			return "", fmt.Errorf("%w; waited %v for a job", err, beginTime)
		}
		if waited == 0 {
			fmt.Fprintln(out, clean(waiting(dirs[0], held)))
		}
		sleep(readEvery)
	}
}

// waiting describes what the command waits for.
func waiting(dir string, held bool) string {
	if held {
		return dir + ": waiting for the job that holds the folder"
	}
	return fmt.Sprintf("%s: the run has not begun; waiting %v for a job", dir, beginTime)
}

// OneRun returns the folder of the run that the arguments name. If they name a folder of runs, it returns an error that
// names the newest of these runs.
func OneRun(dirs []string) (string, error) {
	if len(dirs) != 1 {
		return "", fmt.Errorf("expected the folder of one run; rlinf status lists runs")
	}
	dir := dirs[0]
	if results.IsRun(dir) {
		return dir, nil
	}
	runs, err := results.RunsIn(dir)
	if err != nil {
		return "", err
	}
	return "", fmt.Errorf("%s: expected the folder of a run, such as %s, the newest in it", dir, clean(runs[0].Run))
}

// follow writes a line for each change of the run until the run ends, or until the reader of the lines has gone away.
func follow(r *Reader, out io.Writer, sleep func(time.Duration)) error {
	var shown string
	var alert Alert
	waits := ""                                             // the last line about what the command waits for
	told := 0                                               // the number of moves that were written
	for waited := time.Duration(0); ; waited += readEvery { // since the run was last running
		s, err := r.Read(time.Now())
		if err != nil {
			return fmt.Errorf("watch: %w", err)
		}
		if s.Alert != alert && s.Alert.Text != "" {
			fmt.Fprintln(out, clean(s.Alert.source()+": "+s.Alert.Text))
		}
		alert = s.Alert
		if s.Moves > told {
			fmt.Fprintln(out, clean("moved "+s.movedText()))
		}
		told = s.Moves
		if key := fmt.Sprint(s.Status, s.Step()); key != shown {
			shown = key
			if _, err := fmt.Fprintln(out, Summary(s)); err != nil {
				return nil // the Writer keeps the error
			}
		}
		w, ok := out.(*args.Writer)
		switch begun := s.Status != results.NotBegun; {
		case ok && w.Gone(), s.Over() && begun:
			return nil
		case s.Over() && waited >= beginTime:
			return fmt.Errorf("watch: %s: the run has not begun; waited %v for a job", s.Run, beginTime)
		case s.Status == runfolder.Running:
			waits, waited = "", 0
		case !begun || waited > standingEvery: // at its end a job holds the folder for a moment
			if text := waiting(s.Run, s.Held); text != waits {
				waits = text
				fmt.Fprintln(out, clean(text))
			}
		}
		sleep(readEvery)
	}
}

// Summary returns the state of a run in one line.
func Summary(s State) string {
	line := string(s.Status) + " · " + stepText(s)
	if s.Value != nil {
		line += fmt.Sprintf(" · %s %.4g", figureName(s.Metric), *s.Value)
	}
	if s.Rate != nil {
		line += " · " + metrics.Short(*s.Rate) + " " + s.RateUnit
	}
	if left := s.Left(); left > 0 {
		line += " · ETA " + metrics.Clock(left)
	}
	if worst := s.Waiting(); s.Crowd != "" {
		line += " · " + s.Crowd
	} else if len(worst) > 0 {
		line += fmt.Sprintf(" · waits most: rank %d, %s", worst[0].Rank, worst[0].causes(1))
	}
	return clean(line)
}
