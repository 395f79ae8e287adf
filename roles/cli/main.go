package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rlinf/rlinf/env/external"
	"github.com/rlinf/rlinf/internal/printable"
	"github.com/rlinf/rlinf/internal/programs"
	"github.com/rlinf/rlinf/roles/cli/args"
	"github.com/rlinf/rlinf/roles/cli/bench"
	"github.com/rlinf/rlinf/roles/cli/doctor"
	"github.com/rlinf/rlinf/roles/cli/experience"
	"github.com/rlinf/rlinf/roles/cli/language"
	"github.com/rlinf/rlinf/roles/cli/manual"
	"github.com/rlinf/rlinf/roles/cli/sweep"
	"github.com/rlinf/rlinf/roles/cli/watch"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/roles/session"
	"github.com/rlinf/rlinf/roles/task"
	"github.com/rlinf/rlinf/spmd/mpi"
	"github.com/urfave/cli/v2"
)

// Own is a user's program, which replaces the task's program on every rank of a training job.
type Own = session.UserProgram

// Run runs the command line args (os.Args) with the parts in reg and the tasks, and returns the exit code.
func Run(args []string, reg config.Registries, tasks task.Tasks, own Own) int {
	entry := programs.Enter() // a supervisor process never returns from this call
	if testing.Testing() {    // a test binary cannot be its own supervisor
		entry = programs.Entered{}
	}
	defer endOnlyAsDocumented()()
	if note := mpi.Forget(); note != "" {
		fmt.Fprintln(os.Stderr, "warning:", note)
	}
	code := loop.ExitOK
	hub := external.NewHub(os.Stderr, 0).Supervise(entry)
	defer hub.Close()
	reg.Programs = entry
	reg = session.WithHub(reg, hub)
	app := newApp(reg, tasks, own, hub, &code)
	leads := mpi.Leads() // before MPI is closed
	err := app.RunContext(context.Background(), inOrder(app, args))
	if lost := app.Writer.(interface{ Err() error }).Err(); lost != nil {
		err = lost // lost output is the cause of err
	}
	if err != nil {
		return explain(err, args, leads)
	}
	return code
}

// followersWait is the time for which all processes but the leading process wait after a usage error. Meanwhile the
// leading process writes the error. Some launchers end the job when any process ends, and drop the job's last output.
const followersWait = 2 * time.Second

// explain writes err, the error of the command line words, and returns its exit code. Usage errors are the same in all
// processes of a launcher, so only the leading process writes them.
func explain(err error, words []string, leads bool) int {
	var usage config.UsageError
	var help cli.ExitCoder // the library's error for an unknown command
	switch {
	case !errors.As(err, &usage) && !errors.As(err, &help):
		fmt.Fprintln(os.Stderr, shown(err, words))
		return loop.ExitFailed
	case leads:
		fmt.Fprintln(os.Stderr, shown(err, words))
	default:
		time.Sleep(followersWait)
	}
	return loop.ExitConfig
}

// shown returns the text of err for a terminal. It cuts long lines, but not args.Commands. words is the command line.
// If the text contains one of these words, or the value in it, shown writes it on one line.
func shown(err error, words []string) string {
	text := err.Error()
	for _, word := range words {
		_, value, _ := strings.Cut(word, "=")
		text = printable.Words(text, value, word)
	}
	var commands args.Commands
	if errors.As(err, &commands) && strings.HasSuffix(text, string(commands)) {
		return printable.Lines(strings.TrimSuffix(text, string(commands))) + printable.Text(string(commands))
	}
	return printable.Lines(text)
}

// exitCodes is part of the help of every command.
const exitCodes = "Exit codes: 0 done; 1 failed; 2 usage or configuration; 3 a check failed;\n" +
	"75 checkpointed on request: queue the job again; 76 a rank stopped responding; 129 its terminal was closed;\n" +
	"130 interrupted; 134 crashed; 143 terminated."

func newApp(reg config.Registries, tasks task.Tasks, own session.UserProgram, hub *external.Hub, code *int) *cli.App {
	file := &cli.StringFlag{Name: "config", Aliases: []string{"c"}, Usage: "the job's configuration, `FILE`.yaml"}
	strict := &cli.BoolFlag{Name: "strict", Usage: "keys without effect are errors"}
	np := args.Int(cli.IntFlag{Name: "np", Usage: "ranks to start without a launcher",
		DefaultText: "as many as the placement names"}, 1, config.MaxRanks)
	job := []cli.Flag{file, np, strict}
	train := append(slices.Clone(job),
		&cli.StringFlag{Name: "resume",
			Usage: "continue from a checkpoint: `auto` (the newest valid one of the run) or a folder"},
		&cli.BoolFlag{Name: "debug",
			Usage: "detect access to memory after it was passed on; list the groups and their ranks"},
		&cli.StringFlag{Name: "cpu-profile", Usage: "write CPU profiles to `PREFIX`-rank-R.pprof"},
		&cli.StringFlag{Name: "pprof", Usage: "serve pprof on `HOST:PORT`, each rank on PORT + rank; :PORT is for " +
			"this machine alone"},
	)
	version := &cli.BoolFlag{Name: "version", Usage: "print version and build tags"}
	writeVersion := args.Alone(args.NoArguments(func(c *cli.Context) error {
		return doctor.WriteVersion(c.App.Writer)
	}))
	// Neither help nor errors may end the process here: the other ranks would wait for it forever.
	app := &cli.App{
		Name: "rlinf", Usage: "reinforcement learning on clusters: one program, MPI, YAML",
		UsageText:   "rlinf -c cfg.yaml [key=value ...]\nmpirun -np 8 rlinf -c cfg.yaml [key=value ...]",
		Description: exitCodes,
		Writer:      args.NewWriter(os.Stdout), ErrWriter: args.NewWriter(os.Stderr),
		HideVersion: true, Flags: append(train, version, cli.HelpFlag), ExitErrHandler: func(*cli.Context, error) {},
		OnUsageError: func(c *cli.Context, err error, _ bool) error {
			return config.UsageError{Err: args.FlagError(c, err, keyNames(reg))}
		},
		Action: func(c *cli.Context) (err error) {
			if c.Bool("version") {
				return writeVersion(c)
			}
			*code, err = runTrain(c, reg, tasks, own)
			return err
		},
		CustomAppHelpTemplate: manual.GroupedHelp(), DisableSliceFlagSeparator: true, // --note has text
	}
	app.Commands = []*cli.Command{
		{Name: "init", Usage: "write a first configuration for a simulator, an environment or a language model",
			UsageText: initUsage, Description: initDescription, Flags: initFlags(),
			Action: args.Alone(coded(code, func(c *cli.Context) (int, error) {
				return stoppable(c, hub, func(*loop.Requests) error { return runInit(c, reg, tasks, hub) })
			}))},
		{Name: "check", Usage: "check a configuration and show what it means: ranks, roles, batches, memory",
			Flags: append(slices.Clone(job), &cli.BoolFlag{Name: "json",
				Usage: "write a JSON object with the verdict, the mistakes and the ranks"},
				&cli.BoolFlag{Name: "policy",
					Usage: "write the policy, too: operations, shapes and parameters, from observations to actions"}),
			Action: args.Alone(coded(code, func(c *cli.Context) (int, error) { return runCheck(c, reg, tasks, hub) }))},
		{Name: "plan", Usage: "measure a job, find the best ranks for its components, and explain the choice",
			UsageText: planUsage, Flags: append(slices.Clone(job), planFlags()...),
			Action: args.Alone(coded(code, func(c *cli.Context) (int, error) { return runPlan(c, reg, tasks, hub) }))},
		{Name: "slurm", Usage: "print a batch script for Slurm, with the resources that the placement needs",
			Flags:  append(slices.Clone(job), slurmFlags()...),
			Action: args.Alone(coded(code, func(c *cli.Context) (int, error) { return runSlurm(c, reg, tasks, hub) }))},
		{Name: "eval", Usage: "evaluate a checkpoint: a policy in episodes, a language model by questions or texts",
			Description: evalUsage, Flags: append(slices.Clone(job), evalFlags()...),
			Action: coded(code, func(c *cli.Context) (int, error) { return runEval(c, reg, tasks) })},
		{Name: "render", Usage: "render the initial states of evaluations, as env.eval.video_cfg says",
			Flags:  append([]cli.Flag{file, strict}, renderFlags()...),
			Action: args.Alone(func(c *cli.Context) error { return runRender(c, reg) })},
		{Name: "export", ArgsUsage: "CHECKPOINT", UsageText: exportUsage, Description: exportDescription,
			Usage: "export a trained policy as ONNX or C, or a language model in the format of Hugging Face",
			Flags: exportFlags(), Action: args.Alone(func(c *cli.Context) error { return runExport(c, reg) })},
		{Name: "demos", Usage: "write demonstrations of the expert that the environments of env.train have",
			Flags:  append([]cli.Flag{file, strict}, demosFlags()...),
			Action: args.Alone(func(c *cli.Context) error { return runDemos(c, reg) })},
		{Name: "envs", Usage: "list the environments", Flags: []cli.Flag{&cli.BoolFlag{Name: "json",
			Usage: "write a JSON list with an object for each environment"}},
			Action: args.Alone(args.NoArguments(func(c *cli.Context) error {
				return listEnvs(c.App.Writer, reg, c.Bool("json"))
			}))},
		{Name: "sweep", Usage: "train a grid of settings, each with several seeds, on the available ranks",
			UsageText: sweep.Usage,
			Flags:     append(slices.Clone(job), sweep.Flags()...),
			Action:    coded(code, func(c *cli.Context) (int, error) { return sweep.Run(c, reg, tasks, own) })},
		{Name: "status", Usage: "show the status of runs, and the commands that continue or evaluate them",
			UsageText: statusUsage, Flags: statusFlags(),
			Action: args.Alone(func(c *cli.Context) error { return runStatus(c, reg) })},
		{Name: "scale", Usage: "move the components of a running job to other ranks",
			UsageText: scaleUsage, Description: scaleDescription, Flags: scaleFlags(),
			Action: args.Alone(coded(code, func(c *cli.Context) (int, error) { return runScale(c, reg, tasks) }))},
		{Name: "watch", Usage: "show a run while it runs: state, curve, phases, waits of ranks, last warning",
			UsageText: watch.Usage, Action: args.Alone(coded(code, watch.Run))},
		{Name: "trace", Usage: "write what every worker did, and when, for ui.perfetto.dev or chrome://tracing",
			ArgsUsage: "RUN", Flags: traceFlags(), Action: args.Alone(runTrace)},
		{Name: "compare", Usage: "compare runs, sweeps and saved results: a table and curves with confidence intervals",
			ArgsUsage: "RUN [RUN...]", Flags: compareFlags(),
			Action: args.Alone(coded(code, func(c *cli.Context) (int, error) { return runCompare(c, reg) }))},
		{Name: "verify", Usage: "repeat parts of a run, and compare them with the run",
			UsageText: verifyUsage, Description: verifyDescription, Flags: verifyFlags(),
			Action: args.Alone(coded(code, func(c *cli.Context) (int, error) {
				return runVerify(c, reg, tasks, own)
			}))},
		{Name: "replay", Usage: "show what happened in a step of a run, which need not be recorded",
			UsageText: replayUsage, Description: replayDescription, Flags: replayFlags(),
			Action: args.Alone(coded(code, func(c *cli.Context) (int, error) {
				return runReplay(c, reg, tasks, own)
			}))},
		{Name: "diff", Usage: "find where the numbers of two runs part", UsageText: diffUsage,
			Description: diffDescription, Flags: diffFlags(),
			Action: args.Alone(coded(code, func(c *cli.Context) (int, error) {
				return runDiff(c, reg, tasks, own)
			}))},
		reportCommand(reg),
		bench.Command(reg, code),
		bridgeCommand(reg, []cli.Flag{file, strict}, code),
		{Name: "version", Usage: "print version and build tags",
			Action: writeVersion},
		doctor.Command(),
	}
	app.Commands = slices.Concat(app.Commands, language.Commands(), manual.Commands(reg))
	data := app.Commands[slices.IndexFunc(app.Commands, func(c *cli.Command) bool { return c.Name == "data" })]
	data.Subcommands = append(data.Subcommands, experience.Show(), experience.Convert(), experience.Frames())
	group(app.Commands)
	args.Filled(app.Flags)
	manual.Each(app.Commands, func(path string, c *cli.Command) {
		args.Filled(c.Flags)
		c.Description, c.OnUsageError = strings.TrimSpace(c.Description+"\n\n"+exitCodes), app.OnUsageError
		if c.UsageText == "" && c.ArgsUsage == "" && args.TakesValue(c.Flags, "config") {
			c.UsageText = "rlinf " + path + " -c FILE.yaml [key=value ...]"
		}
	})
	return app
}

// coded returns an action that calls run, and stores the exit code in code.
func coded(code *int, run func(*cli.Context) (int, error)) func(*cli.Context) error {
	return func(c *cli.Context) (err error) {
		*code, err = run(c)
		return err
	}
}

// group sets the category of each command in the help, and sorts the commands by category.
func group(commands []*cli.Command) {
	order := map[string]int{}
	for _, g := range []struct {
		category string
		commands []string
	}{
		{"train and evaluate", []string{"init", "check", "plan", "slurm", "scale", "sweep", "eval", "export",
			"demos", "bridge"}},
		{"look at runs", []string{"status", "watch", "report", "compare", "trace", "replay", "verify", "diff"}},
		{"look up environments and keys", []string{"envs", "render", "config", "help"}},
		{"language models", []string{"data", "tokenizer", "generate", "score"}},
		{"machine and shell", []string{"doctor", "bench", "version", "completion", "man"}},
	} {
		for _, name := range g.commands {
			at := slices.IndexFunc(commands, func(c *cli.Command) bool { return c.Name == name })
			commands[at].Category, order[name] = g.category, len(order)
		}
	}
	slices.SortFunc(commands, func(a, b *cli.Command) int { return order[a.Name] - order[b.Name] })
}

// keyNames returns the names of all keys of the configuration.
func keyNames(reg config.Registries) (names []string) {
	for _, k := range config.Reference(reg) {
		names = append(names, k.Name)
	}
	return names
}

// inOrder moves flags before plain arguments, because the library reads no flags after the first plain argument.
func inOrder(app *cli.App, words []string) []string {
	var flags, plain, name []string
	command, commands := app.Flags, app.Commands
	for i := 1; i < len(words); i++ {
		a := words[i]
		switch {
		case a == "--":
			plain = append(plain, words[i+1:]...)
			i = len(words)
		case strings.HasPrefix(a, "-") && a != "-":
			flag, value, joined := strings.Cut(a, "=")
			if joined {
				flags = append(flags, flag+"="+args.Decimal(command, flag, value))
				continue
			}
			flags = append(flags, a)
			if i+1 < len(words) && args.TakesValue(command, a) {
				i++
				flags = append(flags, args.Decimal(command, a, words[i]))
			}
		default:
			at := slices.IndexFunc(commands, func(c *cli.Command) bool { return c.HasName(a) })
			if at >= 0 && len(plain) == 0 {
				name, command, commands = append(name, a), commands[at].Flags, commands[at].Subcommands
				continue
			}
			plain = append(plain, a)
		}
	}
	return slices.Concat(words[:1], name, flags, plain)
}

// endOnlyAsDocumented prevents two undocumented exit codes. Until restore is called, a write to a pipe without a reader
// fails instead of killing the process. (signal.Ignore would affect child processes, too.) A crash ends with SIGABRT
// and exit code 134, because Go's exit code 2 means wrong usage here. The crash leaves a core file only if GOTRACEBACK
// is crash.
func endOnlyAsDocumented() (restore func()) {
	lost := make(chan os.Signal, 1)
	signal.Notify(lost, syscall.SIGPIPE)
	if os.Getenv("GOTRACEBACK") != "crash" {
		var core syscall.Rlimit
		if syscall.Getrlimit(syscall.RLIMIT_CORE, &core) == nil {
			core.Cur = 0
			syscall.Setrlimit(syscall.RLIMIT_CORE, &core) // no core file
		}
	}
	debug.SetTraceback("crash")
	return func() { signal.Stop(lost) }
}

// thisProgram returns the name of this program for the commands that it prints. srun starts ./rlinf as /folder/./rlinf.
func thisProgram() string {
	if filepath.IsAbs(os.Args[0]) {
		return filepath.Clean(os.Args[0])
	}
	return os.Args[0]
}
