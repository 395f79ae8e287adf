package bench

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/rlinf/rlinf/collectives/bench"
	results "github.com/rlinf/rlinf/collectives/bench/report"
	"github.com/rlinf/rlinf/collectives/bench/stats"
	"github.com/rlinf/rlinf/internal/programs"
	runs "github.com/rlinf/rlinf/internal/results"
	"github.com/rlinf/rlinf/roles/cli/args"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/spmd/local"
	"github.com/rlinf/rlinf/spmd/mpi"
	"github.com/urfave/cli/v2"
)

func scaleFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "config", Aliases: []string{"c"}, Usage: "the job's configuration, `FILE`.yaml",
			DefaultText: "PPO on CartPole-v1, everything on every rank"},
		&cli.StringFlag{Name: "np-sweep", Usage: "`LIST` of numbers of ranks; the first is what the others are " +
			"compared with", DefaultText: "1, 2, 4 and so on up to the CPUs, those that the placement can have"},
		&cli.StringFlag{Name: "launcher", Usage: "`COMMAND` that starts {np} ranks, as 'mpirun -np {np}'",
			DefaultText: "none: goroutine ranks"},
		args.Int(cli.IntFlag{Name: "steps", Usage: "steps of each job", Value: 30}, 1, args.MaxCount),
		args.Int(cli.IntFlag{Name: "skip", Usage: "warm-up steps that are not counted", Value: 3}, 0, args.MaxCount),
		&cli.BoolFlag{Name: "weak",
			Usage: "environments and batches grow with the ranks; else all jobs do the same work"},
		&cli.BoolFlag{Name: "strict", Usage: "keys without effect are errors"},
	}
}

// A scaling runs a job on several numbers of ranks, for rlinf bench scale.
type scaling struct {
	program   string
	file      string
	overrides []string
	launcher  string
	cfg       *config.Config
	sizes     []int
	steps     int
	skip      int
	weak      bool
	ranks     int             // number of ranks of the configuration
	place     *spmd.Placement // placement of the components on these ranks
	programs  *programs.Starter
}

// benchScale runs the command rlinf bench scale.
func benchScale(f *flags, reg config.Registries) (int, error) {
	if _, launcher := mpi.Launched(); launcher != "" {
		f.wrong("bench scale starts the jobs itself: expected it without %s, and --launcher '%s -np {np}'", launcher,
			launcher)
		return 0, f.err
	}
	if !f.IsSet("config") {
		file, err := builtinJob()
		if err != nil {
			return 0, err
		}
		defer os.RemoveAll(filepath.Dir(file))
		if err := f.Set("config", file); err != nil {
			return 0, err
		}
	}
	if err := args.CheckFile(f.Context); err != nil {
		return 0, err
	}
	cfg, err := args.Config(f.Context, reg, f.App.ErrWriter)
	if err != nil {
		return 0, err
	}
	if auto, _ := cfg.Auto(); len(auto) > 0 {
		return 0, config.Usagef("bench scale: cluster.component_placement: auto for %s: expected ranks, which it "+
			"adapts to each number of ranks; rlinf plan prints them", strings.Join(auto, ", "))
	}
	s := &scaling{cfg: cfg, file: f.String("config"), overrides: f.Args().Slice(), launcher: f.String("launcher"),
		sizes: sweepSizes(f), steps: f.Int("steps"), skip: f.Int("skip"), weak: f.Bool("weak"),
		programs: reg.Programs.NewStarter()}
	defer s.programs.Close()
	if s.program, err = os.Executable(); err != nil {
		return 0, err
	}
	if s.steps <= s.skip {
		f.wrong("--steps %d, --skip %d: expected more steps than are skipped", s.steps, s.skip)
	}
	if f.checkLauncher(); f.err != nil {
		return 0, f.err
	}
	extent, whole := cfg.ClusterSpec().Extent()
	if s.ranks = max(1, extent); whole {
		s.ranks = max(s.ranks, slices.Max(s.sizes))
	}
	if s.place, err = spmd.Place(cfg.ClusterSpec(), make([]int, s.ranks)); err == nil {
		err = s.checkSizes(f.IsSet("np-sweep"))
	}
	if err != nil {
		f.wrong("%w", err)
	}
	here := func(*cli.Context, io.Writer) ([]spmd.Transport, error) { return local.New(1), nil }
	return runBench(f, reg, here, func(ctx context.Context, r *bench.Run, _ *spmd.World) error {
		return s.run(ctx, r)
	})
}

//go:embed scale.yaml
var scaleJob []byte

// builtinJob writes the default configuration to a new folder.
func builtinJob() (path string, err error) {
	folder, err := os.MkdirTemp("", "rlinf-job-")
	if err != nil {
		return "", err
	}
	path = filepath.Join(folder, "cartpole.yaml")
	return path, os.WriteFile(path, scaleJob, 0o644)
}

// sweepSizes reads --np-sweep. The default is the powers of two up to the number of CPUs.
func sweepSizes(f *flags) []int {
	if f.IsSet("np-sweep") {
		return f.numbers("np-sweep", 1, config.MaxRanks, fmt.Sprintf("numbers of ranks from 1 to %d, as 1,2,4",
			config.MaxRanks))
	}
	sizes := []int{1}
	for n := 2; n <= runtime.NumCPU(); n *= 2 {
		sizes = append(sizes, n)
	}
	return sizes
}

// checkSizes removes the numbers of ranks on which the job cannot run, and returns an error if none is left. If asked
// is true, the user gave the numbers. Then a number on which the job cannot run is an error.
func (s *scaling) checkSizes(asked bool) error {
	var fit []int
	var last error
	for _, n := range s.sizes {
		_, err := s.arguments(n, "")
		if err != nil && asked {
			return err
		}
		if err == nil {
			fit = append(fit, n)
		} else {
			last = err
		}
	}
	if len(fit) == 0 {
		return last
	}
	s.sizes = fit
	return nil
}

// run runs the jobs one after the other, and records a row for each.
func (s *scaling) run(ctx context.Context, r *bench.Run) error {
	how := "goroutine ranks"
	if s.launcher != "" {
		how = strings.Join(strings.Fields(s.launcher), " ")
	}
	kind := "the same work on every number of ranks"
	if s.weak {
		kind = "work that grows with the ranks"
	}
	method := fmt.Sprintf("whole jobs (%s), %s; a sample is time/step of a step, the first %d left out; waiting is 1 "+
		"- mean/maximum over ranks of a phase's time", how, kind, s.skip)
	if err := r.Columns(method, []string{"op", "n"}, []string{"steps_s", "speedup_x", "efficiency_pct",
		"wait_pct"}); err != nil {
		return err
	}
	var first float64
	for _, n := range s.sizes {
		if r.Interrupted() {
			break
		}
		steps, err := s.job(ctx, n)
		if err != nil {
			return fmt.Errorf("the job on %d ranks: %w", n, err)
		}
		row, note := s.row(n, steps)
		rate := row.Figures["steps_s"]
		first = cmp.Or(first, rate)
		row.SetFigure("speedup_x", rate/first)
		row.SetFigure("efficiency_pct", 100*rate/first*float64(s.sizes[0])/float64(n))
		if cpus := runtime.NumCPU(); s.launcher == "" && n > cpus {
			note += fmt.Sprintf("; OVERSUBSCRIBED %.1fx", float64(n)/float64(cpus))
		}
		if err := r.Record(row, note); err != nil {
			return err
		}
	}
	return nil
}

// job runs the job on n ranks and returns the metrics of its steps, without the first s.skip steps.
func (s *scaling) job(ctx context.Context, n int) ([]runs.MetricsLine, error) {
	folder, err := os.MkdirTemp("", "rlinf-scale-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	args, err := s.arguments(n, folder)
	if err != nil {
		return nil, err
	}
	if err := runProgram(ctx, s.programs, args); err != nil {
		return nil, err
	}
	run, err := runs.ReadRun(filepath.Join(folder, "job"), "time/")
	if err != nil {
		return nil, err
	}
	steps := slices.DeleteFunc(run.Rows, func(row runs.MetricsLine) bool { return !(row.Values["time/step"] > 0) })
	if len(steps) <= s.skip {
		return nil, fmt.Errorf("it wrote metrics of %d steps: expected more than the %d that are skipped", len(steps),
			s.skip)
	}
	return steps[s.skip:], nil
}

// arguments returns the command line that runs the job on n ranks, with its results in folder.
func (s *scaling) arguments(n int, folder string) ([]string, error) {
	placement, err := s.placement(n)
	if err != nil {
		return nil, err
	}
	args := append(launcherWords(s.launcher, n), s.program, "-c", s.file)
	if s.launcher == "" {
		args = append(args, "-np", strconv.Itoa(n))
	}
	args = append(append(args, s.overrides...), "~cluster.component_placement")
	args = append(args, placement...)
	args = append(args, fmt.Sprintf("runner.max_steps=%d", s.steps), "runner.val_check_interval=-1",
		"runner.save_interval=-1", "runner.save_at_end=false",
		"runner.logger.log_path="+folder, "runner.logger.experiment_name=job", "cluster.allow_idle_ranks=false")
	if !s.weak {
		return args, nil
	}
	for _, key := range []struct {
		name string
		now  int
	}{{"env.train.total_num_envs", s.cfg.Env.Train.TotalNumEnvs},
		{"actor.global_batch_size", s.cfg.Actor.GlobalBatchSize}} {
		if key.now*n%s.sizes[0] != 0 {
			return nil, fmt.Errorf("--weak: %s, which is %d for %d ranks, times %d/%d is no whole number", key.name,
				key.now, s.sizes[0], n, s.sizes[0])
		}
		args = append(args, fmt.Sprintf("%s=%d", key.name, key.now*n/s.sizes[0]))
	}
	return args, nil
}

// placement returns overrides that scale the placement of every component to n ranks.
func (s *scaling) placement(n int) ([]string, error) {
	var args []string
	for _, name := range s.place.Components() {
		ranks := s.place.Group(name).Ranks
		lo, hi := ranks[0], ranks[len(ranks)-1]+1
		if hi-lo != len(ranks) || lo*n%s.ranks != 0 || hi*n%s.ranks != 0 || lo*n/s.ranks == hi*n/s.ranks {
			return nil, fmt.Errorf("--np-sweep %d: %s is on ranks %v of %d, and %d have no such part: expected other "+
				"numbers, or `all` as its placement", n, name, ranks, s.ranks, n)
		}
		args = append(args, fmt.Sprintf("+cluster.component_placement.%s=%d-%d", name, lo*n/s.ranks, hi*n/s.ranks-1))
	}
	return args, nil
}

// row summarizes the steps of a job. The note has the fraction of each phase in a step, and the average fraction of the
// phase in which ranks wait.
func (s *scaling) row(n int, steps []runs.MetricsLine) (row results.Measurement, note string) {
	column := func(name string) (x []float64) {
		for _, step := range steps {
			if v, ok := step.Values[name]; ok && !math.IsNaN(v) {
				x = append(x, v)
			}
		}
		return x
	}
	median := func(name string) float64 { return stats.Median(column(name)) }
	row.Op, row.Ranks, row.Batch = strings.TrimSuffix(filepath.Base(s.file), filepath.Ext(s.file)), n, 1
	for _, t := range column("time/step") {
		row.Samples = append(row.Samples, 1e6*t)
	}
	row.Summarize()
	row.SetFigure("steps_s", median("time/env_steps_per_second"))
	var parts []string
	waited := 0.0
	for _, phase := range loop.Phases[1:] {
		most, mean := median("time/"+phase), median("time/"+phase+"_mean")
		part, wait := 100*most/median("time/step"), 100*(1-mean/most)
		row.SetFigure(phase+"_pct", part)
		row.SetFigure(phase+"_wait_pct", wait)
		if part == part && wait == wait { // phases that did not happen have NaN
			parts = append(parts, fmt.Sprintf("%s %.1f %% (waiting %.1f %% of it)", phase, part, wait))
			waited += part * wait / 100
		}
	}
	row.SetFigure("wait_pct", waited)
	return row, fmt.Sprintf("n=%d: %s", n, strings.Join(parts, ", "))
}
