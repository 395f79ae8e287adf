package runner

import (
	"context"
	"errors"

	"github.com/rlinf/rlinf/roles/worker"
	"github.com/rlinf/rlinf/spmd"
)

// An EmbodiedRunner trains a policy on environments. Every rank runs one. A call to a group works
// on the ranks that have members of the group.
//
// A program calls InitWorkers, and then Run, or the phases of Run in a loop of its own:
//
//	for {
//		more, err := r.Next(ctx)
//		if err != nil || !more {
//			return err
//		}
//		… UpdateRolloutWeights, GenerateRollouts, ComputeAdvantagesAndReturns, RunTraining, EvaluateIfDue
//	}
type EmbodiedRunner struct {
	Groups
	*loop
	weights *worker.Weights

	obs, act         *spmd.Channel         // env → rollout → env
	out, batches     *spmd.Channel         // rollout → inference → actor, or one and the same, rollout → actor
	scores           worker.RewardChannels // rollout → reward → rollout
	evalObs, evalAct *spmd.Channel
	pause            context.CancelFunc // of producers; nil: they pause
	producers        []*spmd.Future[none]
	synced           int64 // version of the weights that rollouts use; -1: none yet
}

var _ leader = (*EmbodiedRunner)(nil)

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

// InitWorkers completes the workers. If the run resumes, it restores the checkpoint. A program
// calls it once, before the first iteration.
func (r *EmbodiedRunner) InitWorkers(ctx context.Context) error {
	envs := r.Env.Here()
	rollout := spmd.Call(r.Rollout, ctx, "init_worker", func(_ context.Context, w *worker.RolloutWorker) (none, error) {
		w.InitWorker(envs)
		return none{}, nil
	})
	if err := waitAll(ctx, rollout); err != nil {
		return err
	}
	return r.restore(ctx)
}

// Run trains until the last step, or until the ranks agree to stop; see Next for the reasons.
func (r *EmbodiedRunner) Run(ctx context.Context) error {
	for {
		more, err := r.Next(ctx)
		if err != nil || !more {
			return err
		}
		if err := r.iterate(ctx); err != nil {
			return err
		}
	}
}

// iterate takes one step of training.
func (r *EmbodiedRunner) iterate(ctx context.Context) error {
	if err := r.UpdateRolloutWeights(ctx); err != nil {
		return err
	}
	if err := r.GenerateRollouts(ctx); err != nil {
		return err
	}
	if err := r.ComputeAdvantagesAndReturns(ctx); err != nil {
		return err
	}
	if err := r.RunTraining(ctx); err != nil {
		return err
	}
	return r.EvaluateIfDue(ctx)
}

// UpdateRolloutWeights gives the actors' parameters to the rollout and inference workers, every
// runner.weight_sync_interval iterations. In an asynchronous run it also lets rollouts go on.
func (r *EmbodiedRunner) UpdateRolloutWeights(ctx context.Context) error {
	update := r.updateRolloutWeights
	if r.job.Async() {
		r.produce(ctx)
		update = r.publishWeights
	}
	if (r.step%r.job.SyncInterval == 0 || r.synced < 0) && r.synced != r.step {
		if err := r.timed(syncWeights, ctx, update); err != nil {
			return err
		}
	}
	if r.Inference == nil || r.job.Async() {
		return nil
	}
	return r.timed(syncWeights, ctx, r.updateInferenceWeights)
}

// GenerateRollouts makes a rollout and gives it to the actors. An algorithm that chooses from
// several gets several. In an asynchronous run it takes the rollouts that are finished. Training
// from demonstrations alone makes no rollout.
func (r *EmbodiedRunner) GenerateRollouts(ctx context.Context) error {
	switch {
	case r.job.Async():
		return r.timed(generateRollouts, ctx, r.receiveRollouts)
	case r.job.Offline:
		return nil
	}
	return r.timed(generateRollouts, ctx, r.generateRollouts)
}

// ComputeAdvantagesAndReturns prepares each actor's share of the rollouts for training.
func (r *EmbodiedRunner) ComputeAdvantagesAndReturns(ctx context.Context) error {
	if r.job.Offline || r.job.Async() && r.job.OffPolicy { // there are none, or a replay buffer has taken them
		return nil
	}
	return r.timed(calAdvAndReturns, ctx, r.computeAdvantages)
}

// RunTraining updates the policy on all actors. Then GlobalStep counts the iteration.
func (r *EmbodiedRunner) RunTraining(ctx context.Context) error {
	if err := r.timed(actorTraining, ctx, r.train); err != nil {
		return err
	}
	r.step++
	return nil
}

// EvaluateIfDue calls Evaluate every runner.val_check_interval steps, and after the last.
func (r *EmbodiedRunner) EvaluateIfDue(ctx context.Context) error {
	if !r.job.EvaluatesAt(r.step) {
		return nil
	}
	return r.Evaluate(ctx)
}

// Evaluate plays one episode in every evaluation environment with the newest weights, for the
// metrics eval/*. The rollouts' weights stay as they were. The configuration must have evaluations
// (runner.val_check_interval).
func (r *EmbodiedRunner) Evaluate(ctx context.Context) error {
	if !r.job.Config.Evaluates() {
		return errors.New("embodied runner: evaluate: the configuration has no evaluations " +
			"(runner.val_check_interval)")
	}
	return r.timed(evaluating, ctx, r.evaluate)
}

// describe adds to the report the episodes that ended on this rank, and the number of rollouts that
// training has taken.
func (r *EmbodiedRunner) describe(rep *report) {
	for _, w := range r.Env.Here() {
		rep.episodes, rep.evals = w.TakeEpisodes(rep.episodes, rep.evals)
	}
	for _, w := range r.Actor.Here() {
		if n, counts := w.TakenRollouts(); counts {
			rep.rollouts = n
		}
	}
}
