package algo

import (
	"errors"
	"fmt"
	"math"

	"github.com/rlinf/rlinf/policy/lm"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/tensor"
)

// TextPPO trains a language model on answers with rewards. A token of an answer corresponds to a step of an
// environment, and an answer to an episode. The following list has the details of TextPPO in the order of execution,
// with the code that implements them. Training in environments uses most of this code, too.
//
//	Resample: groups with equal rewards are replaced, as an option (DAPO)         replaceGroups
//	Prepare: a batch gets advantages
//	 1. log-probs by the policy before the update, as an option                   Infer
//	 2. penalty on KL from the reference policy, in the reward, as an option      klEstimate
//	 3. advantages: GAE with a critic; or the answers of a group are compared     GAE, GRPOAdvantages,
//	    (GRPO, Dr. GRPO, RLOO); or the reward of each answer (REINFORCE++)        Reinforce, …
//	 4. normalised over all replicas, with gae and reinpp                         standardise
//	 5. multiplied by importance weights, as an option                            ImportanceWeights
//	Update: epochs over a prepared batch
//	 6. texts of a replica in a new random order, in minibatches                  permute
//	 7. denominators of the mean losses, summed over replicas                     plan
//	 8. clipped surrogate, or GSPO's                                              Surrogate, gspo
//	 9. penalty on KL from the reference policy, in the loss, as an option        KLLoss
//	10. entropy bonus; the critic's loss                                          EntropyLoss, ValueLoss
//	11. weights of tokens in the loss                                             Aggregate
//	12. gradients summed over replicas, never averaged                            trainState
//	13. no step if all advantages are 0, or if the mean ratio is too large        minibatch
//
// The texts of a micro-batch are packed. Parameters and metrics do not depend on the size of a micro-batch or on its
// number of texts, bit for bit, except with a mixture of experts.
//
// Metrics, over all replicas:
//
//   - actor/policy_loss: the loss that is minimised; mean over the minibatches with a gradient
//   - actor/ratio, actor/ratio_abs, actor/clipped_ratio, actor/dual_cliped_ratio, actor/approx_kl,
//     actor/clip_fraction, actor/entropy_loss, actor/kl_loss: means over tokens; with gspo the first
//     six are over texts
//   - actor/max_log_ratio: the largest |log π - log π_rollout| before the first optimiser step, over
//     the tokens of the first minibatch. It is 0 if rollout and trainer compute the same bits
//   - actor/lr, actor/grad_norm; critic/lr, critic/grad_norm
//   - actor/optimizer_steps: number of the policy's optimiser steps
//   - critic/value_loss, critic/value_clip_ratio, critic/explained_variance
//   - rollout/advantages_mean, …_max, …_min: of tokens, before normalisation
//   - rollout/gen_batches, with max_num_gen_batches > 1: batches of answers made for the update
//
// The metrics below are of all answers, including those that Resample has replaced:
//
//   - rollout/rewards: mean of the texts
//   - rollout/accuracy, rollout/unparsable: shares of right answers, and of answers that cannot be
//     parsed, for batches with Right
//   - rollout/prompt_length, rollout/response_length: tokens, mean of the texts
//   - rollout/response_tokens: of all answers
//   - rollout/truncated: share of answers that were cut off
//   - rollout/uninformative_groups: share of groups whose rewards are all equal
type TextPPO struct {
	*textTraining
	optim    OptimConfig
	progress Progress

	policy    *textPass
	reference *TextLogProbs  // nil if batches have Ref or do not need it
	train     *trainState    // of the policy
	critic    *TextCriticPPO // nil without a critic, and if the critic is trained separately

	surrogate Surrogate
	logRatio  []float32
	moments   [3]float64

	kept    []TextBatch // the groups that Resample has chosen so far
	batches int         // number of batches made for this update
	answers means       // means over the answers in these batches

	tried                int     // number of minibatches of this update with a gradient
	taken                int     // number of minibatches of this update with a step of the policy
	ratioSum, ratioCount float64 // sum and number of the ratios in a minibatch
	largest              float64 // largest |log ratio| in the first minibatch with a gradient

	batch *TextBatch // the batch of the present update
	now   *textMinibatch
	loss  func(first, last int, o *lm.Outputs) // setLoss; set once, because each method value allocates
}

// NewTextPPO makes a TextPPO for s.Model, whose weights must be set.
func NewTextPPO(s TextSetup) (*TextPPO, error) {
	p, err := composeTextPPO(&s)
	if err != nil {
		return nil, fmt.Errorf("texts: %w", err)
	}
	return p, nil
}

func composeTextPPO(s *TextSetup) (*TextPPO, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	if len(s.Model.Params.Data) == 0 {
		return nil, errors.New("the model has nothing to train")
	}
	common := s.common()
	p := &TextPPO{textTraining: s.newTraining(common), optim: s.Optim, progress: s.Progress,
		policy: newTextPass(s.Model, s.Model.NewRecomputing(s.MicroBatch.Tokens, s.Recompute), s.MicroBatch, s.Threads,
			s.Mesh, lm.Head{Temperature: float32(s.Sampling.Temperature)}),
		surrogate: s.Config.surrogate(), answers: make(means, 2*numAnswerMeans)}
	p.loss = p.setLoss
	if s.Reference != nil {
		p.reference = NewTextLogProbs(s.Reference, s.MicroBatch, s.Threads, s.Mesh, s.Sampling.Temperature)
	}
	var err error
	if p.train, err = common.newTextTrainState(s.Model, p.policy.work, s.Optim); err != nil {
		return nil, err
	}
	if s.Critic != nil {
		p.critic, err = s.newCritic(common, p.textTraining)
	}
	return p, err
}

// Resample replaces groups whose rewards are all equal by groups of later batches whose rewards differ. Resample sets
// batch to the groups chosen so far. n is the number of earlier batches of this update. Resample reports whether
// another batch is needed; all replicas report the same. With max_num_gen_batches 1, Resample does nothing.
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

// Infer fills Recomputed and Ref, if the configuration needs them and the batch lacks them. Prepare calls Infer. To
// save time, call it earlier, while other answers are generated.
func (p *TextPPO) Infer(b *TextBatch) (err error) {
	if p.cfg.RecomputeLogprobs && b.Recomputed == nil {
		p.train.upload()
		if b.Recomputed, err = p.policy.Append(nil, b.Texts); err != nil {
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
	b.Ref, err = p.reference.Append(nil, b.Texts)
	return err
}

// Prepare computes the advantages of a batch. It can sum statistics over all replicas.
func (p *TextPPO) Prepare(b *TextBatch) error {
	b.show(p.train.witness, PhaseAnswers)
	if err := p.prepare(b); err != nil {
		return fmt.Errorf("texts: %w", err)
	}
	b.show(p.train.witness, PhaseAdvantages)
	p.prepared = b
	return nil
}

func (p *TextPPO) prepare(b *TextBatch) error {
	if err := p.check(b, p.cfg.RecomputeLogprobs); err != nil {
		return err
	}
	if err := p.prepareInputs(b); err != nil {
		return err
	}
	if err := p.estimate(b, p.logRatios(b)); err != nil {
		return err
	}
	if p.cfg.MaxNumGenBatches <= 1 { // otherwise Resample has added the answers
		clear(p.answers)
		p.addAnswers(b)
	}
	copy(p.sums.extra, p.answers)
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

// prepareInputs fills the inputs of advantages: Old, and also Ref and Value if they are needed.
func (p *TextPPO) prepareInputs(b *TextBatch) (err error) {
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
	if p.critic != nil {
		b.Value, err = p.critic.Values(b.Value[:0], b.Texts)
	} else if p.valued() && b.Value == nil {
		err = errors.New("the batch has no values: expected those of a critic")
	}
	return err
}

// logRatios returns, for each token, an estimate of the KL divergence from the reference policy. The penalty in the
// reward uses it. logRatios returns nil if there is no penalty.
func (p *TextPPO) logRatios(b *TextBatch) []float32 {
	if p.cfg.ReinppKLBeta == 0 {
		return nil
	}
	p.logRatio = sized(p.logRatio, len(b.Old))
	for i := range p.logRatio {
		kl, _ := klEstimate(p.text.ReinppKLPenaltyType, float64(b.Old[i])-float64(b.Ref[i]))
		p.logRatio[i] = float32(kl)
	}
	return p.logRatio
}

// Update trains on the batch of the last Prepare. If it returns an error, the parameters keep the state after the last
// successful step.
func (p *TextPPO) Update(b *TextBatch) (Metrics, error) {
	if err := p.take(b); err != nil {
		return Metrics{}, err
	}
	p.train.meanNorm() // discard the norms of an update that failed
	p.train.transfer((*nn.Params[float32]).Upload)
	defer p.train.transfer((*nn.Params[float32]).Download)
	if p.critic != nil {
		p.critic.train.transfer((*nn.Params[float32]).Upload)
		defer p.critic.train.transfer((*nn.Params[float32]).Download)
	}
	iteration := p.iteration()
	p.surrogate.Clip = p.cfg.clip(iteration, p.train.adam.sched.Total)
	p.tried, p.taken, p.largest = 0, 0, 0
	for m, err := range p.minibatches(b) {
		if err != nil {
			return Metrics{}, err
		}
		stop, err := p.minibatch(b, m, iteration)
		if err != nil {
			return Metrics{}, m.failed(err)
		}
		if stop {
			break
		}
	}
	p.sums.setMax(logRatioMax, p.replica, p.largest)
	if err := p.sumMetrics(); err != nil {
		return Metrics{}, err
	}
	return p.metrics(iteration), nil
}

// minibatch makes at most one optimiser step. It reports whether the update ends with this minibatch.
func (p *TextPPO) minibatch(b *TextBatch, m *textMinibatch, iteration int) (stop bool, err error) {
	if m.advantages == 0 && !p.valued() && p.cfg.KLBeta == 0 && p.cfg.EntropyBonus == 0 {
		return false, nil
	}
	p.train.params.Clear(p.train.params.Grad)
	if p.critic != nil {
		p.critic.train.params.Clear(p.critic.train.params.Grad)
	}
	p.progress.Report(workUpdate, m.first, p.cfg.UpdateEpoch*len(b.Texts))
	p.ratioSum, p.ratioCount = 0, 0
	p.batch, p.now = b, m
	err = p.policy.train(m.texts, m.rows, p.loss, p.sumEarly())
	if err == nil && p.critic != nil {
		err = p.critic.accumulate(b, m, nil)
	}
	if err != nil {
		return false, err
	}
	p.progress.Report(workUpdate, m.first+len(m.texts), p.cfg.UpdateEpoch*len(b.Texts))
	p.tried++
	p.policy.model.FinishGradients(p.policy.work)
	if most := float64(p.text.EarlyStopImpRatio); most > 0 {
		ratio := []float64{p.ratioSum, p.ratioCount}
		if err := p.replicas.Sum(ratio); err != nil || ratio[0] > most*ratio[1] {
			return true, err
		}
	}
	return false, p.step(iteration)
}

// sumEarly tells whether the sum of the policy's gradient over the replicas can start during the backward pass. If so,
// it begins the sum, and returns the callback for ranges of the gradient that are final. It returns nil if the sum must
// wait for the method step. That is so if the gradient stays on a device, if the critic's gradient is summed first, or
// if early_stop_imp_ratio can skip the step.
func (p *TextPPO) sumEarly() (ready func(lo, hi int)) {
	if ready = p.train.readyAt(!p.valued() && p.text.EarlyStopImpRatio == 0); ready != nil {
		p.train.begin()
	}
	return ready
}

// setLoss sets the derivatives of the loss with respect to the log-probs and entropies of a micro-batch, which has the
// texts [first, last) of the minibatch:
//
//	L = surrogate + kl_beta·KL - entropy_bonus·H
//
// It calls each loss once per text, so that sums do not depend on the micro-batch.
func (p *TextPPO) setLoss(first, last int, o *lm.Outputs) {
	b, m, end := p.batch, p.now, 0
	p.progress.Report(workUpdate, m.first+first, p.cfg.UpdateEpoch*len(b.Texts))
	for _, k := range m.index[first:last] {
		lo, hi := b.tokens(k)
		at := end
		end += hi - lo
		logp, dlogp, weight := o.LogProb[at:end], o.DLogProb[at:end], p.weights[lo:hi]
		if p.tried == 0 {
			for i, drawn := range b.LogProb[lo:hi] {
				p.largest = max(p.largest, math.Abs(float64(logp[i])-float64(drawn)))
			}
		}
		x := Samples{LogProb: logp, Old: b.Old[lo:hi], Adv: b.Adv[lo:hi], Weight: weight}
		var s SurrogateSums
		if p.cfg.LossType == lossGSPO {
			s = gspo(&p.surrogate, dlogp, x, float32(1/m.answers))
		} else {
			s = p.surrogate.Loss(dlogp, x, m.perToken)
		}
		p.sums.addSurrogate(&s)
		p.sums.extra[scaledLoss] += s.Scaled
		p.ratioSum += s.Ratio
		p.ratioCount += s.Count
		if b.Ref != nil && p.cfg.KLBeta > 0 {
			kl, count := KLLoss(dlogp, logp, b.Ref[lo:hi], hi-lo, weight, p.cfg.KLPenaltyType, p.cfg.KLBeta*m.perToken)
			p.sums.add(klLoss, kl, count)
		}
		h, count := EntropyLoss(o.DEntropy[at:end], o.Entropy[at:end], hi-lo, weight, p.cfg.EntropyBonus*m.perToken)
		p.sums.add(entropy, h, count)
	}
}

// gspo is the surrogate with one ratio for a text (GSPO, Zheng et al. 2025, arXiv:2507.18071):
//
//	s = exp(mean_t (log π_t - old_t)),    L = max(-A s, -A clip(s, 1-low, 1+high))
//
// x holds the tokens of the text, with the text's advantage. The tokens of a text count alike, whatever loss_agg_func
// is. The gradient of L passes through s.
func gspo(o *Surrogate, dLogProb []float32, x Samples, scale float32) SurrogateSums {
	logProb, old, slope := []float32{float32(mean(x.LogProb))}, []float32{float32(mean(x.Old))}, []float32{0}
	s := o.Loss(slope, Samples{LogProb: logProb, Old: old, Adv: x.Adv[:1]}, scale)
	for i := range dLogProb {
		dLogProb[i] = slope[0] / float32(len(dLogProb))
	}
	return s
}

// step updates the parameters of the critic and, after the critic's warm-up, of the policy. It sums the two gradients
// one after the other, because Replicas sums one gradient at a time.
func (p *TextPPO) step(iteration int) error {
	warming := p.valued() && p.counters.I64()[1] < int64(p.optim.CriticWarmupSteps)
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
	return p.train.step(iteration)
}

// Close ends the threads.
func (p *TextPPO) Close() {
	p.policy.Close()
	if p.reference != nil {
		p.reference.Close()
	}
	if p.critic != nil {
		p.critic.Close()
	}
}

// Save returns views of the optimisers' state, the counters and the critic, which are the same on all replicas. To
// restore the state, copy saved values into these views.
func (p *TextPPO) Save() tensor.Dict {
	var d tensor.Dict
	d.Set("counters", p.counters)
	p.train.save(&d, "actor", false)
	if p.critic != nil {
		p.critic.train.save(&d, "critic", true)
	}
	return d
}
