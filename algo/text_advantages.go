package algo

import (
	"errors"
	"fmt"
)

// recipe returns how advantages are made.
func (s *TextSetup) recipe(g groups) (estimator, Normalization) {
	c := &s.Config
	switch {
	case c.AdvType == "gae":
		return generalised{c.Gamma, c.GAELambda}, c.NormalizeAdvantages
	case c.AdvType == "reinpp":
		return reinforce{g, c.UseReinppBaseline, float64(c.ReinppKLBeta)}, NormalizeBatch
	case c.AdvType == "rloo":
		return groupRelative{g, RLOOAdvantages}, NormalizeNone
	case s.Text.NormByStd:
		return groupRelative{g, GRPOAdvantages}, NormalizeNone
	}
	return groupRelative{g, DrGRPOAdvantages}, NormalizeNone
}

// Prepare computes the advantages of a batch. It may read statistics of all replicas.
func (p *TextPPO) Prepare(b *TextBatch) error {
	if err := p.prepare(b); err != nil {
		return fmt.Errorf("texts: %w", err)
	}
	p.prepared = b
	return nil
}

func (p *TextPPO) prepare(b *TextBatch) (err error) {
	if err := p.check(b, p.cfg.RecomputeLogprobs); err != nil {
		return err
	}
	if err := p.logProbsOf(b); err != nil {
		return err
	}
	if p.critic != nil {
		if b.Value, err = p.critic.valuesOf(b.Value[:0], b.Texts); err != nil {
			return err
		}
	} else if p.valued() && b.Value == nil {
		return errors.New("the batch has no values: expected those of a critic")
	}
	x := p.describe(b)
	if p.cfg.ReinppKLBeta > 0 {
		p.logRatio = sized(p.logRatio, len(b.Adv))
		for i := range p.logRatio {
			kl, _ := klEstimate(p.text.ReinppKLPenaltyType, float64(b.Old[i])-float64(b.Ref[i]))
			p.logRatio[i] = float32(kl)
		}
		x.LogRatio = p.logRatio
	}
	if err := p.estimator.estimate(b.Adv, b.Ret, x); err != nil {
		return err
	}
	p.sums.reset()
	if err := p.addBatch(b); err != nil {
		return err
	}
	if p.cfg.MaxNumGenBatches <= 1 { // else Resample has
		clear(p.answers[:])
		p.addAnswers(b)
	}
	copy(p.sums.extra, p.answers[:])
	if p.normalize == NormalizeBatch {
		if err := standardise(b.Adv, b.Weight, &p.moments, p.replicas); err != nil {
			return fmt.Errorf("advantage statistics: %w", err)
		}
	}
	if p.text.ImportanceSamplingFix {
		ImportanceWeights(b.Adv, b.Old, b.LogProb, float64(p.text.ImportanceSamplingClip))
	}
	return nil
}

// logProbsOf fills Old, and Ref where it is needed.
func (p *TextPPO) logProbsOf(b *TextBatch) error {
	if err := p.Infer(b); err != nil {
		return err
	}
	if p.cfg.RecomputeLogprobs {
		b.Old = append(b.Old[:0], b.Recomputed...)
		if b.LogProb == nil {
			b.LogProb = b.Recomputed
		}
	} else {
		b.Old = append(b.Old[:0], b.LogProb...)
	}
	return nil
}

// Infer fills Recomputed and Ref, where the configuration needs them and the batch has not got them.
// Prepare does it, too: with Infer it can be done while other answers are drawn.
func (p *TextPPO) Infer(b *TextBatch) (err error) {
	if p.cfg.RecomputeLogprobs && b.Recomputed == nil {
		if b.Recomputed, err = p.logProbs(nil, b.Texts); err != nil {
			return err
		}
	}
	if b.Ref != nil || p.cfg.KLBeta == 0 && p.cfg.ReinppKLBeta == 0 {
		return nil
	}
	if p.reference == nil {
		return fmt.Errorf("kl_beta %g, reinpp_kl_beta %g: the batch has no log-probs by a reference policy",
			p.cfg.KLBeta, p.cfg.ReinppKLBeta)
	}
	b.Ref, err = p.reference.logProbs(nil, b.Texts)
	return err
}
