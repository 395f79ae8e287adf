package algo

import (
	"fmt"

	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/tensor"
)

// PPO is proximal policy optimisation, Schulman et al. 2017, arXiv:1707.06347. The following list has the
// implementation details (Huang et al. 2022, "The 37 implementation details of PPO") in the order of execution, with
// the code that implements them. The details of the network, such as orthogonal initialisation, are in package policy.
//
//	Prepare: a rollout gets advantages and returns
//	 1. rewards divided by the deviation of the discounted return, and clipped    rewardScale
//	 2. advantages by GAE, bootstrapped where an episode was cut off              GAE
//	 3. advantages normalised over the rollouts of all replicas                   standardise
//	Update: epochs over a prepared rollout
//	 4. annealed rates and clip ratios                                            Schedule
//	 5. advantages computed again before each later epoch, as an option           recomputation
//	 6. every sample once per epoch, in a new random order                        permute
//	    sequences in place of samples, for a policy with a hidden state           sequences
//	 7. end of the update when approx_kl exceeds target_kl, as an option          plan
//	 8. the gradient of a minibatch as a sum over micro-batches                   minibatch
//	loss
//	 9. new log-probs, entropies and values; approx_kl and clip_fraction          Surrogate
//	10. advantages normalised over the minibatch of all replicas, as an option    plan, loss
//	11. ratio clipped to [1-ε⁻, 1+ε⁺]; dual clip and clamps of the log ratio      Surrogate
//	12. clip around a newer policy than the policy that acted, as an option       proximal
//	13. penalty on the divergence from the reference policy, as an option         KLLoss
//	14. value clip, Huber loss, weight of the critic                              ValueLoss
//	15. entropy bonus                                                             EntropyLoss
//	step
//	16. gradients summed over replicas, clipped by the norm of the whole model    trainState
//	17. Adam, its eps, decoupled weight decay                                     Adam
//	at the end of Update
//	18. running statistics of observations, frozen until then                     addObservations
//	19. explained variance, and the other metrics                                 metrics
//
// GRPO and REINFORCE++ differ in 2 and 3 (NewGRPO, NewReinforce). A2C (loss_type a2c) takes one step per rollout along
// the policy gradient. loss_type decoupled_actor_critic is for rollouts of older policies (Decoupled).
//
// Metrics, over all replicas:
//
//   - actor/policy_loss, actor/policy_loss_abs
//   - actor/ratio, actor/ratio_abs (|ρ-1|), actor/clipped_ratio, actor/dual_cliped_ratio
//   - actor/approx_kl: mean of (ρ-1) - log ρ; actor/clip_fraction: share outside the clip range
//   - actor/entropy_loss: mean entropy; actor/kl_loss: KL from the reference policy, unweighted
//   - actor/lr, critic/lr, actor/grad_norm (before clipping), actor/update_epochs (epochs made)
//   - critic/value_loss, critic/value_clip_ratio, critic/explained_variance
//   - rollout/rewards: as received; rollout/advantages_* (before normalisation), rollout/returns_*
//
// With the decoupled loss, the metrics of the ratio, the clipped ratio and the KL divergence are called
// actor/proximal_ratio, actor/clipped_proximal_ratio and actor/proximal_approx_kl. The decoupled loss also has the
// metrics actor/behav_approx_kl, actor/average_version, actor/current_version, and actor/behav_clip_fraction, the share
// of samples above behave_weight_threshold.
type PPO struct {
	name       string // in errors
	cfg        Config
	optim      OptimConfig
	seed       uint64
	batchSizes // of minibatches
	replicas   Replicas
	replica    int // index of this replica
	alloc      tensor.Allocator
	progress   Progress

	policy   policy.Policy
	work     policy.Work
	train    *trainState
	counters tensor.Tensor // I64 [2]: iterations done, optimiser steps taken

	surrogate  Surrogate
	critic     bool // whether the critic learns
	advantages *advantages
	sequences  *sequences       // nil if samples are single steps
	reference  *reference       // nil without a reference policy
	proximal   *proximal        // nil if the clip is around the policy that took the actions
	recompute  *recomputation   // nil if advantages are computed once per update
	obsStats   ObservationStats // nil if the policy does not normalise observations

	order    []int32     // order of the samples in an epoch
	plans    []batchPlan // of the minibatches of an epoch
	planSums []float64   // reduced at the start of an epoch: KL and its count, then three sums for each minibatch
	batch    *minibatch  // made for the first rollout
	grad     policy.Grad // of the loss with respect to the results of Evaluate, [micro, ...]
	sums     *metricSums
	epochs   int
	report   Metrics // of the last update
}

// A batchPlan has the statistics that the loss of a minibatch needs, over all replicas.
type batchPlan struct {
	count      float64 // samples that count, over all replicas
	shift, inv float32 // the normalised advantages are (a - shift)·inv
}

var _ Algorithm = (*PPO)(nil)

// Prepare adds advantages and returns to the rollout. If rollouts have a mask, or if the algorithm needs episodes, it
// also adds the weights of samples. See Algorithm.
func (p *PPO) Prepare(rollout *tensor.Dict) error {
	a := p.advantages
	tr, mask, err := a.trajectory(*rollout)
	if err != nil {
		return fmt.Errorf("%s: rollout: %w", p.name, err)
	}
	p.train.transfer((*nn.Params[float32]).Upload)
	p.sums.reset()
	raw := tr.Reward
	if a.rewards != nil {
		if err := a.rewards.learn(tr, mask, p.replicas); err != nil {
			return fmt.Errorf("%s: return statistics: %w", p.name, err)
		}
		a.rewards.scale(a.scaled, tr.Reward)
		tr.Reward = a.scaled
	}
	x := &experience{Trajectory: tr, Weight: a.weigh(tr, mask), Episodes: a.episodes}
	if p.reference != nil {
		if p.counters.I64()[0] == 0 {
			p.reference.take()
		}
		if err := p.reference.evaluate(rollout); err != nil {
			return fmt.Errorf("%s: reference policy: %w", p.name, err)
		}
		x.LogRatio = a.perAction(p.reference.logRatio)
	}
	if p.proximal != nil {
		versions, err := p.proximal.prepare(p.policy, rollout, int(p.counters.I64()[0]))
		if err != nil {
			return fmt.Errorf("%s: proximal policy: %w", p.name, err)
		}
		p.sums.add(versionMean, versions, float64(a.samples()))
	}
	if err := a.estimate(x); err != nil {
		return fmt.Errorf("%s: rollout: %w", p.name, err)
	}
	if a.episodes != nil {
		if err := a.episodes.spread(x.Weight, a.aggregate, p.replicas); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	if !p.sums.addRollout(raw, a.adv.F32(), a.ret.F32(), x.Weight, p.replica) {
		return fmt.Errorf("%s: %w", p.name, notFiniteIn(tr, raw))
	}
	if err := a.standardise(x.Weight); err != nil {
		return fmt.Errorf("%s: advantage statistics: %w", p.name, err)
	}
	a.addTo(rollout, x.Weight)
	return nil
}

// Update trains on a prepared rollout; see Algorithm. If it returns an error, the parameters and the
// optimiser keep the state after the last successful step.
func (p *PPO) Update(rollout tensor.Dict) (Metrics, error) {
	if err := p.begin(rollout); err != nil {
		return Metrics{}, fmt.Errorf("%s: rollout: %w", p.name, err)
	}
	p.train.transfer((*nn.Params[float32]).Upload)
	defer p.train.transfer((*nn.Params[float32]).Download)
	iteration := int(p.counters.I64()[0])
	p.surrogate.Clip = p.cfg.clip(iteration, p.train.adam.sched.Total)
	for p.epochs = 0; p.epochs < p.cfg.UpdateEpoch; p.epochs++ {
		if p.recompute != nil && p.epochs > 0 {
			if err := p.recompute.recomputeAdvantages(rollout); err != nil {
				return Metrics{}, fmt.Errorf("%s: epoch %d: advantages: %w", p.name, p.epochs, err)
			}
		}
		p.sequences.permute(p.order, p.micro, p.cfg.ShuffleRollout, p.seed, p.replica, iteration, p.epochs)
		stop, err := p.plan(rollout)
		if err != nil {
			return Metrics{}, fmt.Errorf("%s: epoch %d: %w", p.name, p.epochs, err)
		}
		if stop {
			break
		}
		for m := range p.plans {
			if err := p.minibatch(iteration, m); err != nil {
				return Metrics{}, fmt.Errorf("%s: epoch %d: minibatch %d: %w", p.name, p.epochs, m, err)
			}
		}
	}
	if p.obsStats != nil {
		if err := addObservations(p.sums.extra, p.obsStats, rollout, p.batch, p.order); err != nil {
			return Metrics{}, fmt.Errorf("%s: observation statistics: %w", p.name, err)
		}
	}
	if err := p.replicas.Sum(p.sums.sums); err != nil {
		return Metrics{}, fmt.Errorf("%s: metrics: %w", p.name, err)
	}
	if p.obsStats != nil {
		p.obsStats.MergeStats(p.sums.extra)
	}
	p.counters.I64()[0]++
	return p.metrics(iteration), nil
}

// plan fills p.plans for an epoch, with at most one reduction over the replicas. It reports whether the last epoch
// moved the policy too far; see Config.TargetKL.
func (p *PPO) plan(rollout tensor.Dict) (stop bool, err error) {
	units := p.advantages.units
	weighted := p.batch.weight != nil // not all samples count
	byMinibatch := p.advantages.normalize == NormalizeMinibatch
	checkKL := p.cfg.TargetKL > 0 && p.epochs > 0
	for m := range p.plans {
		p.plans[m] = batchPlan{count: float64(p.global * units), inv: 1}
	}
	if !weighted && !byMinibatch && !checkKL {
		return false, nil
	}
	adv, of := rollout.Must(FieldAdvantage).F32(), p.planSums[2:]
	clear(of)
	if weighted || byMinibatch {
		var weight []float32
		if weighted {
			weight = rollout.Must("weight").F32()
		}
		for i, k := range p.order {
			s := of[3*(i/p.local):]
			for u := int(k) * units; u < (int(k)+1)*units; u++ {
				if idle(weight, u) {
					continue
				}
				a := float64(adv[u])
				s[0]++
				s[1] += a
				s[2] += a * a
			}
		}
	}
	if err := p.replicas.Sum(p.planSums); err != nil {
		return false, err
	}
	if checkKL && p.planSums[0] > float64(p.cfg.TargetKL)*p.planSums[1] {
		return true, nil
	}
	p.planSums[0], p.planSums[1] = 0, 0
	for m := range p.plans {
		if s := of[3*m:]; weighted || byMinibatch {
			p.plans[m].count = s[0]
			if byMinibatch {
				p.plans[m].shift, p.plans[m].inv = standard(s[0], s[1], s[2])
			}
		}
	}
	return false, nil
}

// minibatch makes one optimiser step on minibatch m. It adds up the gradients of the micro-batches.
func (p *PPO) minibatch(iteration, m int) error {
	p.train.open()
	micros := p.local / p.micro
	done, total := (p.epochs*len(p.plans)+m)*micros, p.cfg.UpdateEpoch*len(p.plans)*micros
	for lo := 0; lo < p.local; lo += p.micro {
		p.progress.Report(workUpdate, done, total)
		done++
		p.batch.gather(p.order[m*p.local+lo : m*p.local+lo+p.micro])
		grad, err := p.loss(iteration, &p.plans[m])
		if err != nil {
			return err
		}
		if err := p.policy.Backward(p.work, grad, p.train.readyAt(lo+p.micro == p.local)); err != nil {
			return err
		}
	}
	err := p.step(iteration)
	p.progress.Report(workUpdate, done, total)
	return err
}

// loss evaluates the gathered micro-batch, and returns the gradient of its share of the loss. The loss is a mean over
// all replicas:
//
//	L = surrogate + kl_beta·KL + value_loss_coef·value loss - entropy_bonus·H
func (p *PPO) loss(iteration int, plan *batchPlan) (grad policy.Grad, err error) {
	b := p.batch
	eval, err := p.policy.Evaluate(p.work, b.input, b.action)
	if err != nil {
		return grad, err
	}
	if len(eval.LogProb.F32()) != len(b.logProb) {
		return grad, fmt.Errorf("the policy gives log-probs %v, the rollout has %d per sample", eval.LogProb,
			len(b.logProb)/p.micro)
	}
	for i := range b.adv {
		b.adv[i] = (b.adv[i] - plan.shift) * plan.inv
	}
	var perUnit float32 // weight of one advantage in the mean over all replicas
	if plan.count > 0 {
		perUnit = float32(1 / plan.count)
	}
	perLogProb := perUnit / float32(len(b.logProb)/len(b.adv))

	x := Samples{LogProb: eval.LogProb.F32(), Old: b.logProb, Adv: b.adv, Weight: b.weight}
	if p.proximal != nil {
		x.Prox = p.proximal.logProbs(b, x.LogProb)
	}
	s := p.surrogate.Loss(p.grad.LogProb.F32(), x, perLogProb)
	p.sums.addSurrogate(&s)
	p.planSums[0] += s.KL
	p.planSums[1] += s.Count
	if p.reference != nil {
		kl, n := KLLoss(p.grad.LogProb.F32(), x.LogProb, b.refLogProb, len(b.adv), b.weight, p.cfg.KLPenaltyType,
			p.cfg.KLBeta*perLogProb)
		p.sums.add(klLoss, kl, n)
	}

	if p.critic {
		if eval.Value.IsZero() {
			return grad, fmt.Errorf("loss_type %s needs values, and this policy has no critic "+
				"(actor.model.add_value_head)", p.cfg.LossType)
		}
		v := ValueLoss(p.grad.Value.F32(), eval.Value.F32(), b.value, b.ret, b.weight, p.cfg.ValueClip,
			p.cfg.HuberDelta, p.cfg.ValueLossCoef*perUnit)
		p.sums.addValues(&v)
		grad.Value = p.grad.Value
	}

	coarser := float32(1) // number of log-probs per entropy
	if p.cfg.EntropyType != "" {
		coarser = float32(len(b.logProb)/p.micro) / float32(levels(p.cfg.EntropyType, b.action))
	}
	entropies, n := EntropyLoss(p.grad.Entropy.F32(), eval.Entropy.F32(), len(b.adv), b.weight,
		p.cfg.EntropyBonus*coarser*perLogProb)
	p.sums.add(entropy, entropies*float64(coarser), n)

	if !p.warmsUp() {
		grad.LogProb = p.grad.LogProb
		if p.cfg.EntropyBonus > 0 {
			grad.Entropy = p.grad.Entropy
		}
	}
	return grad, nil
}

// warmsUp reports whether the critic is in its warm-up, in which only the critic learns.
func (p *PPO) warmsUp() bool { return p.counters.I64()[1] < int64(p.optim.CriticWarmupSteps) }

// step sums the gradient over the replicas and makes an optimiser step. In the critic's warm-up it updates only the
// critic. At the end of the warm-up it resets the optimiser's moments.
func (p *PPO) step(iteration int) error {
	if p.train.only = ""; p.warmsUp() {
		p.train.only = "critic"
	}
	if err := p.train.step(iteration); err != nil {
		return err
	}
	taken := p.counters.I64()
	if taken[1]++; taken[1] == int64(p.optim.CriticWarmupSteps) {
		p.train.adam.Reset()
	}
	return nil
}
