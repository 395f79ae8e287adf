package cli

import (
	"cmp"
	"fmt"

	"github.com/rlinf/rlinf/internal/figures"
	"github.com/rlinf/rlinf/internal/printable"
	"github.com/rlinf/rlinf/roles/ask"
	"github.com/rlinf/rlinf/roles/cli/args"
	"github.com/rlinf/rlinf/roles/cli/watch"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/roles/session"
	"github.com/rlinf/rlinf/roles/task"
	"github.com/urfave/cli/v2"
)

const verifyUsage = "rlinf verify RUN                 # repeats some of it, and writes receipt.json\n" +
	"rlinf verify --receipt FILE RUN  # is this the run of the receipt?"

const verifyDescription = "A stretch from one checkpoint to the next is repeated in a temporary folder, in another\n" +
	"placement where possible. All metrics but those of the clock, and the checkpoint at its end, must be\n" +
	"equal. The run is only read. A receipt has hashes of the run: later, --receipt finds what was changed.\n" +
	"Without a receipt a change outside of the repeated stretches is not found."

// mostStretches is the maximum number of stretches in a sample.
const mostStretches = 1 << 20

func verifyFlags() []cli.Flag {
	return []cli.Flag{
		args.Int(cli.IntFlag{Name: "sample", Usage: "repeat `N` of the stretches between checkpoints", Value: 3}, 1,
			mostStretches),
		&cli.BoolFlag{Name: "all", Usage: "repeat the whole run"},
		&cli.StringFlag{Name: "out", Usage: "write the receipt to `FILE`", DefaultText: "receipt.json"},
		&cli.StringFlag{Name: "receipt", Usage: "compare the run with the receipt in `FILE`, and repeat nothing"},
		args.Force(),
	}
}

// runVerify repeats parts of a run, or compares it with a receipt. It returns the exit code.
func runVerify(c *cli.Context, reg config.Registries, tasks task.Tasks, own session.UserProgram) (int, error) {
	dir, err := watch.OneRun(c.Args().Slice())
	if err != nil {
		return 0, config.Usagef("verify: %w", err)
	}
	run, err := ask.Open(reg, dir)
	if err != nil {
		return 0, config.Usagef("verify: %w", err)
	}
	if path := c.String("receipt"); path != "" {
		return checkReceipt(c, run, path)
	}
	out := cmp.Or(c.String("out"), "receipt.json")
	if err := args.CheckOut(c, "out", out, ask.IsReceipt); err != nil {
		return 0, err
	}
	if err := run.Repeatable(); err != nil {
		return 0, config.UsageError{Err: err}
	}
	found, err := run.Inconsistent()
	if err != nil {
		return 0, err
	}
	all, sample := run.Stretches(), c.Int("sample")
	if c.Bool("all") {
		sample = 0
	}
	for _, note := range []string{run.OtherProgram(), run.Unrepeated()} {
		if note != "" {
			fmt.Fprintln(c.App.ErrWriter, printable.Line(note))
		}
	}
	asked := loop.Watch()
	defer asked.Close()
	again := &ask.Again{Registries: reg, Tasks: tasks, Own: own, Asked: asked}
	var results []ask.Result
	for _, s := range ask.Sample(all, sample, run.Config.Actor.Seed) {
		r, err := again.Verify(c.Context, run, s)
		if err != nil {
			return 0, err
		}
		verdict := "equal"
		if n := len(r.Differences); n > 0 {
			verdict = figures.Count(n, "difference")
		}
		fmt.Fprintf(c.App.Writer, "%v, repeated on %s: %s\n", s, printable.Line(r.Placement), verdict)
		results, found = append(results, r), append(found, r.Differences...)
	}
	for _, what := range found {
		fmt.Fprintln(c.App.Writer, printable.Line(what))
	}
	if len(found) > 0 {
		return loop.ExitCheck, nil
	}
	receipt, err := ask.NewReceipt(run, results)
	if err == nil {
		err = receipt.Write(out)
	}
	if err != nil {
		return 0, err
	}
	fmt.Fprintf(c.App.Writer, "equal in %d of %d parts; %s has the hashes of the run\n", len(results), len(all),
		printable.Line(out))
	return loop.ExitOK, nil
}

// checkReceipt compares a run with the receipt in a file.
func checkReceipt(c *cli.Context, run *ask.Run, path string) (int, error) {
	receipt, err := ask.ReadReceipt(path)
	if err != nil {
		return 0, config.Usagef("--receipt: %w", err)
	}
	changed, err := receipt.Check(run)
	if err != nil {
		return 0, err
	}
	for _, what := range changed {
		fmt.Fprintln(c.App.Writer, printable.Line(what))
	}
	if len(changed) > 0 {
		return loop.ExitCheck, nil
	}
	_, err = fmt.Fprintf(c.App.Writer, "the run is that of the receipt, as far as step %d\n", receipt.Last)
	return loop.ExitOK, err
}
