package cli

import (
	"math"
	"os"
	"runtime/debug"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/roles/cli/args"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/roles/session"
	"github.com/rlinf/rlinf/roles/task"
	"github.com/rlinf/rlinf/spmd/local"
	"github.com/urfave/cli/v2"
)

// runTrain runs rlinf without a command: it trains, and returns the exit code. The session writes the job's errors.
func runTrain(c *cli.Context, reg config.Registries, tasks task.Tasks, own session.UserProgram) (int, error) {
	asked := loop.Watch()
	defer asked.Close()
	s := session.New(session.Options{
		Registries: reg, Tasks: tasks, Own: own, Resume: c.String("resume"), Asked: asked,
		Out: os.Stdout, Terminal: args.Terminal(os.Stdout),
		Profile: session.ProfileOptions{Prefix: c.String("cpu-profile"),
			Address: c.String("pprof")}, Debug: c.Bool("debug"),
		Command: thisProgram(),
	})
	cfg, wrong := args.ReadConfig(c, reg, c.Args().Slice(), s.Logs())
	var draft task.Draft
	if wrong == nil && !args.Launched() {
		draft, wrong = args.DraftHere(c, reg, tasks, cfg)
	}
	ranks, err := args.OpenWorld(c, cfg, wrong, s.Logs(), s.Stalled)
	if err != nil {
		return 0, err
	}
	debug.SetGCPercent(400) // collect garbage less often: jobs allocate little
	return s.Start(c.Context, ranks, cfg, draft, wrong)
}

const evalUsage = "rollout.tensor_parallel_size=N divides every layer of a language model that answers questions\n" +
	"among N goroutines, or ranks of a launcher; actor.model.tensor_model_parallel_size does so for fine-tuning.\n" +
	"The figures do not depend on it."

// evalFlags returns the flags of rlinf eval, in addition to the flags of the configuration.
func evalFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "checkpoint",
			Usage: "`DIR` of the checkpoint or run; default: the newest of the run's folder"},
		args.Int(cli.IntFlag{Name: "episodes",
			Usage:       "play `N` episodes, or take the first N samples of data.val_data_paths",
			DefaultText: "env.eval.total_num_envs, or all samples"}, 1, env.MaxEnvs),
		&cli.BoolFlag{Name: "json", Usage: "write the figures as a JSON object"},
		&cli.StringFlag{Name: "record", Usage: "write the episodes as demonstrations to `FILE`, safetensors"},
		args.Force(),
		&cli.StringFlag{Name: "only", Usage: "record only episodes with `success`"},
		args.Float(cli.Float64Flag{Name: "min-return", Usage: "record only episodes whose return is at least `R`"},
			-math.MaxFloat64, math.MaxFloat64),
		args.Int(cli.IntFlag{Name: "max-steps", Usage: "record at most `N` transitions", DefaultText: "all"}, 1,
			args.MaxCount),
	}
}

// recordOf returns which episodes an evaluation records, and in which file.
func recordOf(c *cli.Context) (r task.RecordOptions, err error) {
	r.File = c.String("record")
	for _, flag := range []string{"only", "min-return", "max-steps", "force"} {
		if c.IsSet(flag) && r.File == "" {
			return r, config.Usagef("--%s: expected --record FILE, too", flag)
		}
	}
	if only := c.String("only"); only != "" && only != env.Success {
		return r, config.Usagef("--only %s: expected success", only)
	}
	if r.OnlySuccess, r.MaxSteps = c.IsSet("only"), c.Int("max-steps"); c.IsSet("min-return") {
		least := c.Float64("min-return")
		r.MinReturn = &least
	}
	if r.File == "" {
		return r, nil
	}
	return r, args.CheckOut(c, "record", r.File, algo.IsDemos)
}

// runEval evaluates the policy of a checkpoint: on the ranks of a launcher, or on -np goroutine ranks (default 1).
// It returns the exit code. The session writes the job's errors.
func runEval(c *cli.Context, reg config.Registries, tasks task.Tasks) (int, error) {
	record, err := recordOf(c)
	s := session.New(session.Options{Registries: reg, Tasks: tasks, Asked: new(loop.Requests), Out: c.App.Writer,
		Terminal: args.Terminal(c.App.ErrWriter), Log: c.App.ErrWriter,
		Evaluation: &task.EvaluationOptions{Checkpoint: newestIn(c.String("checkpoint")), Episodes: c.Int("episodes"),
			JSON: c.Bool("json"), Record: record}})
	cfg, wrong := args.ReadConfig(c, reg, c.Args().Slice(), s.Logs())
	if wrong == nil {
		wrong = err
	}
	if args.Launched() || c.IsSet("np") {
		ranks, err := args.OpenWorld(c, cfg, wrong, s.Logs(), s.Stalled)
		if err != nil {
			return 0, err
		}
		return s.Start(c.Context, ranks, cfg, nil, wrong)
	}
	if wrong != nil {
		return 0, wrong
	}
	return s.Start(c.Context, local.New(1), cfg, nil, nil)
}
