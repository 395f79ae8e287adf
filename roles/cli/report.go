package cli

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/rlinf/rlinf/internal/durable"
	"github.com/rlinf/rlinf/internal/printable"
	"github.com/rlinf/rlinf/internal/report"
	"github.com/rlinf/rlinf/internal/results"
	"github.com/rlinf/rlinf/internal/trace"
	"github.com/rlinf/rlinf/roles/cli/args"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/urfave/cli/v2"
)

func reportCommand(reg config.Registries) *cli.Command {
	return &cli.Command{
		Name: "report", Usage: "write a page about runs for a browser: curves, waits, films, settings",
		ArgsUsage: "RUN [RUN...]",
		Flags: []cli.Flag{args.Force(), &cli.StringFlag{Name: "out", Usage: "write the page to `FILE`.html",
			DefaultText: "report.html in the folder of the run or sweep; of several, in this folder"}},
		Action: args.Alone(func(c *cli.Context) error { return runReport(c, reg) }),
	}
}

// runReport writes a page about the runs that the arguments name, and prints its path.
func runReport(c *cli.Context, reg config.Registries) error {
	paths, out := c.Args().Slice(), c.String("out")
	switch {
	case len(paths) == 0:
		return config.Usagef("report: expected the folders of runs or of sweeps")
	case out != "" && !strings.EqualFold(filepath.Ext(out), ".html"):
		return config.Usagef("--out %s: expected a file with the ending .html", out)
	}
	for _, path := range paths {
		if _, err := os.Stat(path); err != nil {
			return config.Usagef("report: %w", err)
		}
	}
	if out == "" {
		out = "report.html"
		if info, err := os.Stat(paths[0]); err == nil && info.IsDir() && len(paths) == 1 {
			out = filepath.Join(paths[0], out)
		}
	}
	made := args.Begins(`(?s)<!doctype html>\n<html lang="en"><head>.*rlinf report</title>`)
	if err := args.CheckOut(c, "out", out, made); err != nil {
		return err
	}
	var write func(io.Writer) error
	if len(paths) == 1 && results.IsRun(paths[0]) {
		times, err := trace.Read(paths[0])
		if err != nil {
			times = &trace.Trace{Problems: []string{err.Error()}}
		}
		run := report.Gather(paths[0], aboutRun(reg, paths[0]), times)
		write = func(w io.Writer) error { return report.WriteRun(w, run) }
	} else {
		runs, err := report.GatherRuns(paths, reg.Returns)
		if err != nil {
			return config.Usagef("report: %w", err)
		}
		write = func(w io.Writer) error { return report.WriteRuns(w, runs) }
	}
	if err := durable.Write(out, write); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	fmt.Fprintf(c.App.Writer, "%s: open it in a browser\n", printable.Line(out))
	return nil
}

// aboutRun returns the defaults and meanings of keys, and the lines of `rlinf status` for the run in dir.
func aboutRun(reg config.Registries, dir string) report.About {
	keys := map[string]config.ManualEntry{}
	for _, k := range config.Reference(reg) {
		keys[k.Name] = k
	}
	var next bytes.Buffer
	if s, err := results.ReadStanding(dir); err == nil {
		s.Moves = 0 // the page has a section about moves
		if err := writeRun(&next, reg, s); err != nil {
			next.Reset() // the page says that the configuration is damaged
		}
	}
	return report.About{
		Defaults: config.Default().Resolved(),
		Key: func(name string) (meaning, from string) {
			k := keys[name]
			if k.Doc == "" {
				k.Doc = keys[k.Like].Doc
			}
			return k.Doc, k.From
		},
		Next: next.String(),
		Threshold: func(task string) (float64, bool) {
			name, _, _ := strings.Cut(task, "-v")
			least, known := thresholds[name]
			return least, known
		},
	}
}

// thresholds are the mean returns at which tasks count as solved: reward_threshold in the registry of Gymnasium
// (gymnasium/envs/__init__.py). Pendulum and Walker2d have none.
var thresholds = map[string]float64{"CartPole": 475, "MountainCar": -110, "MountainCarContinuous": 90, "Acrobot": -100,
	"InvertedPendulum": 950, "Reacher": -3.75, "Pusher": 0, "HalfCheetah": 4800, "Hopper": 3800, "Ant": 6000}
