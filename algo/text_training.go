package algo

import (
	"fmt"
	"math"

	"github.com/rlinf/rlinf/tensor"
)

// A textTraining is what the policy and the critic of answers do alike, together in a TextPPO or apart:
// advantages of a batch, minibatches, weights of tokens and sums of metrics.
type textTraining struct {
	cfg       Config
	text      TextConfig
	longest   int // tokens of an answer
	size      int // texts of a group
	seed      uint64
	replicas  Replicas
	replica   int
	estimator estimator
	counters  tensor.Tensor // I64 [2]: iterations done, optimiser steps taken
	sums      *metricSums

	episodes episodes
	prepared *TextBatch // nil: none
	order    []int32
	plans    []textPlan // of the minibatches of an epoch
	planSums []float64
	texts    []Sequence // of a minibatch
	index    []int      // of those in the batch
	before   int        // texts of the update before the minibatch
	weights  []float32  // of tokens in the loss
}

// common returns the part of the setup that training in environments has, too.
func (s *TextSetup) common() *Setup {
	c := &Setup{Config: s.Config, Iterations: s.Iterations, Replicas: s.Replicas, Alloc: s.Alloc,
		GroupSize: s.GroupSize}
	c.setDefaults()
	return c
}

// newTraining makes one with so many sums of its own, and one for each replica. It also returns how
// advantages are normalised.
func (s *TextSetup) newTraining(common *Setup, sums int) (textTraining, Normalization) {
	count, replica := common.Replicas.Count()
	estimator, normalize := s.recipe(newGroups(*common))
	t := textTraining{cfg: s.Config, text: s.Text, longest: s.Sampling.MaxTokens, size: max(s.GroupSize, 1),
		seed: s.Seed, replicas: common.Replicas, replica: replica, estimator: estimator,
		counters: tensor.New(tensor.I64, 2), sums: newMetricSums(count, sums+count),
		plans: make([]textPlan, s.Text.NMinibatches), planSums: make([]float64, planLen*s.Text.NMinibatches)}
	t.cfg.KLPenaltyType, t.text.ReinppKLPenaltyType = klName(s.Config.KLPenaltyType), klName(s.Text.ReinppKLPenaltyType)
	return t, normalize
}

// valued reports whether advantages are made by a critic, here or elsewhere.
func (t *textTraining) valued() bool { return t.cfg.LossType == "actor_critic" }

// iteration returns how many are done.
func (t *textTraining) iteration() int { return int(t.counters.I64()[0]) }

// check reports what is wrong with a batch before it is prepared.
func (t *textTraining) check(b *TextBatch, recompute bool) error {
	t.prepared = nil
	if err := b.check(t.size, recompute); err != nil {
		return err
	}
	if len(b.Texts)%t.text.NMinibatches != 0 {
		return fmt.Errorf("%d texts on a replica: expected a multiple of n_minibatches, %d", len(b.Texts),
			t.text.NMinibatches)
	}
	return nil
}

// describe tells the texts as episodes, and as a trajectory of one environment: the reward comes with
// the last token, after which nothing follows. With a critic the batch has its values.
func (t *textTraining) describe(b *TextBatch) *experience {
	n := int(b.starts[len(b.Texts)])
	b.Adv, b.Ret, b.Weight = sized(b.Adv, n), sized(b.Ret, n), sized(b.Weight, n)
	tr := &Trajectory{T: n, N: 1, Reward: make([]float32, n), Value: make([]float32, n), Next: make([]float32, n),
		Terminated: make([]uint8, n), Truncated: make([]uint8, n)}
	e := &t.episodes
	e.of, e.score, e.steps = e.of[:0], e.score[:0], e.steps[:0]
	for k := range b.Texts {
		lo, hi := b.tokens(k)
		weight := float32(1)
		if t.text.MaskTruncated && !b.Ended[k] {
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
	if t.valued() {
		tr.Value = b.Value
		for i := range tr.Next {
			if tr.Terminated[i] == 0 {
				tr.Next[i] = b.Value[i+1]
			}
		}
	}
	return &experience{Trajectory: tr, Weight: b.Weight, Episodes: e}
}

// addFits adds the returns of a batch, and how far the critic was off, before normalisation.
func (t *textTraining) addFits(b *TextBatch) {
	for i, x := range b.Adv {
		if !idle(b.Weight, i) {
			t.sums.addFit(float64(b.Ret[i]), float64(x))
		}
	}
}

// take begins an update on b, which must be the batch of the last Prepare.
func (t *textTraining) take(b *TextBatch) error {
	if b != t.prepared {
		return fmt.Errorf("texts: the batch was not prepared")
	}
	t.prepared = nil
	return nil
}

// minibatches calls f for each minibatch with tokens that count, of every epoch, until it reports that
// training does not go on. t.texts and t.index are those of the minibatch.
func (t *textTraining) minibatches(b *TextBatch, f func(*textPlan) (more bool, err error)) error {
	for epoch := range t.cfg.UpdateEpoch {
		if cap(t.order) < len(b.Texts) {
			t.order = make([]int32, len(b.Texts))
		}
		t.order = t.order[:len(b.Texts)]
		permute(t.order, t.cfg.ShuffleRollout, t.seed, t.replica, t.iteration(), epoch)
		if err := t.plan(b); err != nil {
			return fmt.Errorf("texts: epoch %d: %w", epoch, err)
		}
		for m := range t.plans {
			if t.plans[m].tokens == 0 {
				continue
			}
			t.choose(b, m)
			t.before = epoch*len(t.order) + m*(len(t.order)/len(t.plans))
			if more, err := f(&t.plans[m]); err != nil {
				return fmt.Errorf("texts: epoch %d: minibatch %d: %w", epoch, m, err)
			} else if !more {
				return nil
			}
		}
	}
	return nil
}

// choose sets the texts of minibatch m.
func (t *textTraining) choose(b *TextBatch, m int) {
	per := len(t.order) / len(t.plans)
	t.texts, t.index = t.texts[:0], t.index[:0]
	for _, k := range t.order[m*per : (m+1)*per] {
		if t.episodes.steps[k] > 0 {
			t.texts, t.index = append(t.texts, b.Texts[k]), append(t.index, int(k))
		}
	}
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
func (t *textTraining) plan(b *TextBatch) error {
	CountSamples(t.episodes.steps, t.episodes.of, b.Weight) // from here on, steps are those that count
	clear(t.planSums)
	per := len(t.order) / len(t.plans)
	for i, k := range t.order {
		s := t.planSums[planLen*(i/per):]
		tokens := t.episodes.steps[k]
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
	if err := t.replicas.Sum(t.planSums); err != nil {
		return err
	}
	for m := range t.plans {
		s := t.planSums[planLen*m:]
		t.plans[m] = textPlan{tokens: s[0], texts: s[1], rows: s[2], advantages: s[3]}
	}
	how := t.cfg.LossAggFunc
	if how == SeqMeanTokenSumNorm {
		how = SeqMeanTokenSum // perToken divides
	}
	t.weights = append(t.weights[:0], b.Weight...)
	for i, k := range t.order {
		lo, hi := b.tokens(int(k))
		plan := &t.plans[i/per]
		Aggregate(t.weights[lo:hi], t.episodes.of[lo:hi], t.episodes.steps, how, plan.tokens, plan.texts)
	}
	return nil
}

// perToken returns what a token of weight 1 counts in the loss of a minibatch.
func (t *textTraining) perToken(plan *textPlan) float32 {
	if t.cfg.LossAggFunc == SeqMeanTokenSumNorm {
		return float32(1 / (plan.tokens * float64(t.longest)))
	}
	return float32(1 / plan.tokens)
}

// sumMetrics sums the metrics over the replicas, at the end of an update.
func (t *textTraining) sumMetrics() error {
	if err := t.replicas.Sum(t.sums.sums); err != nil {
		return fmt.Errorf("texts: metrics: %w", err)
	}
	t.counters.I64()[0]++
	return nil
}
