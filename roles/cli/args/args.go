package args

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	keys "github.com/rlinf/rlinf/internal/config"
	"github.com/rlinf/rlinf/internal/durable"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/job"
	"github.com/rlinf/rlinf/roles/task"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/spmd/local"
	"github.com/rlinf/rlinf/spmd/mpi"
	"github.com/urfave/cli/v2"
)

// NoArguments returns run for a command that takes no arguments.
func NoArguments(run func(*cli.Context) error) func(*cli.Context) error {
	return func(c *cli.Context) error {
		if word := c.Args().First(); c.Args().Present() {
			return config.UsageError{Err: fmt.Errorf("%s: argument %q: expected none%s", c.Command.Name, word,
				Meant(c.Command.Subcommands, word))}
		}
		return run(c)
	}
}

// Config loads the configuration that the command line names, and writes its warnings to log. A
// wrong value is an error.
func Config(c *cli.Context, reg config.Registries, log io.Writer) (*config.Config, error) {
	cfg, err := ReadConfig(c, reg, c.Args().Slice(), log)
	if err == nil && cfg.Err() != nil {
		err = config.UsageError{Err: cfg.Err()}
	}
	return cfg, err
}

// ReadConfig loads the configuration that the command line names, with these overrides, and writes
// its warnings to log. The Config has the errors of its values, so that a job can be checked as a
// whole.
func ReadConfig(c *cli.Context, reg config.Registries, overrides []string, log io.Writer) (*config.Config, error) {
	for _, a := range overrides {
		if err := checkOverride(c, a); err != nil {
			return nil, err
		}
	}
	path := c.String("config")
	if path == "" {
		return nil, config.UsageError{Err: errors.New("no configuration: expected -c FILE.yaml, for example -c " +
			"configs/cartpole_ppo.yaml (rlinf help says more)")}
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		if near := nearFile(path); near != "" {
			return nil, config.UsageError{Err: fmt.Errorf("%s: no such file, did you mean %s?", path, near)}
		}
	}
	text, err := configText(c, path)
	if err != nil {
		return nil, config.UsageError{Err: err}
	}
	cfg, warnings, err := config.LoadText(reg, path, text, overrides, c.Bool("strict"))
	for _, w := range warnings {
		if mpi.Leads() {
			fmt.Fprintln(log, "warning:", w)
		}
	}
	if cfg == nil {
		return nil, config.UsageError{Err: err}
	}
	return cfg, nil
}

// configText returns the text of the configuration path. A command reads it once, so that it may be a
// pipe.
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

// CheckFile returns a usage error if the configuration that the command line names is no file on a
// disk, because others than this process will read it.
func CheckFile(c *cli.Context) error {
	path := c.String("config")
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return config.UsageError{Err: fmt.Errorf("-c %s: expected a file, which %s names to others", path,
			c.Command.Name)}
	}
	return nil
}

// CheckOut returns a usage error if the file of --out cannot be made, before there is anything to
// write.
func CheckOut(path string) error {
	if err := durable.Writable(filepath.Dir(path)); err != nil {
		return config.UsageError{Err: fmt.Errorf("--out %s: expected a file in a folder that can be written: %w", path,
			err)}
	}
	return nil
}

// Launched reports whether a launcher has started the ranks.
func Launched() bool {
	n, launcher := mpi.Launched()
	return launcher != "" && (n > 1 || mpi.Compiled)
}

// MaxGoroutineRanks is how many ranks one process has at most. More need hours for a step.
const MaxGoroutineRanks = 1 << 10

// GoroutineRanks returns how many ranks a process without a launcher starts.
func GoroutineRanks(c *cli.Context, cfg *config.Config) (int, error) {
	np, err := LocalRanks(c, cfg)
	if err == nil {
		err = checkGoroutineRanks(np, job.FindAvailable("/", 1))
	}
	return np, err
}

// checkGoroutineRanks returns an error if one process cannot have np ranks. Their memory beside their
// work was measured: configuration, plan and stacks of each rank, and the table of the other ranks.
func checkGoroutineRanks(np int, have job.Available) error {
	const each, pair = 3 << 20, 4 << 10
	need, expected := int64(np)*(each+int64(np)*pair), ""
	switch {
	case np > MaxGoroutineRanks:
		expected = fmt.Sprintf("expected at most %d", MaxGoroutineRanks)
	case need > have.Free:
		expected = fmt.Sprintf("they take about %s, and %v: expected fewer", job.Mebibytes(need), have)
	default:
		return nil
	}
	return config.UsageError{Err: fmt.Errorf("%d ranks in one process: %s, or mpirun or srun to start them "+
		"(-np, cluster.component_placement)", np, expected)}
}

// DraftHere drafts a job on the ranks that this process would start, and returns what is wrong with it. A job that
// only evaluates has no draft.
func DraftHere(c *cli.Context, reg config.Registries, tasks task.Tasks, cfg *config.Config) (task.Draft, error) {
	np, err := GoroutineRanks(c, cfg)
	if err != nil {
		return nil, err
	}
	if !cfg.Trains() {
		return nil, asUsage(cfg.CheckNames(reg))
	}
	d := tasks.Of(cfg).Draft(cfg, reg, SpreadNodes(np, max(cfg.SPMD.Nodes, 1)))
	return d, asUsage(d.Mistakes())
}

// asUsage returns err as a mistake of the user; nil for nil.
func asUsage(err error) error {
	if err == nil {
		return nil
	}
	return config.UsageError{Err: err}
}

// OpenWorld returns the ranks of this process: one MPI process under a launcher, else as many
// goroutines as the placement needs. It reports stalls on log, after a call of stalled; see
// mpi.Options.
func OpenWorld(c *cli.Context, cfg *config.Config, configErr error, log io.Writer,
	stalled func(stacks []byte)) ([]spmd.Transport, error) {
	if Launched() {
		_, launcher := mpi.Launched()
		if c.IsSet("np") {
			return nil, config.UsageError{Err: fmt.Errorf("-np %d: %s has started the ranks already", c.Int("np"),
				launcher)}
		}
		options := mpi.Options{Log: log, Stalled: stalled}
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

// LocalRanks returns how many ranks a job has that no launcher starts.
func LocalRanks(c *cli.Context, cfg *config.Config) (int, error) {
	if c.IsSet("np") {
		return c.Int("np"), nil
	}
	np, whole := cfg.ClusterSpec().Extent()
	if whole {
		np = max(np, runtime.NumCPU())
	}
	if np > config.MaxRanks {
		return 0, config.UsageError{Err: fmt.Errorf("cluster.component_placement: expected at most %d ranks, not %d",
			config.MaxRanks, np)}
	}
	return max(np, 1), nil
}

// SpreadNodes returns the node of each of np ranks: n nodes, in contiguous blocks.
func SpreadNodes(np, n int) []int {
	nodes := make([]int, np)
	for r := range nodes {
		nodes[r] = r * n / np
	}
	return nodes
}
