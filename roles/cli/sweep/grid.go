package sweep

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rlinf/rlinf/internal/checkpoint"
	"github.com/rlinf/rlinf/internal/runfolder"
	"github.com/rlinf/rlinf/roles/advice"
	"github.com/rlinf/rlinf/roles/cli/args"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/roles/task"
	"github.com/urfave/cli/v2"
)

// A sweepRun is one run of a sweep.
type sweepRun struct {
	point string // its overrides from the grid, such as lr=0.001,gamma=0.9; "" without a grid
	seed  uint64
	cfg   *config.Config
	ranks int                    // number of goroutine ranks
	from  *checkpoint.Checkpoint // where a fork begins; nil for other runs
	open  *advice.Subject        // chooses the placement when the run starts; nil if cfg has the placement
}

// name returns the path of the run's folder below the sweep's folder.
func (r *sweepRun) name() string { return filepath.Join(r.point, fmt.Sprintf("seed_%d", r.seed)) }

// finished reports whether the run is done.
func (r *sweepRun) finished() bool {
	cfg := r.cfg
	if r.open != nil {
		p, err := advice.ReadStartPlan(runfolder.Plan(cfg.Folder()))
		if err != nil { // it has not begun
			return false
		}
		cfg = r.open.Resolve(&p.Layout)
	}
	return runfolder.Finished(cfg.Folder(), cfg.RecordedAs)
}

// An axis is one key of a grid, with its values.
type axis struct {
	key    string
	values []string
}

// splitGrid returns overrides with several values as axes, and overrides with one value in fixed. Commas separate
// values, except within brackets or quotes.
func splitGrid(overrides []string) (axes []axis, fixed []string, err error) {
	for _, o := range overrides {
		key, text, _ := strings.Cut(o, "=")
		values := splitValues(text)
		if len(values) < 2 {
			fixed = append(fixed, o)
			continue
		}
		for i, v := range values {
			if v == "" || slices.Contains(values[:i], v) {
				return nil, nil, fmt.Errorf("%s: %q: expected each value once, and none empty", key, text)
			}
		}
		switch bare := strings.TrimLeft(key, "+"); {
		case bare == "runner.seed":
			return nil, nil, errors.New("runner.seed: expected --seeds N: seeds are no part of the grid")
		case strings.HasPrefix(bare, "runner.logger."):
			return nil, nil, fmt.Errorf("%s: expected one value: the sweep gives every run a folder", bare)
		case slices.ContainsFunc(axes, func(a axis) bool { return a.key == key }):
			return nil, nil, fmt.Errorf("%s: expected it once, with all values", key)
		}
		axes = append(axes, axis{key, values})
	}
	return axes, fixed, nil
}

// splitValues splits text at commas outside of brackets and quotes.
func splitValues(text string) []string {
	var values []string
	depth, quote, from := 0, rune(0), 0
	for i, c := range text {
		switch {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'':
			quote = c
		case c == '[' || c == '{':
			depth++
		case c == ']' || c == '}':
			depth--
		case c == ',' && depth == 0:
			values = append(values, strings.TrimSpace(text[from:i]))
			from = i + 1
		}
	}
	return append(values, strings.TrimSpace(text[from:]))
}

// points returns the overrides of every point of the grid. The last axis varies fastest.
func points(axes []axis) [][]string {
	all := [][]string{nil}
	for _, a := range axes {
		var longer [][]string
		for _, p := range all {
			for _, v := range a.values {
				longer = append(longer, append(slices.Clone(p), a.key+"="+v))
			}
		}
		all = longer
	}
	return all
}

// pointName returns the name of a point's folder: the overrides of the point. A key is shortened to its last part,
// unless another key has the same last part.
func pointName(point []string) string {
	last := func(o string) string {
		key, _, _ := strings.Cut(o, "=")
		return key[strings.LastIndexAny(key, ".+")+1:]
	}
	var words []string
	for i, o := range point {
		key, value, _ := strings.Cut(o, "=")
		if !slices.ContainsFunc(append(slices.Clone(point[:i]), point[i+1:]...), func(p string) bool {
			return last(p) == last(o)
		}) {
			key = last(o)
		}
		words = append(words, key+"="+value)
	}
	return strings.NewReplacer("/", "_", `\`, "_", " ", "", `"`, "", "'", "").Replace(strings.Join(words, ","))
}

// maxRuns is the maximum number of runs in a sweep. All runs are checked before the first begins.
const maxRuns = 2000

// sweepRuns returns the runs of the command line, in the order of their points. It checks every run, and writes
// warnings to log.
func sweepRuns(c *cli.Context, reg config.Registries, tasks task.Tasks, log io.Writer) ([]*sweepRun, error) {
	axes, fixed, err := splitGrid(c.Args().Slice())
	if err != nil {
		return nil, config.UsageError{Err: err}
	}
	if c.IsSet("from") {
		return forkRuns(c, reg, tasks, axes, fixed)
	}
	seeds := c.Int("seeds")
	if len(axes) == 0 && seeds == 1 {
		return nil, config.Usagef("nothing to sweep: expected key=a,b,… or --seeds N")
	}
	n := seeds
	for _, a := range axes {
		n = config.Product(n, len(a.values))
	}
	if n > maxRuns {
		return nil, config.Usagef("%d runs: expected at most %d: fewer --seeds or values", n, maxRuns)
	}
	var runs []*sweepRun
	folders := map[string]bool{}
	var wrong mistakes
	all := points(axes)
	for _, p := range all {
		point, err := pointRuns(c, reg, tasks, slices.Concat(fixed, p), pointName(p), seeds, log)
		log = io.Discard // the other points have the same warnings
		if err != nil {
			wrong.add(pointName(p), err)
			continue
		}
		for _, r := range point {
			if folders[r.cfg.Folder()] {
				wrong.add(r.point, fmt.Errorf("%s: two points of the grid would share this folder: expected values "+
					"whose names differ", r.cfg.Folder()))
			}
			folders[r.cfg.Folder()] = true
		}
		runs = append(runs, point...)
	}
	if err := wrong.err(len(all)); err != nil {
		return nil, err
	}
	if a := runs[0].cfg; seeds > 1 && (a.Actor.Seed == runs[1].cfg.Actor.Seed ||
		a.Env.Train.Seed == runs[1].cfg.Env.Train.Seed) {
		return nil, config.Usagef("--seeds: actor.seed or env.train.seed is given: expected both to follow runner.seed")
	}
	return runs, nil
}

// folderEnd is the suffix of the name of a sweep's folder. A single run of the configuration has a folder without the
// suffix, so it never moves the sweep's files aside.
const folderEnd = "-sweep"

// pointRuns returns the runs of a point, one for each seed. It checks every run.
func pointRuns(c *cli.Context, reg config.Registries, tasks task.Tasks, overrides []string, point string, seeds int,
	log io.Writer) ([]*sweepRun, error) {
	first, err := args.ReadConfig(c, reg, overrides, log)
	if err != nil {
		return nil, err
	}
	if first.Err() != nil { // report these errors, which name the origins of values
		_, _, err := place(c, reg, tasks, first, nil)
		return nil, err
	}
	if !first.Given("runner.keep_checkpoints") {
		overrides = append(overrides, "runner.keep_checkpoints=1") // the newest; a sweep also keeps the best
	}
	runs := make([]*sweepRun, seeds)
	for i := range runs {
		runs[i] = &sweepRun{point: point, seed: first.Runner.Seed + uint64(i)}
		if err := runs[i].configure(c, reg, tasks, overrides,
			first.Runner.Logger.ExperimentName+folderEnd); err != nil {
			return nil, err
		}
	}
	return runs, nil
}

// configure loads and checks the configuration of r. The run's folder is below the sweep's folder.
func (r *sweepRun) configure(c *cli.Context, reg config.Registries, tasks task.Tasks, overrides []string,
	sweep string) (err error) {
	r.cfg, err = args.ReadConfig(c, reg, append(slices.Clone(overrides), fmt.Sprintf("runner.seed=%d", r.seed),
		"runner.logger.experiment_name="+filepath.Join(sweep, r.name())), io.Discard)
	if err != nil {
		return err
	}
	if !r.cfg.Trains() {
		return config.Usagef("sweep: runner.only_eval: expected a job that trains")
	}
	r.ranks, r.open, err = place(c, reg, tasks, r.cfg, nil)
	return err
}

// place checks the job of cfg and returns its number of goroutine ranks. The subject chooses the placement when the job
// starts. It is nil if cfg has the placement. The argument from is the checkpoint from which a fork begins, or nil.
func place(c *cli.Context, reg config.Registries, tasks task.Tasks, cfg *config.Config,
	from *checkpoint.Checkpoint) (ranks int, subject *advice.Subject, err error) {
	if ranks, err = args.GoroutineRanks(c, cfg); err != nil {
		return 0, nil, err
	}
	p, subject, err := advice.Provisional(cfg, reg, tasks, args.SpreadNodes(ranks, max(cfg.SPMD.Nodes, 1)))
	if err == nil {
		err = loop.CheckStart(&p.JobPlan)
	}
	if err == nil && from != nil {
		_, err = loop.NamedState(&p.JobPlan, cfg.Record(), from.Dir, true)
	}
	if err != nil {
		return 0, nil, config.UsageError{Err: err}
	}
	return ranks, subject, nil
}

// mistakes collects the mistakes in all points of a grid. Each mistake is reported once.
type mistakes struct {
	texts  []string
	points map[string][]string // from the text of a mistake to the points that have it
}

// add adds the mistakes of a point.
func (m *mistakes) add(point string, err error) {
	if m.points == nil {
		m.points = map[string][]string{}
	}
	for text := range strings.SplitSeq(err.Error(), "\n") {
		if m.points[text] == nil {
			m.texts = append(m.texts, text)
		}
		m.points[text] = append(m.points[text], point)
	}
}

// err returns all mistakes as a usage error, or nil if there are none. total is the number of points.
func (m *mistakes) err(total int) error {
	var errs []error
	for _, text := range m.texts {
		switch points := m.points[text]; {
		case len(points) == total: // all points have the mistake
		case len(points) == 1:
			text += fmt.Sprintf(" [%s]", points[0])
		default:
			text += fmt.Sprintf(" [%s and %d more points]", points[0], len(points)-1)
		}
		errs = append(errs, errors.New(text))
	}
	if errs == nil {
		return nil
	}
	return config.UsageError{Err: errors.Join(errs...)}
}
