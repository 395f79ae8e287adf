package algo

// Indices of the means over all answers that were drawn for an update.
const (
	answerReward = iota
	answerPrompt // number of tokens of the prompt
	answerLength // number of tokens of the answer
	answerTruncated
	answerRight
	answerUnparsable
	groupSame // groups whose rewards are all equal
	numAnswerMeans
)

// The elements of metricSums.extra for texts: first the means over answers, then the loss that is minimised.
const (
	scaledLoss  = 2 * numAnswerMeans
	numTextSums = scaledLoss + 1
)

// addAnswers adds a batch of answers to the means. Call it before Resample replaces answers.
func (p *TextPPO) addAnswers(b *TextBatch) {
	for k, s := range b.Texts {
		lo, hi := b.tokens(k)
		p.answers.add(answerReward, float64(b.Reward[k]), 1)
		p.answers.add(answerPrompt, float64(len(s.IDs)-(hi-lo)), 1)
		p.answers.add(answerLength, float64(hi-lo), 1)
		p.answers.add(answerTruncated, one(!b.Ended[k]), 1)
		if b.Right != nil {
			p.answers.add(answerRight, one(b.Right[k]), 1)
			p.answers.add(answerUnparsable, one(b.Unparsable[k]), 1)
		}
		if k%p.size == 0 {
			p.answers.add(groupSame, one(!differ(b.Reward[k:k+p.size])), 1)
		}
	}
}

func one(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// metrics makes the metrics of an update from its reduced sums. It leaves out metrics that have no meaning with the
// present options.
func (p *TextPPO) metrics(iteration int) Metrics {
	m := Metrics{Names: make([]string, 0, 32), Values: make([]float64, 0, 32)} // room for all metrics
	s, answers := p.sums, means(p.sums.extra[:scaledLoss])
	lr, _ := p.train.adam.LR(iteration)
	m.add("actor/policy_loss", quotient(s.extra[scaledLoss], float64(p.tried)))
	m.add("actor/entropy_loss", s.mean(entropy))
	m.add("actor/max_log_ratio", s.max(logRatioMax))
	m.add("actor/lr", lr)
	m.add("actor/grad_norm", p.train.meanNorm())
	m.add("actor/optimizer_steps", float64(p.taken))
	m.add("rollout/rewards", answers.mean(answerReward))
	m.add("rollout/advantages_mean", s.mean(advantageMean))
	m.add("rollout/advantages_max", s.max(advantageMax))
	m.add("rollout/advantages_min", s.min(advantageMin))
	m.add("rollout/prompt_length", answers.mean(answerPrompt))
	m.add("rollout/response_length", answers.mean(answerLength))
	m.add("rollout/truncated", answers.mean(answerTruncated))
	m.add("rollout/uninformative_groups", answers.mean(groupSame))
	m.add("rollout/response_tokens", answers.sum(answerLength))
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
	if answers.count(answerRight) > 0 {
		m.add("rollout/accuracy", answers.mean(answerRight))
		m.add("rollout/unparsable", answers.mean(answerUnparsable))
	}
	return m
}
