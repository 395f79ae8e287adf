// Package args answers: what do the arguments of a command mean? It reads configurations, overrides and numbers of
// ranks, and opens the ranks of this process.
package args

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"

	keys "github.com/rlinf/rlinf/internal/config"
	"github.com/rlinf/rlinf/internal/figures"
	"github.com/rlinf/rlinf/internal/printable"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/job"
	"github.com/rlinf/rlinf/roles/task"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/spmd/local"
	"github.com/rlinf/rlinf/spmd/mpi"
	"github.com/urfave/cli/v2"
)

// NoArguments returns an action that calls run. If the command has arguments, the action returns a usage error instead.
func NoArguments(run func(*cli.Context) error) func(*cli.Context) error {
	return func(c *cli.Context) error {
		if word := c.Args().First(); c.Args().Present() {
			return config.Usagef("%s: argument %q: expected none%s", c.Command.Name, word,
				Meant(c.Command.Subcommands, word))
		}
		return run(c)
	}
}

// Alone returns an action that calls run in one process only. Under a launcher this is the leading process. The other
// processes do nothing.
func Alone(run func(*cli.Context) error) func(*cli.Context) error {
	return func(c *cli.Context) error {
		if !mpi.Leads() {
			return nil
		}
		return run(c)
	}
}

// Config loads the configuration that the command line names, and writes its warnings to log. It returns an error if a
// value is wrong.
func Config(c *cli.Context, reg config.Registries, log io.Writer) (*config.Config, error) {
	cfg, err := ReadConfig(c, reg, c.Args().Slice(), log)
	if err == nil && cfg.Err() != nil {
		err = config.UsageError{Err: cfg.Err()}
	}
	return cfg, err
}

// ReadConfig loads the configuration that the command line names, with overrides, and writes its warnings to log. It
// returns no error for wrong values. Config.Err returns them, so that a job can be checked as a whole.
func ReadConfig(c *cli.Context, reg config.Registries, overrides []string, log io.Writer) (*config.Config, error) {
	for _, a := range overrides {
		if err := checkOverride(c, a); err != nil {
			return nil, err
		}
	}
	path := c.String("config")
	if path == "" {
		return nil, config.Usagef("no configuration: expected -c FILE.yaml, for example -c configs/cartpole_ppo.yaml " +
			"(rlinf help says more)")
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		if near := nearFile(path); near != "" {
			return nil, config.Usagef("%s: no such file, did you mean %s?", path, near)
		}
	}
	text, err := configText(c, path)
	if err != nil {
		return nil, config.UsageError{Err: err}
	}
	cfg, warnings, err := config.LoadText(reg, path, text, overrides, c.Bool("strict"))
	for _, w := range warnings {
		if mpi.Leads() {
			fmt.Fprintln(log, "warning:", printable.Lines(w))
		}
	}
	if cfg == nil {
		return nil, config.UsageError{Err: err}
	}
	return cfg, nil
}

// configText returns the text of the configuration file at path. The file is read only once, because it may be a pipe.
func configText(c *cli.Context, path string) ([]byte, error) {
	if text, ok := c.App.Metadata[path].([]byte); ok {
		return text, nil
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() && !info.IsDir() && Launched() {
		return nil, fmt.Errorf("%s: is a pipe or a device, expected a file: each process of the job reads it", path)
	}
	text, err := keys.ReadOnce(path)
	if err == nil {
		c.App.Metadata[path] = text
	}
	return text, err
}

// CheckFile returns a usage error if the configuration file of the command line is not a regular file. Commands call
// CheckFile if other processes will read the file.
func CheckFile(c *cli.Context) error {
	path := c.String("config")
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return config.Usagef("-c %s: expected a file, which %s names to others", path, c.Command.Name)
	}
	return nil
}

// Launched reports whether a launcher has started the ranks.
func Launched() bool {
	n, launcher := mpi.Launched()
	return launcher != "" && (n > 1 || mpi.Compiled)
}

// MaxGoroutineRanks is the maximum number of ranks of one process. With more, a step would take hours.
const MaxGoroutineRanks = 1 << 10

// GoroutineRanks returns the number of ranks that a process without a launcher starts.
func GoroutineRanks(c *cli.Context, cfg *config.Config) (int, error) {
	np, err := LocalRanks(c, cfg)
	if err == nil {
		err = checkGoroutineRanks(np, job.FindAvailable("/", 1))
	}
	return np, err
}

// checkGoroutineRanks returns an error if np ranks are too many for one process, or for its memory. The ranks need
// memory for their configurations, plans, stacks and tables of ranks. The constants, in bytes, were measured.
func checkGoroutineRanks(np int, have job.Available) error {
	const each, pair = 3 << 20, 4 << 10
	need, expected := int64(np)*(each+int64(np)*pair), ""
	switch {
	case np > MaxGoroutineRanks:
		expected = fmt.Sprintf("expected at most %d", MaxGoroutineRanks)
	case need > have.Free:
		expected = fmt.Sprintf("they take about %s, and %v: expected fewer", figures.MiB(need), have)
	default:
		return nil
	}
	return config.Usagef("%d ranks in one process: %s, or mpirun or srun to start them (-np, "+
		"cluster.component_placement)", np, expected)
}

// DraftHere drafts the job of cfg on the ranks that this process would start. The error lists the mistakes that
// drafting found. The draft is nil if the job only evaluates, or if its placement is auto.
func DraftHere(c *cli.Context, reg config.Registries, tasks task.Tasks, cfg *config.Config) (task.Draft, error) {
	np, err := GoroutineRanks(c, cfg)
	if err != nil {
		return nil, err
	}
	if auto, _ := cfg.Auto(); !cfg.Trains() || len(auto) > 0 { // the session makes the plan, and then the draft
		return nil, asUsage(cfg.CheckNames(reg))
	}
	d := tasks.Of(cfg).Draft(cfg, reg, SpreadNodes(np, max(cfg.SPMD.Nodes, 1)))
	return d, asUsage(d.Mistakes())
}

// asUsage returns err as a usage error. It returns nil if err is nil.
func asUsage(err error) error {
	if err == nil {
		return nil
	}
	return config.UsageError{Err: err}
}

// OpenWorld returns the ranks of this process: one MPI rank under a launcher, else goroutine ranks. The placement or
// -np decides the number of goroutine ranks. If a rank stops responding, the process calls onStall and then writes to
// log: see mpi.Options.
func OpenWorld(c *cli.Context, cfg *config.Config, configErr error, log io.Writer,
	onStall func(stacks []byte)) ([]spmd.Transport, error) {
	if Launched() {
		_, launcher := mpi.Launched()
		if c.IsSet("np") {
			return nil, config.Usagef("-np %d: %s has started the ranks already", c.Int("np"), launcher)
		}
		options := mpi.Options{Log: log, Stalled: onStall}
		if cfg != nil && cfg.Err() == nil {
			if options.StallTimeout = cfg.Comm.StallTimeout; options.StallTimeout == 0 {
				options.StallTimeout = -1
			}
		}
		t, err := mpi.Open(options)
		if errors.Is(err, mpi.ErrMismatch) {
			return nil, config.UsageError{Err: err}
		} else if err != nil {
			return nil, err
		}
		return []spmd.Transport{t}, nil
	}
	if configErr != nil {
		return nil, configErr
	}
	np, err := GoroutineRanks(c, cfg)
	if err != nil {
		return nil, err
	}
	runtime.GOMAXPROCS(max(2, runtime.GOMAXPROCS(0)))
	return local.New(np), nil
}

// LocalRanks returns the number of ranks of a job without a launcher.
func LocalRanks(c *cli.Context, cfg *config.Config) (int, error) {
	if c.IsSet("np") {
		return c.Int("np"), nil
	}
	np, whole := cfg.Extent()
	if whole {
		np = max(np, runtime.NumCPU()/cfg.Unit()*cfg.Unit(), cfg.Unit())
	}
	if np > config.MaxRanks {
		return 0, config.Usagef("cluster.component_placement: expected at most %d ranks, not %d", config.MaxRanks, np)
	}
	return max(np, 1), nil
}

// SpreadNodes distributes np ranks over n nodes, in contiguous blocks, and returns the node of each rank.
func SpreadNodes(np, n int) []int {
	nodes := make([]int, np)
	for r := range nodes {
		nodes[r] = r * n / np
	}
	return nodes
}
