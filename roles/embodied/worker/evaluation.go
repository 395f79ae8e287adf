package worker

import (
	"context"
	"fmt"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/roles/embodied/plan"
	"github.com/rlinf/rlinf/roles/embodied/play"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/tensor"
)

// An evalRoute is a route of an evaluation: the policy acts, and nothing is recorded.
type evalRoute struct {
	plan.Route
	player  *play.EvalPlayer
	obs     *spmd.Receiver
	act     *spmd.Sender
	actions *tensor.Layout
	steps   views[env.Step]
	stage   *play.Stage
	count   algo.Progress // reports the ended episodes
	epoch   int           // the number of the running episode
	over    bool          // all episodes have ended
}

// Evaluate receives observations and sends the policy's most likely actions, until all routes have played their
// episodes. Then it restores the rollouts' weights. If the policy fails, or environments that this worker steps,
// EvaluationError returns the error, and the other routes play to the end.
func (r *RolloutWorker) Evaluate(ctx context.Context, obs, act *spmd.Channel) error {
	defer r.policy.Params().View(r.state)
	r.failure = nil
	left, epochs := len(r.evals), r.plan.Config.Env.Eval.RolloutEpoch
	for _, l := range r.evals {
		if l.over = l.stage != nil; l.over {
			left--
			l.stage.CountEpisodes(l.count, epochs)
			r.fail(l, l.player.PlayEpisodes(l.stage, epochs))
			continue
		}
		l.epoch = 0
		l.player.Begin(l.epoch)
		if l.obs == nil {
			var err error
			if l.obs, err = obs.Receiver(r.m, spmd.Key{To: l.Rollout, Name: l.Name()}); err != nil {
				return err
			}
			if l.act, err = act.Sender(r.m, spmd.Key{To: l.Env, Name: l.Name()}); err != nil {
				return err
			}
		}
	}
	for left > 0 {
		for _, l := range r.evals {
			if l.over {
				continue
			}
			if err := l.step(ctx, r, epochs); err != nil {
				return l.located(err)
			}
			if l.over {
				left--
			}
		}
	}
	return nil
}

// fail records the first error of an evaluation.
func (r *RolloutWorker) fail(l *evalRoute, err error) {
	if err != nil && r.failure == nil {
		r.failure = l.located(err)
	}
}

func (l *evalRoute) located(err error) error {
	return fmt.Errorf("evaluate environments %d-%d: %w", l.Lo, l.Hi-1, err)
}

// step receives observations and sends actions. epochs is the number of episodes that each environment plays.
func (l *evalRoute) step(ctx context.Context, r *RolloutWorker, epochs int) error {
	item, err := l.obs.Get(ctx)
	if err != nil {
		return err
	}
	defer l.obs.Release(item)
	switch item.Version {
	case failedEvaluation:
		l.over = true
		return nil
	case lastOfEpisodes:
		l.epoch++
		l.over = l.epoch == epochs
		l.player.Begin(l.epoch)
		return nil
	}
	r.infer.Begin()
	act, err := l.player.Act(l.steps.viewOf(item, stepOf).Obs)
	r.infer.End(0, 0)
	if err != nil {
		r.fail(l, err)
		return l.giveUp(ctx)
	}
	_, space := l.player.Policy.Spaces()
	return sendAction(ctx, l.act, l.actions, space, act)
}

// giveUp tells the env worker that the evaluation has failed. The env worker answers on all of its routes.
func (l *evalRoute) giveUp(ctx context.Context) error {
	item, err := l.act.Take(ctx, l.actions)
	if err != nil {
		return err
	}
	item.Version = failedEvaluation
	return l.act.Put(ctx, item)
}

// Versions of the items in which routes tell that something has ended.
const (
	lastOfEpisodes   = -1 // the episodes of all environments of the route have ended
	failedEvaluation = -2 // the evaluation ends because of an error
)
