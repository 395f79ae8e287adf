package session

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/rlinf/rlinf/internal/runfolder"
	"github.com/rlinf/rlinf/roles/advice"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/roles/task"
	"github.com/rlinf/rlinf/spmd"
)

// place plans the placement if the configuration asks for a plan. It is called on rank 0. A resumed run keeps its plan.
// If that plan does not fit this world, place makes a new plan with the same number of actors.
func (r *rank) place(ctx context.Context) error {
	if auto, _ := r.cfg.Auto(); len(auto) == 0 {
		return nil
	}
	if err := r.cfg.CheckNames(r.reg); err != nil {
		return err
	}
	cfg, err := Measurable(r.hub, r.cfg)
	if err != nil {
		return err
	}
	subject, err := advice.New(cfg, r.reg, r.Tasks, r.w.Nodes(), false)
	if err != nil {
		return err
	}
	subject.Measured = r.nodes
	p, err := r.earlierPlan()
	if err != nil {
		return err
	}
	if p != nil {
		subject.KeepActors(p)
	}
	if p == nil || !subject.Serves(p) {
		r.phase("planning the placement")
		ctx, end := UntilStop(ctx, r.Asked)
		defer end()
		if p, err = subject.Decide(ctx, Try(r.Registries, r.Tasks, r.Asked)); err != nil {
			return err
		}
		fmt.Fprintf(r.Out, "%s\n", strings.Join(p.Sentences, " "))
	}
	r.cfg, r.chosen = subject.Resolve(&p.Layout), p
	return nil
}

// measure measures a job for its scheduler, on rank 0. It does nothing if the job has no scheduler, or if its placement
// was planned. A resumed run keeps its measurements.
func (r *rank) measure(ctx context.Context, cfg *config.Config) error {
	if r.w.Rank() != 0 || r.Scheduler != nil || !r.moves(cfg) || r.chosen != nil {
		return nil
	}
	subject, err := advice.New(cfg, r.reg, r.Tasks, r.w.Nodes(), true)
	if err != nil {
		return err
	}
	subject.Measured = r.nodes
	p, err := r.earlierPlan()
	if err == nil && (p == nil || !subject.Serves(p)) {
		r.phase("measuring the job")
		ctx, end := UntilStop(ctx, r.Asked)
		defer end()
		p, err = subject.Measure(ctx, Try(r.Registries, r.Tasks, r.Asked))
	}
	r.chosen = p
	return err
}

// moves reports whether the job of cfg has a scheduler that can move its members.
func (r *rank) moves(cfg *config.Config) bool {
	return cfg.Schedules() && r.w.Size() > 1 && (r.Own.Program == nil || r.Own.Movable)
}

// schedule makes the scheduler of the job if the configuration asks for one. It is called on rank 0, when the workers
// of the first world are ready.
func (r *rank) schedule() error {
	cfg := r.plan.Config
	r.scheduler = r.Scheduler
	switch {
	case r.scheduler != nil: // given by the caller of the session
	case !r.moves(cfg):
		if cfg.Schedules() && r.w.Size() > 1 { // with one rank, the plan's notes have a warning
			r.warn("cluster.auto_scheduler has no effect: " + immovableProgram)
		}
		return nil
	default:
		subject, err := advice.New(cfg, r.reg, r.Tasks, r.w.Nodes(), true)
		if err != nil {
			return err
		}
		r.scheduler = subject.Scheduler(r.chosen, time.Since(r.entered).Seconds())
	}
	r.book.Watch(func(longest [len(loop.Phases)]float64, spent []float64) {
		r.took = longest[loop.WholeStep]
		r.scheduler.Observe(advice.IterationOf(longest, spent))
	})
	return nil
}

// earlierPlan returns the plan of the run that this session resumes, or nil if there is no plan.
func (s *session) earlierPlan() (*advice.StartPlan, error) {
	folder := ""
	switch resume := cmp.Or(s.Resume, s.cfg.Runner.ResumeDir); resume {
	case "":
		return nil, nil
	case config.ResumeAuto:
		folder = s.cfg.Folder()
	default:
		folder = filepath.Dir(filepath.Dir(filepath.Clean(resume))) // resume is RUN/checkpoints/global_step_N
	}
	p, err := advice.ReadStartPlan(runfolder.Plan(folder))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return p, err
}

// writePlan writes the plan of the placement into the run's folder. It does nothing if there is no plan.
func (s *session) writePlan(f *runfolder.Folder) error {
	if s.chosen == nil {
		return nil
	}
	text, err := s.chosen.Encode()
	if err != nil {
		return fmt.Errorf("plan of the placement: %w", err)
	}
	return f.WritePlan(text)
}

// UntilStop returns a context that a request to stop cancels, with requests.Cause as its cause. The caller must call
// end.
func UntilStop(ctx context.Context, requests *loop.Requests) (_ context.Context, end func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	forget := requests.AtStop(func(bool) { cancel(requests.Cause()) })
	return ctx, func() {
		forget()
		cancel(nil)
	}
}

// Try returns a function that runs a job on ranks of this process, in a separate session without output. If the job
// fails, the function returns the session's log as an error. The requests to stop also stop this job. The error is then
// that of requests.Cause, unless the session has found a mistake in the configuration.
func Try(reg config.Registries, tasks task.Tasks, requests *loop.Requests) advice.Runner {
	return func(ctx context.Context, ranks []spmd.Transport, cfg *config.Config) error {
		var log bytes.Buffer
		s := New(Options{Registries: reg, Tasks: tasks, Asked: requests.ForRun(), Out: io.Discard, Log: &log})
		code, err := s.Start(ctx, ranks, cfg, nil, nil)
		if stop, _ := requests.Vote(); stop != 0 && code != loop.ExitOK && code != loop.ExitConfig {
			return requests.Cause()
		}
		if err == nil && code != loop.ExitOK {
			err = errors.New(strings.TrimSpace(log.String()))
		}
		return err
	}
}
