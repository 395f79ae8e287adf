package roles

import (
	"context"

	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/tensor"
)

// Purposes of the communicators of a group.
const gradients = "gradients"

// launch builds the groups of a job, the channels between them, and the runner that leads them.
// Collective over the world.
func launch(ctx context.Context, w *spmd.World, j *job, sv *saver) (*EmbodiedRunner, error) {
	r := &EmbodiedRunner{job: j, world: w, saver: sv, synced: -1}
	r.report.times = make([]float64, len(phases))
	actorSpec, rolloutSpec, envSpec := j.place.Group("actor"), j.place.Group("rollout"), j.place.Group("env")
	actorSpec.Comms = []string{gradients}

	var err error
	r.actor, err = spmd.Launch(w, actorSpec, func(m *spmd.Member) (*ActorWorker, error) {
		pol, err := j.newPolicy(w.Alloc)
		if err != nil {
			return nil, err
		}
		return NewActorWorker(ctx, m, j, pol)
	})
	if err != nil {
		return nil, err
	}
	r.rollout, err = spmd.Launch(w, rolloutSpec, func(m *spmd.Member) (*RolloutWorker, error) {
		pol, err := j.newPolicy(tensor.Heap) // what it begins with; then it looks at the weights
		if err != nil {
			return nil, err
		}
		return NewRolloutWorker(m, j, pol), nil
	})
	if err != nil {
		return nil, err
	}
	if err := r.makeWeights(ctx, w); err != nil {
		return nil, err
	}
	r.env, err = spmd.Launch(w, envSpec, func(m *spmd.Member) (*EnvWorker, error) { return NewEnvWorker(m, j) })
	if err != nil {
		return nil, err
	}
	if j.rewards > 0 {
		if r.reward, err = spmd.Launch(w, j.place.Group("reward"), func(m *spmd.Member) (*RewardWorker, error) {
			return NewRewardWorker(m, j)
		}); err != nil {
			return nil, err
		}
	}
	if j.inferences > 0 {
		r.inference, err = spmd.Launch(w, j.place.Group("inference"), func(m *spmd.Member) (*InferenceWorker, error) {
			pol, err := j.newPolicy(tensor.Heap)
			if err != nil {
				return nil, err
			}
			return NewInferenceWorker(m, j, pol), nil
		})
		if err != nil {
			return nil, err
		}
		if err := r.makeInferenceWeights(ctx, w); err != nil {
			return nil, err
		}
	}
	for _, e := range r.env.Here() {
		for _, rw := range r.rollout.Here() {
			rw.adopt(e)
		}
	}
	if err := r.connect(w, actorSpec, rolloutSpec, envSpec); err != nil {
		return nil, err
	}
	if j.rewards > 0 {
		for _, rw := range r.rollout.Here() {
			if err := rw.score(r.transitions, r.rewards); err != nil {
				return nil, err
			}
		}
	}
	return r, nil
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
		r.transitions = channel("transitions", rollout, r.reward.Spec(), 1, transition, asks)
		r.rewards = channel("rewards", r.reward.Spec(), rollout, 1, reward, answers)
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
