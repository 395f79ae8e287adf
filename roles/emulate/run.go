package emulate

import (
	"bytes"
	"context"
	_ "embed" // job.yaml
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/collectives/bench/stats"
	"github.com/rlinf/rlinf/reward"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/embodied"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/roles/session"
	"github.com/rlinf/rlinf/roles/task"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/spmd/local"
)

// A Result has the measurements of a run. Durations are times of the emulated machine, without the stretch.
type Result struct {
	Setting    Setting
	Iterations []float64           // seconds of each measured iteration
	Summary    stats.SampleSummary // summary of Iterations
	RealWork   float64             // CPU time of this process in these iterations, as a share of the time of its cores
	Late       float64             // total lateness of the waits, as a share of their intended durations
}

const (
	attempts = 3    // the maximum number of runs in one call of Run
	tooLate  = 0.35 // see Result.Disturbed
)

// Disturbed reports whether other programs delayed the ends of r's waits. The figures of a disturbed run are not
// reliable.
func (r *Result) Disturbed() bool { return r.Late > tooLate }

// Run emulates s. If Setting.Stretch is 0, Run chooses the stretch, and makes up to three runs. It repeats a run that
// was disturbed, or whose real work took more than half of the cores' time. It returns the run with the smallest Late.
func Run(ctx context.Context, s Setting) (Result, error) {
	if err := s.check(); err != nil {
		return Result{}, err
	}
	fixed := s.Stretch > 0
	if !fixed {
		s.Stretch = s.guessStretch(runtime.GOMAXPROCS(0))
	}
	var best Result
	for try := 1; ; try++ {
		r, err := run(ctx, s)
		if err != nil {
			return r, err
		}
		if try == 1 || r.Late < best.Late {
			best = r
		}
		if fixed || r.RealWork < most && !r.Disturbed() || try == attempts {
			return best, nil
		}
		if r.RealWork >= most {
			s.Stretch = math.Ceil(s.Stretch * math.Max(1.5, r.RealWork/aim))
		}
	}
}

// A meter measures the iterations on rank 0.
type meter struct {
	clock    *clock
	skip     int
	loops    int // loop heads passed
	last     time.Time
	seconds  []float64
	cpu, all time.Duration // since the first measured iteration
	waits    int64
	late     int64
}

// head is called after each loop head.
func (m *meter) head() {
	now := time.Now()
	if s := m.clock.setting; s.Drift != nil {
		j := s.Load
		s.Drift(m.loops, &j)
		m.clock.job.Store(&j)
	}
	if m.loops > m.skip {
		m.seconds = append(m.seconds, now.Sub(m.last).Seconds()/m.clock.setting.Stretch)
	}
	if m.loops == m.skip {
		m.cpu, m.all = -cpuTime(), -time.Since(start)
		m.waits, m.late = -m.clock.waits.Load(), -m.clock.late.Load()
	}
	m.last = now
	m.loops++
}

// end is called when all iterations are done.
func (m *meter) end() {
	m.cpu, m.all = m.cpu+cpuTime(), m.all+time.Since(start)
	m.waits, m.late = m.waits+m.clock.waits.Load(), m.late+m.clock.late.Load()
}

var start = time.Now()

// cpuTime returns the CPU time of this process.
func cpuTime() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// run emulates s once.
func run(ctx context.Context, s Setting) (Result, error) {
	c := newClock(&s)
	closed := sync.OnceFunc(c.close)
	defer closed()
	folder := s.Record
	if folder == "" {
		var err error
		if folder, err = os.MkdirTemp("", "rlinf-emulated-"); err != nil {
			return Result{}, err
		}
		defer os.RemoveAll(folder)
	}
	file := filepath.Join(folder, "emulated.yaml")
	if err := os.WriteFile(file, s.yaml(folder), 0o644); err != nil {
		return Result{}, err
	}
	m := &meter{clock: c, skip: s.Warmup}
	asked := loop.Watch()
	defer asked.Close()
	// Each rank has its own registries, because its environments and policies wait on its core.
	regs := make([]config.Registries, s.Ranks)
	for r := range regs {
		regs[r] = config.Registries{Algorithms: algo.Builtin(), Rewards: reward.Builtin()}
		regs[r].Envs, regs[r].Policies = (&core{clock: c}).registries()
	}
	cfg, _, err := config.Load(regs[0], file, s.Keys, true)
	if err != nil {
		return Result{}, err
	}
	errs := make([]error, s.Ranks)
	var all sync.WaitGroup
	for r, rank := range local.NewNetwork(s.Ranks, s.network()) {
		all.Go(func() {
			var log bytes.Buffer
			job := session.New(session.Options{Registries: regs[r], Tasks: task.Tasks{embodied.Task{}}, Asked: asked,
				Out: &log, Log: &log, Own: session.UserProgram{Program: m.program,
					Movable: true}, Scheduler: s.Scheduler})
			code, err := job.Start(ctx, []spmd.Transport{rank}, cfg, nil, nil)
			if err == nil && code != loop.ExitOK {
				err = fmt.Errorf("emulate: rank %d of %d: exit code %d: %s", r, s.Ranks, code,
					strings.TrimSpace(log.String()))
			}
			errs[r] = err
		})
	}
	all.Wait()
	closed()
	err = errors.Join(errs...)
	if err == nil && len(m.seconds) == 0 {
		err = errors.New("emulate: no iteration was measured")
	}
	if err != nil {
		return Result{}, err
	}
	return Result{Setting: s, Iterations: m.seconds, Summary: stats.Summarize(m.seconds),
		RealWork: m.cpu.Seconds() / (m.all.Seconds() * float64(runtime.GOMAXPROCS(0))),
		Late:     float64(m.late) / float64(max(1, m.waits))}, nil
}

// program runs the job on one rank. On rank 0 it also calls the meter.
func (m *meter) program(ctx context.Context, cluster *loop.Cluster) error {
	groups, err := embodied.LaunchEmbodied(ctx, cluster)
	if err != nil {
		return err
	}
	r, err := embodied.NewEmbodiedRunner(cluster, groups)
	if err != nil {
		return err
	}
	if err := r.InitWorkers(ctx); err != nil {
		return err
	}
	first := cluster.World().Rank() == 0
	for {
		more, err := r.Next(ctx)
		if err != nil {
			return err
		}
		if first && more {
			m.head()
		}
		if !more {
			return nil
		}
		if err := loop.InOrder(ctx, r.UpdateRolloutWeights, r.GenerateRollouts, r.ComputeAdvantagesAndReturns,
			r.RunTraining); err != nil {
			return err
		}
		if first && m.loops == m.skip+m.clock.setting.Iterations+1 {
			m.end()
		}
	}
}

// jobYAML is the configuration of the job, as a format of fmt.
//
//go:embed job.yaml
var jobYAML string

// yaml returns the configuration of the job.
func (s *Setting) yaml(folder string) []byte {
	return fmt.Appendf(nil, jobYAML, s.Scheduler != nil, s.Record != "", s.Warmup+s.Iterations+1, s.Seed, folder, Name,
		s.Envs, s.Steps, s.batch(), s.batch()*s.Ranks, Name)
}
