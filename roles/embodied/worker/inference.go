package worker

import (
	"context"
	"fmt"
	"slices"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/collectives"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/roles/embodied/plan"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/tensor"
)

// An InferenceWorker receives trajectories from rollout workers, adds log-probabilities of the actions, and sends the
// trajectories to actors. The log-probabilities are those of the actors' policy before the update (prox_log_prob) and
// of the reference policy (ref_log_prob).
type InferenceWorker struct {
	base
	policy  policy.Policy // the policy's parameters are a view of the weights
	work    policy.Work
	through []*passage
	weights *collectives.WeightsReader

	proximal  bool   // add the log-probabilities of the policy before the update
	reference []byte // parameters of the reference policy; nil if not needed
	known     bool   // reference has been set
}

// A passage is an actor's shard, with the receiver and the sender of this worker for it.
type passage struct {
	plan.ActorShard
	layout *tensor.Layout
	from   *spmd.Receiver
	to     *spmd.Sender
}

// NewInferenceWorker returns the worker of member m, for loop.Launch.
func NewInferenceWorker(_ context.Context, c *loop.Cluster, m *spmd.Member) (*InferenceWorker, error) {
	b, shared, err := newBase(c, m)
	if err != nil {
		return nil, err
	}
	p := b.plan
	pol := shared.policies["inference"][m.Index()]
	w := &InferenceWorker{base: b, policy: pol,
		weights: shared.inference.Reader(m), proximal: slices.Contains(p.Inferred(), algo.FieldProxLogProb)}
	if slices.Contains(p.Inferred(), algo.FieldRefLogProb) {
		w.reference = make([]byte, len(pol.Params().State()))
	}
	rows := 0
	for _, l := range p.Train.Routes {
		for _, s := range l.Shards {
			if p.InferenceWorker(s) == m.Index() {
				w.through = append(w.through, &passage{ActorShard: s, layout: p.TrajectoryLayout(s.Hi - s.Lo)})
				rows = max(rows, s.Hi-s.Lo)
			}
		}
	}
	w.work = pol.NewWork(rows)
	return w, nil
}

// SyncModelFromActor makes the policy use this version of the weights. The first version becomes the reference policy,
// unless a checkpoint had a reference policy.
func (w *InferenceWorker) SyncModelFromActor(ctx context.Context, version int64) error {
	state, _, err := w.weights.Adopt(ctx, version)
	if err != nil {
		return err
	}
	w.policy.Params().View(state)
	if w.reference != nil && !w.known {
		copy(w.reference, state)
		w.known = true
	}
	return nil
}

// Infer receives the trajectories of an iteration from rollout workers, adds log-probabilities, and sends the
// trajectories to actors.
func (w *InferenceWorker) Infer(ctx context.Context, in, out *spmd.Channel) error {
	for _, p := range w.through {
		if err := w.pass(ctx, p, in, out); err != nil {
			return fmt.Errorf("trajectories of %s: %w", p.Name(), err)
		}
	}
	return nil
}

func (w *InferenceWorker) pass(ctx context.Context, p *passage, in, out *spmd.Channel) (err error) {
	if p.from == nil {
		if p.from, err = in.Receiver(w.m, spmd.Key{To: w.m.Index(), Name: p.Name()}); err != nil {
			return err
		}
		if p.to, err = out.Sender(w.m, spmd.Key{To: p.Actor, Name: p.Name()}); err != nil {
			return err
		}
	}
	got, err := p.from.Get(ctx)
	if err != nil {
		return err
	}
	item, err := p.to.Take(ctx, p.layout)
	if err != nil {
		return err
	}
	item.Dict.CopyFrom(got.Dict)
	item.Lo, item.Hi, item.Version = got.Lo, got.Hi, got.Version
	p.from.Release(got)
	span := w.m.Span("infer").Begin()
	err = w.infer(item.Dict)
	span.End(0, 0)
	if err != nil {
		return err
	}
	return p.to.Put(ctx, item)
}

// infer adds the configured log-probabilities to a rollout.
func (w *InferenceWorker) infer(rollout tensor.Dict) error {
	if w.proximal {
		if err := algo.LogProbs(rollout.Must(algo.FieldProxLogProb), w.policy, w.work, rollout,
			w.plan.Config.Algorithm.SequenceLength); err != nil {
			return err
		}
	}
	if w.reference == nil {
		return nil
	}
	params := w.policy.Params()
	defer params.View(params.State())
	params.View(w.reference)
	return algo.LogProbs(rollout.Must(algo.FieldRefLogProb), w.policy, w.work, rollout,
		w.plan.Config.Algorithm.SequenceLength)
}
