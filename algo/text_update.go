package algo

// Update trains on the batch of the last Prepare. After an error the parameters are as the last
// good step left them.
func (p *TextPPO) Update(b *TextBatch) (Metrics, error) {
	if err := p.take(b); err != nil {
		return Metrics{}, err
	}
	p.train.meanNorm() // of an update that failed
	iteration := p.iteration()
	p.tried, p.taken, p.begun, p.largest = 0, 0, false, 0
	err := p.minibatches(b, func(plan *textPlan) (more bool, err error) { return p.minibatch(b, plan, iteration) })
	if err != nil {
		return Metrics{}, err
	}
	p.sums.extra[numTextSums+p.replica] = p.largest
	if err := p.sumMetrics(); err != nil {
		return Metrics{}, err
	}
	return p.report.metrics(p, iteration), nil
}

// minibatch makes one optimiser step, or none. It reports whether training goes on.
func (p *TextPPO) minibatch(b *TextBatch, plan *textPlan, iteration int) (more bool, err error) {
	if plan.advantages == 0 && !p.valued() && p.cfg.KLBeta == 0 && p.cfg.EntropyBonus == 0 {
		return true, nil
	}
	warming := p.valued() && p.counters.I64()[1] < int64(p.optim.CriticWarmupSteps)
	clear(p.train.params.Grad)
	if p.critic != nil {
		p.critic.begin()
	}
	ratios := []float64{0, 0}
	p.count(workUpdate, p.before, p.cfg.UpdateEpoch*len(p.order))
	err = p.each(p.texts, func(lo, hi int) error {
		return p.loss(b, plan, p.clip(iteration), p.index[lo:hi], ratios)
	})
	p.what = "" // log-probs of the next batch are no update
	if err != nil {
		return false, err
	}
	p.begun, p.tried = true, p.tried+1
	p.model.FinishGradients(p.work)
	if p.critic != nil {
		p.critic.finish()
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
		if err := p.critic.step(iteration); err != nil {
			return err
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
