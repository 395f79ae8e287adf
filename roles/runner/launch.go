package runner

import (
	"context"
	"errors"
	"fmt"

	"github.com/rlinf/rlinf/internal/config"
	"github.com/rlinf/rlinf/roles/job"
	"github.com/rlinf/rlinf/roles/worker"
	"github.com/rlinf/rlinf/spmd"
)

// Launch launches a group of workers. new makes one for each member of at. It is collective over
// the world: every rank makes the same launches, in the same order.
func Launch[W any](ctx context.Context, c *Cluster, at spmd.GroupSpec,
	new func(context.Context, *Cluster, *spmd.Member) (W, error)) (*spmd.Group[W], error) {
	if known := c.job.Placement.Components(); len(at.Ranks) == 0 {
		return nil, fmt.Errorf("launch group %q: cluster.component_placement has no such component; did you mean %s?",
			at.Name, config.Nearest(at.Name, known))
	}
	return spmd.Launch(c.world, at, func(m *spmd.Member) (W, error) { return new(ctx, c, m) })
}

// NewActorWorker makes a worker of the component actor. Pass it to Launch.
func NewActorWorker(ctx context.Context, c *Cluster, m *spmd.Member) (*worker.ActorWorker, error) {
	return worker.NewActorWorker(ctx, m, c.job, c.weights)
}

// NewRolloutWorker makes a worker of the component rollout. Pass it to Launch.
func NewRolloutWorker(_ context.Context, c *Cluster, m *spmd.Member) (*worker.RolloutWorker, error) {
	return worker.NewRolloutWorker(m, c.job, c.weights), nil
}

// NewEnvWorker makes a worker of the component env. Pass it to Launch.
func NewEnvWorker(_ context.Context, c *Cluster, m *spmd.Member) (*worker.EnvWorker, error) {
	return worker.NewEnvWorker(m, c.job)
}

// NewRewardWorker makes a worker of the component reward. Pass it to Launch.
func NewRewardWorker(_ context.Context, c *Cluster, m *spmd.Member) (*worker.RewardWorker, error) {
	return worker.NewRewardWorker(m, c.job)
}

// NewInferenceWorker makes a worker of the component inference. Pass it to Launch.
func NewInferenceWorker(_ context.Context, c *Cluster, m *spmd.Member) (*worker.InferenceWorker, error) {
	return worker.NewInferenceWorker(m, c.job, c.weights), nil
}

// Groups are the groups that an EmbodiedRunner leads.
type Groups struct {
	Actor     *spmd.Group[*worker.ActorWorker]
	Rollout   *spmd.Group[*worker.RolloutWorker]
	Env       *spmd.Group[*worker.EnvWorker]
	Reward    *spmd.Group[*worker.RewardWorker]    // nil: rewards are the environments' own
	Inference *spmd.Group[*worker.InferenceWorker] // nil: actors infer what they need to
}

// check compares g with the placement. Its error names the groups that g lacks, and those that have
// no place.
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

// NewEmbodiedRunner returns the runner that leads the groups g of c, and makes the channels between
// them. Collective over the world. A job has one runner.
func NewEmbodiedRunner(c *Cluster, g Groups) (*EmbodiedRunner, error) {
	if err := g.check(c.job.Placement); err != nil {
		return nil, err
	}
	r := &EmbodiedRunner{Groups: g, weights: c.weights, synced: -1}
	if err := r.connect(c.world, c.job, g.Actor.Spec(), g.Rollout.Spec(), g.Env.Spec()); err != nil {
		return nil, err
	}
	var err error
	r.loop, err = newLoop(c, r)
	return r, err
}

// connect makes the channels.
func (r *EmbodiedRunner) connect(w *spmd.World, j *job.Job, actor, rollout, env spmd.GroupSpec) error {
	step, action, trajectory, transition, reward := 0, 0, 0, 0, 0
	for _, l := range j.Train.Routes {
		transition, reward = max(transition, j.TransitionLayout(l).Size()), max(reward, j.RewardLayout(l).Size())
		step, action = max(step, j.StepLayout(l).Size()), max(action, j.ActionLayout(l).Size())
		for _, s := range l.Shards {
			trajectory = max(trajectory, j.TrajectoryLayout(s.Hi-s.Lo).Size())
		}
	}
	for _, l := range j.Eval.Routes {
		step, action = max(step, j.StepLayout(l).Size()), max(action, j.ActionLayout(l).Size())
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
	obs, act, out := j.Train.Pairs()
	shown, told := j.QueuedSteps()
	r.obs = channel("obs", env, rollout, shown, step, obs)
	r.act = channel("act", rollout, env, told, action, act)
	if j.Inferences == 0 {
		r.out = channel("out", rollout, actor, j.QueuedRollouts(), trajectory, out)
		r.batches = r.out
	} else {
		in, out := j.InferencePairs()
		r.out = channel("out", rollout, r.Inference.Spec(), 1, trajectory, in)
		r.batches = channel("batches", r.Inference.Spec(), actor, 1, trajectory, out)
	}
	if j.Rewards > 0 {
		asks, answers := j.RewardPairs()
		r.scores.Transitions = channel("transitions", rollout, r.Reward.Spec(), 1, transition, asks)
		r.scores.Rewards = channel("rewards", r.Reward.Spec(), rollout, 1, reward, answers)
	}
	obs, act, _ = j.Eval.Pairs()
	r.evalObs = channel("eval obs", env, rollout, 1, step, obs)
	r.evalAct = channel("eval act", rollout, env, 1, action, act)
	return err
}
