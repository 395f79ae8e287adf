package cli

import (
	"os"
	"runtime/debug"

	"github.com/rlinf/rlinf/internal/metrics"
	"github.com/rlinf/rlinf/roles/cli/args"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/runner"
	"github.com/rlinf/rlinf/roles/session"
	"github.com/rlinf/rlinf/spmd/mpi"
	"github.com/urfave/cli/v2"
)

// runTrain is the root command: it trains, and returns the exit code of what it has explained
// itself.
func runTrain(c *cli.Context, reg config.Registries, program runner.Program) (int, error) {
	_, launcher := mpi.Launched()
	asked := runner.Watch()
	defer asked.Close()
	s := session.New(session.Options{
		Registries: reg, Program: program, Resume: c.String("resume"), Asked: asked,
		// Open MPI's ranks see a terminal whatever the user sees
		Out: os.Stdout, Live: launcher == "" && metrics.IsTerminal(os.Stdout),
		Profile: session.Profile{Prefix: c.String("cpu-profile"), Address: c.String("pprof")}, Debug: c.Bool("debug"),
		Command: os.Args[0],
	})
	cfg, wrong := args.ReadConfig(c, reg, c.Args().Slice(), s.Logs())
	if wrong == nil && !args.Launched() {
		wrong = args.CheckHere(c, reg, cfg)
	}
	ranks, err := args.OpenWorld(c, cfg, wrong, s.Logs(), s.Stalled)
	if err != nil {
		return 0, err
	}
	debug.SetGCPercent(400) // little is allocated, and every rank has a collector
	return s.Start(c.Context, ranks, cfg, wrong)
}

// runEval plays one episode in every evaluation environment with the policy of a checkpoint, in one
// process.
func runEval(c *cli.Context, reg config.Registries) error {
	cfg, err := args.ReadConfig(c, reg, c.Args().Slice(), c.App.ErrWriter)
	if err != nil {
		return err
	}
	if err := cfg.CheckNames(reg); err != nil {
		return config.UsageError{Err: err}
	}
	return session.EvaluateCheckpoint(c.App.Writer, cfg, reg, c.String("checkpoint"))
}
