package algo

import (
	"fmt"
	"math"
	"strings"

	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/tensor"
)

// PPO is proximal policy optimisation with the clipped surrogate, Schulman et al. 2017,
// arXiv:1707.06347. The details that decide whether it works (Huang et al. 2022, "The 37
// implementation details of PPO") and where they are:
//
//  1. advantages by GAE, bootstrapped where an episode was cut off                      GAE
//  2. rewards logRatio by the deviation of the discounted return, and clipped            rewardScale
//  3. advantages normalised over all replicas, per rollout or per minibatch             Prepare, plan
//  4. every sample once per epoch, in an order drawn anew                               permute
//  5. ratio clipped to [1-ε⁻, 1+ε⁺]; optional dual clip and clamps of the log ratio     PolicyLoss
//     to the policy that took the actions, or as an option to that before the update    proximal
//  6. value clip, Huber loss, weight of the critic                                      ValueLoss
//  7. entropy bonus                                                                     EntropyLoss
//  8. gradients summed over replicas, then clipped by the norm of the whole model       step
//  9. Adam, its eps, decoupled weight decay, annealed rates                             Adam, Schedule
//  10. end of the update when the policy has moved too far                              plan
//  11. observations normalised by running statistics, frozen during rollout and update  addObservations
//  12. advantages computed anew before each further epoch, as an option                 recomputeAdvantages
//  13. sequences in place of single samples, for a recurrent policy                     sequences
//
// GRPO and REINFORCE++ are this with other advantages (see NewGRPO, NewReinforce); A2C, loss_type
// a2c, is one step per rollout along the policy gradient (GradientLoss); loss_type
// decoupled_actor_critic is for rollouts of older policies (DecoupledLoss).
//
// Metrics, over all replicas: actor/policy_loss, actor/policy_loss_abs; actor/ratio,
// actor/ratio_abs (|ρ-1|), actor/clipped_ratio, actor/dual_cliped_ratio; actor/approx_kl = mean of
// (ρ-1) - log ρ; actor/clip_fraction = share of samples outside the clip range; actor/entropy_loss
// = mean entropy; actor/lr, actor/grad_norm (before clipping), actor/update_epochs (fewer than
// update_epoch after an early stop), actor/kl_loss (to the reference policy, before its weight);
// critic/value_loss, critic/value_clip_ratio, critic/explained_variance, critic/lr; rollout/rewards
// (as the environment paid), rollout/gen_batches (rollouts made for this update),
// rollout/advantages_* (before normalisation), rollout/returns_*. With the decoupled loss the
// ratio, clipped ratio and KL are called actor/proximal_ratio, actor/clipped_proximal_ratio and
// actor/proximal_approx_kl; with them come actor/behav_approx_kl, actor/behav_clip_fraction = share
// of samples above behave_weight_threshold, actor/average_version and actor/current_version.
type PPO struct {
	name   string // in errors
	cfg    Config
	optim  OptimConfig
	seed   uint64
	steps  int  // T
	envs   int  // N
	units  int  // advantages of a sample: C with rewards of single actions, else 1
	local  int  // samples of this replica in one minibatch
	micro  int  // samples of one micro-batch
	global int  // samples of all replicas in one minibatch
	critic bool // whether it learns
	clips  bool // the surrogate, not the plain policy gradient

	estimator estimator
	normalize Normalization // of advantages
	episodes  *episodes     // nil: nobody asks
	reference *reference    // nil: nobody asks
	proximal  *proximal     // what the clip holds the policy near; nil: the policy that took the actions
	decoupled bool          // the decoupled loss, which tells the two apart
	klPenalty string        // one of the constants

	groupSize   int
	kept        tensor.Dict // what Resample has kept
	informative []bool      // of each group there: whether its episodes differ
	rollouts    int         // that Resample has seen for this update

	policy   policy.Policy
	params   *nn.Params[float32]
	work     policy.Work
	replicas Replicas
	count    int
	replica  int
	alloc    tensor.Allocator

	adam     *Adam
	ranges   Schedule     // of the clip ratios
	rewards  *rewardScale // nil: rewards as they are
	obsStats ObservationStats
	counters tensor.Tensor // I64 [2]: iterations done, optimiser steps taken

	adv, ret, weight tensor.Tensor // F32 [T,N], what Prepare adds; with units [T·C,N] of actions
	chunks           *chunks       // nil without units
	added            tensor.Dict   // adv, ret and weight as they are added to a rollout: with units [T,N,C]
	scaled           []float32     // normalised rewards
	none             []float32     // values where there is no critic: zeros
	newValues, next  []float32     // values by the present critic, for recomputeAdvantages
	lookWork         policy.Work

	order    []int32
	seqs     *sequences  // nil: samples stand alone
	batch    *minibatch  // made for the first rollout
	grad     policy.Grad // what Backward gets, [micro, ...]
	plans    []batchPlan
	moments  [3]float64
	planSums []float64 // reduced at the start of an epoch: KL and its count, then three sums for each minibatch
	sum      GradientStream
	norm     *gradNorm
	final    func(lo, hi int) // norm's, bound once
	ready    func(lo, hi int)

	sums     *metricSums
	gradNorm float64 // sum over the optimiser steps of this update
	updates  int     // how many those were
	epochs   int
	names    []string
	values   []float64
}

// ObservationStats is a policy that normalises observations by statistics which only an algorithm
// can gather over all replicas.
type ObservationStats interface {
	// StatsLen returns how many sums describe a batch; 0: observations stay as they are.
	StatsLen() int
	// AddStats adds the sums of the rows of obs to sums.
	AddStats(sums []float64, obs tensor.Dict) error
	// MergeStats takes the sums over all replicas into what the policy normalises by from now on.
	MergeStats(sums []float64)
}

// A batchPlan is what all replicas must know of a minibatch before its first sample is evaluated.
type batchPlan struct {
	count      float64 // samples that count, over all replicas
	shift, inv float32 // of its advantages: (a - shift)·inv
}

var _ Algorithm = (*PPO)(nil)

const normEps = 1e-5 // added to the deviation of advantages, as RLinf does

// NewPPO makes PPO, with the critic's loss for loss_type actor_critic and decoupled_actor_critic,
// without for actor; for a2c it makes A2C.
func NewPPO(s Setup) (*PPO, error) {
	name := "ppo"
	if s.Config.LossType == "a2c" {
		name = "a2c"
	}
	return newPPO(name, s, generalised{s.Config.Gamma, s.Config.GAELambda})
}

// newPPO makes what trains on the advantages of an estimator.
func newPPO(name string, s Setup, e estimator) (*PPO, error) {
	if err := s.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	p := &PPO{
		name: name, cfg: s.Config, optim: s.Optim, seed: s.Seed, steps: s.Steps, envs: s.Envs, global: s.GlobalBatch,
		critic: s.Config.LossType != "actor", clips: s.Config.LossType != "a2c",
		estimator: e, normalize: s.Config.NormalizeAdvantages, klPenalty: klName(s.Config.KLPenaltyType),
		groupSize: s.GroupSize,
		policy:    s.Policy, params: s.Policy.Params(), replicas: s.Replicas, alloc: s.Alloc,
		counters: tensor.New(tensor.I64, 2),
	}
	if p.replicas == nil {
		p.replicas = Single{}
	}
	if p.alloc == nil {
		p.alloc = tensor.Heap
	}
	p.count, p.replica = p.replicas.Count()
	if p.units = 1; s.Config.RewardType == ActionLevel {
		p.units = max(s.Chunk, 1)
	}
	n := s.Steps * s.Envs
	if n <= 0 || s.GlobalBatch <= 0 || s.GlobalBatch%p.count != 0 || n%(s.GlobalBatch/p.count) != 0 {
		return nil, fmt.Errorf("%s: global_batch_size %d: want a share of the rollout of %d samples (%d steps × %d "+
			"environments) on %d replicas",
			name, s.GlobalBatch, n*p.count, s.Steps, s.Envs, p.count)
	}
	if !p.clips && s.GlobalBatch != n*p.count {
		return nil, fmt.Errorf("%s: global_batch_size %d: want the whole rollout, %d samples", name, s.GlobalBatch,
			n*p.count)
	}
	p.local = s.GlobalBatch / p.count
	p.micro = s.MicroBatch
	if p.micro == 0 {
		p.micro = p.local
	}
	if p.micro < 0 || p.local%p.micro != 0 {
		return nil, fmt.Errorf("%s: micro_batch_size %d: want a share of the %d samples of a minibatch on each replica",
			name, p.micro, p.local)
	}

	var err error
	if p.seqs, err = newSequences(s.Policy, s.Config.SequenceLength, s.Steps, s.Envs, p.micro); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if p.seqs != nil && p.units > 1 {
		return nil, fmt.Errorf("%s: reward_type %s: want %s: this policy has a hidden state from chunk to chunk", name,
			s.Config.RewardType, ChunkLevel)
	}
	if p.adam, err = NewAdam(p.params, s.Optim, s.Iterations, p.alloc); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	p.ranges = Schedule{Kind: s.Config.ClipRatioSchedule, Total: p.adam.sched.Total}
	if s.Config.NormalizeRewards {
		p.rewards = newRewardScale(s.Config.Gamma, s.Config.RewardClip, s.Envs)
		p.scaled = make([]float32, n*p.units)
	}
	extra := 0
	if o, ok := s.Policy.(ObservationStats); ok && o.StatsLen() > 0 {
		p.obsStats = o
		extra = o.StatsLen()
	}
	p.work = s.Policy.NewWork(p.micro)
	for name, t := range map[string]*tensor.Tensor{"advantage": &p.adv, "return": &p.ret, "weight": &p.weight} {
		*t = tensor.New(tensor.F32, s.Steps*p.units, s.Envs)
		if p.units == 1 {
			p.added.Set(name, *t)
		} else {
			p.added.Set(name, tensor.New(tensor.F32, s.Steps, s.Envs, p.units))
		}
	}
	if p.units > 1 {
		p.chunks = newChunks(s.Steps, s.Envs, p.units)
	}
	if s.Config.AdvType != "gae" || s.Config.LossAggFunc != TokenMean {
		p.episodes = newEpisodes(n * p.units)
	}
	if s.Config.KLBeta > 0 || s.Config.ReinppKLBeta > 0 {
		if p.reference, err = newReference(s.Policy, s.Envs, n*p.units, s.Config.SequenceLength, p.alloc); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		p.reference.given = s.brings("ref_log_prob")
	}
	if p.decoupled = s.Config.LossType == decoupledActorCritic; p.decoupled || s.Config.RecomputeLogprobs {
		p.proximal = newProximal(s.Policy, s.Config.RecomputeLogprobs, s.Steps, s.Envs, s.Config.SequenceLength)
		p.proximal.given = s.brings("prox_log_prob")
	}
	if s.Config.RecomputeAdvantages {
		p.lookWork = s.Policy.NewWork(s.Envs)
		p.newValues, p.next = make([]float32, n*p.units), make([]float32, n)
	}
	p.order = make([]int32, n)
	p.plans = make([]batchPlan, n/p.local)
	p.planSums = make([]float64, 2+3*len(p.plans))
	p.ready = func(lo, hi int) { p.sum.Ready(lo, hi) }
	p.norm = newGradNorm(p.params)
	p.final = p.norm.final
	p.sums = newMetricSums(p.count, extra)
	for _, name := range ppoMetrics {
		if p.gives(name) {
			p.names = append(p.names, p.called(name))
		}
	}
	p.values = make([]float64, len(ppoMetrics))
	return p, nil
}

// check reports everything that is wrong with the two sections of the configuration.
func (s *Setup) check() error {
	var wrong []string
	want := func(section string) Want {
		return func(ok bool, key string, value any, want string) {
			if !ok {
				wrong = append(wrong, fmt.Sprintf("%s.%s: %v: want %s", section, key, value, want))
			}
		}
	}
	s.Config.Check(want("algorithm"))
	s.Optim.Check(want("optim"))
	scheduled := s.Optim.LRScheduler != ScheduleConstant || s.Config.ClipRatioSchedule != ScheduleConstant
	if scheduled && s.Iterations <= 0 && s.Optim.TotalTrainingSteps <= 0 {
		wrong = append(wrong, "optim.total_training_steps: not set: want the iteration at which the schedule ends")
	}
	if wrong != nil {
		return fmt.Errorf("%s", strings.Join(wrong, "; "))
	}
	return nil
}

// Prepare computes advantages and returns, and where samples do not all count the same, their
// weight; see Algorithm.
func (p *PPO) Prepare(rollout *tensor.Dict) error {
	tr, mask, err := p.trajectory(*rollout)
	if err != nil {
		return fmt.Errorf("%s: rollout: %w", p.name, err)
	}
	p.sums.reset()
	raw := tr.Reward
	if p.rewards != nil {
		if err := p.rewards.learn(tr, mask, p.replicas); err != nil {
			return fmt.Errorf("%s: return statistics: %w", p.name, err)
		}
		p.rewards.scale(p.scaled, tr.Reward)
		tr.Reward = p.scaled
	}
	x := &experience{Trajectory: tr, Weight: p.weights(tr, mask), Episodes: p.episodes}
	if p.reference != nil {
		if p.counters.I64()[0] == 0 {
			p.reference.take()
		}
		if err := p.reference.evaluate(rollout); err != nil {
			return fmt.Errorf("%s: reference policy: %w", p.name, err)
		}
		x.LogRatio = p.perAction(p.reference.logRatio)
	}
	if p.proximal != nil {
		versions, err := p.proximal.prepare(p.policy, rollout, int(p.counters.I64()[0]))
		if err != nil {
			return fmt.Errorf("%s: proximal policy: %w", p.name, err)
		}
		p.sums.add(versionMean, versions, float64(p.steps*p.envs))
	}
	if err := p.estimator.estimate(p.adv.F32(), p.ret.F32(), x); err != nil {
		return fmt.Errorf("%s: rollout: %w", p.name, err)
	}
	if p.episodes != nil {
		if err := p.episodes.spread(x.Weight, p.cfg.LossAggFunc, p.replicas); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	if err := p.describe(tr, raw, x.Weight); err != nil {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	if err := p.standardise(x.Weight); err != nil {
		return fmt.Errorf("%s: advantage statistics: %w", p.name, err)
	}
	p.add(rollout, "advantage", p.adv)
	p.add(rollout, "return", p.ret)
	if x.Weight != nil {
		p.add(rollout, "weight", p.weight)
	}
	return nil
}

// add adds what Prepare computed to a rollout.
func (p *PPO) add(rollout *tensor.Dict, name string, t tensor.Tensor) {
	added := p.added.Must(name)
	if p.units > 1 {
		toChunks(added.F32(), t.F32(), p.envs, p.units)
	}
	rollout.Set(name, added)
}

// perAction returns x, [T,N,C], in the order of a trajectory of actions.
func (p *PPO) perAction(x []float32) []float32 {
	if p.units == 1 {
		return x
	}
	y := make([]float32, len(x))
	toActions(y, x, p.envs, p.units)
	return y
}

// weights returns the weight of each sample as the mask has it, and finds the episodes; nil where
// all count the same.
func (p *PPO) weights(tr *Trajectory, mask []uint8) []float32 {
	if p.episodes != nil {
		p.episodes.find(tr, mask)
	}
	if mask == nil && p.episodes == nil {
		return nil
	}
	weight := p.weight.F32()
	for i := range weight {
		weight[i] = 1
		if mask != nil {
			weight[i] = float32(mask[i])
		}
	}
	return weight
}

// standardise normalises the advantages over all replicas, where that is done for the whole
// rollout.
func (p *PPO) standardise(weight []float32) error {
	if p.normalize != NormalizeBatch {
		return nil
	}
	adv, sums := p.adv.F32(), p.moments[:]
	clear(sums)
	for i, a := range adv {
		if !idle(weight, i) {
			sums[0]++
			sums[1] += float64(a)
			sums[2] += float64(a) * float64(a)
		}
	}
	if err := p.replicas.Sum(sums); err != nil {
		return err
	}
	shift, inv := standard(sums[0], sums[1], sums[2])
	for i := range adv {
		adv[i] = (adv[i] - shift) * inv
	}
	return nil
}

// trajectory returns the parts of a rollout that advantages are made of. Values are 0 without a
// critic.
func (p *PPO) trajectory(rollout tensor.Dict) (tr *Trajectory, mask []uint8, err error) {
	if tr, mask, err = p.view(rollout); err == nil {
		tr, mask = p.ofActions(tr, mask)
	}
	return tr, mask, err
}

// view views these parts as they are in the rollout, with units [T,N,C].
func (p *PPO) view(rollout tensor.Dict) (tr *Trajectory, mask []uint8, err error) {
	needs := func(name string, dtype tensor.DType, units int) (t tensor.Tensor) {
		t, ok := rollout.Get(name)
		switch {
		case err != nil:
		case !ok:
			err = fmt.Errorf("no %s", name)
		case t.DType() != dtype || t.Rank() < 2 || t.Dim(0) != p.steps || t.Dim(1) != p.envs ||
			t.Len() != p.steps*p.envs*units:
			shape := []int{p.steps, p.envs}
			if units > 1 {
				shape = append(shape, units)
			}
			err = fmt.Errorf("%s is %v, want %v%v", name, t, dtype, shape)
		}
		if err != nil {
			return tensor.New(dtype, 0)
		}
		return t
	}
	need := func(name string, dtype tensor.DType) tensor.Tensor { return needs(name, dtype, p.units) }
	tr = &Trajectory{
		T: p.steps, N: p.envs, BootstrapAlways: p.cfg.BootstrapType == BootstrapAlways,
		Reward:     need("reward", tensor.F32).F32(),
		Terminated: need("terminated", tensor.U8).U8(),
		Truncated:  need("truncated", tensor.U8).U8(),
	}
	if _, ok := rollout.Get("value"); ok || p.critic {
		tr.Value, tr.Next = need("value", tensor.F32).F32(), needs("next_value", tensor.F32, 1).F32()
	} else {
		if p.none == nil {
			p.none = make([]float32, p.steps*p.envs*p.units)
		}
		tr.Value, tr.Next = p.none, p.none[:p.steps*p.envs]
	}
	if _, ok := rollout.Get("mask"); ok {
		mask = needs("mask", tensor.U8, 1).U8()
	}
	return tr, mask, err
}

// ofActions turns what view has found into a trajectory of actions, where these are the units.
func (p *PPO) ofActions(tr *Trajectory, mask []uint8) (*Trajectory, []uint8) {
	if p.units == 1 {
		return tr, mask
	}
	p.chunks.unroll(tr.Reward, tr.Terminated, tr.Truncated, tr.Value, tr.Next, mask)
	of := p.chunks.Trajectory
	of.BootstrapAlways = tr.BootstrapAlways
	return &of, p.chunks.mask
}

// describe enters what there is to say of a rollout into the sums. A NaN or Inf is an error that
// says where it came from.
func (p *PPO) describe(tr *Trajectory, reward, weight []float32) error {
	adv, ret := p.adv.F32(), p.ret.F32()
	lowest, highest := math.Inf(1), math.Inf(-1)
	lowestRet, highestRet := math.Inf(1), math.Inf(-1)
	var count, advantages, rewards, returns float64
	for i := range adv {
		if idle(weight, i) {
			continue
		}
		a, r := float64(adv[i]), float64(ret[i])
		count++
		advantages += a
		rewards += float64(reward[i])
		returns += r
		lowest, highest = min(lowest, a), max(highest, a)
		lowestRet, highestRet = min(lowestRet, r), max(highestRet, r)
		p.sums.addFit(r, a)
	}
	if s := advantages + returns; math.IsNaN(s) || math.IsInf(s, 0) {
		return notFiniteIn(tr, reward)
	}
	p.sums.add(rewardMean, rewards, count)
	p.sums.add(advantageMean, advantages, count)
	p.sums.add(returnMean, returns, count)
	p.sums.setMax(advantageMax, p.replica, highest)
	p.sums.setMax(advantageMin, p.replica, -lowest)
	p.sums.setMax(returnMax, p.replica, highestRet)
	p.sums.setMax(returnMin, p.replica, -lowestRet)
	return nil
}

// notFiniteIn names the first number of a trajectory that is NaN or Inf.
func notFiniteIn(tr *Trajectory, reward []float32) error {
	for i := range reward {
		for _, in := range []struct {
			name string
			x    float32
		}{{"reward", reward[i]}, {"value", tr.Value[i]}, {"next_value", tr.Next[i]}} {
			if bad(in.x) {
				return fmt.Errorf("rollout: %s is %v at step %d of environment %d of this replica", in.name, in.x,
					i/tr.N, i%tr.N)
			}
		}
	}
	return fmt.Errorf("rollout: advantages are not finite, though the rewards and values of this replica are")
}

// standard returns shift and factor that give n numbers with these sums mean 0 and (unbiased)
// deviation 1.
func standard(n, sum, sq float64) (shift, inv float32) {
	if n < 2 {
		return 0, 1
	}
	mean := sum / n
	return float32(mean), float32(1 / (math.Sqrt(max(sq-n*mean*mean, 0)/(n-1)) + normEps))
}

// recomputeAdvantages computes the advantages of a rollout anew, by the critic as it is now (Andrychowicz et
// al. 2021, arXiv:2006.05990, §3.5). What followed an end is not in the rollout, so its value stays
// that of the critic that saw it.
func (p *PPO) recomputeAdvantages(rollout tensor.Dict) error {
	tr, mask, err := p.view(rollout)
	if err != nil {
		return err
	}
	if err := p.recomputeValues(rollout); err != nil {
		return err
	}
	copy(p.next, tr.Next)
	for i := range len(p.next) - p.envs {
		var ended uint8
		for u := i * p.units; u < (i+1)*p.units; u++ {
			ended |= tr.Terminated[u] | tr.Truncated[u]
		}
		if ended == 0 {
			p.next[i] = p.newValues[(i+p.envs)*p.units]
		}
	}
	tr.Value, tr.Next = p.newValues, p.next
	tr, _ = p.ofActions(tr, mask)
	if p.rewards != nil {
		tr.Reward = p.scaled
	}
	x := &experience{Trajectory: tr}
	if _, ok := rollout.Get("weight"); ok {
		x.Weight = p.weight.F32()
	}
	if err := p.estimator.estimate(p.adv.F32(), p.ret.F32(), x); err != nil {
		return err
	}
	if err := p.standardise(x.Weight); err != nil {
		return err
	}
	p.add(&rollout, "advantage", p.adv)
	p.add(&rollout, "return", p.ret)
	return nil
}

// recomputeValues fills p.newValues with the values of a rollout by the critic as it is now.
func (p *PPO) recomputeValues(rollout tensor.Dict) error {
	again, err := newReplayForward(p.policy, rollout, p.cfg.SequenceLength)
	if err != nil {
		return err
	}
	action := rollout.Must("action")
	for t := range p.steps {
		eval := policy.Eval{}
		if obs := again.at(t); p.seqs == nil {
			eval.Value, err = p.policy.Value(p.lookWork, obs)
		} else {
			eval, err = p.policy.Evaluate(p.lookWork, obs, action.At(t)) // returns the hidden state too
		}
		if err != nil {
			return err
		}
		copy(p.newValues[t*p.envs*p.units:], eval.Value.F32())
		again.keep(eval)
	}
	return nil
}

// Update trains on a prepared rollout; see Algorithm. After an error parameters and optimiser are
// as the last good step left them.
func (p *PPO) Update(rollout tensor.Dict) (Metrics, error) {
	if err := p.begin(rollout); err != nil {
		return Metrics{}, fmt.Errorf("%s: rollout: %w", p.name, err)
	}
	counters := p.counters.I64()
	iteration := int(counters[0])
	for p.epochs < p.cfg.UpdateEpoch {
		if p.cfg.RecomputeAdvantages && p.epochs > 0 {
			if err := p.recomputeAdvantages(rollout); err != nil {
				return Metrics{}, fmt.Errorf("%s: epoch %d: advantages: %w", p.name, p.epochs, err)
			}
		}
		if p.seqs != nil {
			p.seqs.permute(p.order, p.micro, p.cfg.ShuffleRollout, p.seed, p.replica, iteration, p.epochs)
		} else {
			permute(p.order, p.cfg.ShuffleRollout, p.seed, p.replica, iteration, p.epochs)
		}
		stop, err := p.plan(rollout)
		if err != nil {
			return Metrics{}, fmt.Errorf("%s: epoch %d: %w", p.name, p.epochs, err)
		}
		if stop {
			break
		}
		for m := range p.plans {
			if err := p.step(iteration, m); err != nil {
				return Metrics{}, fmt.Errorf("%s: epoch %d: minibatch %d: %w", p.name, p.epochs, m, err)
			}
		}
		p.epochs++
	}
	if p.obsStats != nil {
		if err := p.addObservations(rollout); err != nil {
			return Metrics{}, fmt.Errorf("%s: observation statistics: %w", p.name, err)
		}
	}
	if err := p.replicas.Sum(p.sums.sums); err != nil {
		return Metrics{}, fmt.Errorf("%s: metrics: %w", p.name, err)
	}
	if p.obsStats != nil {
		p.obsStats.MergeStats(p.sums.extra)
	}
	counters[0]++
	return p.metrics(iteration), nil
}

// begin readies the buffers for a rollout.
func (p *PPO) begin(rollout tensor.Dict) error {
	p.gradNorm, p.updates, p.epochs = 0, 0, 0
	p.planSums[0], p.planSums[1] = 0, 0
	if p.batch != nil {
		return p.batch.from(rollout)
	}
	var err error
	if p.batch, err = newMinibatch(p.micro, p.steps, p.envs, p.seqs, rollout, p.alloc); err != nil {
		return err
	}
	logProbs := len(p.batch.logProb) / p.micro
	p.grad.LogProb = tensor.New(tensor.F32, p.micro, logProbs)
	p.grad.Entropy = tensor.New(tensor.F32, p.micro, logProbs)
	if p.critic {
		p.grad.Value = tensor.New(tensor.F32, p.micro, p.units)
	}
	return p.batch.from(rollout)
}

// plan agrees with the other replicas on an epoch, by at most one reduction: whether the last one
// moved the policy too far, how many samples each minibatch has, and how its advantages are
// normalised.
func (p *PPO) plan(rollout tensor.Dict) (stop bool, err error) {
	some := p.batch.weight != nil // not all samples count
	byMinibatch := p.normalize == NormalizeMinibatch
	checkKL := p.cfg.TargetKL > 0 && p.epochs > 0
	for m := range p.plans {
		p.plans[m] = batchPlan{count: float64(p.global * p.units), inv: 1}
	}
	if !some && !byMinibatch && !checkKL {
		return false, nil
	}
	adv, of := rollout.Must("advantage").F32(), p.planSums[2:]
	clear(of)
	if some || byMinibatch {
		var weight []float32
		if some {
			weight = rollout.Must("weight").F32()
		}
		for i, k := range p.order {
			s := of[3*(i/p.local):]
			for u := int(k) * p.units; u < (int(k)+1)*p.units; u++ {
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
		if s := of[3*m:]; some || byMinibatch {
			p.plans[m].count = s[0]
			if byMinibatch {
				p.plans[m].shift, p.plans[m].inv = standard(s[0], s[1], s[2])
			}
		}
	}
	return false, nil
}

// step is one optimiser step on minibatch m: the gradient in micro-batches, its sum over the
// replicas, its norm, Adam.
func (p *PPO) step(iteration, m int) error {
	taken := p.counters.I64()
	warmup := taken[1] < int64(p.optim.CriticWarmupSteps)
	clear(p.params.Grad)
	p.sum = p.replicas.Gradient(p.params.Grad)
	for lo := 0; lo < p.local; lo += p.micro {
		p.batch.gather(p.order[m*p.local+lo : m*p.local+lo+p.micro])
		if err := p.accumulate(iteration, &p.plans[m], warmup, lo+p.micro == p.local); err != nil {
			return err
		}
	}
	p.norm.begin()
	if err := p.sum.Wait(p.final); err != nil {
		return fmt.Errorf("sum gradients: %w", err)
	}
	norm, err := p.norm.value()
	if err != nil {
		return err
	}
	p.adam.Step(iteration, clipScale(norm, float64(p.optim.ClipGrad)))
	p.gradNorm += norm
	p.updates++
	if taken[1]++; taken[1] == int64(p.optim.CriticWarmupSteps) {
		p.adam.Reset()
	}
	return nil
}

// accumulate adds the gradient of the gathered micro-batch. last says that the gradient is final as
// the backward pass leaves it.
func (p *PPO) accumulate(iteration int, plan *batchPlan, warmup, last bool) error {
	b := p.batch
	eval, err := p.policy.Evaluate(p.work, b.input, b.action)
	if err != nil {
		return err
	}
	if len(eval.LogProb.F32()) != len(b.logProb) {
		return fmt.Errorf("the policy gives log-probs %v, the rollout has %d per sample", eval.LogProb,
			len(b.logProb)/p.micro)
	}
	for i := range b.adv {
		b.adv[i] = (b.adv[i] - plan.shift) * plan.inv
	}
	var perUnit float32 // weight of an advantage in the mean over all replicas
	if plan.count > 0 {
		perUnit = float32(1 / plan.count)
	}
	perLogProb := perUnit / float32(len(b.logProb)/len(b.adv))

	grad := policy.Grad{}
	var s PolicySums
	if p.decoupled {
		d := DecoupledLoss(p.grad.LogProb.F32(), eval.LogProb.F32(), b.logProb,
			p.proximal.logProbs(b, eval.LogProb.F32()), b.adv, b.weight,
			p.clip(iteration), p.cfg.BehaveWeightThreshold, perLogProb)
		s = d.PolicySums
		p.sums.add(behaveKL, d.BehaveKL, d.Count)
		p.sums.add(behaveClipped, d.BehaveClipped, d.Count)
	} else if p.clips {
		old := b.logProb
		if p.proximal != nil {
			old = b.proxLogProb
		}
		s = PolicyLoss(p.grad.LogProb.F32(), eval.LogProb.F32(), old, b.adv, b.weight, p.clip(iteration), perLogProb)
	} else {
		s = GradientLoss(p.grad.LogProb.F32(), eval.LogProb.F32(), b.adv, b.weight, perLogProb)
	}
	if p.reference != nil {
		kl, n := KLLoss(p.grad.LogProb.F32(), eval.LogProb.F32(), b.refLogProb, len(b.adv), b.weight, p.klPenalty,
			p.cfg.KLBeta*perLogProb)
		p.sums.add(klLoss, kl, n)
	}
	coarser := float32(1) // log-probs in a sum of entropies
	if p.cfg.EntropyType != "" {
		coarser = float32(len(b.logProb)/p.micro) / float32(levels(p.cfg.EntropyType, b.action))
	}
	entropies, n := EntropyLoss(p.grad.Entropy.F32(), eval.Entropy.F32(), len(b.adv), b.weight,
		p.cfg.EntropyBonus*coarser*perLogProb)
	if !warmup {
		grad.LogProb = p.grad.LogProb
		if p.cfg.EntropyBonus > 0 {
			grad.Entropy = p.grad.Entropy
		}
	}
	if p.critic {
		if eval.Value.IsZero() {
			return fmt.Errorf("loss_type %s needs values, and this policy has no critic (actor.model.add_value_head)",
				p.cfg.LossType)
		}
		v := ValueLoss(p.grad.Value.F32(), eval.Value.F32(), b.value, b.ret, b.weight, p.cfg.ValueClip,
			p.cfg.HuberDelta,
			p.cfg.ValueLossCoef*perUnit)
		grad.Value = p.grad.Value
		p.sums.add(valueLoss, v.Loss, v.Count)
		p.sums.add(valueClipRatio, v.Clipped, v.Count)
	}
	p.sums.add(policyLoss, s.Loss, s.Count)
	p.sums.add(policyLossAbs, s.LossAbs, s.Count)
	p.sums.add(ratio, s.Ratio, s.Count)
	p.sums.add(ratioAbs, s.RatioAbs, s.Count)
	p.sums.add(clippedRatio, s.Clipped, s.Count)
	p.sums.add(dualClippedRatio, s.DualClipped, s.Count)
	p.sums.add(approxKL, s.KL, s.Count)
	p.sums.add(clipFraction, s.Outside, s.Count)
	p.sums.add(entropy, entropies*float64(coarser), n)
	p.planSums[0] += s.KL
	p.planSums[1] += s.Count

	ready := p.ready
	if !last {
		ready = nil
	}
	return p.policy.Backward(p.work, grad, ready)
}

// clip returns the bounds of the surrogate in an iteration.
func (p *PPO) clip(iteration int) Clip {
	return Clip{
		Low:    float32(p.ranges.At(iteration, float64(p.cfg.ClipRatioLow), 0)),
		High:   float32(p.ranges.At(iteration, float64(p.cfg.ClipRatioHigh), 0)),
		Dual:   p.cfg.ClipRatioC,
		LogMin: p.cfg.ClipLogRatioMin, LogMax: p.cfg.ClipLogRatioMax,
	}
}

// addObservations adds the rollout's observations to the sums that the policy asked for. Samples
// with mask 0 are not seen.
func (p *PPO) addObservations(rollout tensor.Dict) error {
	var mask []uint8
	if t, ok := rollout.Get("mask"); ok {
		mask = t.U8()
	}
	rows := p.order[:0]
	for i := range p.steps * p.envs {
		if mask == nil || mask[i] != 0 {
			rows = append(rows, int32(i))
		}
	}
	for len(rows) > 0 {
		n := min(len(rows), p.micro)
		p.batch.gather(rows[:n])
		if err := p.obsStats.AddStats(p.sums.extra, p.batch.obs.Slice(0, n)); err != nil {
			return err
		}
		rows = rows[n:]
	}
	return nil
}

// ppoMetrics are the names of the metrics, in the order of metrics. What belongs to a critic is
// left out where none learns.
var ppoMetrics = []string{
	"actor/policy_loss", "actor/policy_loss_abs", "actor/ratio", "actor/ratio_abs", "actor/clipped_ratio",
	"actor/dual_cliped_ratio",
	"actor/approx_kl", "actor/clip_fraction", "actor/entropy_loss", "critic/value_loss", "critic/value_clip_ratio",
	"actor/kl_loss", "actor/behav_approx_kl", "actor/behav_clip_fraction", "actor/average_version",
	"rollout/rewards", "rollout/advantages_mean", "rollout/returns_mean",
	"rollout/advantages_max", "rollout/advantages_min", "rollout/returns_max", "rollout/returns_min",
	"critic/explained_variance", "actor/lr", "critic/lr", "actor/grad_norm", "actor/update_epochs",
	"rollout/gen_batches",
	"actor/current_version",
}

// gives reports whether a metric has a meaning here.
func (p *PPO) gives(name string) bool {
	switch name {
	case "rollout/gen_batches":
		return p.cfg.MaxNumGenBatches > 1
	case "actor/kl_loss":
		return p.reference != nil
	case "actor/behav_approx_kl", "actor/behav_clip_fraction", "actor/average_version", "actor/current_version":
		return p.decoupled
	case "actor/ratio", "actor/ratio_abs", "actor/clipped_ratio", "actor/dual_cliped_ratio", "actor/approx_kl",
		"actor/clip_fraction":
		return p.clips
	}
	return p.critic || !strings.HasPrefix(name, "critic/")
}

// called returns RLinf's name of a metric, which for some depends on the loss.
func (p *PPO) called(name string) string {
	if !p.decoupled {
		return name
	}
	switch name {
	case "actor/ratio":
		return "actor/proximal_ratio"
	case "actor/clipped_ratio":
		return "actor/clipped_proximal_ratio"
	case "actor/approx_kl":
		return "actor/proximal_approx_kl"
	}
	return name
}

// metrics reads the reduced sums.
func (p *PPO) metrics(iteration int) Metrics {
	all := p.values[:0]
	for i := range numMeans {
		all = append(all, p.sums.mean(i))
	}
	lr, valueLR := p.adam.LR(iteration)
	all = append(all, p.sums.max(advantageMax), -p.sums.max(advantageMin), p.sums.max(returnMax),
		-p.sums.max(returnMin),
		p.sums.explainedVariance(), lr, valueLR, p.gradNorm/float64(p.updates), float64(p.epochs), float64(p.rollouts),
		float64(iteration))
	kept := all[:0]
	for i, name := range ppoMetrics {
		if p.gives(name) {
			kept = append(kept, all[i])
		}
	}
	return Metrics{Names: p.names, Values: kept}
}

// Save returns views of the optimiser, the counters and the reward statistics; see Algorithm.
func (p *PPO) Save() (tensor.Dict, error) {
	var d tensor.Dict
	d.Set("counters", p.counters)
	p.adam.Save(&d)
	if p.reference != nil {
		d.Set("reference", p.reference.state)
	}
	if p.rewards != nil {
		p.rewards.save(&d)
	}
	return d, nil
}

// Load puts back what Save returned, of the same model and configuration.
func (p *PPO) Load(from tensor.Dict) error {
	state, err := p.Save()
	if err != nil {
		return err
	}
	for i := range state.Len() {
		name, t := state.Entry(i)
		saved, ok := from.Get(name)
		if !ok {
			return fmt.Errorf("%s: load: no %s", p.name, name)
		}
		if !saved.SameShape(t) {
			return fmt.Errorf("%s: load: %s is %v, want %v", p.name, name, saved, t)
		}
	}
	state.CopyFrom(from)
	return nil
}
