package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/rlinf/rlinf/internal/results"
	"github.com/rlinf/rlinf/internal/runfolder"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/session"
	"github.com/urfave/cli/v2"
)

// runStatus says of each run folder that the arguments name what has become of the run, and how to
// go on with it.
func runStatus(c *cli.Context, reg config.Registries) error {
	if !c.Args().Present() {
		return config.UsageError{Err: errors.New("status: want the folders of runs, as logs/default")}
	}
	for _, dir := range c.Args().Slice() {
		if err := writeStatus(c, reg, dir); err != nil {
			return config.UsageError{Err: fmt.Errorf("status: %w", err)}
		}
	}
	return nil
}

func writeStatus(c *cli.Context, reg config.Registries, dir string) error {
	text, err := os.ReadFile(filepath.Join(dir, "config.yaml"))
	if err != nil {
		return fmt.Errorf("%s: want the folder of a run: %w", dir, err)
	}
	cfg, err := config.Parse(reg, text)
	if err != nil {
		return fmt.Errorf("%s: %w", filepath.Join(dir, "config.yaml"), err)
	}
	status, err := runfolder.ReadStatus(dir)
	if err != nil {
		return err
	}
	if status == "" {
		status = "not begun"
	}
	where := ""
	if run, err := results.ReadRun(dir, "env/steps"); err == nil && len(run.Rows) > 0 {
		where = fmt.Sprintf("after step %d", run.Last().Step)
	}
	if !sameFolder(dir, cfg.Folder()) {
		cfg.Runner.Logger.LogPath, cfg.Runner.Logger.ExperimentName = filepath.Dir(dir), filepath.Base(dir)
		where += "; these commands work in the folder in which the job was started"
	}
	session.WriteNext(c.App.Writer, os.Args[0], cfg, status, where)
	return nil
}

func sameFolder(a, b string) bool {
	at, err := os.Stat(a)
	bt, err2 := os.Stat(b)
	return err == nil && err2 == nil && os.SameFile(at, bt)
}
