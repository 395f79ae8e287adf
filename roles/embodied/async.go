package embodied

import (
	"context"

	"github.com/rlinf/rlinf/roles/embodied/worker"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/spmd"
)

// produce lets env and rollout workers go on from where they paused, until quiesce pauses them.
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

// quiesce pauses env and rollout workers between two steps, and waits until they have paused. Unfinished rollouts
// stay as they are. Ranks without actors come to this point first. They continue to produce until no actor waits for
// a rollout.
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

// publishWeights publishes the actors' parameters. New rollouts begin with these as soon as the parameters arrive.
func (r *EmbodiedRunner) publishWeights(ctx context.Context) error {
	r.synced = r.loop.GlobalStep()
	return loop.WaitAll(ctx, spmd.Call(r.Actor, ctx, "sync_model_to_rollout",
		func(ctx context.Context, w *worker.ActorWorker) (loop.None, error) {
			return loop.None{}, w.SyncModelToRollout(ctx, r.loop.GlobalStep())
		}))
}

// receiveRollouts receives the finished rollouts on all actors.
func (r *EmbodiedRunner) receiveRollouts(ctx context.Context) error {
	return loop.WaitAll(ctx, spmd.Call(r.Actor, ctx, "recv_rollouts", func(ctx context.Context,
		w *worker.ActorWorker) (loop.None,
		error) {
		return loop.None{}, w.RecvRollouts(ctx, r.out, r.loop.GlobalStep())
	}))
}
