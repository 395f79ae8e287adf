package worker

import "github.com/rlinf/rlinf/roles/language/plan"

// texts has the order of the training texts in an epoch.
type texts struct {
	plan  *plan.Plan
	order []int32 // the order of samples in the epoch
	epoch int64   // -1 if no epoch has begun
}

func newTexts(p *plan.Plan) *texts { return &texts{plan: p, epoch: -1} }

// seek sets t.order to the order of samples in the epoch of this batch. It returns the batch's number in the epoch.
func (t *texts) seek(batch int64) int64 {
	if epoch := batch / t.plan.BatchesPerEpoch; epoch != t.epoch {
		t.order, t.epoch = t.plan.Order(t.order, epoch), epoch
	}
	return batch % t.plan.BatchesPerEpoch
}

// A prompt is a question with two numbers.
type prompt struct {
	plan.Question
	group  int // number of the prompt's group in the iteration
	sample int // number of the prompt's sample in the texts of training
}

// prompts returns the prompts of groups [lo, hi) in batch n of a step of the reasoning task. Every step has GenBatches
// batches, even if it does not use all of them. So a resumed run gets the same prompts.
func (t *texts) prompts(step int64, n, lo, hi int) (all []prompt) {
	batch := step*t.plan.GenBatches + int64(n)
	first := batch * t.plan.StepPrompts()
	number := t.seek(batch)
	samples := t.plan.Samples(t.order, number)
	for g := lo; g < hi; g++ {
		k := int(samples[g])
		all = append(all, prompt{t.plan.Question(k, first+int64(g)), g, k})
	}
	return all
}
