// Package sweep answers: which settings train best? It is the command rlinf sweep, which trains each point of a
// grid of settings with several seeds, on the available ranks.
package sweep

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/rlinf/rlinf/internal/durable"
	"github.com/rlinf/rlinf/internal/metrics"
	"github.com/rlinf/rlinf/internal/results"
	"github.com/rlinf/rlinf/roles/cli/args"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/roles/session"
	"github.com/rlinf/rlinf/roles/task"
	"github.com/rlinf/rlinf/spmd/local"
	"github.com/rlinf/rlinf/spmd/mpi"
	"github.com/urfave/cli/v2"
)

// Usage is part of the help of rlinf sweep.
const Usage = `rlinf sweep -c cfg.yaml --seeds 5 key=a,b,c other=x,y
mpirun -np 16 rlinf sweep -c cfg.yaml --seeds 5 key=a,b,c
rlinf sweep --from RUN --step N key=a,b,c   # forks of a run

Each run is trained whole by one process, on as many goroutine ranks as its placement needs. Without a launcher
--jobs of them run side by side in this process; under a launcher every process takes runs from a list that rank 0
keeps. A run that fails stops no other. Each run keeps its last checkpoint and its best one: checkpoints/latest and
checkpoints/best. Started again, the sweep leaves out what is finished, and goes on with what has a checkpoint. It
has at most 2000 runs. All is in the folder <log_path>/<experiment_name>-sweep.`

// Names of the sweep's own files in its folder.
const (
	tableFile  = "table.md"
	curvesFile = "curves.svg"
)

// Flags returns the flags of rlinf sweep, in addition to the flags of the configuration.
func Flags() []cli.Flag {
	return []cli.Flag{
		args.Int(cli.IntFlag{Name: "seeds",
			Usage: "number of seeds of each point, starting at runner.seed", Value: 1}, 1, maxRuns),
		args.Int(cli.IntFlag{Name: "jobs", Usage: "runs to train in parallel without a launcher",
			DefaultText: "cores / ranks of a run"}, 1, maxRuns),
		&cli.StringFlag{Name: "metric", Usage: "`NAME` of the metric to table and draw",
			DefaultText: "eval/return, or what the task has in its place"},
		&cli.StringFlag{Name: "from", Usage: "fork `RUN`, or the runs seed_N in it, at --step"},
		args.Int(cli.IntFlag{Name: "step", Usage: "with --from: the step `N` of a checkpoint"}, 1, args.MaxCount),
		args.Mode(),
		args.Force(),
	}
}

// A sweep trains many runs of one job, with different settings and seeds.
type sweep struct {
	reg    config.Registries
	tasks  task.Tasks
	own    session.UserProgram
	runs   []*sweepRun
	metric string
	mode   string // see args.Mode
	asked  *loop.Requests
	out    io.Writer

	board    *board     // on the leading process
	mu       sync.Mutex // guards the fields below
	next     int        // index in runs of the next run to start
	failures []string
	requeue  bool // a run stopped before its end and asked for a requeue
}

// An outcome is the result of a run.
type outcome struct {
	Run     int
	Code    int // the exit code of the run
	Seconds float64
	Said    string // the log of the run
}

// Run trains all runs that are not finished, and writes a table of all runs. It returns the exit code.
func Run(c *cli.Context, reg config.Registries, tasks task.Tasks, own session.UserProgram) (int, error) {
	n, launcher := mpi.Launched()
	s := &sweep{reg: reg, tasks: tasks, own: own, metric: c.String("metric"), out: c.App.Writer}
	var err error
	if s.runs, err = sweepRuns(c, reg, tasks, c.App.ErrWriter); err != nil {
		return 0, err
	}
	if s.metric == "" {
		s.metric = s.runs[0].cfg.Headline()
	}
	if s.mode, err = args.ModeOf(c, s.metric); err != nil {
		return 0, err
	}
	table := args.Begins(`\|  \| seeds \| `)
	for name, made := range map[string]args.Made{tableFile: table, curvesFile: args.Picture()} {
		path := filepath.Join(s.folder(), name)
		if err := args.CheckOldFile(c, path, "runner.logger.experiment_name", path, made); err != nil {
			return 0, err
		}
	}
	jobs := max(1, runtime.NumCPU()/s.runs[0].ranks)
	if c.IsSet("jobs") {
		if jobs = c.Int("jobs"); args.Launched() {
			return 0, config.Usagef("--jobs %d: %s has started %d processes, each of which takes one run at a time",
				jobs, launcher, n)
		}
	}
	live, out := launcher == "" && metrics.IsTerminal(os.Stdout), s.out
	if live {
		out = os.Stdout // a live line needs control sequences
	}
	s.board = newBoard(out, live, func() int { return metrics.Width(os.Stdout) }, s.metric, s.mode, len(s.runs))
	s.asked = loop.Watch()
	defer s.asked.Close()
	s.asked.Expire(0)       // stop before the end of a Slurm job
	debug.SetGCPercent(400) // as in training
	if args.Launched() {
		return s.onProcesses(c)
	}
	runtime.GOMAXPROCS(max(2, runtime.GOMAXPROCS(0)))
	defer s.showBoard()()
	defer s.asked.AtStop(s.acknowledge)()
	defer s.asked.BeforeExit(func(int) { s.board.close() })()
	var places sync.WaitGroup
	for range min(jobs, len(s.runs)) {
		places.Go(func() {
			for i, ok := s.take(); ok; i, ok = s.take() {
				s.note(s.train(c.Context, i))
			}
		})
	}
	places.Wait()
	return s.finish()
}

// take returns the next run to train. The result ok is false if none is left, or after a request to stop.
func (s *sweep) take() (run int, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.next < len(s.runs) {
		if stop, _ := s.asked.Vote(); stop != 0 {
			break
		}
		run = s.next
		s.next++
		if !s.runs[run].finished() {
			s.board.begin(s.runs[run])
			return run, true
		}
		s.board.finished(s.runs[run], s.value(s.runs[run]), 0)
	}
	return 0, false
}

// acknowledge prints an answer to a request to stop, as a session does.
func (s *sweep) acknowledge(atOnce bool) {
	again := ""
	if atOnce {
		again = "; again to stop now"
	}
	s.board.print("finishing the steps under way, then saving checkpoints%s\n", again)
}

// showBoard updates the progress of the sweep regularly, until stop is called.
func (s *sweep) showBoard() (stop func()) {
	ticks, live := 0, s.board.live // close changes live
	ended := metrics.Every(time.Second, func() {
		if ticks++; live || ticks == 5 || ticks%30 == 0 { // in a log soon, and then from time to time
			s.board.tick()
		}
	})
	return func() {
		ended()
		s.board.close()
	}
}

// value returns the last value of a run's metric; NaN if it has none.
func (s *sweep) value(run *sweepRun) float64 {
	value := math.NaN()
	if r, err := results.ReadRun(run.cfg.Folder(), s.metric); err == nil {
		value, _ = r.At(s.metric, math.Inf(1))
	}
	return value
}

// train trains a run to its end, or until a request to stop.
func (s *sweep) train(ctx context.Context, i int) outcome {
	run, start := s.runs[i], time.Now()
	var said bytes.Buffer
	o := session.Options{Registries: s.reg, Tasks: s.tasks, Own: s.own, Asked: s.asked.ForRun(),
		Out: io.Discard, Log: &said, Sweep: true}
	if _, err := os.Stat(filepath.Join(run.cfg.Folder(), "checkpoints", "latest")); err == nil {
		o.Resume = config.ResumeAuto
	} else if run.from != nil {
		if o.Resume, err = run.begin(); err != nil {
			return outcome{i, loop.ExitFailed, 0, err.Error()}
		}
		if o.Fork, err = filepath.Abs(run.from.Dir); err != nil {
			return outcome{i, loop.ExitFailed, 0, err.Error()}
		}
	}
	one := session.New(o)
	code, err := one.Start(ctx, local.New(run.ranks), run.cfg, nil, nil)
	if err != nil {
		code = loop.ExitFailed
		fmt.Fprintln(one.Logs(), err)
	}
	return outcome{i, code, time.Since(start).Seconds(), said.String()}
}

// note reports the outcome of a run.
func (s *sweep) note(o outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	run := s.runs[o.Run]
	switch o.Code {
	case loop.ExitOK:
		value := s.value(run)
		done := s.board.finished(run, value, time.Duration(o.Seconds*float64(time.Second)))
		score := fmt.Sprintf("%s %.4g", s.metric, value)
		if math.IsNaN(value) {
			score = "no " + s.metric
		}
		s.board.print("%d/%d · %s · %s · %.0fs\n", done, len(s.runs), run.name(), score, o.Seconds)
	case loop.ExitRequeue, loop.ExitInterrupted, loop.ExitTerminated, loop.ExitHungUp:
		s.requeue = true
		s.board.ended(run, false)
		s.board.print("%s · stopped before its end · %.0fs\n", run.name(), o.Seconds)
	default:
		s.failures = append(s.failures, fmt.Sprintf("%s failed: %s", run.name(), cause(o.Said)))
		s.board.ended(run, true)
		s.board.print("%s · failed · %.0fs\n", run.name(), o.Seconds)
	}
}

// cause returns the log of a failed run without its warnings.
func cause(said string) string {
	var errs []string
	for line := range strings.Lines(said) {
		if !strings.HasPrefix(line, "warning: ") {
			errs = append(errs, line)
		}
	}
	return strings.TrimSpace(strings.Join(errs, ""))
}

// finish writes the table of finished runs to standard output and to table.md, draws curves.svg, reports failed
// runs, and returns the exit code.
func (s *sweep) finish() (int, error) {
	s.board.close()
	groups, err := s.groups(s.metric)
	if err != nil {
		return 0, err
	}
	table := &results.ComparisonTable{Metric: s.metric, Mode: s.mode, At: math.Inf(1), Groups: groups}
	if len(table.Groups) > 0 {
		folder := s.folder()
		var text bytes.Buffer
		err := errors.Join(table.Write(s.out), table.WriteMarkdown(&text),
			durable.WriteFile(filepath.Join(folder, tableFile), text.Bytes()),
			durable.WriteFile(filepath.Join(folder, curvesFile), s.picture(groups)))
		if err != nil {
			return 0, err
		}
		if best := table.Best(); best != "" {
			fmt.Fprintln(s.out, best)
		}
		fmt.Fprintf(s.out, "%d of %d runs are finished; %s and %s are in %s\n", s.board.done, len(s.runs), tableFile,
			curvesFile, folder)
	}
	stop, _ := s.asked.Vote()
	if (stop != 0 || s.requeue) && s.board.done < len(s.runs) {
		fmt.Fprintf(s.out, "the sweep stopped with %d of %d runs finished; the same command goes on from its "+
			"checkpoints\n", s.board.done, len(s.runs))
	}
	switch {
	case len(s.failures) > 0:
		return 0, fmt.Errorf("%s\n%d of %d runs failed", strings.Join(s.failures, "\n"), len(s.failures), len(s.runs))
	case stop != 0:
		return stop, nil
	case s.requeue:
		return loop.ExitRequeue, nil
	}
	return loop.ExitOK, nil
}

// folder returns the sweep's folder.
func (s *sweep) folder() string {
	return strings.TrimSuffix(s.runs[0].cfg.Folder(), string(filepath.Separator)+s.runs[0].name())
}

// picture plots the metric of the finished runs. If the runs were evaluated only once, it plots the training metric
// instead.
func (s *sweep) picture(groups []results.SeedGroup) []byte {
	metric := s.metric
	if training := s.runs[0].cfg.TrainingHeadline(); !results.Curves(metric, groups) {
		if trained, err := s.groups(training); err == nil && results.Curves(training, trained) {
			metric, groups = training, trained
		}
	}
	return results.Draw(metric, groups, s.reg.Returns)
}

// groups returns the finished runs with a metric, one group for each point.
func (s *sweep) groups(metric string) (groups []results.SeedGroup, err error) {
	for _, run := range s.runs {
		if !run.finished() {
			continue
		}
		r, err := results.ReadRun(run.cfg.Folder(), metric)
		if err != nil {
			return nil, err
		}
		name := run.point
		if name == "" {
			name = filepath.Base(s.folder())
		}
		if last := len(groups) - 1; last < 0 || groups[last].Name != name {
			groups = append(groups, results.SeedGroup{Name: name, Path: filepath.Dir(run.cfg.Folder())})
		}
		g := &groups[len(groups)-1]
		g.Runs = append(g.Runs, r)
	}
	return groups, nil
}
