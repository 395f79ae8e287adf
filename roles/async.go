package roles

import (
	"context"
	"math"

	"github.com/rlinf/rlinf/spmd"
)

// async reports whether rollouts go on while actors train.
func (j *job) async() bool { return j.cfg.Runner.Async && j.cfg.Trains() }

// bounded reports whether rollouts may lie behind by a number of iterations, and no more.
func (j *job) bounded() bool { return j.cfg.Algorithm.StalenessThreshold >= 0 }

// tooOld reports whether a rollout that lies behind by so many iterations is not to be learnt from.
func (j *job) tooOld(age int64) bool {
	return j.bounded() && age > int64(j.cfg.Algorithm.StalenessThreshold)
}

// oldestWeights returns the oldest version of the weights with which the n-th rollout of an
// environment may begin. Where each iteration takes one of them, the n-th iteration takes it, with
// weights that are of version n: the bound is kept, and nothing is made to be dropped, nor for
// iterations after the last.
func (j *job) oldestWeights(n uint64) int64 {
	if j.offPolicy || !j.bounded() {
		return 0
	}
	if n >= uint64(j.maxSteps) {
		return math.MaxInt64
	}
	return max(0, int64(n)-int64(j.cfg.Algorithm.StalenessThreshold))
}

// queuedRollouts returns how many rollouts of a segment may wait for their actor. Where each
// iteration takes at least one of them, of which another may be under way and a third in training,
// none that begins with the newest weights grows too old.
func (j *job) queuedRollouts() int {
	threshold := j.cfg.Algorithm.StalenessThreshold
	switch {
	case !j.async():
		return 1
	case !j.offPolicy:
		return threshold + 1 // oldestWeights holds them back
	case j.bounded():
		return max(1, threshold-int(j.syncInterval))
	}
	return min(j.cfg.Actor.RecvDrainMaxTrajectories, j.cfg.Algorithm.OffPolicy.ReplayBuffer.SampleWindowSize)
}

// queuedSteps returns how many observations may wait for a rollout worker under one key, and how
// many actions for an env worker. In an asynchronous run all lanes of a worker share one; as many
// fit there as they can send (two observations between rollouts), so that nobody waits for who
// waits for him.
func (j *job) queuedSteps() (shown, told int) {
	if !j.async() {
		return 1, 1
	}
	lanes := len(j.train.lanes)
	return 2 * lanes / j.rollouts, lanes / j.simulators
}

// iterateAsync takes one step of training with rollouts that are made meanwhile: waiting for them
// is all there is of their phase.
func (r *EmbodiedRunner) iterateAsync(ctx context.Context) error {
	r.world.SetStep(r.step + 1)
	r.produce(ctx)
	if (r.step%r.job.syncInterval == 0 || r.synced < 0) && r.synced != r.step {
		if err := r.timed(syncWeights, ctx, r.publishWeights); err != nil {
			return err
		}
	}
	if err := r.timed(generateRollouts, ctx, r.receiveRollouts); err != nil {
		return err
	}
	if !r.job.offPolicy { // a replay buffer has taken them
		if err := r.timed(calAdvAndReturns, ctx, r.computeAdvantages); err != nil {
			return err
		}
	}
	if err := r.timed(actorTraining, ctx, r.train); err != nil {
		return err
	}
	r.step++
	if r.job.evaluatesAt(r.step) {
		return r.timed(evaluating, ctx, r.evaluate)
	}
	return nil
}

// produce lets env and rollout workers go on from where they paused. They do until quiesce.
func (r *EmbodiedRunner) produce(ctx context.Context) {
	if r.pause != nil {
		return
	}
	stop, pause := context.WithCancel(ctx)
	r.pause = pause
	env := spmd.Call(r.env, ctx, "simulate", func(ctx context.Context, w *EnvWorker) (none, error) {
		return none{}, w.Simulate(ctx, r.obs, r.act)
	})
	rollout := spmd.Call(r.rollout, ctx, "produce", func(ctx context.Context, w *RolloutWorker) (none, error) {
		return none{}, w.Produce(ctx, stop, r.obs, r.act, r.out)
	})
	r.producers = []*spmd.Future[none]{env, rollout}
}

// quiesce lets them pause, between two steps, and waits until they have. Rollouts that are under
// way stay as they are. Ranks without actors come here first, and go on producing until no actor
// waits for a rollout any more.
func (r *EmbodiedRunner) quiesce(ctx context.Context) error {
	if r.pause == nil {
		return nil
	}
	if err := r.saver.group.Barrier(ctx); err != nil {
		return err
	}
	r.pause()
	r.pause = nil
	return waitAll(ctx, r.producers...)
}

// publishWeights lets rollouts begin with the actors' parameters, as soon as these have reached
// them.
func (r *EmbodiedRunner) publishWeights(ctx context.Context) error {
	r.synced = r.step
	return waitAll(ctx, spmd.Call(r.actor, ctx, "sync_model_to_rollout",
		func(ctx context.Context, w *ActorWorker) (none, error) {
			return none{}, w.SyncModelToRollout(ctx, r.step)
		}))
}

// receiveRollouts lets the actors take what has been made.
func (r *EmbodiedRunner) receiveRollouts(ctx context.Context) error {
	return waitAll(ctx, spmd.Call(r.actor, ctx, "recv_rollouts", func(ctx context.Context, w *ActorWorker) (none,
		error) {
		return none{}, w.RecvRollouts(ctx, r.out, r.step)
	}))
}
