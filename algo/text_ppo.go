package algo

import (
	"fmt"
	"math"

	"github.com/rlinf/rlinf/tensor"
)

// TextPPO trains a language model on answers that got rewards. A token of an answer is to it what a
// step of an environment is to PPO, and an answer is an episode. Its details in the order of
// execution, with the functions that environments use, too:
//
//	Resample: groups without a difference are replaced, as an option (DAPO)       replaceGroups
//	Prepare: a batch gets advantages
//	 1. log-probs by the policy before the update, as an option                   textPass
//	 2. penalty on leaving the reference policy, in the reward, as an option      klEstimate
//	 3. advantages: GAE with a critic; or the answers of a group are compared     GAE, GRPOAdvantages,
//	    (GRPO, Dr. GRPO, RLOO); or what an answer got counts (REINFORCE++)        Reinforce, …
//	 4. normalised over all replicas, with gae and reinpp                         standardise
//	 5. multiplied by importance weights, as an option                            ImportanceWeights
//	Update: epochs over a prepared batch
//	 6. texts of a replica in a new random order, in minibatches                  permute
//	 7. one denominator for a minibatch, agreed before its first text             plan
//	 8. clipped surrogate, or GSPO's                                              Surrogate, gspo
//	 9. penalty on leaving the reference policy, in the loss, as an option        KLLoss
//	10. entropy bonus; the critic's loss                                          EntropyLoss, ValueLoss
//	11. weights of tokens in the loss                                             Aggregate
//	12. gradients summed over replicas, never averaged                            trainState
//	13. no step where all advantages are 0, or the mean ratio is too large        minibatch
//
// The texts of a micro-batch are packed. Neither its size nor its number of texts changes a bit of
// parameters or metrics, but of a mixture of experts.
//
// Metrics, over all replicas:
//
//   - actor/policy_loss: as it is minimised; mean over the minibatches with a gradient
//   - actor/ratio, actor/ratio_abs, actor/clipped_ratio, actor/dual_cliped_ratio, actor/approx_kl,
//     actor/clip_fraction, actor/entropy_loss, actor/kl_loss: means over tokens; with gspo the first
//     six are over texts
//   - actor/max_log_ratio: the largest |log π - log π_rollout| before the first optimiser step, over
//     the tokens of the first minibatch. It is 0 where rollout and trainer compute the same bits
//   - actor/lr, actor/grad_norm; critic/lr, critic/grad_norm
//   - actor/optimizer_steps: steps taken, without those that were left out
//   - critic/value_loss, critic/value_clip_ratio, critic/explained_variance
//   - rollout/rewards: mean of the texts
//   - rollout/advantages_mean, …_max, …_min: of tokens, before normalisation
//   - rollout/prompt_length, rollout/response_length: tokens, mean of the texts
//   - rollout/response_tokens: of all answers
//   - rollout/truncated: share of answers that were cut off
//   - rollout/uninformative_groups: share of groups whose rewards are all equal
//   - rollout/gen_batches, with max_num_gen_batches > 1: batches of answers made for the update
type TextPPO struct {
	cfg      Config
	text     TextConfig
	optim    OptimConfig
	longest  int // tokens of an answer
	size     int // texts of a group
	seed     uint64
	replicas Replicas
	replica  int

	*textPass
	reference *textPass       // nil: batches bring Ref, or it is not needed
	critic    *criticTraining // nil: none
	train     *trainState
	counters  tensor.Tensor // I64 [2]: iterations done, optimiser steps taken

	estimator  estimator
	normalize  Normalization
	surrogate  Surrogate
	clipRatios Schedule

	episodes episodes
	logRatio []float32
	moments  [3]float64
	kept     []TextBatch // groups, for Resample
	batches  int         // made for this update
	prepared *TextBatch  // by Prepare; nil: none

	order    []int32
	plans    []textPlan // of the minibatches of an epoch
	planSums []float64
	texts    []Sequence // of a minibatch
	index    []int      // of those in the batch
	weights  []float32  // of tokens in the loss
	dlogp    []float32
	dentropy []float32
	tried    int     // minibatches of this update with a gradient
	taken    int     // and with an optimiser step
	begun    bool    // the first minibatch is over
	largest  float64 // |log ratio|
	sums     *metricSums
	report   textReport
}

// A textPlan describes a minibatch to all replicas before its first text is computed.
type textPlan struct {
	tokens, texts float64 // that count, over all replicas
	rows          float64 // tokens with the prompts
	advantages    float64 // Σ |A|
}

const planLen = 4

// NewTextPPO makes the training of a model that has its weights.
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
		return nil, fmt.Errorf("the model has nothing to train")
	}
	s.Config.KLPenaltyType, s.Text.ReinppKLPenaltyType = klName(s.Config.KLPenaltyType),
		klName(s.Text.ReinppKLPenaltyType)
	common := Setup{Config: s.Config, Iterations: s.Iterations, Replicas: s.Replicas, Alloc: s.Alloc,
		GroupSize: s.GroupSize}
	common.setDefaults()
	temperature := float32(s.Sampling.Temperature)
	p := &TextPPO{
		cfg: s.Config, text: s.Text, optim: s.Optim, longest: s.Sampling.MaxTokens, size: max(s.GroupSize, 1),
		seed: s.Seed, replicas: common.Replicas, counters: tensor.New(tensor.I64, 2),
		textPass: newTextPass(s.Model, s.MicroBatch, s.Threads, temperature),
		plans:    make([]textPlan, s.Text.NMinibatches), planSums: make([]float64, planLen*s.Text.NMinibatches),
	}
	p.entropy = []float32{}
	if s.Reference != nil {
		p.reference = newTextPass(s.Reference, s.MicroBatch, s.Threads, temperature)
	}
	var err error
	if p.train, err = common.newTrainState(s.Model.Params, s.Optim); err != nil {
		return nil, err
	}
	if s.Critic != nil {
		if p.critic, err = s.newCriticTraining(&common); err != nil {
			return nil, err
		}
	}
	if s.Config.LossType == lossPolicyGradient {
		p.surrogate.Kind = PolicyGradient
	}
	p.clipRatios = Schedule{Kind: s.Config.ClipRatioSchedule, Total: p.train.adam.sched.Total}
	p.estimator, p.normalize = s.recipe(newGroups(common))
	count, replica := common.Replicas.Count()
	p.replica, p.sums = replica, newMetricSums(count, numTextSums+count)
	p.report = newTextReport(p)
	return p, nil
}

// Close ends the threads.
func (p *TextPPO) Close() {
	p.textPass.Close()
	if p.reference != nil {
		p.reference.Close()
	}
	if p.critic != nil {
		p.critic.work.SetThreads(1)
	}
}

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

// LogProbs appends to dst the log-probabilities of the tokens with Learn by the policy as it is.
func (p *TextPPO) LogProbs(dst []float32, texts []Sequence) ([]float32, error) {
	return p.logProbs(dst, texts)
}

// Resample keeps groups of batch, the n-th of this update from 0 on, and reports whether it needs
// another, the same on every replica. Groups with a difference of later batches take the places of
// groups without one. batch becomes what it has kept. With max_num_gen_batches 1 it does nothing.
func (p *TextPPO) Resample(n int, batch *TextBatch) (more bool, err error) {
	p.batches = n + 1
	most := p.cfg.MaxNumGenBatches
	if most <= 1 {
		return false, nil
	}
	if err := batch.check(p.size); err != nil {
		return false, fmt.Errorf("dynamic sampling: %w", err)
	}
	groups := len(batch.Texts) / p.size
	if n == 0 {
		p.kept = make([]TextBatch, groups)
		for g := range p.kept {
			p.kept[g] = batch.part(g*p.size, (g+1)*p.size)
		}
	} else {
		replaceGroups(len(p.kept), groups, func(g int) bool { return differ(p.kept[g].Reward) },
			func(g int) bool { return differ(batch.Reward[g*p.size : (g+1)*p.size]) },
			func(to, from int) { p.kept[to] = batch.part(from*p.size, (from+1)*p.size) })
	}
	*batch = JoinTexts(p.kept...)
	lacking := []float64{0}
	for _, g := range p.kept {
		if !differ(g.Reward) {
			lacking[0]++
		}
	}
	if err := p.replicas.Sum(lacking); err != nil {
		return false, fmt.Errorf("dynamic sampling: groups without a difference: %w", err)
	}
	return lacking[0] > 0 && n+1 < most, nil
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
	if err := b.check(p.size); err != nil {
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
func (p *TextPPO) logProbsOf(b *TextBatch) (err error) {
	b.Old = append(b.Old[:0], b.LogProb...)
	if p.cfg.RecomputeLogprobs {
		if b.Recomputed == nil {
			if b.Recomputed, err = p.logProbs(nil, b.Texts); err != nil {
				return err
			}
		}
		copy(b.Old, b.Recomputed)
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

// Update trains on the batch of the last Prepare. After an error the parameters are as the last
// good step left them.
func (p *TextPPO) Update(b *TextBatch) (Metrics, error) {
	if b != p.prepared {
		return Metrics{}, fmt.Errorf("texts: the batch was not prepared")
	}
	p.prepared = nil
	p.train.meanNorm() // of an update that failed
	iteration := int(p.counters.I64()[0])
	p.tried, p.taken, p.begun, p.largest = 0, 0, false, 0
	for epoch := range p.cfg.UpdateEpoch {
		more, err := p.epoch(b, iteration, epoch)
		if err != nil {
			return Metrics{}, fmt.Errorf("texts: epoch %d: %w", epoch, err)
		}
		if !more {
			break
		}
	}
	p.sums.extra[numTextSums+p.replica] = p.largest
	if err := p.replicas.Sum(p.sums.sums); err != nil {
		return Metrics{}, fmt.Errorf("texts: metrics: %w", err)
	}
	p.counters.I64()[0]++
	return p.report.metrics(p, iteration), nil
}

// epoch goes over all minibatches. It reports whether training goes on.
func (p *TextPPO) epoch(b *TextBatch, iteration, epoch int) (more bool, err error) {
	if cap(p.order) < len(b.Texts) {
		p.order = make([]int32, len(b.Texts))
	}
	p.order = p.order[:len(b.Texts)]
	permute(p.order, p.cfg.ShuffleRollout, p.seed, p.replica, iteration, epoch)
	if err := p.plan(b); err != nil {
		return false, err
	}
	for m := range p.plans {
		if more, err := p.minibatch(b, iteration, m); err != nil || !more {
			if err != nil {
				err = fmt.Errorf("minibatch %d: %w", m, err)
			}
			return false, err
		}
	}
	return true, nil
}

// plan agrees with the other replicas on the denominators of the minibatches, by one reduction, and
// weighs the tokens.
func (p *TextPPO) plan(b *TextBatch) error {
	CountSamples(p.episodes.steps, p.episodes.of, b.Weight) // from here on, steps are those that count
	clear(p.planSums)
	per := len(p.order) / len(p.plans)
	for i, k := range p.order {
		s := p.planSums[planLen*(i/per):]
		tokens := p.episodes.steps[k]
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
	if err := p.replicas.Sum(p.planSums); err != nil {
		return err
	}
	for m := range p.plans {
		s := p.planSums[planLen*m:]
		p.plans[m] = textPlan{tokens: s[0], texts: s[1], rows: s[2], advantages: s[3]}
	}
	how := p.cfg.LossAggFunc
	if how == SeqMeanTokenSumNorm {
		how = SeqMeanTokenSum // plan.scale divides
	}
	p.weights = append(p.weights[:0], b.Weight...)
	for i, k := range p.order {
		lo, hi := b.tokens(int(k))
		plan := &p.plans[i/per]
		Aggregate(p.weights[lo:hi], p.episodes.of[lo:hi], p.episodes.steps, how, plan.tokens, plan.texts)
	}
	return nil
}

// minibatch makes one optimiser step on minibatch m, or none. It reports whether training goes on.
func (p *TextPPO) minibatch(b *TextBatch, iteration, m int) (more bool, err error) {
	plan := &p.plans[m]
	if plan.tokens == 0 || plan.advantages == 0 && p.critic == nil && p.cfg.KLBeta == 0 && p.cfg.EntropyBonus == 0 {
		return true, nil
	}
	per := len(p.order) / len(p.plans)
	p.texts, p.index = p.texts[:0], p.index[:0]
	for _, k := range p.order[m*per : (m+1)*per] {
		if p.episodes.steps[k] > 0 {
			p.texts, p.index = append(p.texts, b.Texts[k]), append(p.index, int(k))
		}
	}
	warming := p.critic != nil && p.counters.I64()[1] < int64(p.optim.CriticWarmupSteps)
	p.train.open()
	if p.critic != nil {
		p.critic.train.open()
	}
	ratios := []float64{0, 0}
	err = p.each(p.texts, func(lo, hi int) error {
		return p.loss(b, plan, p.clip(iteration), p.index[lo:hi], ratios)
	})
	if err != nil {
		return false, err
	}
	p.begun, p.tried = true, p.tried+1
	p.model.FinishGradients(p.work)
	if p.critic != nil {
		p.critic.Model.FinishGradients(p.critic.work)
	}
	if most := float64(p.text.EarlyStopImpRatio); most > 0 {
		if err := p.replicas.Sum(ratios); err != nil {
			return false, err
		}
		if ratios[0] > most*ratios[1] {
			return false, p.drop()
		}
	}
	return true, p.step(iteration, warming)
}

// drop ends the gradients without a step.
func (p *TextPPO) drop() error {
	if p.critic != nil {
		if err := p.critic.train.drop(); err != nil {
			return err
		}
	}
	return p.train.drop()
}

// step moves the parameters; while the critic warms up, its own alone.
func (p *TextPPO) step(iteration int, warming bool) error {
	if p.critic != nil {
		if err := p.critic.train.step(iteration); err != nil {
			return fmt.Errorf("critic: %w", err)
		}
	}
	p.counters.I64()[1]++
	if warming {
		return p.train.drop()
	}
	p.taken++
	return p.train.step(iteration)
}

// clip returns the bounds of the surrogate in an iteration.
func (p *TextPPO) clip(iteration int) Clip {
	return Clip{
		Low:    float32(p.clipRatios.At(iteration, float64(p.cfg.ClipRatioLow), 0)),
		High:   float32(p.clipRatios.At(iteration, float64(p.cfg.ClipRatioHigh), 0)),
		Dual:   p.cfg.ClipRatioC,
		LogMin: p.cfg.ClipLogRatioMin, LogMax: p.cfg.ClipLogRatioMax,
	}
}

// loss adds the gradient of the texts of a micro-batch, whose share of the loss is
//
//	L = surrogate + kl_beta·KL - entropy_bonus·H
//
// Each text is a call of each loss, so that sums do not depend on the micro-batch.
func (p *TextPPO) loss(b *TextBatch, plan *textPlan, clip Clip, index []int, ratios []float64) error {
	p.surrogate.Clip = clip
	n := len(p.targets)
	p.dlogp, p.dentropy = sized(p.dlogp, n), sized(p.dentropy, n)
	if p.critic != nil {
		if err := p.critic.forward(p.batch, p.targets); err != nil {
			return err
		}
	}
	perToken := float32(1 / plan.tokens)
	if p.cfg.LossAggFunc == SeqMeanTokenSumNorm {
		perToken = float32(1 / (plan.tokens * float64(p.longest)))
	}
	at := 0
	for _, k := range index {
		lo, hi := b.tokens(k)
		end := at + hi - lo
		logp, dlogp, weight := p.logp[at:end], p.dlogp[at:end], p.weights[lo:hi]
		if !p.begun {
			p.compare(logp, b.LogProb[lo:hi])
		}
		x := Samples{LogProb: logp, Old: b.Old[lo:hi], Adv: b.Adv[lo:hi], Weight: weight}
		var s SurrogateSums
		if p.cfg.LossType == lossGSPO {
			s = gspo(&p.surrogate, dlogp, x, float32(1/plan.texts))
		} else {
			s = p.surrogate.Loss(dlogp, x, perToken)
		}
		p.sums.addSurrogate(&s)
		p.sums.extra[scaledLoss] += s.Scaled
		ratios[0], ratios[1] = ratios[0]+s.Ratio, ratios[1]+s.Count
		if b.Ref != nil && p.cfg.KLBeta > 0 {
			kl, count := KLLoss(dlogp, logp, b.Ref[lo:hi], hi-lo, weight, p.cfg.KLPenaltyType, p.cfg.KLBeta*perToken)
			p.sums.add(klLoss, kl, count)
		}
		h, count := EntropyLoss(p.dentropy[at:end], p.entropy[at:end], hi-lo, weight, p.cfg.EntropyBonus*perToken)
		p.sums.add(entropy, h, count)
		if c := p.critic; c != nil {
			v := ValueLoss(c.slopes[at:end], c.values[at:end], b.Value[lo:hi], b.Ret[lo:hi], weight, p.cfg.ValueClip,
				p.cfg.HuberDelta, p.cfg.ValueLossCoef*perToken)
			p.sums.addValues(&v)
		}
		at = end
	}
	var dentropy []float32
	if p.cfg.EntropyBonus > 0 {
		dentropy = p.dentropy
	}
	share := float64(len(p.batch.IDs)) / plan.rows
	p.model.Backward(p.work, p.dlogp, dentropy, p.targets, p.temperature, float32(share))
	if p.critic != nil {
		p.critic.backward(p.targets)
	}
	return nil
}

// compare notes the largest |log ratio| of some tokens.
func (p *TextPPO) compare(logp, drawn []float32) {
	for i, x := range logp {
		p.largest = max(p.largest, math.Abs(float64(x)-float64(drawn[i])))
	}
}

// gspo is the surrogate with one ratio for a text (GSPO, Zheng et al. 2025, arXiv:2507.18071):
//
//	s = exp(mean_t (log π_t - old_t)),    L = max(-A s, -A clip(s, 1-low, 1+high))
//
// x are the tokens of the text, which all have its advantage. The gradient flows through s.
func gspo(o *Surrogate, dLogProb []float32, x Samples, scale float32) SurrogateSums {
	mean := func(of []float32) []float32 {
		var sum float64
		for _, v := range of {
			sum += float64(v)
		}
		return []float32{float32(sum / float64(len(of)))}
	}
	slope := []float32{0}
	s := o.Loss(slope, Samples{LogProb: mean(x.LogProb), Old: mean(x.Old), Adv: x.Adv[:1]}, scale)
	for i := range dLogProb {
		dLogProb[i] = slope[0] / float32(len(dLogProb))
	}
	return s
}

// Save returns views of the optimisers' state, the counters and the critic, which are the same on
// all replicas.
func (p *TextPPO) Save() tensor.Dict {
	var d tensor.Dict
	d.Set("counters", p.counters)
	p.train.save(&d, "actor", false)
	if p.critic != nil {
		p.critic.train.save(&d, "critic", true)
	}
	return d
}

// Load puts back what Save returned.
func (p *TextPPO) Load(d tensor.Dict) error {
	if err := restore(p.Save(), d); err != nil {
		return fmt.Errorf("texts: %w", err)
	}
	return nil
}
