package algo

import (
	"fmt"
	"math"
	"slices"
)

// Sums of texts, in metricSums.extra. The largest log ratio of each replica follows them.
const (
	scaledLoss = numAnswerSums + iota // loss as it is minimised
	numTextSums
)

// Sums of all answers drawn for an update.
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

// addBatch adds the sums of a batch with its advantages.
func (p *TextPPO) addBatch(b *TextBatch) error {
	lowest, highest := math.Inf(1), math.Inf(-1)
	var count, total float64
	for i, a := range b.Adv {
		if idle(b.Weight, i) {
			continue
		}
		x := float64(a)
		count++
		total += x
		lowest, highest = min(lowest, x), max(highest, x)
	}
	if p.critic != nil {
		p.addFits(b)
	}
	if math.IsNaN(total) || math.IsInf(total, 0) {
		return fmt.Errorf("advantages are not finite, though the rewards of this replica are")
	}
	p.sums.add(advantageMean, total, count)
	p.sums.setMax(advantageMax, p.replica, highest)
	p.sums.setMax(advantageMin, p.replica, -lowest)
	return nil
}

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

// A textReport names the metrics that the options of a TextPPO give a meaning.
type textReport struct {
	names  []string
	graded []string // and of answers that are known to be right or wrong
}

func newTextReport(p *TextPPO) (r textReport) {
	r.names = []string{"actor/policy_loss", "actor/entropy_loss", "actor/max_log_ratio", "actor/lr", "actor/grad_norm",
		"actor/optimizer_steps", "rollout/rewards", "rollout/advantages_mean", "rollout/advantages_max",
		"rollout/advantages_min", "rollout/prompt_length", "rollout/response_length", "rollout/truncated",
		"rollout/uninformative_groups", "rollout/response_tokens"}
	if p.surrogate.Kind != PolicyGradient {
		r.names = append(r.names, clipMetrics...)
	}
	if p.cfg.KLBeta > 0 {
		r.names = append(r.names, "actor/kl_loss")
	}
	if p.critic != nil {
		r.names = append(r.names, textCriticMetrics...)
	}
	if p.cfg.MaxNumGenBatches > 1 {
		r.names = append(r.names, "rollout/gen_batches")
	}
	r.graded = append(slices.Clone(r.names), "rollout/accuracy", "rollout/unparsable")
	return r
}

// metrics reads the reduced sums of an update.
func (r *textReport) metrics(p *TextPPO, iteration int) Metrics {
	s, t := p.sums, p.sums.extra
	texts := t[textCount]
	lr, _ := p.train.adam.LR(iteration)
	most := 0.0
	for _, x := range t[numTextSums:] {
		most = max(most, x)
	}
	v := []float64{t[scaledLoss] / float64(p.tried), s.mean(entropy), most, lr, p.train.meanNorm(), float64(p.taken),
		t[textRewards] / texts, s.mean(advantageMean), s.max(advantageMax), -s.max(advantageMin),
		t[textPrompts] / texts, t[textResponses] / texts, t[textTruncated] / texts, t[groupSame] / t[groupCount],
		t[textResponses]}
	if p.surrogate.Kind != PolicyGradient {
		for _, i := range []int{ratio, ratioAbs, clippedRatio, dualClippedRatio, approxKL, clipFraction} {
			v = append(v, s.mean(i))
		}
	}
	if p.cfg.KLBeta > 0 {
		v = append(v, s.mean(klLoss))
	}
	if c := p.critic; c != nil {
		v = append(v, c.metrics(s, iteration)...)
	}
	if p.cfg.MaxNumGenBatches > 1 {
		v = append(v, float64(p.batches))
	}
	if graded := t[textGraded]; graded > 0 {
		return Metrics{Names: r.graded, Values: append(v, t[textRight]/graded, t[textUnparsable]/graded)}
	}
	return Metrics{Names: r.names, Values: v}
}
