package algo

import "fmt"

// Resample chooses groups of batch, the n-th of this update, counted from 0. It reports whether it
// needs another batch, the same on every replica. Groups of later batches whose rewards differ
// replace groups whose rewards are all equal. batch becomes the groups chosen so far. With
// max_num_gen_batches 1 it does nothing.
func (p *TextPPO) Resample(n int, batch *TextBatch) (more bool, err error) {
	p.batches = n + 1
	most := p.cfg.MaxNumGenBatches
	if most <= 1 {
		return false, nil
	}
	if err := batch.check(p.size, p.cfg.RecomputeLogprobs); err != nil {
		return false, fmt.Errorf("dynamic sampling: %w", err)
	}
	groups := len(batch.Texts) / p.size
	informative := func(g int) bool { return differ(p.kept[g].Reward) }
	if n == 0 {
		clear(p.answers)
		p.kept = make([]TextBatch, groups)
		for g := range p.kept {
			p.kept[g] = batch.part(g*p.size, (g+1)*p.size)
		}
	} else {
		replaceGroups(len(p.kept), groups, informative,
			func(g int) bool { return differ(batch.Reward[g*p.size : (g+1)*p.size]) },
			func(to, from int) { p.kept[to] = batch.part(from*p.size, (from+1)*p.size) })
	}
	p.addAnswers(batch)
	*batch = JoinTexts(p.kept...)
	more, err = lacksGroups(len(p.kept), informative, p.replicas)
	return more && n+1 < most, err
}
