package embodied

import (
	"context"

	"github.com/rlinf/rlinf/roles/embodied/worker"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/spmd"
)

// produce lets env and rollout workers go on from where they paused. They do until quiesce.
func (r *EmbodiedRunner) produce(ctx context.Context) {
	if r.pause != nil {
		return
	}
	stop, pause := context.WithCancel(ctx)
	r.pause = pause
	env := spmd.Call(r.Env, ctx, "simulate", func(ctx context.Context, w *worker.EnvWorker) (loop.None, error) {
		return loop.None{}, w.Simulate(ctx, r.obs, r.act)
	})
	rollout := spmd.Call(r.Rollout, ctx, "produce", func(ctx context.Context, w *worker.RolloutWorker) (loop.None,
		error) {
		return loop.None{}, w.Produce(ctx, stop, r.obs, r.act, r.out)
	})
	r.producers = []*spmd.Future[loop.None]{env, rollout}
}

// quiesce lets them pause, between two steps, and waits until they have. Rollouts that are under
// way stay as they are. Ranks without actors come here first, and go on producing until no actor
// waits for a rollout any more.
func (r *EmbodiedRunner) quiesce(ctx context.Context) error {
	if r.pause == nil {
		return nil
	}
	if err := r.loop.Barrier(ctx); err != nil {
		return err
	}
	r.pause()
	r.pause = nil
	return loop.WaitAll(ctx, r.producers...)
}

// publishWeights lets rollouts begin with the actors' parameters, as soon as these have reached
// them.
func (r *EmbodiedRunner) publishWeights(ctx context.Context) error {
	r.synced = r.loop.GlobalStep()
	return loop.WaitAll(ctx, spmd.Call(r.Actor, ctx, "sync_model_to_rollout",
		func(ctx context.Context, w *worker.ActorWorker) (loop.None, error) {
			return loop.None{}, w.SyncModelToRollout(ctx, r.loop.GlobalStep())
		}))
}

// receiveRollouts lets the actors take the finished rollouts.
func (r *EmbodiedRunner) receiveRollouts(ctx context.Context) error {
	return loop.WaitAll(ctx, spmd.Call(r.Actor, ctx, "recv_rollouts", func(ctx context.Context,
		w *worker.ActorWorker) (loop.None,
		error) {
		return loop.None{}, w.RecvRollouts(ctx, r.out, r.loop.GlobalStep())
	}))
}
