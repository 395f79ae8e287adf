package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/rlinf/rlinf/internal/checkpoint"
	"github.com/rlinf/rlinf/internal/durable"
	"github.com/rlinf/rlinf/internal/metrics"
	"github.com/rlinf/rlinf/internal/results"
	"github.com/rlinf/rlinf/internal/runfolder"
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

// runStatus writes the state of each run named by the arguments, and the commands with which to go on. For a folder
// of runs (logs, unless another is named), it writes a line for each run, the newest first.
func runStatus(c *cli.Context, reg config.Registries) error {
	dirs := c.Args().Slice()
	if len(dirs) == 0 {
		dirs = []string{"logs"}
	}
	all := []standing{} // [] in JSON, not null
	for _, dir := range dirs {
		runs, err := runsIn(dir)
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

// isRun reports whether dir is the folder of a run, even if it has no metrics yet.
func isRun(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "config.yaml"))
	return err == nil
}

// A standing is the state of a run. Its JSON omits unknown numbers.
type standing struct {
	Run    string           `json:"run"` // the run's folder
	Status runfolder.Status `json:"status"`
	Step   int64            `json:"step"`            // iterations made
	Steps  int64            `json:"steps,omitempty"` // iterations of the whole run
	// Metric is the metric of training: env/return, rollout/rewards or train/sft/loss. Value is its newest value.
	Metric string   `json:"metric,omitempty"`
	Value  *float64 `json:"value,omitempty"`
	// Rate is the rate of the newest iteration, in "env steps/s" or "tokens/s".
	Rate     *float64 `json:"rate,omitempty"`
	RateUnit string   `json:"rate_unit,omitempty"`
	// SecondsLeft is the remaining time of a running run, at the rate of its newest iteration.
	SecondsLeft *float64  `json:"seconds_left,omitempty"`
	Checkpoint  string    `json:"checkpoint,omitempty"` // the newest checkpoint
	Updated     time.Time `json:"updated"`              // when metrics or status were last written
}

// readStanding returns the state of the run in dir.
func readStanding(dir string) (s standing, err error) {
	s = standing{Run: dir, Checkpoint: checkpoint.Latest(filepath.Join(dir, "checkpoints"))}
	if s.Status, err = runfolder.ReadStatus(dir); err != nil {
		return s, err
	}
	if s.Status == "" {
		s.Status = "not begun"
	}
	for _, name := range []string{"config.yaml", "STATUS", "metrics.jsonl"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err == nil && info.ModTime().After(s.Updated) {
			s.Updated = info.ModTime()
		}
	}
	if start, ok := runfolder.LastStart(dir); ok {
		s.Steps = start.Iterations
	}
	newest := metrics.Newest(filepath.Join(dir, "metrics.jsonl"))
	value := func(name string) *float64 {
		if x, ok := newest[name]; ok {
			return &x
		}
		return nil
	}
	s.Step = int64(newest["step"])
	for _, name := range []string{"env/return", "rollout/rewards", "train/sft/loss"} {
		if x := value(name); x != nil {
			s.Metric, s.Value = name, x
			break
		}
	}
	for name, unit := range map[string]string{"time/env_steps_per_second": "env steps/s",
		"time/tokens_per_second": "tokens/s"} {
		if x := value(name); x != nil {
			s.Rate, s.RateUnit = x, unit
		}
	}
	if pace := value("time/step"); pace != nil && s.Status == runfolder.Running && s.Steps > s.Step {
		left := *pace * float64(s.Steps-s.Step)
		s.SecondsLeft = &left
	}
	return s, nil
}

// runsIn returns the run in dir, or all runs at most three levels below it (logs, a sweep, a point, a seed), the
// newest first.
func runsIn(dir string) (runs []standing, err error) {
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: no such folder", dir)
	}
	paths := []string{dir}
	if !isRun(dir) {
		paths = nil
		for levels := "/*"; len(levels) <= len("/*/*/*"); levels += "/*" {
			found, err := filepath.Glob(results.EscapeGlob(filepath.Clean(dir)) + levels + "/STATUS")
			if err != nil {
				return nil, err
			}
			for _, path := range found {
				if run := filepath.Dir(path); !strings.HasPrefix(filepath.Base(run), "earlier-") {
					paths = append(paths, run)
				}
			}
		}
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("%s: expected the folder of a run, or one with runs in it", dir)
	}
	for _, path := range paths {
		s, err := readStanding(path)
		if err != nil {
			return nil, err
		}
		runs = append(runs, s)
	}
	slices.SortStableFunc(runs, func(a, b standing) int { return b.Updated.Compare(a.Updated) })
	return runs, nil
}

// writeRuns writes the runs of dir: the details of one run, or a table of several.
func writeRuns(out io.Writer, reg config.Registries, dir string, runs []standing) error {
	if isRun(dir) {
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
		fmt.Fprintln(w, strings.Join([]string{s.Run, string(s.Status), step, value, rate, left}, "\t"))
	}
	return w.Flush()
}

// writeRun writes the state of a run, and the commands with which to go on.
func writeRun(out io.Writer, reg config.Registries, s standing) error {
	text, err := durable.ReadFile(filepath.Join(s.Run, "config.yaml"))
	if err != nil {
		return fmt.Errorf("%s: expected the folder of a run: %w", s.Run, err)
	}
	cfg, err := config.Parse(reg, text)
	if err != nil {
		return fmt.Errorf("%s: %w", filepath.Join(s.Run, "config.yaml"), err)
	}
	where := ""
	if s.Step > 0 {
		where = fmt.Sprintf("after step %d", s.Step)
	}
	session.WriteNext(out, os.Args[0], mpi.Compiled, cfg, s.Run, s.Status, s.Step, where)
	return nil
}
