package sweep

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/rlinf/rlinf/internal/results"
	"github.com/rlinf/rlinf/roles/ask"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/task"
	"github.com/urfave/cli/v2"
)

// forkRuns returns the runs of a sweep that continues other runs after --step. --from names a run, or a folder of runs
// seed_N. Each of these runs gets a fork at each point of the grid. Forks of a seed have the same initial states and
// the same noise.
func forkRuns(c *cli.Context, reg config.Registries, tasks task.Tasks, axes []axis, fixed []string) ([]*sweepRun,
	error) {
	from, step := filepath.Clean(c.String("from")), int64(c.Int("step"))
	for _, flag := range []string{"config", "seeds"} {
		if c.IsSet(flag) {
			return nil, config.Usagef("--%s: expected no --from, or no --%[1]s: the runs of --from have it",
				flag)
		}
	}
	parents := []string{from}
	if !results.IsRun(from) {
		if parents, _ = filepath.Glob(filepath.Join(from, "seed_*")); len(parents) == 0 {
			return nil, config.Usagef("--from %s: expected the folder of a run, or of runs seed_N", from)
		}
	}
	var runs []*sweepRun
	var wrong mistakes
	all := points(axes)
	for _, point := range all {
		for _, parent := range parents {
			r, err := fork(c, reg, tasks, parent, from+"-forks", step, pointName(point), slices.Concat(fixed, point))
			if err != nil {
				wrong.add(pointName(point), err)
				continue
			}
			runs = append(runs, r)
		}
	}
	if err := wrong.err(len(all)); err != nil {
		return nil, err
	}
	return runs, nil
}

// fork returns the fork of a run at a point.
func fork(c *cli.Context, reg config.Registries, tasks task.Tasks, parent, folder string, step int64, point string,
	overrides []string) (*sweepRun, error) {
	run, err := ask.Open(reg, parent)
	if err != nil {
		return nil, config.UsageError{Err: err}
	}
	i := slices.IndexFunc(run.States, func(s ask.StartPoint) bool { return s.Step == step && s.Checkpoint != nil })
	if i < 0 {
		var have []int64
		for _, s := range run.States[1:] {
			have = append(have, s.Step)
		}
		return nil, config.Usagef("--step %d: run %s has no such checkpoint: expected one of %v", step, run.Dir, have)
	}
	r := &sweepRun{point: point, seed: run.Config.Runner.Seed, from: run.States[i].Checkpoint}
	file := filepath.Join(run.Dir, "config.yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	cfg, _, err := config.LoadText(reg, file, text, append(slices.Clone(overrides), "runner.logger.log_path="+
		filepath.Dir(folder), "runner.logger.experiment_name="+filepath.Join(filepath.Base(folder), r.name())),
		c.Bool("strict"))
	if cfg == nil || cfg.Err() != nil {
		return nil, config.UsageError{Err: err}
	}
	if int64(cfg.Runner.Iterations()) <= step {
		return nil, config.Usagef("--step %d: the run ends after step %d: expected runner.max_steps=N above it", step,
			cfg.Runner.Iterations())
	}
	r.cfg = cfg
	r.ranks, r.open, err = place(c, reg, tasks, cfg, r.from)
	return r, err
}

// begin returns the checkpoint from which a fork starts. The sweep keeps it, since the parent may remove it.
func (r *sweepRun) begin() (string, error) {
	dir := filepath.Join(filepath.Dir(r.cfg.Folder()), fmt.Sprintf(".from_seed_%d", r.seed))
	kept := filepath.Join(dir, "from", filepath.Base(r.from.Dir))
	if _, err := os.Stat(kept); err == nil {
		return kept, nil
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return "", err
	}
	return ask.Keep(r.from, dir)
}
