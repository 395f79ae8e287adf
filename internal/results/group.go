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

// A SeedGroup is a set of runs that differ only in their seeds.
type SeedGroup struct {
	Name string // the last elements of Path
	Path string
	Runs []Run
}

// ErrNoRun is the error for an existing path without a run.
var ErrNoRun = errors.New("expected the folder of a run or of a sweep, or a file of kept results")

// maxDepth is the number of levels below a folder at which Load searches for runs. In logs/, these are the levels of
// sweeps and of their points.
const maxDepth = 2

// Load returns the groups at path. A file written by Keep is one group. In a folder and the folders below it, each run
// is a group, but the runs seed_N of one folder form one group together. Load skips runs that were set aside
// (earlier-N). For the argument prefix, see ReadRun.
func Load(path, prefix string) ([]SeedGroup, error) {
	groups, damaged, err := LoadWhole(path, prefix)
	if len(damaged) > 0 {
		return nil, damaged[0]
	}
	return groups, err
}

// LoadWhole is like Load, but leaves out runs that it cannot read. damaged has the errors of these runs.
func LoadWhole(path, prefix string) (groups []SeedGroup, damaged []error, err error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fmt.Errorf("%s: no such file or folder", path)
	} else if err != nil {
		return nil, nil, err
	}
	path = filepath.Clean(path)
	if !info.IsDir() {
		if filepath.Ext(path) != ".csv" {
			return nil, nil, fmt.Errorf("%s: %w", path, ErrNoRun)
		}
		runs, err := ReadKept(path)
		return []SeedGroup{{strings.TrimSuffix(filepath.Base(path), filepath.Ext(path)), path, runs}}, nil, err
	}
	l := loader{prefix: prefix}
	if err := l.load(path, filepath.Base(path), maxDepth); err != nil {
		return nil, l.damaged, err
	}
	if len(l.groups) == 0 {
		err = fmt.Errorf("%s: %w", path, ErrNoRun)
	}
	return l.groups, l.damaged, err
}

// A loader collects groups.
type loader struct {
	prefix  string
	groups  []SeedGroup
	damaged []error // errors of runs that cannot be read
}

// load adds the groups in dir, and in its subfolders down to the given number of levels. name is the name of the group
// in dir itself.
func (l *loader) load(dir, name string, levels int) error {
	alone := l.read(dir)
	if len(alone) > 0 {
		l.groups = append(l.groups, SeedGroup{name, dir, alone})
	}
	paths, err := filepath.Glob(filepath.Join(EscapeGlob(dir), "seed_*"))
	if err != nil {
		return err
	}
	var seeds []Run
	for _, path := range paths {
		seeds = append(seeds, l.read(path)...)
	}
	if len(seeds) > 0 {
		slices.SortFunc(seeds, func(a, b Run) int { return cmp.Compare(a.Seed, b.Seed) })
		g := SeedGroup{name, dir, seeds}
		if len(alone) > 0 {
			g.Name += "/seed_*"
		}
		l.groups = append(l.groups, g)
	}
	if levels == 0 {
		return nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !e.IsDir() || strings.HasPrefix(e.Name(), "seed_") || strings.HasPrefix(e.Name(), "earlier-") {
			continue
		}
		below := e.Name()
		if levels < maxDepth {
			below = filepath.Join(name, below)
		}
		if err := l.load(filepath.Join(dir, e.Name()), below, levels-1); err != nil {
			return err
		}
	}
	return nil
}

// read returns the run in dir. It returns no run if dir has no metrics, or if the run cannot be read.
func (l *loader) read(dir string) []Run {
	if _, err := os.Stat(filepath.Join(dir, "metrics.jsonl")); err != nil {
		return nil
	}
	r, err := ReadRun(dir, l.prefix)
	if err != nil {
		l.damaged = append(l.damaged, err)
		return nil
	}
	return []Run{r}
}

// EscapeGlob returns a pattern for filepath.Glob that matches only path.
func EscapeGlob(path string) string {
	return strings.NewReplacer(`*`, `\*`, `?`, `\?`, `[`, `\[`, `\`, `\\`).Replace(path)
}

// At returns the metric of each run at envSteps environment steps. If envSteps is +Inf, it returns the last value of
// each run. Runs without a value are left out.
func (g *SeedGroup) At(metric string, envSteps float64) []float64 {
	var values []float64
	for i := range g.Runs {
		if v, ok := g.Runs[i].At(metric, envSteps); ok {
			values = append(values, v)
		}
	}
	return values
}

// mostPoints is roughly the maximum number of points of a curve, enough for the width of a picture.
const mostPoints = 500

// Curve returns the mean over the runs with its 95 % interval, at each step at which all runs have a value. If there
// are many steps, it uses only every n-th step.
func (g *SeedGroup) Curve(metric string) plot.Curve {
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
