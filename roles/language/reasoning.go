package language

import (
	"context"
	"fmt"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/policy/lm/engine"
	"github.com/rlinf/rlinf/roles/language/worker"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/spmd"
)

// A ReasoningRunner trains a language model on its own answers. Every rank runs one. A call to a group runs on the
// ranks that have members of the group.
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
//
// Answers go from rollout workers to reward workers, inference workers, critic workers and actors, in this order.
// Meanwhile rollout workers answer other prompts. Actors do the work of components that are not placed.
type ReasoningRunner struct {
	*runner
	ReasoningGroups
	channels []*spmd.Channel // channels[i] leads from stage i of plan.Pipeline to the next stage
	synced   int64           // version of the weights that rollout workers use; -1 if there is none yet
}

// ReasoningGroups are the groups whose workers a ReasoningRunner calls.
type ReasoningGroups struct {
	Actor     *spmd.Group[*worker.ReasoningWorker]
	Rollout   *spmd.Group[*worker.RolloutWorker]
	Reward    *spmd.Group[*worker.RewardWorker]    // nil if actors grade answers
	Inference *spmd.Group[*worker.InferenceWorker] // nil if actors compute log-probs themselves
	Critic    *spmd.Group[*worker.CriticWorker]    // nil if actors train a critic, or if there is no critic
}

// Reason is the program that trains a language model on its own answers. It launches a group for each placed component,
// and runs a ReasoningRunner with these groups.
func Reason(ctx context.Context, c *loop.Cluster) error {
	g, err := LaunchReasoning(ctx, c)
	if err != nil {
		return err
	}
	r, err := NewReasoningRunner(ctx, c, g)
	if err != nil {
		return err
	}
	return loop.InOrder(ctx, r.InitWorkers, r.Run)
}

// LaunchReasoning launches the groups of a ReasoningRunner, one for each placed component. Every rank must call
// LaunchReasoning.
func LaunchReasoning(ctx context.Context, c *loop.Cluster) (g ReasoningGroups, err error) {
	loop.LaunchPlaced(ctx, c, &err, &g.Actor, "actor", true, worker.NewReasoningWorker)
	loop.LaunchPlaced(ctx, c, &err, &g.Rollout, "rollout", true, worker.NewRolloutWorker)
	loop.LaunchPlaced(ctx, c, &err, &g.Reward, "reward", false, worker.NewRewardWorker)
	loop.LaunchPlaced(ctx, c, &err, &g.Inference, "inference", false, worker.NewInferenceWorker)
	loop.LaunchPlaced(ctx, c, &err, &g.Critic, "critic", false, worker.NewCriticWorker)
	return g, err
}

// NewReasoningRunner returns a runner of the groups g, and makes the channels between these groups. A job has one
// runner. Every rank must call NewReasoningRunner.
func NewReasoningRunner(ctx context.Context, c *loop.Cluster, g ReasoningGroups) (*ReasoningRunner, error) {
	r := &ReasoningRunner{ReasoningGroups: g, synced: -1}
	var err error
	if r.runner, err = newRunner(ctx, c, r.evaluateAnswers, r.UpdateRolloutWeights, r.GenerateRollouts,
		r.ComputeAdvantagesAndReturns, r.RunTraining); err != nil {
		return nil, err
	}
	addWorkers(r.runner, g.Actor)
	addWorkers(r.runner, g.Rollout)
	addWorkers(r.runner, g.Reward)
	addWorkers(r.runner, g.Inference)
	addWorkers(r.runner, g.Critic)
	return r, r.connect(c.World())
}

// connect makes the channels between stages.
func (r *ReasoningRunner) connect(w *spmd.World) error {
	place, pipeline := r.plan.Placement, &r.plan.Pipeline
	for i, stage := range pipeline.Stages[1:] {
		from := pipeline.Stages[i].Component
		ch, err := spmd.NewChannel(w, spmd.ChannelSpec{Name: fmt.Sprintf("answers of %s", from),
			From: place.Group(from), To: place.Group(stage.Component), MaxSize: 2, ItemBytes: r.plan.AnswerBytes(),
			Pairs: func(from, to int) bool { return pipeline.Pairs(i, from, to) }})
		if err != nil {
			return err
		}
		r.channels = append(r.channels, ch)
	}
	return nil
}

// channelsOf returns the channels to and from a component. The first stage of the pipeline has no channel in, and the
// last stage has no channel out: they are nil.
func (r *ReasoningRunner) channelsOf(component string) (in, out *spmd.Channel) {
	stage := r.plan.Pipeline.Stage(component)
	if stage > 0 {
		in = r.channels[stage-1]
	}
	if stage < len(r.channels) {
		out = r.channels[stage]
	}
	return in, out
}

// UpdateRolloutWeights sends the actors' parameters to the rollout and inference workers.
func (r *ReasoningRunner) UpdateRolloutWeights(ctx context.Context) error {
	return r.loop.Timed(loop.SyncWeights, ctx, r.syncModel)
}

// GenerateRollouts answers the prompts of an iteration. Meanwhile the answers are graded, get log-probs and values, and
// go to the actors.
func (r *ReasoningRunner) GenerateRollouts(ctx context.Context) error {
	return r.loop.Timed(loop.GenerateRollouts, ctx, r.generate)
}

// ComputeAdvantagesAndReturns prepares the answers for training: it turns their rewards into advantages.
func (r *ReasoningRunner) ComputeAdvantagesAndReturns(ctx context.Context) error {
	return r.loop.Timed(loop.CalAdvAndReturns, ctx, r.computeAdvantages)
}

// RunTraining updates the model on all actors, and the critic. Then it adds 1 to GlobalStep.
func (r *ReasoningRunner) RunTraining(ctx context.Context) error {
	if err := r.loop.Timed(loop.ActorTraining, ctx, r.train); err != nil {
		return err
	}
	r.describe(r.loop.Report())
	r.loop.Trained()
	return nil
}

// describe adds to rep the rewards that this rank's actors have received, and the use of this rank's engines.
func (r *ReasoningRunner) describe(rep *loop.RankReport) {
	var rewards tally
	for _, w := range r.Actor.Here() {
		for _, reward := range w.Rewards() {
			rewards.add(float64(reward), 1)
		}
	}
	var use engine.Utilization
	for _, w := range r.Rollout.Here() {
		use.Add(w.Use())
	}
	rep.Rewards = rewards.numbers()
	rep.Engine = []float64{float64(use.Passes), use.Pages, use.Running, use.Peak}
}

// syncModel sends the actors' parameters to rollout and inference workers, unless these workers have the newest
// version.
func (r *ReasoningRunner) syncModel(ctx context.Context) error {
	if r.synced == r.loop.GlobalStep() {
		return nil
	}
	r.synced = r.loop.GlobalStep()
	calls := []*spmd.Future[loop.None]{
		loop.Call(ctx, r.Actor, "sync_model_to_rollout", func(ctx context.Context, w *worker.ReasoningWorker) error {
			return w.SyncModel(ctx, r.loop.GlobalStep())
		}),
		loop.Call(ctx, r.Rollout, "sync_model_from_actor", func(ctx context.Context, w *worker.RolloutWorker) error {
			return w.SyncModelFromActor(ctx, r.loop.GlobalStep())
		})}
	if r.Inference != nil {
		calls = append(calls, loop.Call(ctx, r.Inference, "sync_model_from_actor",
			func(ctx context.Context, w *worker.InferenceWorker) error {
				return w.SyncModelFromActor(ctx, r.loop.GlobalStep())
			}))
	}
	return loop.WaitAll(ctx, calls...)
}

// generate generates the answers for one update. With dynamic sampling (max_num_gen_batches > 1) it generates batches
// until the actors need no more.
func (r *ReasoningRunner) generate(ctx context.Context) error {
	for n := 0; ; n++ {
		if err := r.generateBatch(ctx, n); err != nil || r.plan.GenBatches <= 1 {
			return err
		}
		more, err := loop.Ask(ctx, r.loop, r.Actor, "resample",
			func(w *worker.ReasoningWorker) (bool, error) { return w.Resample(n) })
		if err != nil || !more {
			return err
		}
	}
}

// generateBatch generates the answers to batch n of this step. Meanwhile the workers of all stages process the answers.
func (r *ReasoningRunner) generateBatch(ctx context.Context, n int) error {
	_, out := r.channelsOf("rollout")
	calls := []*spmd.Future[loop.None]{
		loop.Call(ctx, r.Rollout, "generate", func(ctx context.Context, w *worker.RolloutWorker) error {
			return w.Generate(ctx, r.loop.GlobalStep(), n, out)
		})}
	if r.Reward != nil {
		in, out := r.channelsOf("reward")
		calls = append(calls, loop.Call(ctx, r.Reward, "score", func(ctx context.Context,
			w *worker.RewardWorker) error {
			return w.Score(ctx, in, out)
		}))
	}
	if r.Inference != nil {
		in, out := r.channelsOf("inference")
		calls = append(calls, loop.Call(ctx, r.Inference, "infer",
			func(ctx context.Context, w *worker.InferenceWorker) error { return w.Infer(ctx, in, out) }))
	}
	if r.Critic != nil {
		in, out := r.channelsOf("critic")
		calls = append(calls, loop.Call(ctx, r.Critic, "value", func(ctx context.Context,
			w *worker.CriticWorker) error {
			return w.Value(ctx, r.loop.GlobalStep(), in, out)
		}))
	}
	in, _ := r.channelsOf("actor")
	calls = append(calls, loop.Call(ctx, r.Actor, "receive", func(ctx context.Context,
		w *worker.ReasoningWorker) error {
		return w.Receive(ctx, r.loop.GlobalStep(), in)
	}))
	return loop.WaitAll(ctx, calls...)
}

// computeAdvantages prepares answers for training. Actors prepare them to train the policy, and critic workers prepare
// them to train the critic.
func (r *ReasoningRunner) computeAdvantages(ctx context.Context) error {
	calls := []*spmd.Future[loop.None]{loop.Call(ctx, r.Actor, "compute_advantages",
		func(ctx context.Context, w *worker.ReasoningWorker) error { return w.ComputeAdvantages(ctx) })}
	if r.Critic != nil {
		calls = append(calls, loop.Call(ctx, r.Critic, "compute_returns",
			func(ctx context.Context, w *worker.CriticWorker) error { return w.ComputeReturns(ctx) }))
	}
	return loop.WaitAll(ctx, calls...)
}

// train trains the policy on the actors. At the same time it trains the critic on critic workers.
func (r *ReasoningRunner) train(ctx context.Context) error {
	calls := []*spmd.Future[algo.Metrics]{spmd.Call(r.Actor, ctx, "run_training",
		func(ctx context.Context, w *worker.ReasoningWorker) (algo.Metrics, error) { return w.RunTraining(ctx) })}
	if r.Critic != nil {
		calls = append(calls, spmd.Call(r.Critic, ctx, "run_training",
			func(ctx context.Context, w *worker.CriticWorker) (algo.Metrics, error) { return w.RunTraining(ctx) }))
	}
	return loop.ReportMetrics(ctx, r.loop, calls...)
}

// evaluateAnswers sends the newest weights to rollout workers, and asks them the validation questions.
func (r *ReasoningRunner) evaluateAnswers(ctx context.Context) error {
	if err := r.syncModel(ctx); err != nil {
		return err
	}
	rep := r.loop.Report()
	training := len(rep.Names)
	err := callAndReport(ctx, r.runner, r.Rollout, "evaluate",
		func(ctx context.Context, w *worker.RolloutWorker) (algo.Metrics, error) { return w.Evaluate(ctx) })
	if err != nil {
		return err
	}
	for _, w := range r.Rollout.Here() {
		for _, s := range w.Shown() {
			rep.Answers = append(rep.Answers, s.Line(), s.Block())
		}
	}
	drop := func() { rep.Names, rep.Values, rep.Answers = rep.Names[:training], rep.Values[:training], nil }
	return r.loop.EndFailedEvaluation(ctx, drop, loop.Evaluated(r.Rollout))
}
