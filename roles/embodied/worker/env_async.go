package worker

import (
	"context"
	"fmt"

	"github.com/rlinf/rlinf/spmd"
)

// Simulate steps the environments of an asynchronous run, rollout after rollout, until the rollout workers pause them.
// The next call continues where this call ended. The stage whose actions arrive first takes the next step.
func (w *EnvWorker) Simulate(ctx context.Context, obs, act *spmd.Channel) error {
	running := 0
	for _, s := range w.train {
		if s.inline {
			continue
		}
		running++
		if err := w.listen(s, obs, act); err != nil {
			return err
		}
		if s.At == 0 {
			if err := s.Begin(); err != nil {
				return err
			}
		}
		if err := s.send(ctx, 0); err != nil {
			return err
		}
	}
	for running > 0 {
		item, err := w.actIn.Get(ctx)
		if err != nil {
			return fmt.Errorf("actions: %w", err)
		}
		if item.Version == pauseStage {
			running--
			w.actIn.Release(item)
			continue
		}
		s := w.stageFrom(item.Lo)
		s.accept(s.routes[0], item.Dict)
		w.actIn.Release(item)
		if err := w.simulate(ctx, s); err != nil {
			return fmt.Errorf("environments %d-%d, step %d: %w", s.routes[0].Lo, s.routes[0].Hi-1, s.At, err)
		}
	}
	return nil
}

// listen opens the senders and receivers of the channels for s. Later calls do nothing.
func (w *EnvWorker) listen(s *envStage, obs, act *spmd.Channel) (err error) {
	l := s.routes[0] // an asynchronous run has one route per stage
	if l.obs != nil {
		return nil
	}
	if w.actIn, err = act.Receiver(w.m, spmd.Key{To: l.Env, Name: anyRoute}); err != nil {
		return err
	}
	l.obs, err = obs.Sender(w.m, spmd.Key{To: l.Rollout, Name: anyRoute})
	return err
}

// stageFrom returns the stage whose first environment is lo.
func (w *EnvWorker) stageFrom(lo int) *envStage {
	for _, s := range w.train {
		if s.routes[0].Lo == lo {
			return s
		}
	}
	panic(fmt.Sprintf("worker: env worker %d got actions for environments from %d on", w.m.Index(), lo))
}

// simulate steps s and sends the result. After the last step of a rollout it begins the next rollout, and sends its
// first observations.
func (w *EnvWorker) simulate(ctx context.Context, s *envStage) error {
	if err := s.step(); err != nil {
		return err
	}
	if err := s.send(ctx, 0); err != nil {
		return err
	}
	if s.At++; s.At < w.plan.Steps {
		return nil
	}
	s.At = 0
	if err := s.Begin(); err != nil {
		return err
	}
	return s.send(ctx, 0)
}
