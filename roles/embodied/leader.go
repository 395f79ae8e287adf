package embodied

import (
	"context"

	"github.com/rlinf/rlinf/roles/embodied/worker"
	"github.com/rlinf/rlinf/roles/loop"
)

// A leader is the loop.Leader of an EmbodiedRunner.
type leader struct{ *EmbodiedRunner }

var _ loop.Leader = leader{}

// Quiesce pauses the rollouts of an asynchronous run.
func (r leader) Quiesce(ctx context.Context) error { return r.quiesce(ctx) }

// Describe adds to rep the episodes that have ended on this rank, and the number of rollouts that the actors have
// received. With cluster.auto_scheduler it also adds the times of planner.Spent.
func (r leader) Describe(rep *loop.RankReport) {
	rep.Simulated = append(rep.Simulated[:0], 0)
	for _, w := range r.Env.Here() {
		rep.Episodes, rep.Evals = w.TakeEpisodes(rep.Episodes, rep.Evals)
		rep.Simulated[0] += w.TakeSimulated()
	}
	for _, w := range r.Actor.Here() {
		if n, counts := w.TakenRollouts(); counts {
			rep.Rollouts = n
		}
	}
	if r.plan.Config.Cluster.AutoScheduler {
		rep.Spent = append(rep.Spent[:0], r.loop.Worked("env", "simulate"), r.loop.Worked("rollout", "infer"),
			r.loop.Worked("rollout", "play"))
	}
}

// Settle makes the actors of an asynchronous run receive the finished rollouts that are still under way.
func (r leader) Settle(ctx context.Context) error {
	if !r.plan.Async() {
		return nil
	}
	finished := make([]float64, len(r.plan.Train.Routes))
	for _, w := range r.Rollout.Here() {
		w.Finished(finished)
	}
	if err := r.loop.Sum(ctx, finished); err != nil {
		return err
	}
	return loop.WaitAll(ctx, loop.Call(ctx, r.Actor, "settle", func(ctx context.Context, w *worker.ActorWorker) error {
		return w.Settle(ctx, r.out, finished)
	}))
}

// Components returns the components of Groups.
func (r leader) Components() []string {
	return []string{"actor", "rollout", "env", "reward", "inference"}
}

// Workers returns the workers of this rank.
func (r leader) Workers() []loop.Worker {
	all := worker.AppendStates(nil, r.Actor)
	all = worker.AppendStates(all, r.Rollout)
	all = worker.AppendStates(all, r.Env)
	all = worker.AppendStates(all, r.Reward)
	return worker.AppendStates(all, r.Inference)
}

// Restored sets the version of the rollout workers' weights. If the next iteration sends the actors' weights, it needs
// no version.
func (r leader) Restored() {
	if step := r.loop.GlobalStep(); !r.plan.SyncsAt(step) {
		r.synced = step - step%r.plan.SyncInterval
	}
}
