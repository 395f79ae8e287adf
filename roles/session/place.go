package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/rlinf/rlinf/internal/runfolder"
	"github.com/rlinf/rlinf/roles/advice"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/spmd"
)

// place plans the placement, on rank 0, if the configuration asks for that. A run that resumes keeps its plan; in
// another world it plans anew, with the same number of actors.
func (s *session) place(ctx context.Context, w *spmd.World) error {
	if auto, _ := s.cfg.Auto(); len(auto) == 0 {
		return nil
	}
	if err := s.cfg.CheckNames(s.reg); err != nil {
		return err
	}
	subject, err := advice.New(s.cfg, s.reg, s.Tasks, w.Nodes(), false)
	if err != nil {
		return err
	}
	subject.Measured = s.nodes
	p, err := s.earlierPlan()
	if err != nil {
		return err
	}
	if p != nil {
		subject.KeepActors(p)
	}
	if p == nil || !subject.Serves(p) {
		s.phase(w, "planning the placement")
		if p, err = subject.Decide(ctx, Try(s.Registries, s.Tasks, s.Asked)); err != nil {
			return err
		}
		fmt.Fprintf(s.Out, "%s\n", strings.Join(p.Sentences, " "))
	}
	s.cfg, s.chosen = subject.Resolve(&p.Layout), p
	return nil
}

// measure measures the job for a scheduler of the session's own, on rank 0, if the configuration asks for one and no
// plan was made. A run that resumes keeps its measurements.
func (s *session) measure(ctx context.Context, w *spmd.World, cfg *config.Config) error {
	if w.Rank() != 0 || s.Scheduler != nil || !s.moves(w, cfg) || s.chosen != nil {
		return nil
	}
	subject, err := advice.New(cfg, s.reg, s.Tasks, w.Nodes(), true)
	if err != nil {
		return err
	}
	subject.Measured = s.nodes
	p, err := s.earlierPlan()
	if err == nil && (p == nil || !subject.Serves(p)) {
		s.phase(w, "measuring the job")
		p, err = subject.Measure(ctx, Try(s.Registries, s.Tasks, s.Asked))
	}
	s.chosen = p
	return err
}

// moves reports whether the job of cfg has a scheduler, which moves its members.
func (s *session) moves(w *spmd.World, cfg *config.Config) bool {
	return cfg.Schedules() && w.Size() > 1 && (s.Own.Program == nil || s.Own.Movable)
}

// schedule makes the scheduler of the job, on rank 0, if the configuration asks for one. It is called when the workers
// of the first world are ready.
func (s *session) schedule(w *spmd.World, at *seat) error {
	j := at.plan.Common()
	at.scheduler = s.Scheduler
	switch {
	case at.scheduler != nil: // of a test
	case !s.moves(w, j.Config):
		if j.Config.Schedules() && w.Size() > 1 { // a plan's notes say so of one rank
			s.warn("cluster.auto_scheduler has no effect: " + immovableProgram)
		}
		return nil
	default:
		subject, err := advice.New(j.Config, s.reg, s.Tasks, w.Nodes(), true)
		if err != nil {
			return err
		}
		at.scheduler = subject.Scheduler(s.chosen, time.Since(at.entered).Seconds())
	}
	at.book.Watch(func(longest [len(loop.Phases)]float64, spent []float64) {
		at.took = longest[loop.WholeStep]
		at.scheduler.Observe(advice.IterationOf(longest, spent))
	})
	return nil
}

// earlierPlan returns the plan of the run that this session resumes; nil if there is none.
func (s *session) earlierPlan() (*advice.Plan, error) {
	folder := ""
	switch resume := cmp.Or(s.Resume, s.cfg.Runner.ResumeDir); resume {
	case "":
		return nil, nil
	case config.ResumeAuto:
		folder = s.cfg.Folder()
	default:
		folder = filepath.Dir(filepath.Dir(filepath.Clean(resume))) // of …/checkpoints/global_step_N
	}
	p, err := advice.ReadPlan(runfolder.Plan(folder))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return p, err
}

// writePlan writes the plan of the placement, if there is one, into the run's folder.
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
