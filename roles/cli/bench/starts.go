package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	results "github.com/rlinf/rlinf/collectives/bench/report"
	"github.com/rlinf/rlinf/internal/programs"
	"github.com/rlinf/rlinf/roles/cli/args"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/runner"
	"github.com/rlinf/rlinf/spmd/mpi"
	"github.com/urfave/cli/v2"
)

// mostStarts is how many starts an interval is computed from at most.
const mostStarts = 30

func startFlags() []cli.Flag {
	return []cli.Flag{
		args.Int(cli.IntFlag{Name: "starts",
			Usage: "start the benchmark so often, in processes of its own; medians and " +
				"intervals are over starts",
			DefaultText: "1; with --compare as often as the old report"}, 1, mostStarts),
		&cli.StringFlag{Name: "launcher", Usage: "`COMMAND` that starts {np} ranks, as 'mpirun -np {np}', for --starts",
			DefaultText: "none: goroutine ranks"},
	}
}

// countStarts returns how often to start the benchmark: 1 is in this process.
func (j *benchJob) countStarts(c *cli.Context) (int, error) {
	n, launched := c.Int("starts"), args.Launched()
	switch {
	case !c.IsSet("starts") && j.before != nil && !launched:
		n = min(max(1, j.before.Starts()), mostStarts)
	case !c.IsSet("starts"):
		n = 1
	}
	wrong := func(format string, args ...any) (int, error) {
		return 0, config.UsageError{Err: errors.Join(fmt.Errorf(format, args...), j.closeFiles())}
	}
	if _, launcher := mpi.Launched(); launched && n > 1 {
		return wrong("--starts %d starts the ranks itself: expected it without %s, and --launcher '%s -np {np}'", n,
			launcher, launcher)
	}
	if n > 1 && c.IsSet("tune") {
		return wrong("--tune measures one start: expected it without --starts")
	}
	if text := c.String("launcher"); c.Command.Name != "scale" && text != "" && !strings.Contains(text, "{np}") {
		return wrong("--launcher %q: expected {np} where the number of ranks stands, as 'mpirun -np {np}'", text)
	}
	return n, nil
}

// runStarts runs the benchmark n times, each in a process of its own, and reports on all together.
func (j *benchJob) runStarts(c *cli.Context, name string, n int) (int, error) {
	folder, err := os.MkdirTemp("", "rlinf-bench-")
	if err != nil {
		return 0, errors.Join(err, j.closeFiles())
	}
	defer os.RemoveAll(folder)
	j.asked = runner.Watch()
	defer j.asked.Close()
	j.opts.Stop = func() bool {
		stop, _ := j.asked.Vote()
		return stop != 0
	}
	ctx, cancel := context.WithCancelCause(c.Context)
	defer cancel(nil)
	go j.hurry(ctx, cancel, true)
	var reports []*results.Report
	for i := range n {
		fmt.Fprintf(os.Stderr, "start %d of %d\n", i+1, n)
		r, failed := j.startOnce(ctx, c, name, filepath.Join(folder, fmt.Sprint(i, ".json")))
		if stop, _ := j.asked.Vote(); stop != 0 {
			return stop - 1, j.closeFiles()
		}
		if failed != nil {
			return runner.ExitFailed, errors.Join(failed, j.closeFiles())
		}
		reports = append(reports, r)
	}
	j.report = results.Merge(reports)
	j.report.Machine.Args = j.opts.About.Machine.Args
	for _, w := range j.opts.Writers {
		err = errors.Join(err, w.Begin(j.report))
		for i := range j.report.Rows {
			err = errors.Join(err, w.Row(j.report, &j.report.Rows[i]))
		}
		err = errors.Join(err, w.End(j.report))
	}
	if err = errors.Join(err, j.closeFiles()); err != nil {
		return runner.ExitFailed, err
	}
	return j.judge(c)
}

// startOnce runs the benchmark in a process of its own, or under the launcher, and returns its
// report. A wrong result is in the report; any other failure is an error.
func (j *benchJob) startOnce(ctx context.Context, c *cli.Context, name, path string) (*results.Report, error) {
	words, err := startWords(c, name, path)
	if err != nil {
		return nil, err
	}
	said, err := j.programs.CombinedOutput(ctx, exec.Command(words[0], words[1:]...))
	var exit *programs.ExitError
	if err != nil && !(errors.As(err, &exit) && exit.Status.ExitStatus() == runner.ExitCheck) {
		text := strings.TrimSpace(string(said))
		return nil, fmt.Errorf("%s: %w\n%s", strings.Join(words, " "), err, text[max(0, len(text)-2000):])
	}
	return results.Read(path)
}

// startWords returns the command line of one start: that of this process, without what concerns all
// starts, and with a report to path.
func startWords(c *cli.Context, name, path string) ([]string, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	own := []string{"starts", "compare", "threshold", "out", "plot", "format", "check-min-busbw"}
	var words []string
	if c.Command.Name != "scale" { // it has a launcher for the jobs that it starts
		own = append(own, "launcher")
		for _, word := range strings.Fields(c.String("launcher")) {
			words = append(words, strings.ReplaceAll(word, "{np}", strconv.Itoa(c.Int("np"))))
		}
		if len(words) > 0 {
			own = append(own, "np")
		}
	}
	words = append(words, program, "bench")
	if name != "collectives" {
		words = append(words, name)
	}
	for _, f := range c.Command.Flags {
		if name := f.Names()[0]; c.IsSet(name) && !slices.Contains(own, name) {
			words = append(words, fmt.Sprintf("--%s=%v", name, c.Value(name)))
		}
	}
	words = append(words, "--starts=1", "--format=csv", "--out="+path)
	return append(words, c.Args().Slice()...), nil
}
