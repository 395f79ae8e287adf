package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/policy/lm"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/roles/member"
	"github.com/rlinf/rlinf/roles/state"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/tensor"
)

// A CriticWorker has one replica of the critic of answers. It adds values to answers before these reach the actors,
// and trains on its share of the answers while the actors train.
type CriticWorker struct {
	*learner[*algo.TextCriticPPO]
	critic *algo.TextCritic
}

// NewCriticWorker returns the worker of member m, for loop.Launch.
func NewCriticWorker(ctx context.Context, c *loop.Cluster, m *spmd.Member) (*CriticWorker, error) {
	shared, err := SharedOf(c)
	if err != nil {
		return nil, err
	}
	p := shared.plan
	if w, stayed := loop.PartOf[*CriticWorker](c, m); stayed {
		err := w.join(ctx, m, p)
		w.useGPU(shared, m)
		return w, err
	}
	model, err := load(p, shared.own, m.Group(), m.Index(), tensor.Heap, nil)
	if err != nil {
		return nil, err
	}
	setup := p.TextSetup()
	setup.Alloc, setup.Witness = c.Alloc(m), loop.WitnessOf(c, m)
	if setup.Critic, err = newCritic(model, setup.Alloc, shared.device(m.Group(), m.Index())); err != nil {
		return nil, err
	}
	t, err := newTuner(ctx, m, p, setup.Critic.Model)
	if err != nil {
		return nil, err
	}
	t.useGPU(shared, m)
	setup.Mesh, setup.Replicas = t.replica.mesh, t.replicas
	w := &CriticWorker{critic: setup.Critic}
	if w.learner, err = newLearner[*algo.TextCriticPPO](t, shared.judge); err != nil {
		return nil, err
	}
	w.algo, err = algo.NewTextCriticPPO(setup)
	return w, err
}

// newCritic returns a critic on device d, which may be nil. Its trunk gets the weights of model, without the model's
// adapters.
func newCritic(model *lm.Model, alloc tensor.Allocator, d nn.Device[float32]) (*algo.TextCritic, error) {
	c, err := algo.NewTextCritic(model.Config, model.Part(), alloc, d)
	if err != nil {
		return nil, fmt.Errorf("critic: %w", err)
	}
	copyWeights(c.Model, model)
	return c, nil
}

// Value receives this worker's answers of a step, adds values to them, and sends the answers to the next stage.
func (w *CriticWorker) Value(ctx context.Context, step int64, in, out *spmd.Channel) error {
	err := w.receive(ctx, step, in, out, func(a *answers) error {
		defer w.m.Span("value").Begin().End(0, 0)
		return member.Guard(func() (err error) {
			a.value, err = w.algo.Values(nil, a.batch().Texts)
			return err
		})
	})
	if err == nil {
		err = w.exchangeGroups(ctx)
	}
	return err
}

// ComputeReturns prepares the answers for training.
func (w *CriticWorker) ComputeReturns(context.Context) error {
	defer w.m.Span("returns").Begin().End(0, 0)
	w.joinGroups()
	return member.Guard(func() error { return w.algo.Prepare(&w.batch) })
}

// Part returns the worker itself, or nil in a run that sends patches.
func (w *CriticWorker) Part() any { return stays(w, w.plan) }

// Retire closes the worker, unless part is the worker itself.
func (w *CriticWorker) Retire(part any) error {
	return errors.Join(retire(w, part), w.releaseGPU(part == any(w)))
}

// State returns the critic. The names of the tensors are those of an actor's critic. If there are only weights to load,
// the critic's trunk loads them.
func (w *CriticWorker) State(state.Purpose) []state.Part {
	parts := trainerParts(w.algo.Save(), w.criticNetwork(w.critic))
	w.spare(parts)
	counters := state.PartOf(state.TrainerFile, "counters", w.algo.Counters(), nn.Slice{})
	counters.Spare = true // the actors save them
	return slices.Concat(parts, w.trunk(w.critic), []state.Part{counters, w.iterations()})
}

// trunk returns the part that stands for the weights of a critic's trunk. It returns none if files of weights have
// adapters.
func (t *tuner) trunk(c *algo.TextCritic) []state.Part {
	if t.plan.LoRA != nil {
		return nil
	}
	return []state.Part{fromWeights(c.Model)}
}

// criticNetwork returns the member's part of a critic as a network.
func (t *tuner) criticNetwork(c *algo.TextCritic) network {
	_, optim := t.plan.Config.Optimisers()
	return t.network("critic", c.Model, optim)
}
