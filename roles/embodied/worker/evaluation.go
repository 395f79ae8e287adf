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
// episodes. Then it restores the rollouts' weights.
func (r *RolloutWorker) Evaluate(ctx context.Context, obs, act *spmd.Channel) error {
	defer r.policy.Params().View(r.state)
	left, epochs := len(r.evals), r.plan.Config.Env.Eval.RolloutEpoch
	for _, l := range r.evals {
		if l.over = l.stage != nil; l.over {
			left--
			l.stage.CountEpisodes(l.count, epochs)
			if err := l.player.PlayEpisodes(l.stage, epochs); err != nil {
				return fmt.Errorf("evaluate environments %d-%d: %w", l.Lo, l.Hi-1, err)
			}
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
			if err := l.step(ctx, r.infer, epochs); err != nil {
				return fmt.Errorf("evaluate environments %d-%d: %w", l.Lo, l.Hi-1, err)
			}
			if l.over {
				left--
			}
		}
	}
	return nil
}

// step receives observations and sends actions. epochs is the number of episodes that each environment plays.
func (l *evalRoute) step(ctx context.Context, infer spmd.Span, epochs int) error {
	item, err := l.obs.Get(ctx)
	if err != nil {
		return err
	}
	defer l.obs.Release(item)
	if item.Version == lastOfEpisodes {
		l.epoch++
		l.over = l.epoch == epochs
		l.player.Begin(l.epoch)
		return nil
	}
	infer.Begin()
	act, err := l.player.Act(l.steps.viewOf(item, stepOf).Obs)
	infer.End(0, 0)
	if err != nil {
		return err
	}
	_, space := l.player.Policy.Spaces()
	return sendAction(ctx, l.act, l.actions, space, act)
}

// lastOfEpisodes is the version of the item that a route sends when the episodes of all its environments have ended.
const lastOfEpisodes = -1
