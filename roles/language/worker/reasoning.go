package worker

import (
	"context"
	"errors"
	"slices"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/roles/member"
	"github.com/rlinf/rlinf/roles/state"
	"github.com/rlinf/rlinf/roles/weights"
	"github.com/rlinf/rlinf/spmd"
)

// A ReasoningWorker is an actor. It trains one replica of a language model on a share of the answers.
type ReasoningWorker struct {
	*learner[*algo.TextPPO]
	weights   *weights.Sync
	reference *reference       // nil if inference workers have the reference, or if there is no reference
	critic    *algo.TextCritic // nil if critic workers have the critic, or if there is no critic
	early     bool             // compute log-probs while answers arrive
	inferred  int              // number of groups that have log-probs; these are the first groups
}

// NewReasoningWorker returns the worker of member m, for loop.Launch.
func NewReasoningWorker(ctx context.Context, c *loop.Cluster, m *spmd.Member) (*ReasoningWorker, error) {
	shared, model, err := lookUp(c, m)
	if err != nil {
		return nil, err
	}
	p := shared.plan
	if w, stayed := loop.PartOf[*ReasoningWorker](c, m); stayed {
		w.weights = shared.weights
		err := w.join(ctx, m, p)
		w.useGPU(shared, m)
		return w, err
	}
	t, err := newTuner(ctx, m, p, model)
	if err != nil {
		return nil, err
	}
	t.useGPU(shared, m)
	setup := p.TextSetup()
	setup.Model, setup.Mesh, setup.Replicas = model, t.replica.mesh, t.replicas
	setup.Alloc, setup.Progress, setup.Witness = c.Alloc(m), loop.ProgressOf(c, m), loop.WitnessOf(c, m)
	w := &ReasoningWorker{weights: shared.weights, early: p.GenBatches == 1} // else Resample drops some groups later
	if w.learner, err = newLearner[*algo.TextPPO](t, shared.judge); err != nil {
		return nil, err
	}
	if p.Replicas("inference") == 0 {
		if w.reference, err = newReference(p, model); err != nil {
			return nil, err
		}
	}
	if w.reference != nil {
		setup.Reference = w.reference.model
	}
	if setup.Values = p.Replicas("critic") > 0; p.HasCritic() && !setup.Values {
		if w.critic, err = newCritic(model, setup.Alloc, model.Params.Device()); err != nil {
			return nil, err
		}
		setup.Critic = w.critic
	}
	w.algo, err = algo.NewTextPPO(setup)
	return w, err
}

// SyncModel publishes the parameters as this version, for rollout and inference workers.
func (w *ReasoningWorker) SyncModel(ctx context.Context, version int64) error {
	return w.weights.Publish(ctx, w.m, version)
}

// Receive receives this actor's answers of a step. The answers must come from the weights of this step. While answers
// arrive, Receive grades them and computes log-probs, unless other workers have done so.
func (w *ReasoningWorker) Receive(ctx context.Context, step int64, in *spmd.Channel) error {
	defer w.m.Span("receive").Begin().End(0, 0)
	w.inferred = 0
	err := w.receive(ctx, step, in, nil, func(*answers) error { return w.infer(false) })
	if err == nil {
		err = w.infer(true)
	}
	if err == nil {
		err = w.exchangeGroups(ctx)
	}
	return err
}

// inferTokens is the minimum number of tokens in a pass while answers arrive. Smaller passes are less efficient, and
// with larger passes actors would wait longer for the first groups.
const inferTokens = 1 << 10

// infer computes the log-probs of groups without log-probs. If force is false, it does nothing until these groups have
// inferTokens tokens.
func (w *ReasoningWorker) infer(force bool) error {
	fresh := w.groups[w.inferred:]
	if !w.early || len(fresh) == 0 {
		return nil
	}
	tokens := 0
	for _, a := range fresh {
		tokens += a.total()
	}
	if !force && tokens < inferTokens {
		return nil
	}
	w.inferred = len(w.groups)
	b := joinAnswers(fresh)
	if err := member.Guard(func() error { return w.algo.Infer(&b) }); err != nil {
		return err
	}
	at := 0
	part := func(x []float32, n int) []float32 {
		if x == nil {
			return nil
		}
		return x[at:][:n:n]
	}
	for _, a := range fresh {
		n := len(a.tokens)
		a.recomputed, a.ref = part(b.Recomputed, n), part(b.Ref, n)
		at += n
	}
	return nil
}

// Resample chooses from the answers of batch n of this step, and reports whether the actors need another batch. The
// result is the same on all actors.
func (w *ReasoningWorker) Resample(n int) (more bool, err error) {
	defer w.m.Span("resample").Begin().End(0, 0)
	w.joinGroups()
	return w.algo.Resample(n, &w.batch)
}

// ComputeAdvantages prepares the answers for training.
func (w *ReasoningWorker) ComputeAdvantages(context.Context) error {
	defer w.m.Span("advantages").Begin().End(0, 0)
	if len(w.groups) > 0 { // else Resample has joined the groups
		w.joinGroups()
	}
	return member.Guard(func() error { return w.algo.Prepare(&w.batch) })
}

// Part returns the worker itself, or nil in a run that sends patches.
func (w *ReasoningWorker) Part() any { return stays(w, w.plan) }

// Retire closes the worker, unless part is the worker itself.
func (w *ReasoningWorker) Retire(part any) error {
	return errors.Join(retire(w, part), w.releaseGPU(part == any(w)))
}

// State returns the model and the state of training. If there are only weights to load, the reference and the critic's
// trunk also load these weights.
func (w *ReasoningWorker) State(p state.Purpose) []state.Part {
	optim, _ := w.plan.Config.Optimisers()
	networks := []network{w.network("actor", w.model, optim)}
	var more []state.Part
	if w.critic != nil {
		networks = append(networks, w.criticNetwork(w.critic))
		more = w.trunk(w.critic)
	}
	return w.state(p, slices.Concat(trainerParts(w.algo.Save(), networks...), w.reference.parts(), more))
}
