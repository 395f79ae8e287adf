package embodied

import (
	"context"

	"github.com/rlinf/rlinf/roles/embodied/worker"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/spmd"
)

// produce lets env and rollout workers continue where they paused. The function quiesce pauses them again.
func (r *EmbodiedRunner) produce(ctx context.Context) {
	if r.pause != nil {
		return
	}
	stop, pause := context.WithCancel(ctx)
	r.pause = pause
	env := loop.Call(ctx, r.Env, "simulate", func(ctx context.Context, w *worker.EnvWorker) error {
		return w.Simulate(ctx, r.obs, r.act)
	})
	rollout := loop.Call(ctx, r.Rollout, "produce", func(ctx context.Context, w *worker.RolloutWorker) error {
		return w.Produce(ctx, stop, r.obs, r.act, r.out)
	})
	r.producers = []*spmd.Future[loop.None]{env, rollout}
}

// quiesce pauses env and rollout workers between two steps, and waits until they have paused. The workers keep
// unfinished rollouts. They pause when all ranks have called quiesce, because until then an actor may wait for a
// rollout.
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

// publishWeights publishes the actors' parameters. New rollouts use these parameters as soon as they arrive.
func (r *EmbodiedRunner) publishWeights(ctx context.Context) error {
	r.synced = r.loop.GlobalStep()
	return loop.WaitAll(ctx, loop.Call(ctx, r.Actor, "sync_model_to_rollout",
		func(ctx context.Context, w *worker.ActorWorker) error {
			return w.SyncModelToRollout(ctx, r.loop.GlobalStep())
		}))
}

// receiveRollouts receives the finished rollouts on all actors.
func (r *EmbodiedRunner) receiveRollouts(ctx context.Context) error {
	return loop.WaitAll(ctx, loop.Call(ctx, r.Actor, "recv_rollouts",
		func(ctx context.Context, w *worker.ActorWorker) error {
			return w.RecvRollouts(ctx, r.out, r.loop.GlobalStep())
		}))
}
