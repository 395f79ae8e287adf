package runner

import (
	"context"

	"github.com/rlinf/rlinf/roles/job"
	"github.com/rlinf/rlinf/roles/worker"
	"github.com/rlinf/rlinf/spmd"
)

// Groups are those that a runner leads, and the weights between them.
type Groups struct {
	Weights   *worker.Weights                      // from actors to workers that infer
	Actor     *spmd.Group[*worker.ActorWorker]     // trains
	Rollout   *spmd.Group[*worker.RolloutWorker]   // chooses actions
	Env       *spmd.Group[*worker.EnvWorker]       // simulates
	Reward    *spmd.Group[*worker.RewardWorker]    // nil: rewards are the environments' own
	Inference *spmd.Group[*worker.InferenceWorker] // nil: actors infer what they need to
}

// Services are what a runner needs of the session around it.
type Services struct {
	Saver    *Saver    // writes checkpoints
	Log      *Logbook  // on rank 0
	Requests *Requests // to stop
}

// Launch launches the groups of a job, and returns the runner that leads them. Collective over the
// world.
func Launch(ctx context.Context, w *spmd.World, j *job.Job, with Services) (*EmbodiedRunner, error) {
	var g Groups
	var err error
	if g.Weights, err = worker.NewWeights(ctx, w, j); err != nil {
		return nil, err
	}
	if g.Actor, err = worker.LaunchActor(ctx, w, j, g.Weights); err != nil {
		return nil, err
	}
	if g.Env, err = worker.LaunchEnv(w, j); err != nil {
		return nil, err
	}
	if g.Rollout, err = worker.LaunchRollout(w, j, g.Weights, g.Env); err != nil {
		return nil, err
	}
	if j.Rewards > 0 {
		if g.Reward, err = worker.LaunchReward(w, j); err != nil {
			return nil, err
		}
	}
	if j.Inferences > 0 {
		if g.Inference, err = worker.LaunchInference(w, j, g.Weights); err != nil {
			return nil, err
		}
	}
	return NewEmbodiedRunner(w, j, g, with)
}

// NewEmbodiedRunner returns the runner that leads g, and makes the channels between the groups.
// Collective over the world.
func NewEmbodiedRunner(w *spmd.World, j *job.Job, g Groups, with Services) (*EmbodiedRunner, error) {
	r := &EmbodiedRunner{job: j, world: w, Groups: g, Services: with, synced: -1}
	r.report.times = make([]float64, len(Phases))
	return r, r.connect(w, g.Actor.Spec(), g.Rollout.Spec(), g.Env.Spec())
}

// connect makes the channels and the agreement.
func (r *EmbodiedRunner) connect(w *spmd.World, actor, rollout, env spmd.GroupSpec) error {
	j := r.job
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
