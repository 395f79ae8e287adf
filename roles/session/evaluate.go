package session

import (
	"cmp"
	"context"
	"os"

	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/roles/task"
)

// evaluates reports whether the session evaluates a policy instead of training one.
func (s *session) evaluates(cfg *config.Config) bool { return s.Evaluation != nil || !cfg.Trains() }

// evaluate runs the task's evaluation on one rank.
func (r *rank) evaluate(ctx context.Context, cfg *config.Config) error {
	var err error
	if r.w.Rank() == r.lead {
		err = r.Profile.start(r.lead)
	}
	if agreed, err := r.Agree(ctx, err); !agreed {
		return err
	}
	return r.Tasks.Of(cfg).Evaluate(ctx, &task.Evaluation{EvaluationOptions: r.asked(cfg), World: r.w, Ranks: r.world,
		Config:     cfg,
		Registries: r.reg, Out: r.Out, Progress: r.progress, EvaluationSession: r})
}

// Warn shows a warning.
func (r *rank) Warn(text string) { r.warn(text) }

// asked returns the options of the evaluation, with the checkpoint to evaluate.
func (s *session) asked(cfg *config.Config) (how task.EvaluationOptions) {
	if s.Evaluation != nil {
		how = *s.Evaluation
	}
	how.Checkpoint = cmp.Or(how.Checkpoint, s.Resume, cfg.Runner.ResumeDir)
	_, none := os.Stat(loop.Latest(cfg))
	if how.Checkpoint == config.ResumeAuto || how.Checkpoint == "" && none == nil && !cfg.EvaluatesWeights() {
		how.Checkpoint = loop.Latest(cfg)
	}
	return how
}
