package roles

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/rlinf/rlinf/internal/durable"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/spmd/local"
	"github.com/rlinf/rlinf/spmd/mpi"
	"github.com/urfave/cli/v2"
)

// bare is run for a command that takes no arguments.
func bare(run func(*cli.Context) error) func(*cli.Context) error {
	return func(c *cli.Context) error {
		if c.Args().Present() {
			return UsageError{fmt.Errorf("%s: argument %q: want none", c.Command.Name, c.Args().First())}
		}
		return run(c)
	}
}

// configOf loads the configuration that the command line names, with nothing wrong with its values, and
// writes its warnings to log.
func configOf(c *cli.Context, reg Registries, log io.Writer) (*Config, error) {
	cfg, err := readConfig(c, reg, c.Args().Slice(), log)
	if err == nil && cfg.Err() != nil {
		err = UsageError{cfg.Err()}
	}
	return cfg, err
}

// readConfig loads the configuration that the command line names, with these overrides, and writes its
// warnings to log. What is wrong with its values the Config says, so that a job can be checked whole.
func readConfig(c *cli.Context, reg Registries, overrides []string, log io.Writer) (*Config, error) {
	path := c.String("config")
	if path == "" {
		return nil, UsageError{errors.New("no configuration: want -c FILE.yaml, for example -c " +
			"configs/cartpole_ppo.yaml (rlinf help says more)")}
	}
	for _, a := range overrides {
		if !strings.ContainsAny(a, "=~") {
			return nil, UsageError{fmt.Errorf("argument %q: want key=value (or a command: rlinf help lists them)", a)}
		}
	}
	cfg, warnings, err := LoadConfig(reg, path, overrides, c.Bool("strict"))
	for _, w := range warnings {
		if mpi.Leads() {
			fmt.Fprintln(log, "warning:", w)
		}
	}
	if cfg == nil {
		return nil, UsageError{err}
	}
	return cfg, nil
}

// checkOut returns a usage error where the file that --out names cannot be made: before there is
// anything to write.
func checkOut(path string) error {
	if err := durable.Writable(filepath.Dir(path)); err != nil {
		return UsageError{fmt.Errorf("--out %s: want a file in a folder that can be written: %w", path, err)}
	}
	return nil
}

// launched reports whether a launcher has started the ranks.
func launched() bool {
	n, launcher := mpi.Launched()
	return launcher != "" && (n > 1 || mpi.Compiled)
}

// checkHere returns what is wrong with a job on the ranks that this process would start.
func checkHere(c *cli.Context, reg Registries, cfg *Config) error {
	np, err := localRanks(c, cfg)
	if err == nil {
		err = checkOn(cfg, reg, dealNodes(np, max(cfg.SPMD.Nodes, 1)))
	}
	if err != nil {
		err = UsageError{err}
	}
	return err
}

// openWorld returns the ranks of this process: an MPI process under a launcher, else as many
// goroutines as the placement needs. A stall is told on log.
func openWorld(c *cli.Context, cfg *Config, configErr error, log io.Writer) ([]spmd.Transport, error) {
	if launched() {
		_, launcher := mpi.Launched()
		if c.IsSet("np") {
			return nil, UsageError{fmt.Errorf("-np %d: %s has started the ranks already", c.Int("np"), launcher)}
		}
		options := mpi.Options{Log: log}
		if cfg != nil && cfg.Err() == nil {
			if options.StallTimeout = cfg.Comm.StallTimeout; options.StallTimeout == 0 {
				options.StallTimeout = -1
			}
		}
		t, err := mpi.Open(options)
		if errors.Is(err, mpi.ErrMismatch) {
			return nil, UsageError{err}
		} else if err != nil {
			return nil, err
		}
		return []spmd.Transport{t}, nil
	}
	if configErr != nil {
		return nil, configErr
	}
	np, err := localRanks(c, cfg)
	if err != nil {
		return nil, err
	}
	runtime.GOMAXPROCS(max(2, runtime.GOMAXPROCS(0)))
	return local.New(np), nil
}

// localRanks returns how many ranks a process without a launcher starts.
func localRanks(c *cli.Context, cfg *Config) (int, error) {
	if c.IsSet("np") {
		if np := c.Int("np"); np > 0 {
			return np, nil
		}
		return 0, UsageError{fmt.Errorf("-np %d: want a number of ranks > 0", c.Int("np"))}
	}
	np, whole := cfg.cluster().Extent()
	if whole {
		np = max(np, runtime.NumCPU())
	}
	return max(np, 1), nil
}

// dealNodes returns the node of each of np ranks: n nodes, in contiguous blocks.
func dealNodes(np, n int) []int {
	nodes := make([]int, np)
	for r := range nodes {
		nodes[r] = r * n / np
	}
	return nodes
}
