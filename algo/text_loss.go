package algo

import "math"

// clip returns the bounds of the surrogate in an iteration.
func (p *TextPPO) clip(iteration int) Clip {
	return Clip{
		Low:    float32(p.clipRatios.At(iteration, float64(p.cfg.ClipRatioLow), 0)),
		High:   float32(p.clipRatios.At(iteration, float64(p.cfg.ClipRatioHigh), 0)),
		Dual:   p.cfg.ClipRatioC,
		LogMin: p.cfg.ClipLogRatioMin, LogMax: p.cfg.ClipLogRatioMax,
	}
}

// loss adds the gradient of the texts of a micro-batch, whose share of the loss is
//
//	L = surrogate + kl_beta·KL - entropy_bonus·H
//
// Each text is a call of each loss, so that sums do not depend on the micro-batch.
func (p *TextPPO) loss(b *TextBatch, plan *textPlan, clip Clip, index []int, ratios []float64) error {
	p.surrogate.Clip = clip
	n := len(p.targets)
	p.dlogp, p.dentropy = sized(p.dlogp, n), sized(p.dentropy, n)
	if p.critic != nil {
		if err := p.critic.forward(p.batch, p.targets); err != nil {
			return err
		}
	}
	perToken := p.perToken(plan)
	at := 0
	for _, k := range index {
		lo, hi := b.tokens(k)
		end := at + hi - lo
		logp, dlogp, weight := p.logp[at:end], p.dlogp[at:end], p.weights[lo:hi]
		if !p.begun {
			p.compare(logp, b.LogProb[lo:hi])
		}
		x := Samples{LogProb: logp, Old: b.Old[lo:hi], Adv: b.Adv[lo:hi], Weight: weight}
		var s SurrogateSums
		if p.cfg.LossType == lossGSPO {
			s = gspo(&p.surrogate, dlogp, x, float32(1/plan.texts))
		} else {
			s = p.surrogate.Loss(dlogp, x, perToken)
		}
		p.sums.addSurrogate(&s)
		p.sums.extra[scaledLoss] += s.Scaled
		ratios[0], ratios[1] = ratios[0]+s.Ratio, ratios[1]+s.Count
		if b.Ref != nil && p.cfg.KLBeta > 0 {
			kl, count := KLLoss(dlogp, logp, b.Ref[lo:hi], hi-lo, weight, p.cfg.KLPenaltyType, p.cfg.KLBeta*perToken)
			p.sums.add(klLoss, kl, count)
		}
		h, count := EntropyLoss(p.dentropy[at:end], p.entropy[at:end], hi-lo, weight, p.cfg.EntropyBonus*perToken)
		p.sums.add(entropy, h, count)
		at = end
	}
	var dentropy []float32
	if p.cfg.EntropyBonus > 0 {
		dentropy = p.dentropy
	}
	share := float64(len(p.batch.IDs)) / plan.rows
	p.model.Backward(p.work, p.dlogp, dentropy, p.targets, p.temperature, float32(share))
	if p.critic != nil {
		p.critic.loss(&p.textTraining, b, perToken, index)
		p.critic.backward(p.targets)
	}
	return nil
}

// compare notes the largest |log ratio| of some tokens.
func (p *TextPPO) compare(logp, drawn []float32) {
	for i, x := range logp {
		p.largest = max(p.largest, math.Abs(float64(x)-float64(drawn[i])))
	}
}

// gspo is the surrogate with one ratio for a text (GSPO, Zheng et al. 2025, arXiv:2507.18071):
//
//	s = exp(mean_t (log π_t - old_t)),    L = max(-A s, -A clip(s, 1-low, 1+high))
//
// x are the tokens of the text, which all have its advantage. The gradient flows through s.
func gspo(o *Surrogate, dLogProb []float32, x Samples, scale float32) SurrogateSums {
	mean := func(of []float32) []float32 {
		var sum float64
		for _, v := range of {
			sum += float64(v)
		}
		return []float32{float32(sum / float64(len(of)))}
	}
	slope := []float32{0}
	s := o.Loss(slope, Samples{LogProb: mean(x.LogProb), Old: mean(x.Old), Adv: x.Adv[:1]}, scale)
	for i := range dLogProb {
		dLogProb[i] = slope[0] / float32(len(dLogProb))
	}
	return s
}
