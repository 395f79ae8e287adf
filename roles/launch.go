package roles

import (
	"context"

	"github.com/rlinf/rlinf/spmd"
)

// groups are those that a runner leads, and the weights between them.
type groups struct {
	weights   *weights
	actor     *spmd.Group[*ActorWorker]
	rollout   *spmd.Group[*RolloutWorker]
	env       *spmd.Group[*EnvWorker]
	reward    *spmd.Group[*RewardWorker]    // nil: rewards are the environments' own
	inference *spmd.Group[*InferenceWorker] // nil: actors infer what they need to
}

// services are what a runner needs of the session around it.
type services struct {
	saver    *saver
	log      *logbook  // on rank 0
	requests *requests // to stop
}

// launch launches the groups of a job, and returns the runner that leads them. Collective over the
// world.
func launch(ctx context.Context, w *spmd.World, j *job, with services) (*EmbodiedRunner, error) {
	var g groups
	var err error
	if g.weights, err = newWeights(ctx, w, j); err != nil {
		return nil, err
	}
	if g.actor, err = launchActor(ctx, w, j, g.weights); err != nil {
		return nil, err
	}
	if g.env, err = launchEnv(w, j); err != nil {
		return nil, err
	}
	if g.rollout, err = launchRollout(w, j, g.weights, g.env); err != nil {
		return nil, err
	}
	if j.rewards > 0 {
		if g.reward, err = launchReward(w, j); err != nil {
			return nil, err
		}
	}
	if j.inferences > 0 {
		if g.inference, err = launchInference(w, j, g.weights); err != nil {
			return nil, err
		}
	}
	return NewEmbodiedRunner(w, j, g, with)
}

// NewEmbodiedRunner returns the runner that leads g, and makes the channels between the groups.
// Collective over the world.
func NewEmbodiedRunner(w *spmd.World, j *job, g groups, with services) (*EmbodiedRunner, error) {
	r := &EmbodiedRunner{job: j, world: w, groups: g, services: with, synced: -1}
	r.report.times = make([]float64, len(phases))
	return r, r.connect(w, g.actor.Spec(), g.rollout.Spec(), g.env.Spec())
}

// connect makes the channels and the agreement.
func (r *EmbodiedRunner) connect(w *spmd.World, actor, rollout, env spmd.GroupSpec) error {
	j := r.job
	step, action, trajectory, transition, reward := 0, 0, 0, 0, 0
	for _, l := range j.train.lanes {
		transition, reward = max(transition, j.transitionLayout(l).Size()), max(reward, j.rewardLayout(l).Size())
		step, action = max(step, j.stepLayout(l).Size()), max(action, j.actionLayout(l).Size())
		for _, s := range l.segments {
			trajectory = max(trajectory, j.trajectoryLayout(s.hi-s.lo).Size())
		}
	}
	for _, l := range j.eval.lanes {
		step, action = max(step, j.stepLayout(l).Size()), max(action, j.actionLayout(l).Size())
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
	obs, act, out := j.train.pairs()
	shown, told := j.queuedSteps()
	r.obs = channel("obs", env, rollout, shown, step, obs)
	r.act = channel("act", rollout, env, told, action, act)
	if j.inferences == 0 {
		r.out = channel("out", rollout, actor, j.queuedRollouts(), trajectory, out)
		r.batches = r.out
	} else {
		in, out := j.inferencePairs()
		r.out = channel("out", rollout, r.inference.Spec(), 1, trajectory, in)
		r.batches = channel("batches", r.inference.Spec(), actor, 1, trajectory, out)
	}
	if j.rewards > 0 {
		asks, answers := j.rewardPairs()
		r.scores.Transitions = channel("transitions", rollout, r.reward.Spec(), 1, transition, asks)
		r.scores.Rewards = channel("rewards", r.reward.Spec(), rollout, 1, reward, answers)
	}
	obs, act, _ = j.eval.pairs()
	r.evalObs = channel("eval obs", env, rollout, 1, step, obs)
	r.evalAct = channel("eval act", rollout, env, 1, action, act)
	if err != nil {
		return err
	}
	all := make([]int, w.Size())
	for rank := range all {
		all[rank] = rank
	}
	votes, err := w.NewComm(all, "votes")
	if err != nil {
		return err
	}
	r.agreement, err = newAgreement(votes[0], w.Alloc)
	return err
}
