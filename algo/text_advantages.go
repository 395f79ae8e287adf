package algo

import "fmt"

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
	p.prepared = nil
	if err := b.check(p.size, p.cfg.RecomputeLogprobs); err != nil {
		return err
	}
	if len(b.Texts)%p.text.NMinibatches != 0 {
		return fmt.Errorf("%d texts on a replica: want a multiple of n_minibatches, %d", len(b.Texts),
			p.text.NMinibatches)
	}
	n := int(b.starts[len(b.Texts)])
	if err := p.logProbsOf(b); err != nil {
		return err
	}
	b.Adv, b.Ret, b.Weight = sized(b.Adv, n), sized(b.Ret, n), sized(b.Weight, n)
	tr := &Trajectory{T: n, N: 1, Reward: make([]float32, n), Value: make([]float32, n), Next: make([]float32, n),
		Terminated: make([]uint8, n), Truncated: make([]uint8, n)}
	p.describe(b, tr)
	x := &experience{Trajectory: tr, Weight: b.Weight, Episodes: &p.episodes}
	if p.cfg.ReinppKLBeta > 0 {
		p.logRatio = sized(p.logRatio, n)
		for i := range p.logRatio {
			kl, _ := klEstimate(p.text.ReinppKLPenaltyType, float64(b.Old[i])-float64(b.Ref[i]))
			p.logRatio[i] = float32(kl)
		}
		x.LogRatio = p.logRatio
	}
	if p.critic != nil {
		if err := p.value(b, tr); err != nil {
			return err
		}
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

// describe tells the texts as episodes, and as a trajectory of one environment: the reward comes with
// the last token, after which nothing follows.
func (p *TextPPO) describe(b *TextBatch, tr *Trajectory) {
	e := &p.episodes
	e.of, e.score, e.steps = e.of[:0], e.score[:0], e.steps[:0]
	for k := range b.Texts {
		lo, hi := b.tokens(k)
		weight := float32(1)
		if p.text.MaskTruncated && !b.Ended[k] {
			weight = 0
		}
		for i := lo; i < hi; i++ {
			e.of = append(e.of, int32(k))
			b.Weight[i] = weight
		}
		if hi > lo {
			tr.Reward[hi-1], tr.Terminated[hi-1] = b.Reward[k], 1
		}
		e.score, e.steps = append(e.score, float64(b.Reward[k])), append(e.steps, hi-lo)
	}
}

// value fills Value, and what comes after each token.
func (p *TextPPO) value(b *TextBatch, tr *Trajectory) error {
	b.Value = b.Value[:0]
	for lo := 0; lo < len(b.Texts); {
		hi := lo + p.limit.Fit(b.Texts[lo:])
		p.pack(b.Texts[lo:hi])
		if err := p.critic.forward(p.batch, p.targets); err != nil {
			return err
		}
		b.Value = append(b.Value, p.critic.values...)
		lo = hi
	}
	tr.Value = b.Value
	for i := range tr.Next {
		if tr.Terminated[i] == 0 {
			tr.Next[i] = b.Value[i+1]
		}
	}
	return nil
}
