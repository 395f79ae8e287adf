package embodied

import (
	"context"
	"errors"
	"fmt"

	"github.com/rlinf/rlinf/roles/embodied/worker"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/spmd"
)

// Train is the program of a job with environments. It launches a group for each placed component, and runs an
// EmbodiedRunner with these groups.
func Train(ctx context.Context, c *loop.Cluster) error {
	g, err := LaunchEmbodied(ctx, c)
	if err != nil {
		return err
	}
	r, err := NewEmbodiedRunner(c, g)
	if err != nil {
		return err
	}
	return loop.InOrder(ctx, r.InitWorkers, r.Run)
}

// LaunchEmbodied launches the groups of an EmbodiedRunner, one for each placed component. Every rank must call
// LaunchEmbodied.
func LaunchEmbodied(ctx context.Context, c *loop.Cluster) (g Groups, err error) {
	loop.LaunchPlaced(ctx, c, &err, &g.Actor, "actor", true, worker.NewActorWorker)
	loop.LaunchPlaced(ctx, c, &err, &g.Rollout, "rollout", true, worker.NewRolloutWorker)
	loop.LaunchPlaced(ctx, c, &err, &g.Env, "env", true, worker.NewEnvWorker)
	loop.LaunchPlaced(ctx, c, &err, &g.Reward, "reward", false, worker.NewRewardWorker)
	loop.LaunchPlaced(ctx, c, &err, &g.Inference, "inference", false, worker.NewInferenceWorker)
	return g, err
}

// Groups are the groups of workers that an EmbodiedRunner calls.
type Groups struct {
	Actor     *spmd.Group[*worker.ActorWorker]
	Rollout   *spmd.Group[*worker.RolloutWorker]
	Env       *spmd.Group[*worker.EnvWorker]
	Reward    *spmd.Group[*worker.RewardWorker]    // nil if the environments' own rewards are used
	Inference *spmd.Group[*worker.InferenceWorker] // nil if actors compute log-probs themselves
}

// check returns an error unless g has exactly the groups of the placed components. The error names missing and
// superfluous groups.
func (g *Groups) check(place *spmd.Placement) error {
	var errs []error
	for _, of := range []struct {
		component, field string
		launched         bool
	}{
		{"actor", "Actor", g.Actor != nil}, {"rollout", "Rollout", g.Rollout != nil}, {"env", "Env", g.Env != nil},
		{"reward", "Reward", g.Reward != nil}, {"inference", "Inference", g.Inference != nil},
	} {
		switch placed := place.Has(of.component); {
		case placed && !of.launched:
			errs = append(errs, fmt.Errorf("embodied runner: cluster.component_placement places %s: expected "+
				"Groups.%s, launched with New%sWorker", of.component, of.field, of.field))
		case !placed && of.launched:
			errs = append(errs, fmt.Errorf("embodied runner: Groups.%s: cluster.component_placement does not place %s",
				of.field, of.component))
		}
	}
	return errors.Join(errs...)
}

// NewEmbodiedRunner returns a runner of the groups g, and makes the channels between these groups. A job has one
// runner. Every rank must call NewEmbodiedRunner.
func NewEmbodiedRunner(c *loop.Cluster, g Groups) (*EmbodiedRunner, error) {
	p, err := worker.PlanOf(c)
	if err != nil {
		return nil, err
	}
	if err := g.check(p.Placement); err != nil {
		return nil, err
	}
	r := &EmbodiedRunner{Groups: g, plan: p, synced: -1, leads: c.World().Rank() == 0}
	if err := r.connect(c.World(), g.Actor.Spec(), g.Rollout.Spec(), g.Env.Spec()); err != nil {
		return nil, err
	}
	if r.loop, err = loop.New(c, leader{r}); err == nil && p.Async() {
		r.loop.Call(loop.GenerateRollouts, "waiting for rollouts")
	}
	return r, err
}

// connect makes the channels between groups.
func (r *EmbodiedRunner) connect(w *spmd.World, actor, rollout, env spmd.GroupSpec) error {
	p := r.plan
	step, action, trajectory, transition, reward := 0, 0, 0, 0, 0
	for _, l := range p.Train.Routes {
		transition, reward = max(transition, p.TransitionLayout(l).Size()), max(reward, p.RewardLayout(l).Size())
		step, action = max(step, p.StepLayout(l).Size()), max(action, p.ActionLayout(l).Size())
		for _, s := range l.Shards {
			trajectory = max(trajectory, p.TrajectoryLayout(s.Hi-s.Lo).Size())
		}
	}
	for _, l := range p.Eval.Routes {
		step, action = max(step, p.StepLayout(l).Size()), max(action, p.ActionLayout(l).Size())
	}
	var err error
	channel := func(name string, from, to spmd.GroupSpec, items, bytes int, pairs map[[2]int]bool) *spmd.Channel {
		if err != nil {
			return nil
		}
		var c *spmd.Channel
		c, err = spmd.NewChannel(w, spmd.ChannelSpec{
			Name: name, From: from, To: to, MaxSize: items, ItemBytes: bytes,
			Pairs: func(from, to int) bool { return pairs[[2]int{from, to}] },
		})
		return c
	}
	obs, act, out := p.Train.Pairs()
	observations, actions := p.QueuedSteps()
	r.obs = channel("obs", env, rollout, observations, step, obs)
	r.act = channel("act", rollout, env, actions, action, act)
	if p.Inferences == 0 {
		r.out = channel("out", rollout, actor, p.QueuedRollouts(), trajectory, out)
		r.batches = r.out
	} else {
		in, out := p.InferencePairs()
		r.out = channel("out", rollout, r.Inference.Spec(), 1, trajectory, in)
		r.batches = channel("batches", r.Inference.Spec(), actor, 1, trajectory, out)
	}
	if p.Rewards > 0 {
		asks, answers := p.RewardPairs()
		r.scores.Transitions = channel("transitions", rollout, r.Reward.Spec(), 1, transition, asks)
		r.scores.Rewards = channel("rewards", r.Reward.Spec(), rollout, 1, reward, answers)
	}
	obs, act, _ = p.Eval.Pairs()
	r.evalObs = channel("eval obs", env, rollout, 1, step, obs)
	r.evalAct = channel("eval act", rollout, env, 1, action, act)
	return err
}
