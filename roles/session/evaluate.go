package session

import (
	"cmp"
	"context"
	"os"

	"github.com/rlinf/rlinf/collectives"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/roles/task"
	"github.com/rlinf/rlinf/spmd"
)

// evaluates reports whether the session evaluates a policy instead of training one.
func (s *session) evaluates(cfg *config.Config) bool { return s.Evaluation != nil || !cfg.Trains() }

// evaluate runs the task's evaluation on one rank.
func (s *session) evaluate(ctx context.Context, w *spmd.World, world *collectives.Group, cfg *config.Config) error {
	var err error
	if w.Rank() == s.lead {
		err = s.Profile.start(w.Rank())
	}
	if agreed, err := s.agreeTo(ctx, w, world, err); !agreed {
		return err
	}
	return s.Tasks.Of(cfg).Evaluate(ctx, &task.Evaluation{Asked: s.asked(cfg), World: w, Ranks: world, Config: cfg,
		Registries: s.reg, Out: s.Out, Progress: s.progress, Host: host{s}})
}

// asked returns the options of the evaluation.
func (s *session) asked(cfg *config.Config) (how task.Asked) {
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

// A host is the task.Host of a session.
type host struct{ *session }

var _ task.Host = host{}

// Agree returns true if no rank has an error.
func (h host) Agree(ctx context.Context, e *task.Evaluation, err error) (bool, error) {
	return h.agreeTo(ctx, e.World, e.Ranks, err)
}

// Ask asks the simulators of cfg for their specification.
func (h host) Ask(ctx context.Context, e *task.Evaluation, cfg *config.Config, ranks []int) (*config.Config, error) {
	return h.askAll(ctx, e.World, e.Ranks, cfg, ranks)
}

// Leave ends the simulators in the same MPI job.
func (h host) Leave(ctx context.Context, e *task.Evaluation) error {
	return h.disconnect(ctx, e.World, e.Ranks)
}
