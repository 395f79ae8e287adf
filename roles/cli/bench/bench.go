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
	"github.com/rlinf/rlinf/roles/runner"
	"github.com/rlinf/rlinf/roles/session"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/spmd/local"
	"github.com/rlinf/rlinf/spmd/mpi"
	"github.com/urfave/cli/v2"
)

// Command returns rlinf bench with its subcommands. It stores the exit code in code.
func Command(reg config.Registries, code *int) *cli.Command {
	common, starts := benchFlags(), startFlags()
	type action = func(*cli.Context, config.Registries) (int, error)
	withOverrides := func(name, usage string, flags []cli.Flag, run action) *cli.Command {
		with := starts
		if name == "scale" {
			with = starts[:1] // it has a launcher of its own
		}
		return &cli.Command{Name: name, Usage: usage, Flags: slices.Concat(common, with, flags),
			Action: func(c *cli.Context) (err error) {
				*code, err = run(c, reg)
				return err
			}}
	}
	below := func(name, usage string, flags []cli.Flag, run action) *cli.Command {
		c := withOverrides(name, usage, flags, run)
		c.Action = args.NoArguments(c.Action)
		return c
	}
	root := below("bench", "measure the machine: collectives, messages, overlap, channels, environments, whole jobs",
		collectiveFlags(), benchCollectives)
	root.Subcommands = []*cli.Command{
		below("p2p", "messages between two ranks: latency, bandwidth both ways, message rate", p2pFlags(), benchP2P),
		below("overlap", "how much of a collective hides behind computation", overlapFlags(), benchOverlap),
		below("channel", "channels between workers: round trip, items per second, back-pressure", channelFlags(),
			benchChannel),
		below("weights", "from a new version of weights to its first use everywhere", weightFlags(), benchWeights),
		withOverrides("env", "environment steps per second, and per second of a core", envFlags(),
			benchEnv),
		withOverrides("scale", "a whole job on several numbers of ranks: efficiency, and which phase waits",
			scaleFlags(), benchScale),
	}
	return root
}

// maxSamples is more than anybody waits for.
const maxSamples = 1 << 24

func benchFlags() []cli.Flag {
	return []cli.Flag{
		args.Int(cli.IntFlag{Name: "np",
			Usage: "ranks to start without a launcher", Value: max(2, runtime.NumCPU()),
			DefaultText: "one for each CPU, at least 2"}, 1, args.MaxGoroutineRanks),
		args.Int(cli.IntFlag{Name: "n", Usage: "exact number of samples of each measurement",
			DefaultText: "until the median is known well enough"}, 1, maxSamples),
		args.Float(cli.Float64Flag{Name: "rel-ci",
			Usage: "half width of the median's 95 % interval at which sampling ends, " +
				"relative to the median", Value: 0.02}, 0, 0.99),
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
			Usage: "also write `FILE`; its ending chooses the format: .txt, .csv, .json, .md; may be repeated"},
		&cli.StringFlag{Name: "plot", Usage: "draw latency and bandwidth by size to `FILE`.svg"},
		&cli.StringSliceFlag{Name: "compare", Usage: "compare with an earlier report, `FILE`.json, or with several " +
			"of one start each; exit code 3 if anything is slower"},
		args.Float(cli.Float64Flag{Name: "threshold",
			Usage: "relative difference of medians that --compare counts as a change",
			Value: 0.05}, 0, 1e6),
	}
}

// A benchJob is one rlinf bench in this process.
type benchJob struct {
	opts     bench.Options
	asked    *runner.Requests
	before   *results.Report // to compare with; nil: nothing
	limit    float64         // by how much
	plot     string
	files    []*os.File
	report   *results.Report // of rank 0, once done
	verdict  func(*results.Report) []string
	log      session.RankLog
	programs *programs.Starter
}

// runBench opens the world, runs measure, and does with the report what the flags ask for. verdict,
// if any, returns what is wrong with the report.
func runBench(c *cli.Context, reg config.Registries, name string,
	ranks func(*cli.Context, io.Writer) ([]spmd.Transport, error),
	measure func(context.Context, *bench.Run, *spmd.World) error, verdict func(*results.Report) []string) (int, error) {
	j := &benchJob{verdict: verdict, programs: reg.Programs.NewStarter()}
	defer j.programs.Close()
	if err := j.configure(c, name); err != nil {
		return 0, err
	}
	if n, err := j.countStarts(c); err != nil {
		return 0, err
	} else if n > 1 {
		return j.runStarts(c, name, n)
	}
	j.asked = runner.Watch()
	defer j.asked.Close()
	j.opts.Stop = func() bool {
		stop, _ := j.asked.Vote()
		return stop != 0
	}
	transports, err := ranks(c, &j.log)
	if err != nil {
		return 0, errors.Join(err, j.closeFiles())
	}
	ctx, cancel := context.WithCancelCause(c.Context)
	defer cancel(nil)
	go j.hurry(ctx, cancel, transports[0].Rank() == 0)
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // as in training
	failed := spmd.Run(ctx, transports, spmd.Options{Log: &j.log}, func(ctx context.Context, w *spmd.World) error {
		return j.rank(ctx, w, measure)
	})
	err = j.closeFiles()
	if stop, _ := j.asked.Vote(); stop != 0 {
		return stop - 1, err
	}
	if failed != nil || err != nil { // the failure has been written
		return runner.ExitFailed, err
	}
	return j.judge(c)
}

// benchRanks opens the ranks of this process.
func benchRanks(c *cli.Context, log io.Writer) ([]spmd.Transport, error) {
	if args.Launched() {
		return args.OpenWorld(c, nil, nil, log, nil)
	}
	runtime.GOMAXPROCS(max(2, runtime.GOMAXPROCS(0)))
	return local.New(c.Int("np")), nil
}

// worldSize returns how many ranks there will be.
func worldSize(c *cli.Context) int {
	if n, launcher := mpi.Launched(); launcher != "" {
		return n
	}
	return c.Int("np")
}

// configure reads the flags that all benchmarks have, and opens the files of the leading process.
func (j *benchJob) configure(c *cli.Context, name string) error {
	rule := stats.Rule{RelativeCI: c.Float64("rel-ci"), MinSamples: c.Int("min"), MaxSamples: c.Int("max"),
		MaxTime: c.Duration("max-time")}
	if c.IsSet("n") {
		rule.MinSamples, rule.MaxSamples = c.Int("n"), c.Int("n")
	}
	j.limit = c.Float64("threshold")
	if rule.MaxSamples < rule.MinSamples {
		return config.UsageError{Err: fmt.Errorf("--max %d: expected at least --min, which is %d", rule.MaxSamples,
			rule.MinSamples)}
	}
	if j.plot = c.String("plot"); j.plot != "" && !strings.HasSuffix(j.plot, ".svg") {
		return config.UsageError{Err: fmt.Errorf("--plot %s: expected a file with the ending .svg", j.plot)}
	}
	if c.IsSet("cache") {
		size, err := parseBytes(c.String("cache"))
		if err != nil || size < 1 {
			return config.UsageError{Err: fmt.Errorf("--cache %s: expected a size > 0, as 32M", c.String("cache"))}
		}
		j.opts.Cache = int64(size)
	}
	p := runfolder.Describe("")
	j.opts.Rule, j.opts.Warmup = rule, c.Int("warmup")
	j.opts.About = results.Report{Bench: name, Machine: results.Machine{Version: p.Build.Version,
		Revision: p.Build.Revision, Tags: p.Build.Tags, Go: p.Build.Go,
		Platform: p.Build.Platform, Args: p.Args, Variables: p.Env}}
	var before []*results.Report
	for _, path := range c.StringSlice("compare") {
		r, err := results.Read(path)
		if err != nil {
			return config.UsageError{Err: fmt.Errorf("--compare: %w", err)}
		}
		before = append(before, r)
	}
	if len(before) > 0 {
		j.before = results.Merge(before)
	}
	return j.openFiles(c, name)
}

// openFiles makes the writers. Only the leading process writes.
func (j *benchJob) openFiles(c *cli.Context, name string) error {
	add := func(format string, w io.Writer) error {
		out, err := results.NewWriter(format, name, w)
		if err != nil {
			return config.UsageError{Err: errors.Join(err, j.closeFiles())}
		}
		j.opts.Writers = append(j.opts.Writers, out)
		return nil
	}
	if err := add(c.String("format"), c.App.Writer); err != nil {
		return err
	}
	for _, path := range c.StringSlice("out") {
		format, ok := map[string]string{".txt": "table", ".csv": "csv", ".json": "json",
			".md": "md"}[filepath.Ext(path)]
		if !ok {
			return config.UsageError{Err: errors.Join(fmt.Errorf("--out %s: expected a file with the ending .txt, "+
				".csv, .json or .md",
				path), j.closeFiles())}
		}
		if !mpi.Leads() {
			continue
		}
		f, err := os.Create(path)
		if err != nil {
			return config.UsageError{Err: errors.Join(fmt.Errorf("--out: %w", err), j.closeFiles())}
		}
		j.files = append(j.files, f)
		if err := add(format, f); err != nil {
			return err
		}
	}
	return nil
}

func (j *benchJob) closeFiles() error {
	var errs []error
	for _, f := range j.files {
		errs = append(errs, f.Close())
	}
	j.files = nil
	return errors.Join(errs...)
}

// hurry cancels the job if it does not end soon after a request to stop. Launchers kill a second
// after the request; the leading process, which has the report, ends first.
func (j *benchJob) hurry(ctx context.Context, cancel context.CancelCauseFunc, leads bool) {
	grace := 900 * time.Millisecond
	if leads {
		grace = 600 * time.Millisecond
	}
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for !j.opts.Stop() {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		}
	}
	select {
	case <-ctx.Done():
	case <-time.After(grace):
		cancel(errors.New("stopped on request"))
	}
}

// rank is the life of one rank.
func (j *benchJob) rank(ctx context.Context, w *spmd.World,
	measure func(context.Context, *bench.Run, *spmd.World) error) error {
	opts := j.opts
	if w.Rank() != 0 {
		opts.Writers = nil
	}
	if w.Describe().Transport == "mpi" { // goroutine ranks share the process's
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

// judge writes the plot, the verdict and the comparison, and returns the exit code.
func (j *benchJob) judge(c *cli.Context) (int, error) {
	if j.report == nil {
		return runner.ExitOK, nil // not the leading process
	}
	if j.plot != "" {
		svg, err := j.report.Plot()
		if err == nil {
			err = os.WriteFile(j.plot, svg, 0o644)
		}
		if err != nil {
			return runner.ExitFailed, fmt.Errorf("--plot: %w", err)
		}
	}
	code := runner.ExitOK
	say := c.App.Writer
	if form := c.String("format"); form != "table" && form != "wide" {
		say = os.Stderr // the other forms are for programs
		if form != "md" {
			for _, warning := range j.report.Machine.Warnings() {
				fmt.Fprintln(say, "#", warning)
			}
		}
	}
	for _, row := range j.report.Rows {
		if row.Wrong > 0 {
			code = runner.ExitCheck
		}
	}
	if j.verdict != nil {
		for _, wrong := range j.verdict(j.report) {
			code = runner.ExitCheck
			fmt.Fprintln(say, "#", wrong)
		}
	}
	if j.before != nil {
		comparison := results.Compare(j.before, j.report, j.limit)
		if err := comparison.Write(say); err != nil {
			return runner.ExitFailed, err
		}
		if comparison.Regressions() > 0 {
			code = runner.ExitCheck
		}
	}
	return code, nil
}
