package algo

import (
	"errors"
	"fmt"

	"github.com/rlinf/rlinf/internal/philox"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/tensor"
)

// SAC is soft actor-critic with a learnt temperature, Haarnoja et al. 2018, arXiv:1812.05905.
// Prepare adds a rollout to the replay buffer, Update makes update_epoch updates, each on a batch
// drawn from there:
//
//  1. targets y = Σ γⁱ r + γᵏ (agg Q'(s', a') - α log π(a'|s')), a' drawn from the policy     SoftTargets
//  2. the critics against y, squared error, every head by itself                              QLoss
//  3. every critic_actor_ratio updates the actor, by α log π(a|s) - agg Q(s, a)               SoftActorLoss
//  4. and the temperature, by -α (log π + target entropy)                                     temperature
//  5. every target_update_freq updates Q' ← Q' + τ (Q - Q')                                   follow
//
// agg is the least estimate (clipped double Q, Fujimoto et al. 2018) or the mean, in targets of a
// random subset of the critics where critic_subsample_size says so (REDQ, Chen et al. 2021,
// arXiv:2101.05982). Each replica draws from the experience of its own environments.
//
// Metrics, over all replicas and updates of an iteration, NaN where there were none:
//
//   - sac/critic_loss, sac/actor_loss, sac/alpha_loss, sac/alpha
//   - critic/q_data: mean estimate of what was done
//   - actor/q_pi: mean estimate of what the policy would do
//   - actor/entropy
//   - critic/lr, actor/lr, critic/grad_norm, actor/grad_norm, alpha/grad_norm
//   - replay_buffer/size: transitions held; replay_buffer/total_samples: ever added
//   - rollout/rewards
type SAC struct {
	*softActorCritic
	target     *policy.Critic
	targetWork *policy.CriticWork
}

// softActorCritic is the part of SAC that it shares with CrossQ: actor, critics and temperature.
type softActorCritic struct {
	*offPolicy
	policy SoftPolicy
	critic *policy.Critic
	*temperature
	actorOpt, qOpt *trainState
	work           policy.Work
	qWork          *policy.CriticWork
	noise          policy.Noise
	subset         []int         // heads, those that count in targets first
	y, next        []float32     // [micro]: targets, and the estimates of the next states
	dQ             tensor.Tensor // [H, micro]
	dAction        tensor.Tensor // [micro,C,A]
	dLogProb       tensor.Tensor // [micro,1]
	sums           []float64
	values         []float64
	number         uint64 // of the update under way
	criticStep     func(b *Transitions, lo int, last bool) error
	actorStep      func(b *Transitions, lo int, last bool) error
}

// A SoftPolicy draws actions which depend smoothly on its parameters, and comes with critics of
// such actions.
type SoftPolicy interface {
	policy.Policy
	// Noisy reports whether actions are a function of the observation with noise for exploration,
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
	_ Algorithm  = (*CrossQ)(nil)
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
		return errors.New("a policy with add_q_head, with continuous actions (embodied_dqn is for discrete actions)")
	} else if p.Noisy() {
		return errors.New("a policy without exploration_noise (embodied_td3 is for those with it)")
	} else if p.QHeadType() != policy.QHeadDefault {
		return errors.New("q_head_type default (embodied_crossq is for crossq)")
	}
	return nil
}

// NewSAC makes SAC.
func NewSAC(s Setup) (*SAC, error) {
	a, err := newSAC(&s)
	if err != nil {
		return nil, fmt.Errorf("sac: %w", err)
	}
	return a, nil
}

func newSAC(s *Setup) (*SAC, error) {
	core, criticSeed, err := newSoftActorCritic("sac", s, fitsSAC)
	if err != nil {
		return nil, err
	}
	a := &SAC{softActorCritic: core}
	if a.target, err = a.policy.NewCritic(criticSeed, s.Alloc); err != nil {
		return nil, err
	}
	a.targetWork = a.target.NewWork(a.micro)
	a.criticStep, a.state = a.addCritic, a.views
	return a, nil
}

// newSoftActorCritic makes the shared part, for policies that fit, with the critics that come with
// them. The caller sets criticStep. Critics of criticSeed have the same first parameters.
func newSoftActorCritic(name string, s *Setup, fits func(policy.Policy) error) (a *softActorCritic, criticSeed uint64,
	err error) {
	if err := fits(s.Policy); err != nil {
		return nil, 0, fmt.Errorf("policy %T: expected %w", s.Policy, err)
	}
	pol := s.Policy.(SoftPolicy)
	e, err := newOffPolicy(name, s)
	if err != nil {
		return nil, 0, err
	}
	a = &softActorCritic{
		offPolicy: e, policy: pol, sums: make([]float64, numSACSums), values: make([]float64, len(sacMetrics)),
	}
	seeds := s.seeds()
	criticSeed, noiseSeed := seeds.Uint64(), seeds.Uint64()
	if a.critic, err = pol.NewCritic(criticSeed, s.Alloc); err != nil {
		return nil, 0, err
	}
	heads := a.critic.Heads()
	if a.off.CriticSubsampleSize > heads {
		return nil, 0, fmt.Errorf("critic_subsample_size %d: expected at most %d (actor.model.num_q_heads)",
			a.off.CriticSubsampleSize, heads)
	}
	if a.off.ActorAggQ == "" {
		a.off.ActorAggQ = a.off.AggQ
	}
	entropy := a.off.EntropyTuning
	if entropy.TargetEntropy == 0 {
		entropy.TargetEntropy = -float32(a.batch.Action.Len() / a.micro)
	}
	if a.temperature, err = newTemperature(s, entropy); err != nil {
		return nil, 0, err
	}
	if a.actorOpt, err = s.newTrainState(pol.Params(), s.Optim); err != nil {
		return nil, 0, err
	}
	if a.qOpt, err = s.newTrainState(a.critic.Params(), s.CriticOptim); err != nil {
		return nil, 0, err
	}
	a.work, a.qWork = pol.NewWork(a.micro), a.critic.NewWork(a.micro)
	a.noise = policy.Noise{Seed: noiseSeed, Env: make([]uint64, a.micro), Step: make([]uint64, a.micro)}
	a.y, a.next, a.subset = make([]float32, a.micro), make([]float32, a.micro), make([]int, heads)
	a.dQ, a.dLogProb = tensor.New(tensor.F32, heads, a.micro), tensor.New(tensor.F32, a.micro, 1)
	a.dAction = tensor.New(tensor.F32, a.batch.Action.Shape()...)
	a.actorStep = a.addActor
	return a, criticSeed, nil
}

// Update makes the updates of an iteration; see Algorithm.
func (a *SAC) Update(tensor.Dict) (Metrics, error) { return a.learn(a.update) }

// learn makes the updates of an iteration, and returns its metrics.
func (a *softActorCritic) learn(update func(iteration, held int, number uint64) error) (Metrics, error) {
	clear(a.sums)
	a.sums[sacReward], a.sums[sacSteps] = a.rewards[0], a.rewards[1]
	iteration, err := a.iterate(a.sums, update)
	if err != nil {
		return Metrics{}, err
	}
	return a.metrics(iteration), nil
}

// update makes one update of the critics, and where it is due of actor, temperature and targets.
func (a *SAC) update(iteration, held int, number uint64) error {
	if err := a.updateCritics(iteration, number); err != nil {
		return err
	}
	if a.actorDue(held, number) {
		logProbs, err := a.updateActor(iteration)
		if err != nil {
			return err
		}
		if err := a.updateAlpha(iteration, logProbs); err != nil {
			return err
		}
	}
	if number%uint64(a.off.TargetUpdateFreq) == 0 {
		follow(a.target.Params().Data, a.critic.Params().Data, a.off.Tau)
	}
	return nil
}

// updateCritics begins an update, with a step of the critics.
func (a *softActorCritic) updateCritics(iteration int, number uint64) error {
	a.number = number
	a.drawSubset()
	return a.descend(a.qOpt, iteration, a.criticStep)
}

// drawSubset puts the heads that count in this update's targets first in a.subset, the same on all
// replicas.
func (a *softActorCritic) drawSubset() {
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
	next, err := a.target.Q(a.targetWork, b.Next, act.Action)
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
func (a *softActorCritic) setTargets(b *Transitions, next, logProb []float32) {
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

// actorDue reports whether an update is one of the actor, too.
func (a *softActorCritic) actorDue(held int, number uint64) bool {
	return held >= a.off.TrainActorSteps && number%uint64(a.off.CriticActorRatio) == 0
}

// updateActor makes one step of the actor, and returns the sum of the log-probs of its actions.
func (a *softActorCritic) updateActor(iteration int) (logProbs float64, err error) {
	before := a.sums[sacLogProb]
	err = a.descend(a.actorOpt, iteration, a.actorStep)
	return a.sums[sacLogProb] - before, err
}

// addActor adds the actor's gradient on a micro-batch.
func (a *softActorCritic) addActor(b *Transitions, lo int, last bool) error {
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
func (a *softActorCritic) noiseOf(lo int, draw uint64) policy.Noise {
	for i := range a.noise.Env {
		a.noise.Env[i], a.noise.Step[i] = uint64(a.replica*a.local+lo+i), draw
	}
	return a.noise
}

// updateAlpha makes one step of the temperature, for the sum of the log-probs of this replica's
// batch.
func (a *softActorCritic) updateAlpha(iteration int, logProbs float64) error {
	return a.temperature.update(iteration, logProbs, float64(a.local), a.perSample)
}

// metrics reads the reduced sums.
func (a *softActorCritic) metrics(iteration int) Metrics {
	s := a.sums
	mean := func(sum, of int) float64 { return s[sum] / s[of] }
	alpha, logProb := a.alpha(), mean(sacLogProb, sacActorSamples)
	_, qLR := a.qOpt.adam.LR(iteration)
	lr, _ := a.actorOpt.adam.LR(iteration)
	size, total := a.held()
	copy(a.values, []float64{
		mean(sacCriticLoss, sacSamples), mean(sacActorLoss, sacActorSamples),
		-alpha * (logProb + float64(a.temperature.cfg.TargetEntropy)), alpha,
		mean(sacQData, sacSamples), qLR, a.qOpt.meanNorm(), mean(sacQPi, sacActorSamples), -logProb, lr,
		a.actorOpt.meanNorm(), a.temperature.train.meanNorm(),
		size, total, mean(sacReward, sacSteps),
	})
	return Metrics{Names: sacMetrics, Values: a.values}
}

// views returns views of counters, optimisers, critics and temperature.
func (a *SAC) views() tensor.Dict {
	var d tensor.Dict
	d.Set("counters", a.counters)
	a.actorOpt.save(&d, "actor", false)
	a.qOpt.save(&d, "critic", true)
	saveParams(&d, "target", a.target.Params())
	a.temperature.train.save(&d, "alpha", true)
	return d
}
