package cli

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/env/external"
	"github.com/rlinf/rlinf/roles/cli/args"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/roles/session"
	"github.com/urfave/cli/v2"
)

// bridgeCommand returns rlinf bridge: commands for external simulators.
func bridgeCommand(reg config.Registries, job []cli.Flag, code *int) *cli.Command {
	return &cli.Command{Name: "bridge", Usage: "test and serve external simulators (docs/bridge.md)",
		Subcommands: []*cli.Command{
			{Name: "serve",
				Usage:  "be an external simulator: serve the environments of env.train to the process at RLB_ADDR",
				Flags:  job,
				Action: func(c *cli.Context) error { return runBridgeServe(c, reg) }},
			{Name: "check",
				Usage:     "test an external simulator against the protocol, rule by rule, also with invalid frames",
				UsageText: "rlinf bridge check [--timeout 10s] -- COMMAND [ARGUMENT...]",
				Flags: []cli.Flag{
					args.Duration(cli.DurationFlag{Name: "timeout",
						Usage: "wait so long for every answer, and for an end",
						Value: 10 * time.Second}, time.Millisecond, 24*time.Hour),
					args.Int(cli.IntFlag{Name: "steps", Usage: "compare episodes over `N` steps", Value: 50}, 1, 1<<20),
					args.Int(cli.IntFlag{Name: "num-envs",
						Usage: "have the program play `N` environments, unless it plays a " +
							"number of its own", Value: 3}, 1, env.MaxEnvs),
					args.Int(cli.IntFlag{Name: "jobs", DefaultText: "number of cores",
						Usage: "run `N` programs at the same time; 1 for a program that can run only once; a robot's " +
							"does so by itself"}, 1, 1<<10),
					&cli.StringFlag{Name: "rule", Usage: "check only rules with this `TEXT` in their name"},
				},
				Action: coded(code, func(c *cli.Context) (int, error) { return runBridgeCheck(c, reg) })},
		}}
}

// runBridgeCheck tests a simulator, writes the result of every rule, and returns the exit code.
func runBridgeCheck(c *cli.Context, reg config.Registries) (int, error) {
	check := external.BridgeCheck{Command: c.Args().Slice(), Envs: c.Int("num-envs"), Steps: c.Int("steps"),
		Timeout: c.Duration("timeout"), Only: c.String("rule"), By: reg.Programs, Jobs: c.Int("jobs")}
	if check.Jobs == 0 {
		check.Jobs = runtime.NumCPU()
	}
	switch {
	case len(check.Command) == 0:
		return 0, config.Usagef("bridge check: expected a command, as in rlinf bridge check -- python3 tank.py")
	case len(check.Rules()) == 0:
		return 0, config.Usagef("bridge check: --rule %q: expected text from the name of a rule, one of\n  %s",
			check.Only, strings.Join(external.BridgeCheck{}.Rules(), "\n  "))
	}
	out := c.App.Writer
	rules, skipped := 0, 0
	first := map[string]string{} // the first rule that reported each error; one mistake can break many rules
	write := func(v external.RuleResult) {
		rules++
		switch {
		case v.Skipped != "":
			skipped++
			fmt.Fprintf(out, "-       %s (%s)\n", v.Rule, v.Skipped)
		case v.Err != nil:
			found := v.Err.Error()
			if rule, again := first[found]; again {
				found = fmt.Sprintf("the same as for %q", rule)
			} else {
				first[found] = v.Rule
			}
			fmt.Fprintf(out, "FAILED  %s\n          %s\n", v.Rule, strings.ReplaceAll(found, "\n", "\n          "))
		default:
			fmt.Fprintf(out, "ok      %s\n", v.Rule)
		}
	}
	asked := loop.Watch()
	defer asked.Close()
	asked.Expire(0) // stop before the end of a Slurm job
	ctx, end := session.UntilStop(c.Context, asked)
	defer end()
	done := make(chan int, 1)
	go func() { done <- check.Run(write) }() // the end of the process stops the programs
	var failed int
	select {
	case failed = <-done:
	case <-ctx.Done():
		fmt.Fprintln(c.App.ErrWriter, context.Cause(ctx))
		stop, _ := asked.Vote()
		return stop, nil
	}
	fmt.Fprintf(out, "%d of %d rules held, %d failed, %d do not apply\n", rules-failed-skipped, rules, failed, skipped)
	if failed > 0 {
		return loop.ExitCheck, nil
	}
	return loop.ExitOK, nil
}

// runBridgeServe serves the environments of a configuration to another process.
func runBridgeServe(c *cli.Context, reg config.Registries) error {
	address := os.Getenv("RLB_ADDR")
	if address == "" {
		return config.Usagef("no RLB_ADDR: rlinf sets it for the command of env.train.external; else it says where " +
			"rlinf listens, as unix:/path")
	}
	cfg, err := args.Config(c, reg, c.App.ErrWriter)
	if err != nil {
		return err
	}
	token, err := external.Token()
	if err != nil {
		return config.UsageError{Err: err}
	}
	return external.Serve(address, token, func(maxSteps int, ignoreTerminations bool) (env.Vec, error) {
		e := cfg.Env.Train
		e.MaxEpisodeSteps, e.IgnoreTerminations = maxSteps, ignoreTerminations
		return reg.Envs.New(e, 1)
	})
}
