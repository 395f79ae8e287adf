package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/rlinf/rlinf/internal/runfolder"
	"github.com/rlinf/rlinf/roles/advice"
	"github.com/rlinf/rlinf/roles/config"
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
	p, err := s.earlierPlan()
	if err != nil {
		return err
	}
	if p != nil {
		subject.KeepActors(len(p.Layout.Actor))
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
