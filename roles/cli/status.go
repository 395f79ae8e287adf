package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rlinf/rlinf/internal/durable"
	"github.com/rlinf/rlinf/internal/metrics"
	"github.com/rlinf/rlinf/internal/results"
	"github.com/rlinf/rlinf/internal/runfolder"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/session"
	"github.com/rlinf/rlinf/spmd/mpi"
	"github.com/urfave/cli/v2"
)

// runStatus writes the state of each run that the arguments name, and how to go on with it. For a
// folder that holds runs it writes a line for each.
func runStatus(c *cli.Context, reg config.Registries) error {
	if !c.Args().Present() {
		return config.UsageError{Err: errors.New("status: expected the folders of runs, as logs/default")}
	}
	for _, dir := range c.Args().Slice() {
		write := writeStatus
		if !isRun(dir) {
			write = listRuns
		}
		if err := write(c, reg, dir); err != nil {
			return config.UsageError{Err: fmt.Errorf("status: %w", err)}
		}
	}
	return nil
}

// isRun reports whether dir is the folder of a run, however young.
func isRun(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "config.yaml"))
	return err == nil
}

// listRuns writes a line on each run in dir, at most three levels below it: logs, a sweep, a point,
// a seed.
func listRuns(c *cli.Context, _ config.Registries, dir string) error {
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: no such folder", dir)
	}
	var runs []string
	for levels := "/*"; len(levels) <= len("/*/*/*"); levels += "/*" {
		found, err := filepath.Glob(results.EscapeGlob(filepath.Clean(dir)) + levels + "/STATUS")
		if err != nil {
			return err
		}
		for _, path := range found {
			if run := filepath.Dir(path); !strings.HasPrefix(filepath.Base(run), "earlier-") {
				runs = append(runs, run)
			}
		}
	}
	if len(runs) == 0 {
		return fmt.Errorf("%s: expected the folder of a run, or one with runs in it", dir)
	}
	slices.Sort(runs)
	for _, run := range runs {
		status, step, err := standing(run)
		if err != nil {
			return err
		}
		fmt.Fprintf(c.App.Writer, "%-11s %s: %s\n", "run", run, strings.TrimSpace(string(status)+" "+after(step)))
	}
	return nil
}

// standing returns the state of the run in dir, and how many iterations it has made.
func standing(dir string) (status runfolder.Status, step int64, err error) {
	if status, err = runfolder.ReadStatus(dir); err != nil {
		return "", 0, err
	}
	if status == "" {
		status = "not begun"
	}
	step, _ = metrics.LastStep(filepath.Join(dir, "metrics.jsonl"))
	return status, step, nil
}

// after says how far a run has come that has made step iterations; "": nowhere.
func after(step int64) string {
	if step == 0 {
		return ""
	}
	return fmt.Sprintf("after step %d", step)
}

func writeStatus(c *cli.Context, reg config.Registries, dir string) error {
	text, err := durable.ReadFile(filepath.Join(dir, "config.yaml"))
	if err != nil {
		return fmt.Errorf("%s: expected the folder of a run: %w", dir, err)
	}
	cfg, err := config.Parse(reg, text)
	if err != nil {
		return fmt.Errorf("%s: %w", filepath.Join(dir, "config.yaml"), err)
	}
	status, step, err := standing(dir)
	if err != nil {
		return err
	}
	session.WriteNext(c.App.Writer, os.Args[0], mpi.Compiled, cfg, dir, status, step, after(step))
	return nil
}
