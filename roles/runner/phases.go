package runner

import (
	"context"
	"fmt"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/roles/worker"
	"github.com/rlinf/rlinf/spmd"
)

// updateRolloutWeights brings the actors' parameters to the rollout workers.
func (r *EmbodiedRunner) updateRolloutWeights(ctx context.Context) error {
	r.synced = r.step
	receive := (*worker.RolloutWorker).SyncModelFromActor
	if r.job.Async() { // actors go on to train while rollouts read the weights
		receive = (*worker.RolloutWorker).CopyModelFromActor
	}
	return r.syncModel(ctx, (*worker.ActorWorker).SyncModelToRollout, receive)
}

// updateEvaluationWeights brings them to the rollout workers for the next evaluation alone.
func (r *EmbodiedRunner) updateEvaluationWeights(ctx context.Context) error {
	return r.syncModel(ctx, (*worker.ActorWorker).SyncModelToEvaluation, (*worker.RolloutWorker).SyncModelForEvaluation)
}

// syncModel has actors send the present version of the weights, and rollout workers receive it.
func (r *EmbodiedRunner) syncModel(ctx context.Context, send func(*worker.ActorWorker, context.Context, int64) error,
	receive func(*worker.RolloutWorker, context.Context, int64) error) error {
	rollout := call(ctx, r.Rollout, "sync_model_from_actor", func(ctx context.Context, w *worker.RolloutWorker) error {
		return receive(w, ctx, r.step)
	})
	actor := call(ctx, r.Actor, "sync_model_to_rollout", func(ctx context.Context, w *worker.ActorWorker) error {
		return send(w, ctx, r.step)
	})
	return waitAll(ctx, actor, rollout)
}

// updateInferenceWeights brings the actors' parameters to the inference workers.
func (r *EmbodiedRunner) updateInferenceWeights(ctx context.Context) error {
	inference := call(ctx, r.Inference, "sync_model_from_actor",
		func(ctx context.Context, w *worker.InferenceWorker) error {
			return w.SyncModelFromActor(ctx, r.step)
		})
	actor := call(ctx, r.Actor, "sync_model_to_inference", func(ctx context.Context, w *worker.ActorWorker) error {
		return w.SyncModelToInference(ctx, r.step)
	})
	return waitAll(ctx, actor, inference)
}

// generateRollouts makes a rollout, or as many as the actors want to choose from.
func (r *EmbodiedRunner) generateRollouts(ctx context.Context) error {
	for n := range r.job.RolloutsAtMost {
		if err := r.generateRollout(ctx, n); err != nil {
			return err
		}
		if r.job.RolloutsAtMost == 1 {
			return nil
		}
		if more, err := r.resample(ctx, n); err != nil || !more {
			return err
		}
	}
	return nil
}

// generateRollout simulates and infers, side by side through the channels, while actors wait for
// the trajectories; for the n-th time in this iteration.
func (r *EmbodiedRunner) generateRollout(ctx context.Context, n int) error {
	first := (uint64(r.step)*uint64(r.job.RolloutsAtMost) + uint64(n)) * uint64(r.job.Epochs*r.job.Steps)
	env := call(ctx, r.Env, "interact", func(ctx context.Context, w *worker.EnvWorker) error {
		return w.Interact(ctx, r.obs, r.act)
	})
	rollout := call(ctx, r.Rollout, "generate", func(ctx context.Context, w *worker.RolloutWorker) error {
		return w.Generate(ctx, r.obs, r.act, r.out, r.scores, first)
	})
	actor := call(ctx, r.Actor, "recv_rollout_batch", func(ctx context.Context, w *worker.ActorWorker) error {
		return w.RecvRolloutBatch(ctx, r.batches)
	})
	calls := []*spmd.Future[none]{env, rollout, actor}
	if r.Reward != nil {
		calls = append(calls, call(ctx, r.Reward, "score", func(ctx context.Context, w *worker.RewardWorker) error {
			return w.Score(ctx, r.scores)
		}))
	}
	if r.Inference != nil {
		infer := call(ctx, r.Inference, "infer", func(ctx context.Context, w *worker.InferenceWorker) error {
			return w.Infer(ctx, r.out, r.batches)
		})
		calls = append(calls, infer)
	}
	return waitAll(ctx, calls...)
}

// resample lets the actors choose from the n-th rollout, and tells all ranks whether they need
// another.
func (r *EmbodiedRunner) resample(ctx context.Context, n int) (more bool, err error) {
	results, err := spmd.Call(r.Actor, ctx, "resample", func(_ context.Context, w *worker.ActorWorker) (bool, error) {
		return w.Resample(n)
	}).Wait(ctx)
	if err != nil {
		return false, err
	}
	for _, res := range results {
		more = more || res.Value // all actors say the same
	}
	return r.actorsSay(ctx, more)
}

// computeAdvantages prepares each actor's share for training.
func (r *EmbodiedRunner) computeAdvantages(ctx context.Context) error {
	return waitAll(ctx, call(ctx, r.Actor, "compute_advantages_and_returns",
		func(_ context.Context, w *worker.ActorWorker) error {
			return w.ComputeAdvantagesAndReturns()
		}))
}

// train updates the policy on all actors.
func (r *EmbodiedRunner) train(ctx context.Context) error {
	results, err := spmd.Call(r.Actor, ctx, "run_training",
		func(ctx context.Context, w *worker.ActorWorker) (algo.Metrics, error) {
			return w.RunTraining(ctx)
		}).Wait(ctx)
	if err != nil {
		return err
	}
	r.report.names, r.report.values = nil, nil
	for _, res := range results {
		if res.Member == 0 {
			r.report.names, r.report.values = res.Value.Names, res.Value.Values
		}
	}
	return nil
}

type none struct{}

// call calls f, called what in messages, on the members of g that are here.
func call[W any](ctx context.Context, g *spmd.Group[W], what string,
	f func(context.Context, W) error) *spmd.Future[none] {
	return spmd.Call(g, ctx, what, func(ctx context.Context, w W) (none, error) { return none{}, f(ctx, w) })
}

// waitAll waits for calls in the order given and returns the first error.
func waitAll(ctx context.Context, futures ...*spmd.Future[none]) error {
	for _, f := range futures {
		if _, err := f.Wait(ctx); err != nil {
			return err
		}
	}
	return nil
}

// evaluate plays every evaluation environment's episode with the newest weights, and leaves the
// rollouts' as they were.
func (r *EmbodiedRunner) evaluate(ctx context.Context) error {
	if err := r.quiesce(ctx); err != nil {
		return err
	}
	switch {
	case r.synced == r.step:
	case r.job.EvaluatesApart():
		if err := r.updateEvaluationWeights(ctx); err != nil {
			return err
		}
	default:
		if err := r.updateRolloutWeights(ctx); err != nil {
			return err
		}
	}
	for _, w := range r.Env.Here() {
		w.Film(r.job.Config.VideoFile(fmt.Sprintf("global_step_%d", r.step)))
	}
	env := call(ctx, r.Env, "evaluate", func(ctx context.Context, w *worker.EnvWorker) error {
		return w.Evaluate(ctx, r.evalObs, r.evalAct)
	})
	rollout := call(ctx, r.Rollout, "evaluate", func(ctx context.Context, w *worker.RolloutWorker) error {
		return w.Evaluate(ctx, r.evalObs, r.evalAct)
	})
	return waitAll(ctx, env, rollout)
}
