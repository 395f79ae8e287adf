package algo

// Indices of the sums of texts in metricSums.extra. They follow the sums of answers.
const (
	scaledLoss = numAnswerSums + iota // loss as it is minimised
	numTextSums
)

// Indices of the sums of all answers drawn for an update.
const (
	textCount = iota
	textRewards
	textPrompts   // tokens
	textResponses // tokens
	textTruncated
	textGraded // known to be right or wrong
	textRight
	textUnparsable
	groupCount
	groupSame // groups whose rewards are all equal
	numAnswerSums
)

// addAnswers adds the sums of a batch of answers, before any of them is replaced.
func (p *TextPPO) addAnswers(b *TextBatch) {
	t := p.answers[:]
	for k, s := range b.Texts {
		lo, hi := b.tokens(k)
		t[textCount]++
		t[textRewards] += float64(b.Reward[k])
		t[textPrompts] += float64(len(s.IDs) - (hi - lo))
		t[textResponses] += float64(hi - lo)
		if !b.Ended[k] {
			t[textTruncated]++
		}
		if b.Right != nil {
			t[textGraded]++
			t[textRight] += one(b.Right[k])
			t[textUnparsable] += one(b.Unparsable[k])
		}
		if k%p.size == 0 {
			t[groupCount]++
			if !differ(b.Reward[k : k+p.size]) {
				t[groupSame]++
			}
		}
	}
}

func one(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// metrics makes the metrics of an update from its reduced sums. It leaves out those without a meaning
// for the options.
func (p *TextPPO) metrics(iteration int) Metrics {
	m := Metrics{Names: make([]string, 0, 32), Values: make([]float64, 0, 32)} // more than all
	s, of := p.sums, p.sums.extra
	lr, _ := p.train.adam.LR(iteration)
	m.add("actor/policy_loss", of[scaledLoss]/float64(p.tried))
	m.add("actor/entropy_loss", s.mean(entropy))
	m.add("actor/max_log_ratio", s.max(logRatioMax))
	m.add("actor/lr", lr)
	m.add("actor/grad_norm", p.train.meanNorm())
	m.add("actor/optimizer_steps", float64(p.taken))
	m.add("rollout/rewards", of[textRewards]/of[textCount])
	m.add("rollout/advantages_mean", s.mean(advantageMean))
	m.add("rollout/advantages_max", s.max(advantageMax))
	m.add("rollout/advantages_min", -s.max(advantageMin))
	m.add("rollout/prompt_length", of[textPrompts]/of[textCount])
	m.add("rollout/response_length", of[textResponses]/of[textCount])
	m.add("rollout/truncated", of[textTruncated]/of[textCount])
	m.add("rollout/uninformative_groups", of[groupSame]/of[groupCount])
	m.add("rollout/response_tokens", of[textResponses])
	m.addClip(s, p.surrogate.Kind)
	if p.cfg.KLBeta > 0 {
		m.add("actor/kl_loss", s.mean(klLoss))
	}
	if p.critic != nil {
		p.critic.addMetrics(&m, iteration)
	}
	if p.cfg.MaxNumGenBatches > 1 {
		m.add("rollout/gen_batches", float64(p.batches))
	}
	if graded := of[textGraded]; graded > 0 {
		m.add("rollout/accuracy", of[textRight]/graded)
		m.add("rollout/unparsable", of[textUnparsable]/graded)
	}
	return m
}
