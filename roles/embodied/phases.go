package embodied

import (
	"context"
	"fmt"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/roles/embodied/worker"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/spmd"
)

// sendWeights sends the actors' parameters to the rollout workers.
func (r *EmbodiedRunner) sendWeights(ctx context.Context) error {
	r.synced = r.loop.GlobalStep()
	receive := (*worker.RolloutWorker).SyncModelFromActor
	if r.plan.Async() { // actors train while rollouts read the weights
		receive = (*worker.RolloutWorker).CopyModelFromActor
	}
	return syncModel(ctx, r, "sync_model_to_rollout", (*worker.ActorWorker).SyncModelToRollout, r.Rollout, receive)
}

// sendEvaluationWeights sends the actors' parameters to the rollout workers, for the next evaluation only.
func (r *EmbodiedRunner) sendEvaluationWeights(ctx context.Context) error {
	return syncModel(ctx, r, "sync_model_to_rollout", (*worker.ActorWorker).SyncModelToEvaluation, r.Rollout,
		(*worker.RolloutWorker).SyncModelForEvaluation)
}

// sendInferenceWeights sends the actors' parameters to the inference workers.
func (r *EmbodiedRunner) sendInferenceWeights(ctx context.Context) error {
	return syncModel(ctx, r, "sync_model_to_inference", (*worker.ActorWorker).SyncModelToInference, r.Inference,
		(*worker.InferenceWorker).SyncModelFromActor)
}

// syncModel calls send on all actors, and receive on all readers. Both get the present version of the weights.
func syncModel[W any](ctx context.Context, r *EmbodiedRunner, name string,
	send func(*worker.ActorWorker, context.Context, int64) error, readers *spmd.Group[W],
	receive func(W, context.Context, int64) error) error {
	reader := loop.Call(ctx, readers, "sync_model_from_actor", func(ctx context.Context, w W) error {
		return receive(w, ctx, r.loop.GlobalStep())
	})
	actor := loop.Call(ctx, r.Actor, name, func(ctx context.Context, w *worker.ActorWorker) error {
		return send(w, ctx, r.loop.GlobalStep())
	})
	return loop.WaitAll(ctx, actor, reader)
}

// collectRollouts makes rollouts until the actors need no more. Most algorithms need one rollout.
func (r *EmbodiedRunner) collectRollouts(ctx context.Context) error {
	for n := range r.plan.RolloutsAtMost {
		if err := r.playRollout(ctx, n); err != nil {
			return err
		}
		if r.plan.RolloutsAtMost == 1 {
			return nil
		}
		if more, err := r.resample(ctx, n); err != nil || !more {
			return err
		}
	}
	return nil
}

// playRollout makes rollout n of this iteration: env and rollout workers exchange observations and actions through
// channels, while actors wait for the trajectories.
func (r *EmbodiedRunner) playRollout(ctx context.Context, n int) error {
	before := uint64(r.loop.GlobalStep())*uint64(r.plan.RolloutsAtMost) + uint64(n) // rollouts before this one
	first := before * uint64(r.plan.Epochs*r.plan.Steps)
	env := loop.Call(ctx, r.Env, "interact", func(ctx context.Context, w *worker.EnvWorker) error {
		return w.Interact(ctx, r.obs, r.act)
	})
	rollout := loop.Call(ctx, r.Rollout, "generate", func(ctx context.Context, w *worker.RolloutWorker) error {
		return w.Generate(ctx, r.obs, r.act, r.out, r.scores, first)
	})
	actor := loop.Call(ctx, r.Actor, "recv_rollout_batch", func(ctx context.Context, w *worker.ActorWorker) error {
		return w.RecvRolloutBatch(ctx, r.batches)
	})
	calls := []*spmd.Future[loop.None]{env, rollout, actor}
	if r.Reward != nil {
		calls = append(calls, loop.Call(ctx, r.Reward, "score", func(ctx context.Context,
			w *worker.RewardWorker) error {
			return w.Score(ctx, r.scores)
		}))
	}
	if r.Inference != nil {
		infer := loop.Call(ctx, r.Inference, "infer", func(ctx context.Context, w *worker.InferenceWorker) error {
			return w.Infer(ctx, r.out, r.batches)
		})
		calls = append(calls, infer)
	}
	return loop.WaitAll(ctx, calls...)
}

// resample lets the actors choose the parts of rollout n to train on. On all ranks it reports whether the actors need
// another rollout.
func (r *EmbodiedRunner) resample(ctx context.Context, n int) (more bool, err error) {
	return loop.Ask(ctx, r.loop, r.Actor, "resample",
		func(w *worker.ActorWorker) (bool, error) { return w.Resample(n) })
}

// computeAdvantages prepares each actor's trajectories for training.
func (r *EmbodiedRunner) computeAdvantages(ctx context.Context) error {
	return loop.WaitAll(ctx, loop.Call(ctx, r.Actor, "compute_advantages_and_returns",
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
	rep := r.loop.Report()
	rep.Names, rep.Values = nil, nil
	for _, res := range results {
		if res.Member == 0 {
			rep.Names, rep.Values = res.Value.Names, res.Value.Values
		}
	}
	return nil
}

// playEvaluation plays the episodes of all evaluation environments with the newest weights. It does not change the
// rollouts' weights.
func (r *EmbodiedRunner) playEvaluation(ctx context.Context) error {
	if err := r.quiesce(ctx); err != nil {
		return err
	}
	switch {
	case r.synced == r.loop.GlobalStep():
	case r.plan.EvaluatesApart():
		if err := r.sendEvaluationWeights(ctx); err != nil {
			return err
		}
	default:
		if err := r.sendWeights(ctx); err != nil {
			return err
		}
	}
	for _, w := range r.Env.Here() {
		w.Film(r.plan.Config.VideoFile(fmt.Sprintf("global_step_%d", r.loop.GlobalStep())))
	}
	env := loop.Call(ctx, r.Env, "evaluate", func(ctx context.Context, w *worker.EnvWorker) error {
		return w.Evaluate(ctx, r.evalObs, r.evalAct)
	})
	rollout := loop.Call(ctx, r.Rollout, "evaluate", func(ctx context.Context, w *worker.RolloutWorker) error {
		return w.Evaluate(ctx, r.evalObs, r.evalAct)
	})
	if err := loop.WaitAll(ctx, env, rollout); err != nil {
		return err
	}
	for _, w := range r.Env.Here() {
		if err := w.Unfilmed(); err != nil {
			r.loop.Warn(fmt.Sprintf("no film of the evaluation after step %d: %v", r.loop.GlobalStep(), err))
		}
	}
	return nil
}

// endFailedEvaluation ends the run with the error of the evaluation, if it failed on any rank. It also makes actors
// wait for the end of the evaluation, because rollout workers may read the weights in place.
func (r *EmbodiedRunner) endFailedEvaluation(ctx context.Context) error {
	drop := func() {
		for _, w := range r.Env.Here() {
			w.DropEvaluation()
		}
	}
	return r.loop.EndFailedEvaluation(ctx, drop, loop.Evaluated(r.Env), loop.Evaluated(r.Rollout))
}
