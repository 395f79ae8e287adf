package worker

import (
	"context"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/policy/lm"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/roles/state"
	"github.com/rlinf/rlinf/spmd"
)

// An InferenceWorker adds log-probabilities to answers while other answers are generated. The log-probabilities are
// those of the policy before the update, and of the reference policy.
type InferenceWorker struct {
	reader
	*stageQueue
	reference  *reference         // nil if not needed
	recomputed *algo.TextLogProbs // computes log-probabilities by the policy; nil if not needed
	ref        *algo.TextLogProbs // computes log-probabilities by the reference; nil if not needed
}

// NewInferenceWorker returns the worker of member m, for loop.Launch.
func NewInferenceWorker(ctx context.Context, c *loop.Cluster, m *spmd.Member) (*InferenceWorker, error) {
	shared, model, err := lookUp(c, m)
	if err != nil {
		return nil, err
	}
	p := shared.plan
	r, err := newReplica(ctx, m, p, true)
	if err != nil {
		return nil, err
	}
	w := &InferenceWorker{reader: shared.reader(m, model), stageQueue: newStageQueue(m, p, r)}
	logProbs := func(m *lm.Model) *algo.TextLogProbs {
		return algo.NewTextLogProbs(m, p.Limit, p.Config.Actor.Threads, r.mesh, p.Sampling.Temperature)
	}
	if p.Config.Algorithm.RecomputeLogprobs {
		w.recomputed = logProbs(model)
	}
	if part, stayed := loop.PartOf[*readerPart](c, m); stayed && part.reference != nil {
		w.reference = part.reference
	} else {
		w.reference, err = newReference(p, model)
	}
	if err == nil && w.reference != nil {
		w.ref = logProbs(w.reference.model)
	}
	return w, err
}

// Infer receives this worker's answers of an iteration, adds log-probabilities to them, and sends the answers to the
// next stage.
func (w *InferenceWorker) Infer(ctx context.Context, in, out *spmd.Channel) error {
	return w.forEach(ctx, in, out, nil, func(a *answers) (err error) {
		defer w.m.Span("infer").Begin().End(0, 0)
		texts := a.batch().Texts
		if w.recomputed != nil {
			if a.recomputed, err = w.recomputed.Append(nil, texts); err != nil {
				return err
			}
		}
		if w.ref != nil {
			a.ref, err = w.ref.Append(nil, texts)
		}
		return err
	})
}

// Part returns the model and the reference: see reader.part.
func (w *InferenceWorker) Part() any { return w.part(w.replica.plan, w.reference, nil) }

// State returns the reference policy, which the first replica saves.
func (w *InferenceWorker) State(state.Purpose) []state.Part {
	parts := w.reference.parts()
	for i := range parts {
		parts[i].Spare = w.replica.index > 0
	}
	return parts
}

// Retire ends the worker's threads.
func (w *InferenceWorker) Retire(any) error { return w.Close() }

// Close ends the worker's threads.
func (w *InferenceWorker) Close() error {
	for _, p := range []*algo.TextLogProbs{w.recomputed, w.ref} {
		if p != nil {
			p.Close()
		}
	}
	return nil
}
