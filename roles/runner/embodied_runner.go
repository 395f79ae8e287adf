package runner

import (
	"context"
	"fmt"
	"time"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/roles/job"
	"github.com/rlinf/rlinf/roles/worker"
	"github.com/rlinf/rlinf/spmd"
)

// An EmbodiedRunner leads the training of a policy on environments. Every rank runs one; its group
// calls do work on the ranks that have members of the group.
type EmbodiedRunner struct {
	job   *job.Job
	world *spmd.World
	Groups
	Services

	obs, act         *spmd.Channel         // env → rollout → env
	out, batches     *spmd.Channel         // rollout → inference → actor, or one and the same, rollout → actor
	scores           worker.RewardChannels // rollout → reward → rollout
	evalObs, evalAct *spmd.Channel
	agreement        *agreement
	pause            context.CancelFunc // of producers; nil: they pause
	producers        []*spmd.Future[none]

	step     int64 // iterations done
	synced   int64 // version of the weights that rollouts use; -1: none yet
	Stopped  int   // why the run stopped before its last step: an exit code plus one; 0: it did not
	report   report
	reported int64 // the step of the report under way
	buf      []byte
}

// Phases are the names of the time/* metrics: a whole iteration, and its parts.
var Phases = [...]string{"step", "sync_weights", "generate_rollouts", "cal_adv_and_returns", "actor_training", "eval"}

const (
	wholeStep = iota
	syncWeights
	generateRollouts
	calAdvAndReturns
	actorTraining
	evaluating
)

// Run trains until the last step, or until the ranks agree to stop; see next for the reasons.
func (r *EmbodiedRunner) Run(ctx context.Context) error {
	iterate := r.iterate
	if r.job.Async() {
		iterate = r.iterateAsync
	}
	for {
		goOn, err := r.next(ctx)
		if err != nil {
			return err
		}
		if !goOn {
			if err := r.quiesce(ctx); err != nil {
				return err
			}
			r.Weights.Close()
			return nil
		}
		if err := r.timed(wholeStep, ctx, iterate); err != nil {
			return err
		}
	}
}

// iterate takes one step of training: the four phases, of which training from demonstrations alone
// has the first and the last.
func (r *EmbodiedRunner) iterate(ctx context.Context) error {
	r.world.SetStep(r.step + 1)
	if (r.job.SyncsAt(r.step) || r.synced < 0) && r.synced != r.step {
		if err := r.timed(syncWeights, ctx, r.updateRolloutWeights); err != nil {
			return err
		}
	}
	if r.Inference != nil {
		if err := r.timed(syncWeights, ctx, r.updateInferenceWeights); err != nil {
			return err
		}
	}
	if !r.job.Offline {
		if err := r.timed(generateRollouts, ctx, r.generateRollouts); err != nil {
			return err
		}
		if err := r.timed(calAdvAndReturns, ctx, r.computeAdvantages); err != nil {
			return err
		}
	}
	if err := r.timed(actorTraining, ctx, r.train); err != nil {
		return err
	}
	r.step++
	if r.job.EvaluatesAt(r.step) {
		return r.timed(evaluating, ctx, r.evaluate)
	}
	return nil
}

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
	rollout := spmd.Call(r.Rollout, ctx, "sync_model_from_actor",
		func(ctx context.Context, w *worker.RolloutWorker) (none,
			error) {
			return none{}, receive(w, ctx, r.step)
		})
	actor := spmd.Call(r.Actor, ctx, "sync_model_to_rollout", func(ctx context.Context, w *worker.ActorWorker) (none,
		error) {
		return none{}, send(w, ctx, r.step)
	})
	return waitAll(ctx, actor, rollout)
}

// updateInferenceWeights brings the actors' parameters to the inference workers.
func (r *EmbodiedRunner) updateInferenceWeights(ctx context.Context) error {
	inference := spmd.Call(r.Inference, ctx, "sync_model_from_actor",
		func(ctx context.Context, w *worker.InferenceWorker) (none, error) {
			return none{}, w.SyncModelFromActor(ctx, r.step)
		})
	actor := spmd.Call(r.Actor, ctx, "sync_model_to_inference", func(ctx context.Context, w *worker.ActorWorker) (none,
		error) {
		return none{}, w.SyncModelToInference(ctx, r.step)
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
	env := spmd.Call(r.Env, ctx, "interact", func(ctx context.Context, w *worker.EnvWorker) (none, error) {
		return none{}, w.Interact(ctx, r.obs, r.act)
	})
	rollout := spmd.Call(r.Rollout, ctx, "generate", func(ctx context.Context, w *worker.RolloutWorker) (none, error) {
		return none{}, w.Generate(ctx, r.obs, r.act, r.out, r.scores, first)
	})
	actor := spmd.Call(r.Actor, ctx, "recv_rollout_batch", func(ctx context.Context, w *worker.ActorWorker) (none,
		error) {
		return none{}, w.RecvRolloutBatch(ctx, r.batches)
	})
	calls := []*spmd.Future[none]{env, rollout, actor}
	if r.Reward != nil {
		calls = append(calls, spmd.Call(r.Reward, ctx, "score", func(ctx context.Context, w *worker.RewardWorker) (none,
			error) {
			return none{}, w.Score(ctx, r.scores)
		}))
	}
	if r.Inference != nil {
		calls = append(calls, spmd.Call(r.Inference, ctx, "infer",
			func(ctx context.Context, w *worker.InferenceWorker) (none,
				error) {
				return none{}, w.Infer(ctx, r.out, r.batches)
			}))
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
	said := []byte{0}
	for _, res := range results {
		if res.Value { // all actors say the same
			said[0] = 1
		}
	}
	err = r.Saver.group.Broadcast(ctx, said, r.job.Placement.Group("actor").Ranks[0])
	return said[0] == 1, err
}

// computeAdvantages prepares each actor's share for training.
func (r *EmbodiedRunner) computeAdvantages(ctx context.Context) error {
	return waitAll(ctx, spmd.Call(r.Actor, ctx, "compute_advantages_and_returns",
		func(_ context.Context, w *worker.ActorWorker) (none, error) {
			return none{}, w.ComputeAdvantagesAndReturns()
		}))
}

// train updates the policy on all actors.
func (r *EmbodiedRunner) train(ctx context.Context) error {
	results, err := spmd.Call(r.Actor, ctx, "run_training",
		func(ctx context.Context, w *worker.ActorWorker) (algo.Metrics,
			error) {
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

// waitAll waits for calls in the order given and returns the first error.
func waitAll(ctx context.Context, futures ...*spmd.Future[none]) error {
	for _, f := range futures {
		if _, err := f.Wait(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (r *EmbodiedRunner) timed(phase int, ctx context.Context, f func(context.Context) error) error {
	start := time.Now()
	err := f(ctx)
	r.report.times[phase] += time.Since(start).Seconds()
	return err
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
	env := spmd.Call(r.Env, ctx, "evaluate", func(ctx context.Context, w *worker.EnvWorker) (none, error) {
		return none{}, w.Evaluate(ctx, r.evalObs, r.evalAct)
	})
	rollout := spmd.Call(r.Rollout, ctx, "evaluate", func(ctx context.Context, w *worker.RolloutWorker) (none, error) {
		return none{}, w.Evaluate(ctx, r.evalObs, r.evalAct)
	})
	return waitAll(ctx, env, rollout)
}

// next is the loop head: it reports the iteration that ended, and decides with all ranks whether to
// save and whether to go on. What the step number decides needs no vote; what one rank alone can
// know (a signal, the clock) is decided one step later.
func (r *EmbodiedRunner) next(ctx context.Context) (bool, error) {
	d, reports, err := r.agreement.end(ctx)
	if err != nil {
		return false, err
	}
	if err := r.Log.record(r.reported, reports); err != nil {
		return false, err
	}
	last := r.step >= r.job.MaxSteps
	saves := r.job.SavesAt(r.step) || d.save
	r.writeReport()
	v := vote{step: r.step}
	_, v.path = r.world.Calls()
	if d.stop == 0 {
		v.stop, v.save = r.Requests.Vote()
	}
	// nothing is left to be stopped; but what failed in the last iteration has failed
	if last && v.stop != ExitFailed+1 {
		v.stop, v.save = 0, false
	}
	r.reported = r.step
	if err := r.agreement.begin(v, r.buf); err != nil {
		return false, err
	}
	if !last && d.stop == 0 && !saves {
		return true, nil
	}
	// No step later: the metrics of a step are written before its checkpoint, or a run that resumes
	// from it would lack them.
	now, reports, err := r.agreement.end(ctx)
	if err != nil {
		return false, err
	}
	if err := r.Log.record(r.reported, reports); err != nil {
		return false, err
	}
	if saves || now.save {
		if err := r.quiesce(ctx); err != nil {
			return false, err
		}
		if err := r.Saver.save(ctx, r); err != nil {
			return false, err
		}
	}
	r.Stopped = max(d.stop, now.stop)
	return !last && r.Stopped == 0, nil
}

// writeReport encodes what this rank has to say of the iteration that ended.
func (r *EmbodiedRunner) writeReport() {
	rep := &r.report
	rep.episodes, rep.evals = rep.episodes[:0], rep.evals[:0]
	for _, w := range r.Env.Here() {
		rep.episodes, rep.evals = w.TakeEpisodes(rep.episodes, rep.evals)
	}
	rep.rollouts = r.step
	for _, w := range r.Actor.Here() {
		if n, counts := w.TakenRollouts(); counts {
			rep.rollouts = n
		}
	}
	r.buf = rep.append(r.buf[:0])
	clear(rep.times)
}
