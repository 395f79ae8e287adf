package worker

import (
	"context"
	"errors"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/policy/lm"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/roles/member"
	"github.com/rlinf/rlinf/roles/state"
	"github.com/rlinf/rlinf/spmd"
)

// An InferenceWorker adds log-probabilities to answers while other answers are generated. The log-probabilities are
// those of the policy before the update, and of the reference policy.
type InferenceWorker struct {
	reader
	*stageQueue
	onDevice
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
	w, stayed := loop.PartOf[*InferenceWorker](c, m)
	if !stayed {
		w = new(InferenceWorker)
	}
	w.reader, w.stageQueue = shared.reader(m, model), newStageQueue(m, p, r)
	if w.useGPU(shared, m); stayed {
		return w, nil
	}
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
	return w.forEach(ctx, in, out, nil, func(a *answers) error {
		defer w.m.Span("infer").Begin().End(0, 0)
		return member.Guard(func() (err error) {
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
	})
}

// Part returns the model and the reference: see reader.part. A worker with a device returns itself, or nil in a run
// that sends patches.
func (w *InferenceWorker) Part() any {
	if w.gpu != nil {
		return stays(w, w.replica.plan)
	}
	return w.part(w.replica.plan, w.reference, nil)
}

// keptModel returns the model of a worker with a device that stays on its rank in a move.
func (w *InferenceWorker) keptModel() *lm.Model { return w.model }

// State returns the reference policy, which the first replica saves.
func (w *InferenceWorker) State(state.Purpose) []state.Part {
	parts := w.reference.parts()
	for i := range parts {
		parts[i].Spare = w.replica.index > 0
	}
	return parts
}

// Retire closes the worker, unless part is the worker itself.
func (w *InferenceWorker) Retire(part any) error {
	return errors.Join(retire(w, part), w.releaseGPU(part == any(w)))
}

// Close ends the worker's threads.
func (w *InferenceWorker) Close() error {
	for _, p := range []*algo.TextLogProbs{w.recomputed, w.ref} {
		if p != nil {
			p.Close()
		}
	}
	return nil
}
