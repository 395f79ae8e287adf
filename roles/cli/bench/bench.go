package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/rlinf/rlinf/collectives/bench"
	results "github.com/rlinf/rlinf/collectives/bench/report"
	"github.com/rlinf/rlinf/collectives/bench/stats"
	"github.com/rlinf/rlinf/internal/programs"
	"github.com/rlinf/rlinf/internal/runfolder"
	"github.com/rlinf/rlinf/roles/cli/args"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/job"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/roles/session"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/spmd/local"
	"github.com/rlinf/rlinf/spmd/mpi"
	"github.com/urfave/cli/v2"
)

// Command returns the command rlinf bench with its subcommands. The command stores its exit code in code.
func Command(reg config.Registries, code *int) *cli.Command {
	command := func(name, usage string, own []cli.Flag, run func(*flags, config.Registries) (int, error)) *cli.Command {
		starts := startFlags()
		if name == "scale" {
			starts = starts[:1] // only --starts: scale has its own --launcher
		}
		c := &cli.Command{Name: name, Usage: usage, Flags: slices.Concat(benchFlags(), starts, own),
			Action: func(c *cli.Context) (err error) {
				*code, err = run(&flags{Context: c}, reg)
				return err
			}}
		if name != "env" && name != "scale" { // the arguments of env and scale are overrides of a configuration
			c.Action = args.NoArguments(c.Action)
		}
		return c
	}
	root := command("bench", "measure the machine: collectives, messages, overlap, channels, environments, whole jobs",
		collectiveFlags(), benchPlan)
	root.Subcommands = []*cli.Command{
		command("p2p", "messages between two ranks: latency, bandwidth both ways, message rate", p2pFlags(), benchPlan),
		command("overlap", "how much of a collective hides behind computation", overlapFlags(), benchPlan),
		command("channel", "channels between workers: round trip, items per second, back-pressure", channelFlags(),
			benchPlan),
		command("weights", "from a new version of weights to its first use everywhere", weightFlags(), benchPlan),
		command("env", "environment steps per second, and per second of a core", envFlags(), benchEnv),
		command("scale", "a whole job on several numbers of ranks: efficiency, and which phase waits", scaleFlags(),
			benchScale),
	}
	return root
}

// maxSamples is the maximum number of samples that a flag accepts.
const maxSamples = 1 << 24

func benchFlags() []cli.Flag {
	return []cli.Flag{
		args.Int(cli.IntFlag{Name: "np", Usage: "ranks to start without a launcher", Value: max(2, runtime.NumCPU()),
			DefaultText: "one for each CPU, at least 2"}, 1, args.MaxGoroutineRanks),
		args.Int(cli.IntFlag{Name: "n", Usage: "exact number of samples of each measurement",
			DefaultText: "until the median is known well enough"}, 1, maxSamples),
		args.Float(cli.Float64Flag{Name: "rel-ci",
			Usage: "half width of the median's 95 % interval at which sampling ends, relative to the median",
			Value: 0.02}, 0, 0.99),
		args.Int(cli.IntFlag{Name: "min", Usage: "minimum number of samples", Value: 30}, 1, maxSamples),
		args.Int(cli.IntFlag{Name: "max", Usage: "maximum number of samples", Value: 10000}, 1, maxSamples),
		args.Duration(cli.DurationFlag{Name: "max-time",
			Usage: "maximum time for each measurement", Value: 2 * time.Second}, time.Microsecond, 24*time.Hour),
		args.Int(cli.IntFlag{Name: "warmup", Aliases: []string{"w"},
			Usage: "warm-up calls before the first sample", Value: -1,
			DefaultText: "10, or a tenth of what is to come"}, -1, maxSamples),
		&cli.StringFlag{Name: "cache", Usage: "`SIZE` of the last-level cache, as 32M",
			DefaultText: "what the system says"},
		&cli.StringFlag{Name: "format", Aliases: []string{"o"}, Usage: "format (`FORM`) of standard output: " +
			strings.Join(results.Formats(), ", "), Value: "table"},
		&cli.StringSliceFlag{Name: "out",
			Usage: "also write `FILE`; its ending chooses the format: .txt, .csv, .json; may be repeated"},
		args.Force(),
		&cli.StringFlag{Name: "plot", Usage: "draw latency and bandwidth by size to `FILE`.svg"},
		&cli.StringSliceFlag{Name: "compare", Usage: "compare with an earlier report, `FILE`.json, or with several " +
			"of one start each; exit code 3 if anything is slower"},
		args.Float(cli.Float64Flag{Name: "threshold",
			Usage: "relative difference of medians that --compare counts as a change", Value: 0.05}, 0, 1e6),
	}
}

// A benchJob is one call of rlinf bench.
type benchJob struct {
	*flags
	opts     bench.Options
	asked    *loop.Requests
	before   *results.Report // the report to compare with; nil if there is none
	files    []*os.File
	report   *results.Report // the report of rank 0; nil until it is complete
	log      session.RankLog
	programs *programs.Starter
}

// A measurement is the work of one rank in a benchmark.
type measurement func(context.Context, *bench.Run, *spmd.World) error

// runBench opens the ranks and runs measure on each. Then it writes, draws and compares the report, as the flags say.
// It returns the exit code.
func runBench(f *flags, reg config.Registries, ranks openRanks, measure measurement) (int, error) {
	j := &benchJob{flags: f, programs: reg.Programs.NewStarter()}
	defer j.programs.Close()
	j.configure()
	starts := j.countStarts()
	j.openFiles()
	code, err := 0, f.err
	if err == nil {
		code, err = j.run(starts, ranks, measure)
	}
	for _, file := range j.files {
		err = errors.Join(err, file.Close())
	}
	return code, err
}

// run starts the benchmark once in this process, or several times in processes of their own.
func (j *benchJob) run(starts int, ranks openRanks, measure measurement) (code int, err error) {
	j.asked = loop.Watch()
	defer j.asked.Close()
	j.opts.Stop = func() bool {
		stop, _ := j.asked.Vote()
		return stop != 0
	}
	leads := true
	var transports []spmd.Transport
	if starts == 1 {
		if transports, err = ranks(j.Context, &j.log); err != nil {
			return 0, err
		}
		leads = transports[0].Rank() == 0
	}
	ctx, cancel := context.WithCancelCause(j.Context.Context)
	defer cancel(nil)
	defer j.enforceStop(cancel, leads)()
	failed := false
	if starts == 1 {
		defer debug.SetGCPercent(debug.SetGCPercent(400)) // as in training
		main := func(ctx context.Context, w *spmd.World) error { return j.rank(ctx, w, measure) }
		failed = spmd.Run(ctx, transports, spmd.Options{Log: &j.log}, main) != nil // Run has written the failure
	} else {
		err = j.runStarts(ctx, starts)
		failed = err != nil
	}
	if stop, _ := j.asked.Vote(); stop != 0 {
		return stop, nil
	}
	if failed {
		return loop.ExitFailed, err
	}
	return j.judge()
}

// openRanks opens the ranks of this process. log receives the log of the ranks.
type openRanks func(c *cli.Context, log io.Writer) ([]spmd.Transport, error)

// benchRanks opens the ranks of most benchmarks: the launcher's rank, or --np goroutine ranks.
func benchRanks(c *cli.Context, log io.Writer) ([]spmd.Transport, error) {
	if args.Launched() {
		return args.OpenWorld(c, nil, nil, log, nil)
	}
	runtime.GOMAXPROCS(max(2, runtime.GOMAXPROCS(0)))
	return local.New(c.Int("np")), nil
}

// configure reads the flags that all benchmarks have.
func (j *benchJob) configure() {
	rule := stats.StopRule{RelativeCI: j.Float64("rel-ci"), MinSamples: j.Int("min"), MaxSamples: j.Int("max"),
		MaxTime: j.Duration("max-time")}
	if j.IsSet("n") {
		rule.MinSamples, rule.MaxSamples = j.Int("n"), j.Int("n")
	}
	if rule.MaxSamples < rule.MinSamples {
		j.wrong("--max %d: expected at least --min, which is %d", rule.MaxSamples, rule.MinSamples)
	}
	if path := j.String("plot"); path != "" && !strings.HasSuffix(path, ".svg") {
		j.wrong("--plot %s: expected a file with the ending .svg", path)
	}
	if j.IsSet("cache") {
		j.opts.Cache = int64(j.bytes("cache", "32M"))
	}
	p := runfolder.Describe("")
	j.opts.Rule, j.opts.Warmup = rule, j.Int("warmup")
	j.opts.About = results.Report{Bench: j.bench(), Machine: results.Platform{Version: p.Build.Version,
		Revision: p.Build.Revision, Tags: p.Build.Tags, Go: p.Build.Go,
		Platform: p.Build.Platform, Args: p.Args, Variables: p.Env}}
	var before []*results.Report
	for _, path := range j.StringSlice("compare") {
		r, err := results.Read(path)
		if err != nil {
			j.wrong("--compare: %w", err)
			return
		}
		before = append(before, r)
	}
	if len(before) > 0 {
		j.before = results.Merge(before)
	}
}

// openFiles makes the writers of the report. It opens files only in the leading process, and only if there was no
// mistake so far.
func (j *benchJob) openFiles() {
	j.addWriter(j.String("format"), j.App.Writer)
	j.checkOld("plot", j.String("plot"), args.Picture())
	for _, path := range j.StringSlice("out") {
		format := map[string]string{".txt": "table", ".csv": "csv", ".json": "json"}[filepath.Ext(path)]
		if format == "" {
			j.wrong("--out %s: expected a file with the ending .txt, .csv or .json", path)
		}
		j.checkOld("out", path, args.Begins(beginnings[format]))
		if j.err != nil || !mpi.Leads() {
			continue
		}
		f, err := os.Create(path)
		if err != nil {
			j.wrong("--out: %w", err)
			return
		}
		j.files = append(j.files, f)
		j.addWriter(format, f)
	}
}

// beginnings are regular expressions for the beginnings of reports, by format.
var beginnings = map[string]string{"table": "# rlinf bench ", "csv": `op,[a-z0-9_,]*,med_us,[a-z0-9_,]*\n`,
	"json": `\{"schema":\d+,"bench":"`}

// checkOld records a usage error if the leading process cannot make the file of a flag, or would replace a file of the
// user: see args.CheckOut.
func (f *flags) checkOld(flag, path string, made args.Made) {
	if path != "" && mpi.Leads() {
		if err := args.CheckOut(f.Context, flag, path, made); err != nil {
			f.wrong("%w", err)
		}
	}
}

func (j *benchJob) addWriter(format string, to io.Writer) {
	w, err := results.NewWriter(format, to)
	if err != nil {
		j.wrong("%w", err)
	}
	j.opts.Writers = append(j.opts.Writers, w)
}

// enforceStop cancels the job after a grace period if a request to stop arrives before end is called. Launchers kill
// their processes one second after such a request. The leading process is cancelled first, because it has the report.
func (j *benchJob) enforceStop(cancel context.CancelCauseFunc, leads bool) (end func()) {
	grace := 900 * time.Millisecond
	if leads {
		grace = 600 * time.Millisecond
	}
	return j.asked.AtStop(func(bool) {
		time.AfterFunc(grace, func() { cancel(errors.New("stopped on request")) })
	})
}

// rank does everything that one rank does in a benchmark.
func (j *benchJob) rank(ctx context.Context, w *spmd.World, measure measurement) error {
	opts := j.opts
	if w.Rank() != 0 {
		opts.Writers = nil
	}
	if w.Describe().Transport == "mpi" { // goroutine ranks share the setting of their process
		runtime.GOMAXPROCS(max(2, runtime.NumCPU()/w.LocalSize()))
	}
	opts.Free = job.AvailableOn(w.Nodes(), w.Nodes()[w.Rank()]).Free
	run, err := bench.Begin(ctx, w, opts)
	if err != nil {
		return err
	}
	failed := measure(ctx, run, w)
	rep, err := run.End(failed == nil)
	if w.Rank() == 0 {
		j.report = rep
	}
	if failed != nil {
		return failed
	}
	return err
}

// judge draws the plot, checks and compares the report, and returns the exit code.
func (j *benchJob) judge() (int, error) {
	if j.report == nil {
		return loop.ExitOK, nil // not the leading process
	}
	if path := j.String("plot"); path != "" {
		svg, err := j.report.Plot()
		if err == nil {
			err = os.WriteFile(path, svg, 0o644)
		}
		if err != nil {
			return loop.ExitFailed, fmt.Errorf("--plot: %w", err)
		}
	}
	code := loop.ExitOK
	say := j.App.Writer
	if j.String("format") != "table" {
		say = j.App.ErrWriter // standard output is for programs that read the other formats
		for _, warning := range j.report.Machine.Warnings() {
			fmt.Fprintln(say, "#", warning)
		}
	}
	for _, row := range j.report.Rows {
		if row.Wrong > 0 {
			code = loop.ExitCheck
		}
	}
	if j.IsSet("check-min-busbw") {
		for _, wrong := range j.report.BelowBusBandwidth(j.Float64("check-min-busbw")) {
			code = loop.ExitCheck
			fmt.Fprintln(say, "#", wrong)
		}
	}
	if j.before != nil {
		comparison := results.Compare(j.before, j.report, j.Float64("threshold"))
		fmt.Fprint(say, &comparison)
		if comparison.Regressions() > 0 {
			code = loop.ExitCheck
		}
	}
	return code, nil
}
