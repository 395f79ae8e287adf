package embodied

import (
	"context"

	"github.com/rlinf/rlinf/roles/embodied/worker"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/roles/member"
	"github.com/rlinf/rlinf/spmd"
)

// A leader is the loop.Leader of an EmbodiedRunner.
type leader struct{ *EmbodiedRunner }

var (
	_ loop.Leader       = leader{}
	_ loop.SharesHolder = leader{}
	_ loop.Mover        = leader{}
)

// Quiesce pauses the rollouts of an asynchronous run.
func (r leader) Quiesce(ctx context.Context) error { return r.quiesce(ctx) }

// Describe adds to rep the episodes that have ended on this rank, and the number of rollouts that the actors have
// received. With cluster.auto_scheduler it also adds the times of planner.Spent.
func (r leader) Describe(rep *loop.Report) {
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

// Members returns the workers of this rank.
func (r leader) Members() (all []loop.Member) {
	all = addMembers(all, r.Actor)
	all = addMembers(all, r.Rollout)
	all = addMembers(all, r.Env)
	all = addMembers(all, r.Reward)
	return addMembers(all, r.Inference)
}

// addMembers adds the workers of g on this rank. g may be nil.
func addMembers[W loop.Member](all []loop.Member, g *spmd.Group[W]) []loop.Member {
	if g != nil {
		for _, w := range g.Here() {
			all = append(all, w)
		}
	}
	return all
}

// Moved sets the version of the rollout workers' weights after a move.
func (r leader) Moved() {
	if step := r.loop.GlobalStep(); !r.plan.SyncsAt(step) {
		r.synced = step - step%r.plan.SyncInterval
	}
}

// Shares returns this rank's part of the state, without copying it.
func (r leader) Shares() (all []member.Share, err error) {
	for _, w := range r.Actor.Here() {
		shares, err := w.Save()
		if err != nil {
			return nil, err
		}
		all = append(all, shares...)
	}
	for _, w := range r.Rollout.Here() {
		all = append(all, w.Save(!r.plan.SyncsAt(r.loop.GlobalStep()))...)
	}
	for _, w := range r.Env.Here() {
		shares, whole, err := w.Save()
		if err != nil {
			return nil, err
		}
		once := r.loop.AtEnd() && r.plan.Config.Runner.SaveInterval <= 0 // no run will resume from this checkpoint
		if !whole && !once && r.plan.WarnsOfState(w.Member().Index()) {
			r.loop.WarnOnce(r.plan.NotSaved())
		}
		all = append(all, shares...)
	}
	return all, nil
}

// Load loads this rank's part of st. A state with only weights is enough.
func (r leader) Load(st member.State) error {
	for _, w := range r.Actor.Here() {
		if err := w.Load(st); err != nil {
			return err
		}
	}
	if r.Inference != nil {
		for _, w := range r.Inference.Here() {
			w.Load(st)
		}
	}
	for _, w := range r.Env.Here() {
		if err := w.Load(st); err != nil {
			return err
		}
	}
	if st.Rollout.Len() > 0 { // else the next iteration sends the actors' weights
		r.synced = r.loop.GlobalStep() - r.loop.GlobalStep()%r.plan.SyncInterval
	}
	for _, w := range r.Rollout.Here() {
		if err := w.Load(st, r.synced); err != nil {
			return err
		}
	}
	return nil
}
