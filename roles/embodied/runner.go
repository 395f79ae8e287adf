package embodied

import (
	"context"
	"errors"

	"github.com/rlinf/rlinf/roles/embodied/plan"
	"github.com/rlinf/rlinf/roles/embodied/worker"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/spmd"
)

// An EmbodiedRunner trains a policy in environments. Every rank runs one. A call to a group runs on the ranks that have
// members of the group.
//
// A program calls InitWorkers. Then it calls Run, or the phases of Run in its own loop:
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
	loop *loop.Loop
	plan *plan.Plan

	obs, act         *spmd.Channel         // env → rollout → env
	out, batches     *spmd.Channel         // rollout → inference → actor; one channel without inference workers
	scores           worker.RewardChannels // rollout → reward → rollout
	evalObs, evalAct *spmd.Channel
	pause            context.CancelFunc // pauses env and rollout workers; nil if they are paused
	producers        []*spmd.Future[loop.None]
	leads            bool  // this rank writes the recorded episodes
	began            int64 // the iterations before this run
	recorded         bool  // the recorded episodes are written
	synced           int64 // version of the weights that rollouts use; -1 if there is none yet
}

// Next ends an iteration, and reports whether another iteration follows: see loop.Loop.Next. At the end of the run it
// writes the recorded episodes.
func (r *EmbodiedRunner) Next(ctx context.Context) (more bool, err error) {
	if more, err = r.loop.Next(ctx); more || err != nil || r.recorded {
		return more, err
	}
	r.recorded = true
	return false, r.endRecordings(ctx)
}

// GlobalStep returns the number of iterations trained, in this run and in the runs that it resumes.
func (r *EmbodiedRunner) GlobalStep() int64 { return r.loop.GlobalStep() }

// Log adds a value to a metric that the program defines. The metric is the mean of the values of all ranks. A rank need
// not add a value.
func (r *EmbodiedRunner) Log(name string, value float64) { r.loop.Log(name, value) }

// Carry registers a component that the program itself has launched. Then the component's workers keep their state when
// they move to other ranks. members are the workers on this rank. All ranks call Carry with the same components, before
// InitWorkers. Workers of an unregistered component begin anew after a move.
func (r *EmbodiedRunner) Carry(component string, members ...loop.OwnWorker) {
	r.loop.Carry(component, members...)
}

// InitWorkers completes the workers. If the run resumes, InitWorkers also loads the checkpoint. A program calls
// InitWorkers once, before the first iteration.
func (r *EmbodiedRunner) InitWorkers(ctx context.Context) error {
	envs := r.Env.Here()
	rollout := loop.Call(ctx, r.Rollout, "init_worker", func(_ context.Context, w *worker.RolloutWorker) error {
		w.InitWorker(envs)
		return nil
	})
	if err := loop.WaitAll(ctx, rollout); err != nil {
		return err
	}
	err := r.loop.Restore(ctx)
	r.began = r.loop.GlobalStep()
	return err
}

// Run trains until the last step, or until the ranks agree to stop.
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

// iterate makes one iteration of training.
func (r *EmbodiedRunner) iterate(ctx context.Context) error {
	return loop.InOrder(ctx, r.UpdateRolloutWeights, r.GenerateRollouts, r.ComputeAdvantagesAndReturns, r.RunTraining,
		r.EvaluateIfDue)
}

// UpdateRolloutWeights sends the actors' parameters to the rollout and inference workers, every
// runner.weight_sync_interval iterations. In an asynchronous run it also lets env and rollout workers continue.
func (r *EmbodiedRunner) UpdateRolloutWeights(ctx context.Context) error {
	update := r.sendWeights
	if r.plan.Async() {
		r.produce(ctx)
		update = r.publishWeights
	}
	if (r.loop.GlobalStep()%r.plan.SyncInterval == 0 || r.synced < 0) && r.synced != r.loop.GlobalStep() {
		if err := r.loop.Timed(loop.SyncWeights, ctx, update); err != nil {
			return err
		}
	}
	if r.Inference == nil || r.plan.Async() {
		return nil
	}
	return r.loop.Timed(loop.SyncWeights, ctx, r.sendInferenceWeights)
}

// GenerateRollouts makes a rollout and sends it to the actors. It makes several rollouts for an algorithm that chooses
// among rollouts, and none for training from demonstrations alone. In an asynchronous run the actors only receive the
// finished rollouts.
func (r *EmbodiedRunner) GenerateRollouts(ctx context.Context) error {
	switch {
	case r.plan.Async():
		return r.loop.Timed(loop.GenerateRollouts, ctx, r.receiveRollouts)
	case r.plan.Offline:
		return nil
	}
	return r.loop.Timed(loop.GenerateRollouts, ctx, r.collectRollouts)
}

// ComputeAdvantagesAndReturns prepares each actor's trajectories for training.
func (r *EmbodiedRunner) ComputeAdvantagesAndReturns(ctx context.Context) error {
	if r.plan.Offline || r.plan.Async() && r.plan.OffPolicy { // no trajectories, or the replay buffer has them
		return nil
	}
	return r.loop.Timed(loop.CalAdvAndReturns, ctx, r.computeAdvantages)
}

// RunTraining updates the policy on all actors. Then it adds 1 to GlobalStep.
func (r *EmbodiedRunner) RunTraining(ctx context.Context) error {
	if err := r.loop.Timed(loop.ActorTraining, ctx, r.train); err != nil {
		return err
	}
	r.loop.Trained()
	return nil
}

// EvaluateIfDue calls Evaluate every runner.val_check_interval steps, and after the last step.
func (r *EmbodiedRunner) EvaluateIfDue(ctx context.Context) error {
	if !r.plan.EvaluatesAt(r.loop.GlobalStep()) {
		return nil
	}
	return r.Evaluate(ctx)
}

// Evaluate plays env.eval.rollout_epoch episodes in every evaluation environment with the newest weights, for the
// metrics eval/*. The rollouts' weights do not change. The configuration must have evaluations
// (runner.val_check_interval). Before Evaluate returns an error of the environments or the policy, it saves a
// checkpoint.
func (r *EmbodiedRunner) Evaluate(ctx context.Context) error {
	if !r.plan.Config.Evaluates() {
		return errors.New("embodied runner: evaluate: the configuration has no evaluations " +
			"(runner.val_check_interval)")
	}
	if err := r.loop.Timed(loop.Evaluating, ctx, r.playEvaluation); err != nil {
		return err
	}
	return r.endFailedEvaluation(ctx)
}
