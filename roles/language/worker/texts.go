package worker

import "github.com/rlinf/rlinf/roles/language/plan"

// texts are those that a job learns from, in the order of an epoch.
type texts struct {
	plan  *plan.Plan
	order []int32 // of the epoch
	epoch int64   // that order is of; -1: none
}

func newTexts(p *plan.Plan) *texts { return &texts{plan: p, epoch: -1} }

// at brings order to the epoch of a batch of the run, and returns the batch's number within it.
func (t *texts) at(batch int64) int64 {
	if epoch := batch / t.plan.BatchesPerEpoch; epoch != t.epoch {
		t.order, t.epoch = t.plan.Order(t.order, epoch), epoch
	}
	return batch % t.plan.BatchesPerEpoch
}

// A prompt is a question, its group in the iteration, and its sample in the texts of training.
type prompt struct {
	plan.Question
	group  int // of the iteration
	sample int // of the texts of training
}

// prompts returns groups [lo, hi) of batch number n of a step of the task reasoning. Every step owns
// GenBatches batches, used or not, so that a run which resumes meets the same prompts.
func (t *texts) prompts(step int64, n, lo, hi int) (all []prompt) {
	batch := step*t.plan.GenBatches + int64(n)
	first := batch * t.plan.StepPrompts()
	samples := t.plan.Samples(t.order, t.at(batch))
	for g := lo; g < hi; g++ {
		k := int(samples[g])
		all = append(all, prompt{t.plan.Question(k, first+int64(g)), g, k})
	}
	return all
}
