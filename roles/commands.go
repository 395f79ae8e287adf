package roles

import (
	"os"
	"runtime/debug"

	"github.com/rlinf/rlinf/internal/metrics"
	"github.com/rlinf/rlinf/spmd/mpi"
	"github.com/urfave/cli/v2"
)

// runTrain is the root command: it trains, and returns the exit code of what it has explained
// itself.
func runTrain(c *cli.Context, reg Registries) (int, error) {
	_, launcher := mpi.Launched()
	asked := watch()
	defer asked.close()
	s := newSession(options{
		registries: reg, resume: c.String("resume"), asked: asked,
		// Open MPI's ranks see a terminal whatever the user sees
		out: os.Stdout, live: launcher == "" && metrics.IsTerminal(os.Stdout),
		profile: profile{prefix: c.String("cpu-profile"), address: c.String("pprof")}, debug: c.Bool("debug"),
	})
	cfg, wrong := readConfig(c, reg, c.Args().Slice(), s.logs())
	if wrong == nil && !launched() {
		wrong = checkHere(c, reg, cfg)
	}
	ranks, err := openWorld(c, cfg, wrong, s.logs())
	if err != nil {
		return 0, err
	}
	debug.SetGCPercent(400) // little is allocated, and every rank has a collector
	return s.start(c.Context, ranks, cfg, wrong)
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
