package cli

import (
	"cmp"
	"fmt"
	"io"
	"path/filepath"

	"github.com/rlinf/rlinf/internal/durable"
	"github.com/rlinf/rlinf/internal/printable"
	"github.com/rlinf/rlinf/internal/results"
	"github.com/rlinf/rlinf/internal/trace"
	"github.com/rlinf/rlinf/roles/cli/args"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/urfave/cli/v2"
)

func traceFlags() []cli.Flag {
	return []cli.Flag{args.Force(), &cli.StringFlag{Name: "out",
		Usage:       "write to `FILE`.json, in Chrome's Trace Event Format",
		DefaultText: "trace.json in the run's folder"}}
}

// runTrace reads the trace of a run, and writes it to a file in Chrome's format.
func runTrace(c *cli.Context) error {
	if c.NArg() != 1 {
		return config.Usagef("trace: expected the folder of one run; rlinf status lists runs")
	}
	run := c.Args().First()
	if !results.IsRun(run) {
		return config.Usagef("trace: %s: expected the folder of a run", run)
	}
	path := cmp.Or(c.String("out"), filepath.Join(run, "trace.json"))
	if err := args.CheckOut(c, "out", path, trace.IsChrome); err != nil {
		return err
	}
	t, err := trace.Read(run)
	if err != nil {
		return err
	}
	for _, p := range t.Problems {
		fmt.Fprintf(c.App.ErrWriter, "warning: %s\n", printable.Line(p))
	}
	windows := 0
	for _, a := range t.Attempts {
		windows += len(a.Windows)
	}
	if windows == 0 {
		return fmt.Errorf("trace: %s: no iteration of this run was recorded", filepath.Join(run, trace.Folder))
	}
	if err := durable.Write(path, func(w io.Writer) error { return trace.WriteChrome(w, t) }); err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	_, err = fmt.Fprintf(c.App.Writer, "%s: %d iterations; open it in ui.perfetto.dev\n", printable.Line(path), windows)
	return err
}
