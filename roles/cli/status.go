package cli

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/rlinf/rlinf/internal/durable"
	"github.com/rlinf/rlinf/internal/figures"
	"github.com/rlinf/rlinf/internal/metrics"
	"github.com/rlinf/rlinf/internal/moves"
	"github.com/rlinf/rlinf/internal/printable"
	"github.com/rlinf/rlinf/internal/results"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/session"
	"github.com/rlinf/rlinf/spmd/mpi"
	"github.com/urfave/cli/v2"
)

const statusUsage = "rlinf status            # the runs in logs, the newest first\n" +
	"rlinf status FOLDER...  # runs, or folders with runs"

func statusFlags() []cli.Flag {
	return []cli.Flag{&cli.BoolFlag{Name: "json", Usage: "write a JSON list with an object for each run"}}
}

// runStatus writes the state of each run that the arguments name, and the commands that continue the run. For a folder
// of runs (default: logs), it writes one line for each run, the newest first.
func runStatus(c *cli.Context, reg config.Registries) error {
	dirs := c.Args().Slice()
	if len(dirs) == 0 {
		dirs = []string{"logs"}
	}
	all := []results.Standing{} // [] in JSON, not null
	for _, dir := range dirs {
		runs, err := results.RunsIn(dir)
		if err == nil && !c.Bool("json") {
			err = writeRuns(c.App.Writer, reg, dir, runs)
		}
		if err != nil {
			return config.Usagef("status: %w", err)
		}
		all = append(all, runs...)
	}
	if c.Bool("json") {
		return json.NewEncoder(c.App.Writer).Encode(all)
	}
	return nil
}

// writeRuns writes the runs of dir: the details of one run, or a table of several.
func writeRuns(out io.Writer, reg config.Registries, dir string, runs []results.Standing) error {
	if results.IsRun(dir) {
		return writeRun(out, reg, runs[0])
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "run\tstatus\tstep\ttraining\trate\ttime left")
	for _, s := range runs {
		step, value, rate, left := fmt.Sprint(s.Step), "", "", ""
		if s.Steps > 0 {
			step += fmt.Sprintf("/%d", s.Steps)
		}
		if s.Value != nil {
			value = fmt.Sprintf("%s %.4g", s.Metric[strings.LastIndexByte(s.Metric, '/')+1:], *s.Value)
		}
		if s.Rate != nil {
			rate = fmt.Sprintf("%.0f %s", *s.Rate, s.RateUnit)
		}
		if s.SecondsLeft != nil {
			left = metrics.Clock(time.Duration(*s.SecondsLeft * float64(time.Second)))
		}
		fmt.Fprintln(w, strings.Join([]string{printable.Line(s.Run), printable.Line(string(s.Status)), step, value,
			rate, left}, "\t"))
	}
	return w.Flush()
}

// writeRun writes the state of a run, and the commands that continue it.
func writeRun(out io.Writer, reg config.Registries, s results.Standing) error {
	cfg, err := configOf(reg, s.Run)
	if err != nil {
		return err
	}
	where := ""
	if s.Step > 0 {
		where = fmt.Sprintf("after step %d", s.Step)
	}
	session.WriteNext(out, thisProgram(), mpi.Compiled, cfg, s.Run, s.Status, s.Step, where)
	if s.Moves == 0 {
		return nil
	}
	fmt.Fprintf(out, "%-11s %s\n", "placement", printable.Line(cmp.Or(s.Placement, cfg.PlacementText())))
	return writeLastMove(out, s)
}

// configOf returns the configuration of the run in dir.
func configOf(reg config.Registries, dir string) (*config.Config, error) {
	path := filepath.Join(dir, "config.yaml")
	text, err := durable.ReadFile(path, durable.Text)
	if err != nil {
		return nil, fmt.Errorf("%s: expected the folder of a run: %w", dir, err)
	}
	cfg, err := config.Parse(reg, text)
	if err != nil {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return cfg, err
}

// writeLastMove writes the time, reason, cost and gain of the run's last move.
func writeLastMove(out io.Writer, s results.Standing) error {
	all, made, _, err := moves.Newest(s.Run, 2) // the gain needs the move before
	if err != nil || made == 0 {
		return err
	}
	steps, seconds, err := results.StepTimes(s.Run)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	m := all[len(all)-1]
	line := func(label, text string) { fmt.Fprintf(out, "%-11s %s\n", label, printable.Line(text)) }
	line("moved", fmt.Sprintf("after step %d, %s: %s", m.Step, m.Time.Local().Format(time.DateTime), m.Change()))
	line("", strings.TrimSuffix(m.Reason, ".")+"; "+m.Cost())
	before, after := moves.Gain(all, len(all)-1, steps, seconds)
	var words []string
	for _, w := range []struct {
		seconds float64
		of      string
	}{{before, "an iteration before"}, {after, "after"}, {m.Predicted, "predicted"}} {
		if w.seconds > 0 {
			words = append(words, moves.Seconds(w.seconds)+" "+w.of)
		}
	}
	if made > 1 {
		words = append(words, figures.Count(made, "move")+" in all")
	}
	if len(words) > 0 {
		line("", strings.Join(words, ", "))
	}
	return nil
}
