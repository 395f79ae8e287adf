package roles

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"

	"github.com/rlinf/rlinf/env/external"
	"github.com/rlinf/rlinf/internal/metrics"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/spmd/local"
	"github.com/rlinf/rlinf/spmd/mpi"
	"github.com/urfave/cli/v2"
)

// runTrain is the root command: it trains, and returns the exit code of what it has explained
// itself.
func runTrain(c *cli.Context, reg Registries) (int, error) {
	_, launcher := mpi.Launched()
	s := &session{
		reg: reg, resume: c.String("resume"), asked: watch(),
		// Open MPI's ranks see a terminal whatever the user sees
		out: os.Stdout, live: launcher == "" && metrics.IsTerminal(os.Stdout),
		profile: profile{prefix: c.String("cpu-profile"), address: c.String("pprof")},
	}
	defer s.asked.close()
	cfg, configErr := readConfig(c, reg, c.Args().Slice(), &s.log)
	if configErr == nil && !launched() {
		configErr = checkHere(c, reg, cfg)
	}
	ranks, err := openWorld(c, cfg, configErr, &s.log)
	if err != nil {
		return 0, err
	}
	options := spmd.Options{Debug: c.Bool("debug"), ExitCode: s.failed, Log: &s.log}
	if cfg != nil && cfg.Err() == nil {
		options.StallTimeout, options.VirtualNodes = cfg.Comm.StallTimeout, cfg.SPMD.Nodes
	}
	if s.lead = ranks[0].Rank(); s.lead == 0 {
		s.cfg, s.cfgErr = cfg, configErr
	}
	s.hub = external.NewHub(&s.log, s.lead)
	s.reg = withHub(reg, s.hub)
	debug.SetGCPercent(400)                    // little is allocated, and every rank has a collector
	spmd.Run(c.Context, ranks, options, s.run) // its error has been written, and is in the code
	err = s.close()
	return int(s.code.Load()), err
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
		err = cfg.checkOn(reg, dealNodes(np, max(cfg.SPMD.Nodes, 1)))
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

// runEval plays one episode in every evaluation environment with the policy of a checkpoint, in one
// process.
func runEval(c *cli.Context, reg Registries) error {
	cfg, err := readConfig(c, reg, c.Args().Slice(), c.App.ErrWriter)
	if err != nil {
		return err
	}
	if err := cfg.checkNames(reg); err != nil {
		return UsageError{err}
	}
	return evaluateCheckpoint(c.App.Writer, cfg, reg, c.String("checkpoint"))
}
