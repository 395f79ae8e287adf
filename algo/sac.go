package algo

import (
	"errors"
	"fmt"
	"math"

	"github.com/rlinf/rlinf/internal/philox"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/tensor"
)

// SAC is soft actor-critic with a learnt temperature, Haarnoja et al. 2018, arXiv:1812.05905.
// Prepare adds a rollout to the replay buffer, Update makes update_epoch updates, each on a batch
// drawn from there:
//
//  1. targets y = Σ γⁱ r + γᵏ (agg Q'(s', a') - α log π(a'|s')), a' drawn from the policy     SoftTargets
//  2. the critics against y, squared error, every head by itself                              QLoss
//  3. every critic_actor_ratio updates the actor, by α log π(a|s) - agg Q(s, a)               SoftActorLoss
//  4. and the temperature, by -α (log π + target entropy)                                     updateAlpha
//  5. every target_update_freq updates Q' ← Q' + τ (Q - Q')                                   follow
//
// agg is the least estimate (clipped double Q, Fujimoto et al. 2018) or the mean, in targets of a
// random subset of the critics where critic_subsample_size says so (REDQ, Chen et al. 2021,
// arXiv:2101.05982). Each replica draws from the experience of its own environments.
//
// Metrics, over all replicas and updates of an iteration, NaN where there were none:
// sac/critic_loss, sac/actor_loss, sac/alpha_loss, sac/alpha; critic/q_data = mean estimate of what
// was done, critic/lr, critic/grad_norm; actor/q_pi = of what the policy would do, actor/entropy,
// actor/lr, actor/grad_norm; alpha/grad_norm; replay_buffer/size = transitions held,
// replay_buffer/total_samples = ever added; rollout/rewards.
type SAC struct {
	*offPolicy
	policy          SoftPolicy
	critic          *policy.Critic
	target          *policy.Critic // nil: CrossQ
	joint           *joint         // of CrossQ alone
	actorOpt, qOpt  *trainState
	alphaOpt        *trainState // of one parameter
	work            policy.Work
	qWork, nextWork *policy.CriticWork
	noise           policy.Noise
	subset          []int         // heads, those that count in targets first
	y, next         []float32     // [micro]: targets, and the estimates of what follows
	dQ              tensor.Tensor // [H, micro]
	dAction         tensor.Tensor // [micro,C,A]
	dLogProb        tensor.Tensor // [micro,1]
	sums            []float64
	values          []float64
	number          uint64 // of the update under way
	criticStep      func(b *Transitions, lo int, last bool) error
	actorStep       func(b *Transitions, lo int, last bool) error
}

// A SoftPolicy draws actions which depend smoothly on its parameters, and comes with critics of
// such actions.
type SoftPolicy interface {
	policy.Policy
	// Noisy tells whether actions are one function of what is observed, with noise for exploration,
	// not a distribution.
	Noisy() bool
	// QHeadType returns policy.QHeadDefault or QHeadCrossQ.
	QHeadType() string
	// ForwardBatch is Forward of mode Sample by the statistics of these rows; of a policy that
	// normalises they are added up and merged as a Critic's.
	ForwardBatch(w policy.Work, obs tensor.Dict, noise policy.Noise) (policy.Act, error)
	StatsLen() int
	AddStats(sums []float64, w policy.Work)
	MergeStats(sums []float64)
	// NewCritic returns a critic whose first parameters depend on seed alone.
	NewCritic(seed uint64, alloc tensor.Allocator) (*policy.Critic, error)
	// NewValue returns a critic, of one head, of what is observed alone: its Q takes no action.
	NewValue(seed uint64, alloc tensor.Allocator) (*policy.Critic, error)
}

var (
	_ Algorithm  = (*SAC)(nil)
	_ SoftPolicy = (*policy.SoftActor)(nil)
)

// What SAC sums over an iteration.
const (
	sacCriticLoss = iota
	sacQData
	sacSamples // of critic updates
	sacActorLoss
	sacQPi
	sacLogProb
	sacActorSamples
	sacReward
	sacSteps
	numSACSums
)

var sacMetrics = []string{
	"sac/critic_loss", "sac/actor_loss", "sac/alpha_loss", "sac/alpha", "critic/q_data", "critic/lr",
	"critic/grad_norm", "actor/q_pi",
	"actor/entropy", "actor/lr", "actor/grad_norm", "alpha/grad_norm", "replay_buffer/size",
	"replay_buffer/total_samples", "rollout/rewards",
}

// fitsSAC says why pol cannot be trained by SAC.
func fitsSAC(pol policy.Policy) error {
	if p, ok := pol.(SoftPolicy); !ok {
		return errors.New("a policy with add_q_head, whose actions are in a box (embodied_dqn is for discrete actions)")
	} else if p.Noisy() {
		return errors.New("a policy without exploration_noise (embodied_td3 is for those with it)")
	} else if p.QHeadType() != policy.QHeadDefault {
		return errors.New("q_head_type default (embodied_crossq is for crossq)")
	}
	return nil
}

// NewSAC makes SAC.
func NewSAC(s Setup) (*SAC, error) {
	a, err := newSAC(&s, fitsSAC)
	if err != nil {
		return nil, fmt.Errorf("sac: %w", err)
	}
	return a, nil
}

// newSAC makes it for policies that fit, with the critics that come with them.
func newSAC(s *Setup, fits func(policy.Policy) error) (*SAC, error) {
	if err := fits(s.Policy); err != nil {
		return nil, fmt.Errorf("policy %T: want %w", s.Policy, err)
	}
	pol := s.Policy.(SoftPolicy)
	e, err := newOffPolicy(s)
	if err != nil {
		return nil, err
	}
	a := &SAC{offPolicy: e, policy: pol, sums: make([]float64, numSACSums), values: make([]float64, len(sacMetrics))}
	seeds := philox.New(s.Seed, philox.Replay, common, math.MaxUint64)
	criticSeed, noiseSeed := seeds.Uint64(), seeds.Uint64()
	if a.critic, err = pol.NewCritic(criticSeed, s.Alloc); err != nil {
		return nil, err
	}
	heads := a.critic.Heads()
	if a.off.CriticSubsampleSize > heads {
		return nil, fmt.Errorf("critic_subsample_size %d: want at most %d (actor.model.num_q_heads)",
			a.off.CriticSubsampleSize, heads)
	}
	temperature := new(nn.Params[float32])
	temperature.Group("alpha")
	temperature.Add("alpha", 1)
	if err := temperature.Alloc(s.Alloc); err != nil {
		return nil, err
	}
	temperature.Data[0] = rawAlpha(a.off.EntropyTuning)
	for _, o := range []struct {
		to     **trainState
		params *nn.Params[float32]
		cfg    OptimConfig
	}{{&a.actorOpt, pol.Params(), s.Optim}, {&a.qOpt, a.critic.Params(), s.CriticOptim},
		{&a.alphaOpt, temperature, a.off.EntropyTuning.Optim}} {
		if *o.to, err = newTrainState(o.params, o.cfg, s.Iterations, a.replicas, s.Alloc); err != nil {
			return nil, err
		}
	}
	a.work, a.qWork = pol.NewWork(a.micro), a.critic.NewWork(a.micro)
	a.noise = policy.Noise{Seed: noiseSeed, Env: make([]uint64, a.micro), Step: make([]uint64, a.micro)}
	a.y, a.next, a.subset = make([]float32, a.micro), make([]float32, a.micro), make([]int, heads)
	a.dQ, a.dLogProb = tensor.New(tensor.F32, heads, a.micro), tensor.New(tensor.F32, a.micro, 1)
	a.dAction = tensor.New(tensor.F32, a.batch.Action.Shape()...)
	a.criticStep, a.actorStep = a.addCritic, a.addActor
	if pol.QHeadType() == policy.QHeadCrossQ {
		a.joint, a.criticStep = newJoint(pol, a.critic, a.micro), a.addJointCritic
	} else {
		if a.target, err = pol.NewCritic(criticSeed, s.Alloc); err != nil {
			return nil, err
		}
		a.nextWork = a.target.NewWork(a.micro)
	}
	if a.off.ActorAggQ == "" {
		a.off.ActorAggQ = a.off.AggQ
	}
	if a.off.EntropyTuning.TargetEntropy == 0 {
		a.off.EntropyTuning.TargetEntropy = -float32(a.batch.Action.Len() / a.micro)
	}
	return a, nil
}

// Update makes the updates of an iteration; see Algorithm.
func (a *SAC) Update(tensor.Dict) (Metrics, error) {
	clear(a.sums)
	a.sums[sacReward], a.sums[sacSteps] = a.rewards[0], a.rewards[1]
	iteration, err := a.each(a.update)
	if err != nil {
		return Metrics{}, fmt.Errorf("sac: %w", err)
	}
	if err := a.replicas.Sum(a.sums); err != nil {
		return Metrics{}, fmt.Errorf("sac: metrics: %w", err)
	}
	return a.metrics(iteration), nil
}

// update makes one update of the critics, and where it is time to of actor, temperature and
// targets.
func (a *SAC) update(iteration, held int, number uint64) error {
	a.number = number
	a.drawSubset()
	a.qOpt.open()
	if err := a.micros(a.criticStep); err != nil {
		return err
	}
	if err := a.qOpt.step(iteration); err != nil {
		return err
	}
	if a.joint != nil {
		if err := a.followBatches(); err != nil {
			return err
		}
	}
	if held >= a.off.TrainActorSteps && number%uint64(a.off.CriticActorRatio) == 0 {
		before := a.sums[sacLogProb]
		a.actorOpt.open()
		if err := a.micros(a.actorStep); err != nil {
			return err
		}
		if err := a.actorOpt.step(iteration); err != nil {
			return err
		}
		if a.joint != nil {
			if err := a.followActor(); err != nil {
				return err
			}
		}
		if err := a.updateAlpha(iteration, a.sums[sacLogProb]-before); err != nil {
			return err
		}
	}
	if a.target != nil && number%uint64(a.off.TargetUpdateFreq) == 0 {
		follow(a.target.Params().Data, a.critic.Params().Data, a.off.Tau)
	}
	return nil
}

// drawSubset puts the heads that count in this update's targets first in a.subset, the same on all
// replicas.
func (a *SAC) drawSubset() {
	for h := range a.subset {
		a.subset[h] = h
	}
	s := philox.New(a.seed, philox.Replay, common, a.number)
	for i := range max(a.off.CriticSubsampleSize, 0) {
		j := i + s.IntN(len(a.subset)-i)
		a.subset[i], a.subset[j] = a.subset[j], a.subset[i]
	}
}

// addCritic adds the critics' gradient on a micro-batch.
func (a *SAC) addCritic(b *Transitions, lo int, last bool) error {
	act, err := a.policy.Forward(a.work, b.Next, policy.Sample, a.noiseOf(lo, 2*a.number))
	if err != nil {
		return err
	}
	next, err := a.target.Q(a.nextWork, b.Next, act.Action)
	if err != nil {
		return err
	}
	a.setTargets(b, next.F32(), act.LogProb.F32())
	q, err := a.critic.Q(a.qWork, b.Obs, b.Action)
	if err != nil {
		return err
	}
	squares, estimates := QLoss(a.dQ.F32(), q.F32(), a.y, a.perSample)
	a.sums[sacCriticLoss] += squares
	a.sums[sacQData] += estimates
	a.sums[sacSamples] += float64(a.micro)
	a.critic.Backward(a.qWork, a.dQ, a.qOpt.readyAt(last))
	return nil
}

// setTargets sets y for the estimates of what follows, [H,micro], by actions with those log-probs.
func (a *SAC) setTargets(b *Transitions, next, logProb []float32) {
	heads := a.subset
	if m := a.off.CriticSubsampleSize; m > 0 {
		heads = heads[:m]
	}
	AggregateQ(a.next, next, heads, a.off.AggQ)
	alpha := float32(0)
	if a.off.BackupEntropy {
		alpha = float32(a.alpha())
	}
	SoftTargets(a.y, b.Reward, b.Discount, a.next, logProb, alpha)
}

// addActor adds the actor's gradient on a micro-batch.
func (a *SAC) addActor(b *Transitions, lo int, last bool) error {
	act, err := a.policy.ForwardBatch(a.work, b.Obs, a.noiseOf(lo, 2*a.number+1))
	if err != nil {
		return err
	}
	q, err := a.critic.Q(a.qWork, b.Obs, act.Action)
	if err != nil {
		return err
	}
	loss, estimates := SoftActorLoss(a.dQ.F32(), a.dLogProb.F32(), q.F32(), act.LogProb.F32(), a.off.ActorAggQ,
		float32(a.alpha()), a.perSample)
	a.critic.ActionGrad(a.qWork, a.dAction, a.dQ)
	for _, lp := range act.LogProb.F32() {
		a.sums[sacLogProb] += float64(lp)
	}
	a.sums[sacActorLoss] += loss
	a.sums[sacQPi] += estimates
	a.sums[sacActorSamples] += float64(a.micro)
	return a.policy.Backward(a.work, policy.Grad{Action: a.dAction, LogProb: a.dLogProb}, a.actorOpt.readyAt(last))
}

// noiseOf names the noise of a micro-batch, apart from all that environments see.
func (a *SAC) noiseOf(lo int, draw uint64) policy.Noise {
	for i := range a.noise.Env {
		a.noise.Env[i], a.noise.Step[i] = uint64(a.replica*a.local+lo+i), draw
	}
	return a.noise
}

// updateAlpha lowers -α (log π + target entropy), for the sum of this replica's log-probs: α grows
// where the policy is surer than it should be.
func (a *SAC) updateAlpha(iteration int, logProbs float64) error {
	if a.off.EntropyTuning.AlphaType == AlphaFixed {
		return nil
	}
	a.alphaOpt.open()
	excess := logProbs + float64(a.local)*float64(a.off.EntropyTuning.TargetEntropy)
	a.alphaOpt.params.Grad[0] = float32(-alphaSlope(a.off.EntropyTuning.AlphaType,
		a.raw()) * excess * float64(a.perSample))
	return a.alphaOpt.step(iteration)
}

// raw returns the parameter that alpha is made of.
func (a *SAC) raw() float64 { return float64(a.alphaOpt.params.Data[0]) }

// alpha returns the temperature.
func (a *SAC) alpha() float64 { return alphaOf(a.off.EntropyTuning.AlphaType, a.raw()) }

// alphaOf returns α for the parameter x: softplus x = log(1 + eˣ), or eˣ, or x as it is.
func alphaOf(alphaType string, x float64) float64 {
	switch alphaType {
	case AlphaSoftplus:
		return max(x, 0) + math.Log1p(math.Exp(-math.Abs(x)))
	case AlphaExp:
		return math.Exp(x)
	}
	return x
}

// alphaSlope returns dα/dx.
func alphaSlope(alphaType string, x float64) float64 {
	if alphaType == AlphaSoftplus {
		return 1 / (1 + math.Exp(-x))
	}
	return math.Exp(x)
}

// rawAlpha returns the x that gives the initial α.
func rawAlpha(c EntropyConfig) float32 {
	alpha := float64(c.InitialAlpha)
	switch c.AlphaType {
	case AlphaSoftplus:
		return float32(alpha + math.Log(-math.Expm1(-alpha))) // log(eᵅ - 1)
	case AlphaExp:
		return float32(math.Log(alpha))
	}
	return float32(alpha)
}

// metrics reads the reduced sums.
func (a *SAC) metrics(iteration int) Metrics {
	s := a.sums
	mean := func(sum, of int) float64 { return s[sum] / s[of] }
	alpha, logProb := a.alpha(), mean(sacLogProb, sacActorSamples)
	_, qLR := a.qOpt.adam.LR(iteration)
	lr, _ := a.actorOpt.adam.LR(iteration)
	size, total := a.held()
	copy(a.values, []float64{
		mean(sacCriticLoss, sacSamples), mean(sacActorLoss, sacActorSamples),
		-alpha * (logProb + float64(a.off.EntropyTuning.TargetEntropy)), alpha,
		mean(sacQData, sacSamples), qLR, a.qOpt.meanNorm(), mean(sacQPi, sacActorSamples), -logProb, lr,
		a.actorOpt.meanNorm(), a.alphaOpt.meanNorm(),
		size, total, mean(sacReward, sacSteps),
	})
	return Metrics{Names: sacMetrics, Values: a.values}
}

// Save returns views of counters, optimisers, critics and temperature, and the replay buffer; see
// Algorithm.
func (a *SAC) Save() (tensor.Dict, error) {
	d := a.state()
	a.save(&d)
	return d, nil
}

// state is all of it but the replay buffer.
func (a *SAC) state() tensor.Dict {
	var d tensor.Dict
	d.Set("counters", a.counters)
	a.actorOpt.save(&d, "actor", false)
	a.qOpt.save(&d, "critic", true)
	if a.target != nil {
		saveParams(&d, "target", a.target.Params())
	}
	a.alphaOpt.save(&d, "alpha", true)
	return d
}

// Load puts back what Save returned, of the same model and configuration.
func (a *SAC) Load(from tensor.Dict) error {
	if err := restore(a.state(), from); err != nil {
		return fmt.Errorf("sac: load: %w", err)
	}
	if err := a.load(from); err != nil {
		return fmt.Errorf("sac: load: %w", err)
	}
	return nil
}
