package results

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rlinf/rlinf/internal/plot"
)

// A Group is runs that differ in their seeds alone.
type Group struct {
	Name string // the last part of Path
	Path string
	Runs []Run
}

// ErrNoRun is in the error of a path that exists and holds no run.
var ErrNoRun = errors.New("want the folder of a run or of a sweep, or a file of kept results")

// Load returns the groups that path holds: of a file that Keep wrote, one; of a run's folder, that
// run; of a folder of folders seed_N, those together; of a sweep's folder, such a group for each
// point. prefix is as of ReadRun.
func Load(path, prefix string) ([]Group, error) {
	info, err := os.Stat(path)
	if err != nil {
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
	if isRun(path) {
		r, err := ReadRun(path, prefix)
		return []Group{{filepath.Base(path), path, []Run{r}}}, err
	}
	g, err := seeds(path, prefix)
	if err != nil || len(g.Runs) > 0 {
		return []Group{g}, err
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	var groups []Group
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		g, err := seeds(filepath.Join(path, e.Name()), prefix)
		if err != nil {
			return nil, err
		}
		if len(g.Runs) > 0 {
			groups = append(groups, g)
		}
	}
	if len(groups) == 0 {
		return nil, fmt.Errorf("%s: %w", path, ErrNoRun)
	}
	return groups, nil
}

// isRun reports whether dir is a run's folder.
func isRun(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "metrics.jsonl"))
	return err == nil
}

// seeds reads the runs seed_N in dir; there may be none.
func seeds(dir, prefix string) (Group, error) {
	g := Group{Name: filepath.Base(dir), Path: dir}
	paths, err := filepath.Glob(filepath.Join(escapeGlob(dir), "seed_*"))
	if err != nil {
		return g, err
	}
	for _, path := range paths {
		if !isRun(path) {
			continue
		}
		r, err := ReadRun(path, prefix)
		if err != nil {
			return g, err
		}
		g.Runs = append(g.Runs, r)
	}
	slices.SortFunc(g.Runs, func(a, b Run) int { return cmp.Compare(a.Seed, b.Seed) })
	return g, nil
}

// escapeGlob returns a pattern that path alone matches.
func escapeGlob(path string) string {
	return strings.NewReplacer(`*`, `\*`, `?`, `\?`, `[`, `\[`, `\`, `\\`).Replace(path)
}

// At returns the metric of each run at so many environment steps, of those that have it; +Inf:
// their last.
func (g *Group) At(metric string, envSteps float64) []float64 {
	var values []float64
	for i := range g.Runs {
		if v, ok := g.Runs[i].At(metric, envSteps); ok {
			values = append(values, v)
		}
	}
	return values
}

// Curve returns the mean over the runs with its 95 % interval, wherever one of them has a row and
// all have come.
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
	c := plot.Curve{Name: g.Name}
	for _, x := range slices.Compact(at) {
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
