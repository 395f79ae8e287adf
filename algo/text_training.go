package algo

import (
	"errors"
	"fmt"
	"iter"
	"math"

	"github.com/rlinf/rlinf/tensor"
)

// A textTraining is what TextPPO and TextCriticPPO have in common: it computes the advantages of a batch, divides it
// into minibatches, weighs tokens, and sums metrics.
type textTraining struct {
	cfg       Config
	text      TextConfig
	longest   int // largest number of tokens in an answer
	size      int // number of texts in a group
	seed      uint64
	replicas  Replicas
	replica   int
	estimator estimator
	normalize Normalization // of advantages
	counters  tensor.Tensor // I64 [2]: iterations done, optimiser steps taken
	sums      *metricSums

	prepared *TextBatch // batch of the last Prepare; nil after Update
	episodes episodes
	order    []int32         // order of the texts in an epoch
	plans    []textMinibatch // the minibatches of the epoch
	planSums []float64       // the sums in plans, in one slice for one reduction
	weights  []float32       // weights of tokens in the loss
}

// A textMinibatch is a minibatch of texts. A token counts if its weight is not 0. The minibatch leaves out texts in
// which no token counts.
type textMinibatch struct {
	epoch, number int
	first         int        // number of texts in the earlier minibatches of the update, on this replica
	texts         []Sequence // the texts on this replica
	index         []int      // index of each of these texts in the batch
	perToken      float32    // scale of the loss of a token of weight 1

	// The following are sums over all replicas.
	tokens     float64 // number of tokens that count
	answers    float64 // number of texts
	rows       float64 // number of all tokens of the texts, prompts included
	advantages float64 // Σ |A| over the tokens that count
}

// common returns a Setup with the values of s, for functions that need a Setup. Zero values are replaced by defaults.
func (s *TextSetup) common() *Setup {
	c := &Setup{Config: s.Config, Iterations: s.Iterations, Replicas: s.Replicas, Alloc: s.Alloc,
		GroupSize: s.GroupSize, Witness: s.Witness}
	c.setDefaults()
	return c
}

func (s *TextSetup) newTraining(common *Setup) *textTraining {
	count, replica := common.Replicas.Count()
	t := &textTraining{cfg: s.Config, text: s.Text, longest: s.Sampling.MaxTokens, size: max(s.GroupSize, 1),
		seed: s.Seed, replicas: common.Replicas, replica: replica, counters: tensor.New(tensor.I64, 2),
		sums: newMetricSums(count, numTextSums), plans: make([]textMinibatch, s.Text.NMinibatches)}
	t.cfg.KLPenaltyType, t.text.ReinppKLPenaltyType = klName(s.Config.KLPenaltyType), klName(s.Text.ReinppKLPenaltyType)
	t.estimator, t.normalize = s.recipe(newGroups(*common))
	return t
}

// recipe returns the estimator of advantages and their Normalization.
func (s *TextSetup) recipe(g groups) (estimator, Normalization) {
	c := &s.Config
	switch {
	case c.AdvType == "gae":
		return generalised(c.Gamma, c.GAELambda), c.NormalizeAdvantages
	case c.AdvType == "reinpp":
		return reinforce(g, c.UseReinppBaseline, float64(c.ReinppKLBeta)), NormalizeBatch
	case c.AdvType == "rloo":
		return groupRelative(g, RLOOAdvantages), NormalizeNone
	case s.Text.NormByStd:
		return groupRelative(g, GRPOAdvantages), NormalizeNone
	}
	return groupRelative(g, DrGRPOAdvantages), NormalizeNone
}

// TextKeys declares the keys of training on texts; see Keys. s needs only the configuration.
func TextKeys(s *Setup, text *TextConfig, k *Keys) {
	c := &s.Config
	k.ReadOptim("actor.optim", &s.Optim, &s.CriticOptim)
	k.Read("adv_type", "loss_type", "update_epoch", "shuffle_rollout", "n_minibatches", "mask_truncated",
		"loss_agg_func", "kl_beta", "entropy_bonus", "recompute_logprobs", "importance_sampling_fix",
		"max_num_gen_batches")
	// TextSetup.Check reports these keys as mistakes.
	k.Read("normalize_rewards", "recompute_advantages", "target_kl", "sequence_length", "bootstrap_type")
	valued := c.LossType == "actor_critic"
	if valued {
		gaeKeys(s, k)
		k.ReadOptim("actor.critic_optim", &s.CriticOptim)
	} else {
		groupKeys(s, k)
	}
	k.ReadIf(c.AdvType == "grpo", "adv_type grpo", "norm_adv_by_std_in_grpo")
	k.ReadIf(c.AdvType == "reinpp", "adv_type reinpp", "use_reinpp_baseline", "reinpp_kl_beta")
	k.ReadIf(c.ReinppKLBeta > 0, "reinpp_kl_beta > 0", "reinpp_kl_penalty_type")
	k.ReadIf(c.KLBeta > 0, "kl_beta > 0", "kl_penalty_type")
	k.ReadIf(text.ImportanceSamplingFix, "importance_sampling_fix", "importance_sampling_clip")
	c.clipKeys(k)
	k.ReadIf(c.surrogate().Kind != PolicyGradient, clipsRatio, "ratio_clip_eps", "early_stop_imp_ratio")
	k.ReadIf(valued, learnsCritic, "value_clip", "huber_delta", "value_loss_coef", "actor.optim.value_lr",
		"actor.critic_optim.value_lr", "actor.optim.critic_warmup_steps")
}

// valued reports whether the estimator needs a critic's values. The critic may be one that is trained separately.
func (t *textTraining) valued() bool { return t.cfg.LossType == "actor_critic" }

// iteration returns the number of iterations done.
func (t *textTraining) iteration() int { return int(t.counters.I64()[0]) }

// check validates a batch before it is prepared.
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

// estimate fills the advantages, returns and weights of a batch, and adds their sums to the metrics. To the estimator,
// each text is an episode, and all texts together are the trajectory of one environment. The last token of a text gets
// the reward and ends the episode. With a critic, the batch must have the critic's values. The estimator gets logRatio
// as experience.LogRatio.
func (t *textTraining) estimate(b *TextBatch, logRatio []float32) error {
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
	x := &experience{Trajectory: tr, Weight: b.Weight, LogRatio: logRatio, Episodes: e}
	if err := t.estimator(b.Adv, b.Ret, x); err != nil {
		return err
	}
	t.sums.reset()
	if !t.sums.addRollout(tr.Reward, b.Adv, b.Ret, b.Weight, t.replica) {
		return errors.New("advantages are not finite, though the rewards of this replica are")
	}
	return nil
}

// take begins an update on b, which must be the batch of the last Prepare.
func (t *textTraining) take(b *TextBatch) error {
	if b != t.prepared {
		return fmt.Errorf("texts: the batch was not prepared")
	}
	t.prepared = nil
	return nil
}

// minibatches yields the minibatches of every epoch. It skips minibatches in which no token counts. After an error it
// yields nothing more.
func (t *textTraining) minibatches(b *TextBatch) iter.Seq2[*textMinibatch, error] {
	return func(yield func(*textMinibatch, error) bool) {
		t.order = sized(t.order, len(b.Texts))
		for epoch := range t.cfg.UpdateEpoch {
			permute(t.order, t.cfg.ShuffleRollout, t.seed, t.replica, t.iteration(), epoch)
			if err := t.plan(b, epoch); err != nil {
				yield(nil, fmt.Errorf("texts: epoch %d: %w", epoch, err))
				return
			}
			for i := range t.plans {
				if m := &t.plans[i]; m.tokens > 0 && !yield(m, nil) {
					return
				}
			}
		}
	}
}

// plan divides the texts of an epoch into minibatches, and sets the weights of the tokens. One reduction over the
// replicas computes the sums of all minibatches.
func (t *textTraining) plan(b *TextBatch, epoch int) error {
	CountSamples(t.episodes.steps, t.episodes.of, b.Weight) // episodes.steps becomes the number of tokens that count
	per := len(t.order) / len(t.plans)
	t.planSums = t.planSums[:0]
	for i := range t.plans {
		m := &t.plans[i]
		*m = textMinibatch{epoch: epoch, number: i, first: epoch*len(t.order) + i*per, texts: m.texts[:0],
			index: m.index[:0]}
		for _, k := range t.order[i*per : (i+1)*per] {
			if t.episodes.steps[k] > 0 {
				m.add(b, int(k), t.episodes.steps[k])
			}
		}
		t.planSums = append(t.planSums, m.tokens, m.answers, m.rows, m.advantages)
	}
	if err := t.replicas.Sum(t.planSums); err != nil {
		return err
	}
	t.weights = append(t.weights[:0], b.Weight...)
	for i := range t.plans {
		m, sums := &t.plans[i], t.planSums[4*i:]
		m.tokens, m.answers, m.rows, m.advantages = sums[0], sums[1], sums[2], sums[3]
		how, denominator := t.cfg.LossAggFunc, m.tokens
		if how == SeqMeanTokenSumNorm {
			how, denominator = SeqMeanTokenSum, m.tokens*float64(t.longest)
		}
		m.perToken = float32(1 / denominator)
		for _, k := range m.index {
			lo, hi := b.tokens(k)
			Aggregate(t.weights[lo:hi], t.episodes.of[lo:hi], t.episodes.steps, how, m.tokens, m.answers)
		}
	}
	return nil
}

// add adds text k of b to the minibatch. tokens is the number of this text's tokens that count.
func (m *textMinibatch) add(b *TextBatch, k, tokens int) {
	m.texts, m.index = append(m.texts, b.Texts[k]), append(m.index, k)
	m.tokens += float64(tokens)
	m.answers++
	m.rows += float64(len(b.Texts[k].IDs))
	for i, hi := b.tokens(k); i < hi; i++ {
		if b.Weight[i] != 0 {
			m.advantages += math.Abs(float64(b.Adv[i]))
		}
	}
}

// failed returns err with the epoch and number of the minibatch.
func (m *textMinibatch) failed(err error) error {
	return fmt.Errorf("texts: epoch %d: minibatch %d: %w", m.epoch, m.number, err)
}

// sumMetrics sums the metrics over the replicas, at the end of an update.
func (t *textTraining) sumMetrics() error {
	if err := t.replicas.Sum(t.sums.sums); err != nil {
		return fmt.Errorf("texts: metrics: %w", err)
	}
	t.counters.I64()[0]++
	return nil
}
