package worker

import (
	"context"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/policy/lm"
	"github.com/rlinf/rlinf/roles/job"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/tensor"
)

// A TextInferenceWorker adds log-probabilities to answers, while others are generated: by the policy
// before the update, and by the reference policy.
type TextInferenceWorker struct {
	weightsEnd
	way        *textPassage
	reference  *textReference     // nil: it is not needed
	recomputed *algo.TextLogProbs // nil: the same
	ref        *algo.TextLogProbs
	trace      *Tracer
}

// NewTextInferenceWorker returns the worker of member m, which infers with model.
func NewTextInferenceWorker(m *spmd.Member, j *job.Job, model *lm.Model, ws *TextWeights) (*TextInferenceWorker,
	error) {
	w := &TextInferenceWorker{weightsEnd: ws.end(m, model), way: newTextPassage(m, j.Tuning), trace: newTracer(j, m)}
	logProbs := func(m *lm.Model) *algo.TextLogProbs {
		return algo.NewTextLogProbs(m, j.Tuning.Limit, j.Config.Actor.Threads, j.Tuning.Sampling.Temperature)
	}
	if j.Config.Algorithm.RecomputeLogprobs {
		w.recomputed = logProbs(model)
	}
	var err error
	if w.reference, err = newReferenceOf(j, model); err == nil && w.reference != nil {
		w.ref = logProbs(w.reference.model)
	}
	return w, err
}

// Infer adds log-probabilities to the answers of an iteration, which come through in and leave through
// out.
func (w *TextInferenceWorker) Infer(ctx context.Context, in, out *spmd.Channel) error {
	return w.way.each(ctx, in, out, func(a *answers) (err error) {
		start := w.trace.start()
		defer w.trace.done("infer", start)
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

// Tracer returns what this worker has noted; nil where no trace was asked for.
func (w *TextInferenceWorker) Tracer() *Tracer { return w.trace }

// Save returns the reference policy, of the first worker.
func (w *TextInferenceWorker) Save() []Share {
	if w.way.m.Index() > 0 {
		return nil
	}
	var d tensor.Dict
	w.reference.save(&d)
	return []Share{{Kind: "trainer", Dict: d}}
}

// Load takes the reference policy from st.
func (w *TextInferenceWorker) Load(st State) error { return w.reference.load(st) }

// Close ends the worker's threads.
func (w *TextInferenceWorker) Close() error {
	for _, p := range []*algo.TextLogProbs{w.recomputed, w.ref} {
		if p != nil {
			p.Close()
		}
	}
	return nil
}
