package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	results "github.com/rlinf/rlinf/collectives/bench/report"
	"github.com/rlinf/rlinf/internal/programs"
	"github.com/rlinf/rlinf/roles/cli/args"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/spmd/mpi"
	"github.com/urfave/cli/v2"
)

// mostStarts is the maximum value of --starts.
const mostStarts = 30

func startFlags() []cli.Flag {
	return []cli.Flag{
		args.Int(cli.IntFlag{Name: "starts",
			Usage:       "start the benchmark so often, in processes of its own; medians and intervals are over starts",
			DefaultText: "1; with --compare as often as the old report"}, 1, mostStarts),
		&cli.StringFlag{Name: "launcher", Usage: "`COMMAND` that starts {np} ranks, as 'mpirun -np {np}', for --starts",
			DefaultText: "none: goroutine ranks"},
	}
}

// countStarts returns the number of starts. 1 means one start in this process.
func (j *benchJob) countStarts() int {
	n, launched := 1, args.Launched()
	switch {
	case j.IsSet("starts"):
		n = j.Int("starts")
	case j.before != nil && !launched:
		n = min(max(1, j.before.Starts()), mostStarts)
	}
	if _, launcher := mpi.Launched(); launched && n > 1 {
		j.wrong("--starts %d starts the ranks itself: expected it without %s, and --launcher '%s -np {np}'", n,
			launcher, launcher)
	}
	if n > 1 && j.IsSet("tune") {
		j.wrong("--tune measures one start: expected it without --starts")
	}
	if j.bench() != "scale" {
		j.checkLauncher()
	}
	return n
}

// runStarts runs the benchmark n times, each time in a new process, and writes the merged report.
func (j *benchJob) runStarts(ctx context.Context, n int) error {
	folder, err := os.MkdirTemp("", "rlinf-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	var reports []*results.Report
	for i := range n {
		fmt.Fprintf(j.App.ErrWriter, "start %d of %d\n", i+1, n)
		r, err := j.startOnce(ctx, filepath.Join(folder, fmt.Sprint(i, ".json")))
		if err != nil {
			return err
		}
		reports = append(reports, r)
	}
	j.report = results.Merge(reports)
	j.report.Machine.Args = j.opts.About.Machine.Args
	for _, w := range j.opts.Writers {
		err = errors.Join(err, w.End(j.report))
	}
	return err
}

// startOnce runs the benchmark in a new process, or under the launcher, and returns its report. Wrong results are in
// the report. Any other failure is an error.
func (j *benchJob) startOnce(ctx context.Context, path string) (*results.Report, error) {
	words, err := j.startWords(path)
	if err != nil {
		return nil, err
	}
	err = runProgram(ctx, j.programs, words)
	var exit *programs.ExitError
	if err != nil && !(errors.As(err, &exit) && exit.Status.ExitStatus() == loop.ExitCheck) {
		return nil, err
	}
	return results.Read(path)
}

// runProgram runs a command line. If it fails, the error has the end of its output.
func runProgram(ctx context.Context, by *programs.Starter, words []string) error {
	out, err := by.CombinedOutput(ctx, exec.Command(words[0], words[1:]...))
	if err != nil {
		text := strings.TrimSpace(string(out))
		return fmt.Errorf("%s: %w\n%s", strings.Join(words, " "), err, text[max(0, len(text)-2000):])
	}
	return nil
}

// startWords returns the command line of one start. It is the command line of this process, without the flags that
// concern all starts. The start writes its report to path.
func (j *benchJob) startWords(path string) ([]string, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	own := []string{"starts", "compare", "threshold", "out", "plot", "format", "check-min-busbw"}
	var words []string
	if j.bench() != "scale" { // scale needs its --launcher for the jobs that it starts
		own = append(own, "launcher")
		if words = launcherWords(j.String("launcher"), j.Int("np")); len(words) > 0 {
			own = append(own, "np")
		}
	}
	words = append(words, program, "bench")
	if j.bench() != "collectives" {
		words = append(words, j.bench())
	}
	for _, f := range j.Command.Flags {
		if name := f.Names()[0]; j.IsSet(name) && !slices.Contains(own, name) {
			words = append(words, fmt.Sprintf("--%s=%v", name, j.Value(name)))
		}
	}
	words = append(words, "--starts=1", "--format=csv", "--out="+path)
	return append(words, j.Args().Slice()...), nil
}
