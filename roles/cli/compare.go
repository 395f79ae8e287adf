package cli

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rlinf/rlinf/internal/durable"
	"github.com/rlinf/rlinf/internal/printable"
	"github.com/rlinf/rlinf/internal/results"
	"github.com/rlinf/rlinf/internal/runfolder"
	"github.com/rlinf/rlinf/roles/cli/args"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/urfave/cli/v2"
)

func compareFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "metric", Usage: "`NAME` of the metric to compare",
			DefaultText: "the first that a run has of " + strings.Join(results.Headlines(), ", ")},
		args.Mode(),
		args.Float(cli.Float64Flag{Name: "at", Usage: "compare at this number of environment `STEPS`",
			DefaultText: "at the end of each run"}, 1, 1e18),
		&cli.StringFlag{Name: "format", Usage: "format (`FORM`) of standard output: table, md", Value: "table"},
		&cli.BoolFlag{Name: "json", Usage: "write a JSON object with the metric and a list of the groups instead"},
		args.Force(),
		&cli.StringFlag{Name: "out",
			Usage: "draw the means with their 95 % intervals over environment steps to `FILE`.svg"},
		&cli.StringFlag{Name: "keep",
			Usage: "write the evaluations of all the runs, seeds of one job, to `FILE`.csv, which can be compared " +
				"like a run"},
		args.Float(cli.Float64Flag{Name: "fail-below",
			Usage: "exit code 3 if a mean is below `X` or missing"}, -math.MaxFloat64, math.MaxFloat64),
	}
}

// runCompare writes a table and a plot of the runs named by the arguments, and returns the exit code.
func runCompare(c *cli.Context, reg config.Registries) (int, error) {
	t := &results.ComparisonTable{Metric: c.String("metric"), At: math.Inf(1)}
	if c.IsSet("at") {
		t.At = c.Float64("at")
	}
	write, ok := map[string]func(io.Writer) error{"table": t.Write, "md": t.WriteMarkdown}[c.String("format")]
	switch {
	case !c.Args().Present():
		return 0, config.Usagef("compare: expected the folders of runs or of sweeps, or files of kept results")
	case !ok:
		return 0, config.Usagef("--format %s: expected table or md", c.String("format"))
	}
	for flag, ending := range map[string]string{"out": ".svg", "keep": ".csv"} {
		if path := c.String(flag); path != "" && filepath.Ext(path) != ending {
			return 0, config.Usagef("--%s %s: expected a file with the ending %s", flag, path, ending)
		}
	}
	for flag, made := range map[string]args.Made{"out": args.Picture(),
		"keep": args.Begins(`(#[^\n]*\n)*seed,step,env/steps,seconds[,\n]`)} {
		if path := c.String(flag); path != "" {
			if err := args.CheckOut(c, flag, path, made); err != nil {
				return 0, err
			}
		}
	}
	groups, by, ignored, err := loadGroups(c.Args().Slice(), t.Metric)
	if err != nil {
		return 0, config.Usagef("compare: %w", err)
	}
	t.Groups, t.Metric = groups, by
	if t.Mode, err = args.ModeOf(c, by); err != nil {
		return 0, err
	}
	for _, note := range append(ignored, notes(t.Groups)...) {
		fmt.Fprintln(c.App.ErrWriter, printable.Line(note))
	}
	if !slices.ContainsFunc(t.Estimates(), func(e results.Estimate) bool { return e.N > 0 }) {
		return 0, config.Usagef("--at %v: no run has %s there: expected a number of environment steps %s", t.At,
			t.Metric, stepsOf(t.Groups, t.Metric))
	}
	if path := c.String("keep"); path != "" {
		kept, err := keptRuns(c.Args().Slice())
		if err != nil {
			return 0, config.Usagef("--keep: %w", err)
		}
		if err := durable.WriteFile(path, kept); err != nil {
			return 0, fmt.Errorf("--keep: %w", err)
		}
	}
	if path := c.String("out"); path != "" {
		if err := durable.WriteFile(path, results.Draw(t.Metric, t.Groups, reg.Returns)); err != nil {
			return 0, fmt.Errorf("--out: %w", err)
		}
	}
	if c.Bool("json") {
		write = t.WriteJSON
	}
	if err := write(c.App.Writer); err != nil {
		return 0, err
	}
	if best := t.Best(); best != "" && c.String("format") == "table" && !c.Bool("json") {
		fmt.Fprintln(c.App.Writer, best)
	}
	if !c.IsSet("fail-below") {
		return loop.ExitOK, nil
	}
	code, log := loop.ExitOK, c.App.Writer
	if c.Bool("json") {
		log = c.App.ErrWriter
	}
	for i, e := range t.Estimates() {
		if least := c.Float64("fail-below"); !(e.Mean >= least) {
			fmt.Fprintf(log, "# %s: %s %s: expected at least %v\n", printable.Line(t.Groups[i].Name),
				printable.Line(t.Metric), e, least)
			code = loop.ExitCheck
		}
	}
	return code, nil
}

// stepsOf describes the range of environment steps at which the groups have the metric.
func stepsOf(groups []results.SeedGroup, metric string) string {
	least, most := math.Inf(1), 0.0
	for _, g := range groups {
		for _, r := range g.Runs {
			for _, row := range r.Rows {
				if x, ok := row.Values[metric]; ok && !math.IsNaN(x) {
					least, most = min(least, row.EnvSteps), max(most, row.EnvSteps)
				}
			}
		}
	}
	return fmt.Sprintf("from %.0f to %.0f", least, most)
}

// keptRuns returns all evaluations of the runs at paths, in the format of results.Keep. The runs must belong to one
// job, and differ in their seeds.
func keptRuns(paths []string) ([]byte, error) {
	var runs []results.Run
	for _, p := range paths {
		groups, err := results.Load(p, "eval/")
		if errors.Is(err, results.ErrNoRun) && len(paths) > 1 {
			continue
		} else if err != nil {
			return nil, err
		}
		if len(groups) > 1 {
			return nil, fmt.Errorf("%s: %d groups of runs: expected the folder of one", p, len(groups))
		}
		for _, r := range groups[0].Runs {
			if slices.ContainsFunc(runs, func(o results.Run) bool { return o.Seed == r.Seed }) {
				return nil, fmt.Errorf("%s: seed %d: expected each seed once", r.Name, r.Seed)
			}
			runs = append(runs, r)
		}
	}
	slices.SortFunc(runs, func(a, b results.Run) int { return cmp.Compare(a.Seed, b.Seed) })
	var text bytes.Buffer
	err := results.Keep(&text, runs, origin(runs)...)
	return text.Bytes(), err
}

// origin returns the provenance of the first run with a recorded start, in one line. It returns nil if no run has a
// recorded start.
func origin(runs []results.Run) []string {
	for _, r := range runs {
		last, ok := runfolder.LastStart(r.Name)
		if !ok {
			continue
		}
		words := []string{r.Task, last.Started.Format("2006-01-02"), last.Build.Go, last.Build.Platform,
			last.Build.Tags, last.Build.Revision}
		return []string{strings.Join(slices.DeleteFunc(words, func(w string) bool { return w == "" }), ", ")}
	}
	return nil
}
