package runner

import (
	"context"
	"fmt"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/roles/worker"
	"github.com/rlinf/rlinf/spmd"
)

// A ReasoningRunner leads the training of a language model on its own answers. Every rank runs one;
// its group calls do work on the ranks that have members. A program calls InitWorkers, and then Run.
//
// Answers go from rollout workers to reward workers, to inference workers, to critic workers and to actors,
// while other prompts are still answered. A component without a place is left out: actors do its work.
type ReasoningRunner struct {
	*languageRunner
	ReasoningGroups
	hops   []*spmd.Channel // from each hop of job.TextPlan to the next
	synced int64           // version of the weights that rollout workers use; -1: none yet
}

// ReasoningGroups are the groups that a ReasoningRunner leads.
type ReasoningGroups struct {
	Actor     *spmd.Group[*worker.ReasoningWorker]
	Rollout   *spmd.Group[*worker.TextRolloutWorker]
	Reward    *spmd.Group[*worker.TextRewardWorker]    // nil: actors reward
	Inference *spmd.Group[*worker.TextInferenceWorker] // nil: actors infer what they need to
	Critic    *spmd.Group[*worker.TextCriticWorker]    // nil: actors train a critic, or there is none
}

// NewReasoningWorker makes the worker of a member of the component actor, for Launch.
func NewReasoningWorker(ctx context.Context, c *Cluster, m *spmd.Member) (*worker.ReasoningWorker, error) {
	model, err := c.with.Models.Of(m)
	if err != nil {
		return nil, err
	}
	return worker.NewReasoningWorker(ctx, m, c.job, model, c.answers, &c.judge)
}

// NewTextRolloutWorker makes the worker of a member of the component rollout, for Launch.
func NewTextRolloutWorker(ctx context.Context, c *Cluster, m *spmd.Member) (*worker.TextRolloutWorker, error) {
	model, err := c.with.Models.Of(m)
	if err != nil {
		return nil, err
	}
	return worker.NewTextRolloutWorker(ctx, m, c.job, model, c.answers, &c.judge)
}

// NewTextRewardWorker makes the worker of a member of the component reward, for Launch.
func NewTextRewardWorker(_ context.Context, c *Cluster, m *spmd.Member) (*worker.TextRewardWorker, error) {
	return worker.NewTextRewardWorker(m, c.job, &c.judge)
}

// NewTextCriticWorker makes the worker of a member of the component critic, for Launch.
func NewTextCriticWorker(ctx context.Context, c *Cluster, m *spmd.Member) (*worker.TextCriticWorker, error) {
	return worker.NewTextCriticWorker(ctx, m, c.job, &c.judge)
}

// NewTextInferenceWorker makes the worker of a member of the component inference, for Launch.
func NewTextInferenceWorker(_ context.Context, c *Cluster, m *spmd.Member) (*worker.TextInferenceWorker, error) {
	model, err := c.with.Models.Of(m)
	if err != nil {
		return nil, err
	}
	return worker.NewTextInferenceWorker(m, c.job, model, c.answers)
}

// LaunchReasoning launches the groups that a ReasoningRunner leads: those that have a place, and
// rollout workers. Like all launches it is collective over the world.
func LaunchReasoning(ctx context.Context, c *Cluster) (g ReasoningGroups, err error) {
	placement := NewHybridComponentPlacement(c)
	if g.Actor, err = Launch(ctx, c, placement.Strategy("actor"), NewReasoningWorker); err != nil {
		return g, err
	}
	if g.Rollout, err = Launch(ctx, c, placement.Strategy("rollout"), NewTextRolloutWorker); err != nil {
		return g, err
	}
	if placement.Has("reward") {
		if g.Reward, err = Launch(ctx, c, placement.Strategy("reward"), NewTextRewardWorker); err != nil {
			return g, err
		}
	}
	if placement.Has("inference") {
		if g.Inference, err = Launch(ctx, c, placement.Strategy("inference"), NewTextInferenceWorker); err != nil {
			return g, err
		}
	}
	if placement.Has("critic") {
		g.Critic, err = Launch(ctx, c, placement.Strategy("critic"), NewTextCriticWorker)
	}
	return g, err
}

// NewReasoningRunner returns the runner that leads the groups g of c, and makes the channels between
// them. Collective over the world. A job has one runner.
func NewReasoningRunner(ctx context.Context, c *Cluster, g ReasoningGroups) (*ReasoningRunner, error) {
	r := &ReasoningRunner{ReasoningGroups: g, synced: -1}
	if err := r.connect(c); err != nil {
		return nil, err
	}
	var err error
	if r.languageRunner, err = newLanguageRunner(ctx, c, r.iterate, r.evaluateAnswers); err != nil {
		return nil, err
	}
	lead(r.languageRunner, g.Actor)
	lead(r.languageRunner, g.Rollout)
	lead(r.languageRunner, g.Reward)
	lead(r.languageRunner, g.Inference)
	lead(r.languageRunner, g.Critic)
	return r, nil
}

// connect makes the channels.
func (r *ReasoningRunner) connect(c *Cluster) error {
	t, place := c.job.Tuning, c.job.Placement
	plan := &t.Plan
	for i, hop := range plan.Hops[1:] {
		from := plan.Hops[i].Component
		ch, err := spmd.NewChannel(c.world, spmd.ChannelSpec{Name: fmt.Sprintf("answers of %s", from),
			From: place.Group(from), To: place.Group(hop.Component), MaxSize: 2, ItemBytes: t.AnswerBytes(),
			Pairs: func(from, to int) bool { return plan.Pairs(i, from, to) }})
		if err != nil {
			return err
		}
		r.hops = append(r.hops, ch)
	}
	return nil
}

// around returns the channels before and after a component.
func (r *ReasoningRunner) around(component string) (in, out *spmd.Channel) {
	hop := r.job.Tuning.Plan.Hop(component)
	if hop > 0 {
		in = r.hops[hop-1]
	}
	if hop < len(r.hops) {
		out = r.hops[hop]
	}
	return in, out
}

// iterate answers prompts, rewards the answers and trains on them.
func (r *ReasoningRunner) iterate(ctx context.Context) error {
	for _, phase := range []struct {
		number int
		run    func(context.Context) error
	}{{syncWeights, r.syncModel}, {generateRollouts, r.generate}, {calAdvAndReturns, r.computeAdvantages},
		{actorTraining, r.train}} {
		if err := r.timed(phase.number, ctx, phase.run); err != nil {
			return err
		}
	}
	return nil
}

// syncModel brings the actors' parameters to those who read them, unless they have them.
func (r *ReasoningRunner) syncModel(ctx context.Context) error {
	if r.synced == r.step {
		return nil
	}
	r.synced = r.step
	calls := []*spmd.Future[none]{
		call(ctx, r.Actor, "sync_model_to_rollout", func(ctx context.Context, w *worker.ReasoningWorker) error {
			return w.SyncModel(ctx, r.step)
		}),
		call(ctx, r.Rollout, "sync_model_from_actor", func(ctx context.Context, w *worker.TextRolloutWorker) error {
			return w.SyncModelFromActor(ctx, r.step)
		})}
	if r.Inference != nil {
		calls = append(calls, call(ctx, r.Inference, "sync_model_from_actor",
			func(ctx context.Context, w *worker.TextInferenceWorker) error {
				return w.SyncModelFromActor(ctx, r.step)
			}))
	}
	return waitAll(ctx, calls...)
}

// generate makes answers for an update. With dynamic sampling (max_num_gen_batches > 1) these may be
// several batches: the actors say whether they need another.
func (r *ReasoningRunner) generate(ctx context.Context) error {
	for n := 0; ; n++ {
		if err := r.generateBatch(ctx, n); err != nil || r.job.Tuning.GenBatches <= 1 {
			return err
		}
		more := false
		results, err := spmd.Call(r.Actor, ctx, "resample",
			func(_ context.Context, w *worker.ReasoningWorker) (bool, error) { return w.Resample(n) }).Wait(ctx)
		if err != nil {
			return err
		}
		for _, res := range results {
			more = more || res.Value // all actors say the same
		}
		if more, err = r.actorsSay(ctx, more); err != nil || !more {
			return err
		}
	}
}

// generateBatch answers the prompts of batch n of this step, and lets the answers go their way to the
// actors.
func (r *ReasoningRunner) generateBatch(ctx context.Context, n int) error {
	_, out := r.around("rollout")
	calls := []*spmd.Future[none]{
		call(ctx, r.Rollout, "generate", func(ctx context.Context, w *worker.TextRolloutWorker) error {
			return w.Generate(ctx, r.step, n, out)
		})}
	if r.Reward != nil {
		in, out := r.around("reward")
		calls = append(calls, call(ctx, r.Reward, "score", func(ctx context.Context, w *worker.TextRewardWorker) error {
			return w.Score(ctx, in, out)
		}))
	}
	if r.Inference != nil {
		in, out := r.around("inference")
		calls = append(calls, call(ctx, r.Inference, "infer",
			func(ctx context.Context, w *worker.TextInferenceWorker) error { return w.Infer(ctx, in, out) }))
	}
	if r.Critic != nil {
		in, out := r.around("critic")
		calls = append(calls, call(ctx, r.Critic, "value", func(ctx context.Context, w *worker.TextCriticWorker) error {
			return w.Value(ctx, r.step, in, out)
		}))
	}
	in, _ := r.around("actor")
	calls = append(calls, call(ctx, r.Actor, "receive", func(ctx context.Context, w *worker.ReasoningWorker) error {
		return w.Receive(ctx, r.step, in)
	}))
	return waitAll(ctx, calls...)
}

// computeAdvantages prepares the answers: the actors' for the policy, those of critic workers for the critic.
func (r *ReasoningRunner) computeAdvantages(ctx context.Context) error {
	calls := []*spmd.Future[none]{call(ctx, r.Actor, "compute_advantages",
		func(ctx context.Context, w *worker.ReasoningWorker) error { return w.ComputeAdvantages(ctx) })}
	if r.Critic != nil {
		calls = append(calls, call(ctx, r.Critic, "compute_returns",
			func(ctx context.Context, w *worker.TextCriticWorker) error { return w.ComputeReturns(ctx) }))
	}
	return waitAll(ctx, calls...)
}

// train trains the policy, and the critic of critic workers at the same time.
func (r *ReasoningRunner) train(ctx context.Context) error {
	calls := []*spmd.Future[algo.Metrics]{spmd.Call(r.Actor, ctx, "run_training",
		func(ctx context.Context, w *worker.ReasoningWorker) (algo.Metrics, error) { return w.RunTraining(ctx) })}
	if r.Critic != nil {
		calls = append(calls, spmd.Call(r.Critic, ctx, "run_training",
			func(ctx context.Context, w *worker.TextCriticWorker) (algo.Metrics, error) { return w.RunTraining(ctx) }))
	}
	return r.told(ctx, calls...)
}

// evaluateAnswers answers the prompts of validation with the newest weights.
func (r *ReasoningRunner) evaluateAnswers(ctx context.Context) error {
	if err := r.syncModel(ctx); err != nil {
		return err
	}
	err := tell(ctx, r.languageRunner, r.Rollout, "evaluate",
		func(ctx context.Context, w *worker.TextRolloutWorker) (algo.Metrics, error) { return w.Evaluate(ctx) })
	for _, w := range r.Rollout.Here() {
		for _, s := range w.Shown() {
			r.report.answers = append(r.report.answers, s.Line(), s.Block())
		}
	}
	return err
}
