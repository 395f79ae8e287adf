package results

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rlinf/rlinf/internal/plot"
)

// A Group is a set of runs that differ only in their seeds.
type Group struct {
	Name string // last elements of Path
	Path string
	Runs []Run
}

// ErrNoRun is the error for an existing path without a run.
var ErrNoRun = errors.New("expected the folder of a run or of a sweep, or a file of kept results")

// maxDepth is how many levels below a folder Load searches for runs: logs, a sweep, its points.
const maxDepth = 2

// Load returns the groups at path. A file written by Keep is one group. A folder has the groups in
// it and below: each run is a group, and all runs seed_N of one folder, as a sweep makes them, are
// one. Runs that were set aside (earlier-N) are skipped. For prefix see ReadRun.
func Load(path, prefix string) ([]Group, error) {
	return load(path, prefix, func(err error) error { return err })
}

// LoadWhole is Load without the runs that cannot be read. damaged has the errors of these runs.
func LoadWhole(path, prefix string) (groups []Group, damaged []error, err error) {
	groups, err = load(path, prefix, func(err error) error {
		damaged = append(damaged, err)
		return nil
	})
	return groups, damaged, err
}

// load is Load. The function failed gets the error of a run. If it returns nil, the run is left out.
func load(path, prefix string, failed func(error) error) ([]Group, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: no such file or folder", path)
	} else if err != nil {
		return nil, err
	}
	path = filepath.Clean(path)
	if !info.IsDir() {
		if filepath.Ext(path) != ".csv" {
			return nil, fmt.Errorf("%s: %w", path, ErrNoRun)
		}
		runs, err := ReadKept(path)
		return []Group{{strings.TrimSuffix(filepath.Base(path), filepath.Ext(path)), path, runs}}, err
	}
	groups, err := below(path, filepath.Base(path), prefix, maxDepth, failed)
	if err == nil && len(groups) == 0 {
		err = fmt.Errorf("%s: %w", path, ErrNoRun)
	}
	return groups, err
}

// below returns the groups in dir, and in its subfolders up to the given number of levels. name is
// the name of the group in dir itself.
func below(dir, name, prefix string, levels int, failed func(error) error) (groups []Group, err error) {
	if hasMetrics(dir) {
		r, err := ReadRun(dir, prefix)
		if err == nil {
			groups = append(groups, Group{name, dir, []Run{r}})
		} else if err = failed(err); err != nil {
			return nil, err
		}
	}
	g, err := seeds(dir, prefix, failed)
	if err != nil {
		return nil, err
	}
	if g.Name = name; len(g.Runs) > 0 {
		if len(groups) > 0 {
			g.Name += "/seed_*"
		}
		groups = append(groups, g)
	}
	if levels == 0 {
		return groups, nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if !e.IsDir() || strings.HasPrefix(e.Name(), "seed_") || strings.HasPrefix(e.Name(), "earlier-") {
			continue
		}
		at := e.Name()
		if levels < maxDepth {
			at = filepath.Join(name, at)
		}
		more, err := below(filepath.Join(dir, e.Name()), at, prefix, levels-1, failed)
		if err != nil {
			return nil, err
		}
		groups = append(groups, more...)
	}
	return groups, nil
}

// hasMetrics reports whether dir is the folder of a run that has made metrics.
func hasMetrics(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "metrics.jsonl"))
	return err == nil
}

// seeds reads the runs seed_N in dir, if there are any.
func seeds(dir, prefix string, failed func(error) error) (Group, error) {
	g := Group{Path: dir}
	paths, err := filepath.Glob(filepath.Join(EscapeGlob(dir), "seed_*"))
	if err != nil {
		return g, err
	}
	for _, path := range paths {
		if !hasMetrics(path) {
			continue
		}
		r, err := ReadRun(path, prefix)
		if err == nil {
			g.Runs = append(g.Runs, r)
		} else if err = failed(err); err != nil {
			return g, err
		}
	}
	slices.SortFunc(g.Runs, func(a, b Run) int { return cmp.Compare(a.Seed, b.Seed) })
	return g, nil
}

// EscapeGlob returns a pattern for filepath.Glob that matches only path.
func EscapeGlob(path string) string {
	return strings.NewReplacer(`*`, `\*`, `?`, `\?`, `[`, `\[`, `\`, `\\`).Replace(path)
}

// At returns the metric of each run at envSteps environment steps. If envSteps is +Inf, it returns
// the last value of each run. Runs without a value are left out.
func (g *Group) At(metric string, envSteps float64) []float64 {
	var values []float64
	for i := range g.Runs {
		if v, ok := g.Runs[i].At(metric, envSteps); ok {
			values = append(values, v)
		}
	}
	return values
}

// mostPoints is roughly the largest number of points of a curve, enough for the width of a picture.
const mostPoints = 500

// Curve returns the mean over the runs with its 95 % interval, at all steps of rows where every run
// has a value. If there are many steps, it takes only every n-th.
func (g *Group) Curve(metric string) plot.Curve {
	var at []float64
	for _, r := range g.Runs {
		for _, row := range r.Rows {
			if _, ok := row.Values[metric]; ok {
				at = append(at, row.EnvSteps)
			}
		}
	}
	slices.Sort(at)
	at = slices.Compact(at)
	c := plot.Curve{Name: g.Name}
	for i, x := range at {
		if i%(len(at)/mostPoints+1) > 0 && i < len(at)-1 {
			continue
		}
		values := g.At(metric, x)
		if len(values) < len(g.Runs) {
			continue
		}
		e := NewEstimate(values)
		c.X, c.Y = append(c.X, x), append(c.Y, e.Mean)
		c.Low, c.High = append(c.Low, e.Mean-e.Margin), append(c.High, e.Mean+e.Margin)
	}
	if len(g.Runs) != 1 {
		c.Name = fmt.Sprintf("%s, %d seeds", g.Name, len(g.Runs))
	}
	return c
}
