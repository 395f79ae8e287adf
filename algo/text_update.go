package algo

import (
	"fmt"
	"math"
)

// Update trains on the batch of the last Prepare. After an error the parameters are as the last
// good step left them.
func (p *TextPPO) Update(b *TextBatch) (Metrics, error) {
	if b != p.prepared {
		return Metrics{}, fmt.Errorf("texts: the batch was not prepared")
	}
	p.prepared = nil
	p.train.meanNorm() // of an update that failed
	iteration := int(p.counters.I64()[0])
	p.tried, p.taken, p.begun, p.largest = 0, 0, false, 0
	for epoch := range p.cfg.UpdateEpoch {
		more, err := p.epoch(b, iteration, epoch)
		if err != nil {
			return Metrics{}, fmt.Errorf("texts: epoch %d: %w", epoch, err)
		}
		if !more {
			break
		}
	}
	p.sums.extra[numTextSums+p.replica] = p.largest
	if err := p.replicas.Sum(p.sums.sums); err != nil {
		return Metrics{}, fmt.Errorf("texts: metrics: %w", err)
	}
	p.counters.I64()[0]++
	return p.report.metrics(p, iteration), nil
}

// epoch goes over all minibatches. It reports whether training goes on.
func (p *TextPPO) epoch(b *TextBatch, iteration, epoch int) (more bool, err error) {
	if cap(p.order) < len(b.Texts) {
		p.order = make([]int32, len(b.Texts))
	}
	p.order = p.order[:len(b.Texts)]
	permute(p.order, p.cfg.ShuffleRollout, p.seed, p.replica, iteration, epoch)
	if err := p.plan(b); err != nil {
		return false, err
	}
	for m := range p.plans {
		if more, err := p.minibatch(b, iteration, m); err != nil || !more {
			if err != nil {
				err = fmt.Errorf("minibatch %d: %w", m, err)
			}
			return false, err
		}
	}
	return true, nil
}

// A textPlan describes a minibatch to all replicas before its first text is computed.
type textPlan struct {
	tokens, texts float64 // that count, over all replicas
	rows          float64 // tokens with the prompts
	advantages    float64 // Σ |A|
}

const planLen = 4 // sums of a plan

// plan agrees with the other replicas on the denominators of the minibatches, by one reduction, and
// weighs the tokens.
func (p *TextPPO) plan(b *TextBatch) error {
	CountSamples(p.episodes.steps, p.episodes.of, b.Weight) // from here on, steps are those that count
	clear(p.planSums)
	per := len(p.order) / len(p.plans)
	for i, k := range p.order {
		s := p.planSums[planLen*(i/per):]
		tokens := p.episodes.steps[k]
		if tokens == 0 {
			continue
		}
		s[0] += float64(tokens)
		s[1]++
		s[2] += float64(len(b.Texts[k].IDs))
		for j, hi := b.tokens(int(k)); j < hi; j++ {
			if b.Weight[j] != 0 {
				s[3] += math.Abs(float64(b.Adv[j]))
			}
		}
	}
	if err := p.replicas.Sum(p.planSums); err != nil {
		return err
	}
	for m := range p.plans {
		s := p.planSums[planLen*m:]
		p.plans[m] = textPlan{tokens: s[0], texts: s[1], rows: s[2], advantages: s[3]}
	}
	how := p.cfg.LossAggFunc
	if how == SeqMeanTokenSumNorm {
		how = SeqMeanTokenSum // plan.scale divides
	}
	p.weights = append(p.weights[:0], b.Weight...)
	for i, k := range p.order {
		lo, hi := b.tokens(int(k))
		plan := &p.plans[i/per]
		Aggregate(p.weights[lo:hi], p.episodes.of[lo:hi], p.episodes.steps, how, plan.tokens, plan.texts)
	}
	return nil
}

// minibatch makes one optimiser step on minibatch m, or none. It reports whether training goes on.
func (p *TextPPO) minibatch(b *TextBatch, iteration, m int) (more bool, err error) {
	plan := &p.plans[m]
	if plan.tokens == 0 || plan.advantages == 0 && p.critic == nil && p.cfg.KLBeta == 0 && p.cfg.EntropyBonus == 0 {
		return true, nil
	}
	per := len(p.order) / len(p.plans)
	p.texts, p.index = p.texts[:0], p.index[:0]
	for _, k := range p.order[m*per : (m+1)*per] {
		if p.episodes.steps[k] > 0 {
			p.texts, p.index = append(p.texts, b.Texts[k]), append(p.index, int(k))
		}
	}
	warming := p.critic != nil && p.counters.I64()[1] < int64(p.optim.CriticWarmupSteps)
	clear(p.train.params.Grad)
	if p.critic != nil {
		clear(p.critic.train.params.Grad)
	}
	ratios := []float64{0, 0}
	err = p.each(p.texts, func(lo, hi int) error {
		return p.loss(b, plan, p.clip(iteration), p.index[lo:hi], ratios)
	})
	if err != nil {
		return false, err
	}
	p.begun, p.tried = true, p.tried+1
	p.model.FinishGradients(p.work)
	if p.critic != nil {
		p.critic.Model.FinishGradients(p.critic.work)
	}
	if most := float64(p.text.EarlyStopImpRatio); most > 0 {
		if err := p.replicas.Sum(ratios); err != nil {
			return false, err
		}
		if ratios[0] > most*ratios[1] {
			return false, nil
		}
	}
	return true, p.step(iteration, warming)
}

// step moves the parameters; while the critic warms up, its own alone. One gradient is summed after
// the other: Replicas have one open at a time.
func (p *TextPPO) step(iteration int, warming bool) error {
	if p.critic != nil {
		p.critic.train.begin()
		if err := p.critic.train.step(iteration); err != nil {
			return fmt.Errorf("critic: %w", err)
		}
	}
	p.counters.I64()[1]++
	if warming {
		return nil
	}
	p.taken++
	p.train.begin()
	return p.train.step(iteration)
}
