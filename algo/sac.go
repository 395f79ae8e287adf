package algo

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/rlinf/rlinf/internal/philox"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/tensor"
)

// SAC is soft actor-critic with a learnt temperature, Haarnoja et al. 2018, arXiv:1812.05905.
// Prepare adds a rollout to the replay buffer. Update makes update_epoch updates, each on a batch
// drawn from the buffer:
//
//  1. targets y = Σ γⁱ r + γᵏ (agg Q'(s', a') - α log π(a'|s')), a' drawn from the policy     SoftTargets
//  2. the critics by their squared error against y, for each head                             QLoss
//  3. the actor by α log π(a|s) - agg Q(s, a), every critic_actor_ratio updates               SoftActorLoss
//  4. after the actor, the temperature by -α (log π + target entropy)                         temperature
//  5. Q' ← Q' + τ (Q - Q') every target_update_freq updates                                   follow
//
// agg is the least estimate (clipped double Q, Fujimoto et al. 2018) or the mean. With critic_subsample_size, targets
// use a random subset of the critics (REDQ, Chen et al. 2021, arXiv:2101.05982). Each replica draws from the
// experience of its own environments.
//
// Metrics, over all replicas and updates of an iteration, None if there were no updates:
//
//   - sac/critic_loss, sac/actor_loss, sac/alpha_loss, sac/alpha
//   - critic/q_data: mean estimate of the actions that were taken
//   - actor/q_pi: mean estimate of the policy's own actions
//   - actor/entropy
//   - critic/lr, actor/lr, critic/grad_norm, actor/grad_norm, alpha/grad_norm
//   - replay_buffer/size: transitions held; replay_buffer/total_samples: ever added
//   - rollout/rewards
type SAC struct {
	*offPolicy
	actor       *actor
	critics     *critics
	temperature *temperature
	noise       policy.Noise
	dLogProb    tensor.Tensor // [micro,1]
}

var _ Algorithm = (*SAC)(nil)

// Indices of SAC's means over an iteration.
const (
	sacCriticLoss = firstMean + iota
	sacQData
	sacActorLoss
	sacQPi
	sacLogProb
	numSACMeans
)

func fitsSAC(pol policy.Policy) error {
	if p, ok := pol.(*policy.SoftActor); !ok {
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
	return newChecked("sac", s, fitsSAC, func(s *Setup) (*SAC, error) { return newSAC(s, "sac", true) })
}

// sacKeys declares the keys of NewSAC.
func sacKeys(s *Setup, k *Keys) {
	crossQKeys(s, k)
	k.Read("tau", "target_update_freq", "target_update_type")
}

// newSAC makes a SAC with the given name. If target is set, its critics have a target network.
func newSAC(s *Setup, name string, target bool) (*SAC, error) {
	e, err := newOffPolicy(s, name, false, numSACMeans)
	if err != nil {
		return nil, err
	}
	a := &SAC{offPolicy: e, dLogProb: tensor.New(tensor.F32, e.micro, 1)}
	if a.actor, err = newActor(s, e.batch); err != nil {
		return nil, err
	}
	seeds := s.seeds()
	criticSeed, noiseSeed := seeds.Uint64(), seeds.Uint64()
	a.noise = policy.Noise{Seed: noiseSeed, Env: make([]uint64, e.micro), Step: make([]uint64, e.micro)}
	if a.critics, err = newCritics(s, e.micro, a.actor.policy.NewCritic, criticSeed, target); err != nil {
		return nil, err
	}
	if err := e.encode(s, a.actor.policy, a.critics); err != nil {
		return nil, err
	}
	if heads := len(a.critics.heads); a.off.CriticSubsampleSize > heads {
		return nil, fmt.Errorf("critic_subsample_size %d: expected at most %d (actor.model.num_q_heads)",
			a.off.CriticSubsampleSize, heads)
	}
	a.off.ActorAggQ = cmp.Or(a.off.ActorAggQ, a.off.AggQ)
	entropy := a.off.EntropyTuning
	if entropy.TargetEntropy == 0 {
		entropy.TargetEntropy = -float32(a.batch.Action.Len() / a.micro)
	}
	if a.temperature, err = newTemperature(s, entropy); err != nil {
		return nil, err
	}
	a.actor.train.save(&a.state, "actor", false)
	a.critics.train.save(&a.state, "critic", true)
	if target {
		saveParams(&a.state, "target", a.critics.target.Params())
	}
	a.temperature.train.save(&a.state, "alpha", true)
	return a, nil
}

// Update makes the updates of an iteration; see Algorithm.
func (a *SAC) Update(tensor.Dict) (Metrics, error) { return a.train(a.update) }

// train makes the updates of an iteration, and returns its metrics.
func (a *SAC) train(update func() error) (Metrics, error) {
	a.transfer((*nn.Params[float32]).Upload)
	err := a.iterate(update)
	if a.transfer((*nn.Params[float32]).Download); err != nil {
		return Metrics{}, err
	}
	alpha, alphaLoss, entropy := a.temperature.alpha(), None(), None()
	if logProb := a.sums.mean(sacLogProb); !IsNone(logProb) {
		alphaLoss, entropy = -alpha*(logProb+float64(a.temperature.cfg.TargetEntropy)), -logProb
	}
	a.reportMean("sac/critic_loss", sacCriticLoss)
	a.reportMean("sac/actor_loss", sacActorLoss)
	a.metrics.add("sac/alpha_loss", alphaLoss)
	a.metrics.add("sac/alpha", alpha)
	a.reportMean("critic/q_data", sacQData)
	a.reportCritic(a.critics.train)
	a.reportMean("actor/q_pi", sacQPi)
	a.metrics.add("actor/entropy", entropy)
	a.reportActor(a.actor.train)
	a.metrics.add("alpha/grad_norm", a.temperature.train.meanNorm())
	a.reportReplay()
	a.reportMean("rollout/rewards", rolloutReward)
	return a.metrics, nil
}

// transfer transfers the parameters and moments of all networks. The temperature is never on a device.
func (a *SAC) transfer(to transfer) {
	a.actor.train.transfer(to)
	a.critics.transfer(to)
}

// update updates the critics and, when they are due, the actor, the temperature and the targets.
func (a *SAC) update() error {
	a.drawSubset()
	if err := a.descend(a.critics.train, a.addCritic); err != nil {
		return err
	}
	if a.actorDue() {
		if err := a.updateActor(); err != nil {
			return err
		}
	}
	if a.due(a.off.TargetUpdateFreq) {
		a.critics.follow(a.off.Tau)
	}
	return nil
}

// drawSubset draws the heads that this update's targets use, and moves them to the front. All replicas
// draw the same heads.
func (a *SAC) drawSubset() {
	heads := a.critics.heads
	for h := range heads {
		heads[h] = h
	}
	s := philox.New(a.seed, philox.Replay, common, a.number)
	for i := range max(a.off.CriticSubsampleSize, 0) {
		j := i + s.IntN(len(heads)-i)
		heads[i], heads[j] = heads[j], heads[i]
	}
}

// addCritic adds the gradient of the critics' loss on a micro-batch.
func (a *SAC) addCritic(b *Transitions, ready func(lo, hi int)) error {
	act, err := a.nextActions(b)
	if err != nil {
		return err
	}
	obs, err := a.features.ofTargetNext(b)
	if err != nil {
		return err
	}
	next, err := a.critics.target.Q(a.critics.targetWork, obs, act.Action)
	if err != nil {
		return err
	}
	a.setTargets(b, next.F32(), act.LogProb.F32())
	squares, estimates, err := a.critics.learn(b, a.perSample, ready)
	a.sums.add(sacCriticLoss, squares, float64(a.micro))
	a.sums.add(sacQData, estimates, float64(a.micro))
	return err
}

// nextActions draws actions for the observations b.Next from the policy.
func (a *SAC) nextActions(b *Transitions) (policy.Act, error) {
	obs, err := a.features.ofNext(b)
	if err != nil {
		return policy.Act{}, err
	}
	return a.actor.policy.Forward(a.actor.work, obs, policy.Sample, a.noiseOf(2*a.number))
}

// noiseOf returns the Noise of a micro-batch for the draw with the given number. No two samples and no two draws have
// the same noise, because Env holds the indices of the samples, and Step the number of the draw.
func (a *SAC) noiseOf(draw uint64) policy.Noise {
	for i := range a.noise.Env {
		a.noise.Env[i], a.noise.Step[i] = uint64(a.replica*a.local+a.first+i), draw
	}
	return a.noise
}

// setTargets sets the critics' targets. nextQ, [H,micro], holds the estimates of H heads for the next actions, and
// logProb the log-probs of these actions.
func (a *SAC) setTargets(b *Transitions, nextQ, logProb []float32) {
	c := a.critics
	heads := c.heads
	if m := a.off.CriticSubsampleSize; m > 0 {
		heads = heads[:m]
	}
	AggregateQ(c.next, nextQ, heads, a.off.AggQ)
	alpha := float32(0)
	if a.off.BackupEntropy {
		alpha = float32(a.temperature.alpha())
	}
	SoftTargets(c.y, b.Reward, b.Discount, c.next, logProb, alpha)
}

// updateActor makes one step of the actor. Then it makes one step of the temperature, with the log-probs of the actor's
// actions.
func (a *SAC) updateActor() error {
	before := a.sums.sum(sacLogProb)
	if err := a.descend(a.actor.train, a.addActor); err != nil {
		return err
	}
	return a.temperature.update(a.iteration, a.sums.sum(sacLogProb)-before, float64(a.local), a.perSample)
}

// addActor adds the gradient of the actor's loss on a micro-batch.
func (a *SAC) addActor(b *Transitions, ready func(lo, hi int)) error {
	obs, err := a.features.ofObs(b)
	if err != nil {
		return err
	}
	act, err := a.actor.policy.ForwardBatch(a.actor.work, obs, a.noiseOf(2*a.number+1))
	if err != nil {
		return err
	}
	c := a.critics
	q, err := c.net.Q(c.work, obs, act.Action)
	if err != nil {
		return err
	}
	loss, estimates := SoftActorLoss(c.dQ.F32(), a.dLogProb.F32(), q.F32(), act.LogProb.F32(), a.off.ActorAggQ,
		float32(a.temperature.alpha()), a.perSample)
	c.net.ActionGrad(c.work, a.actor.dAction, c.dQ)
	for _, lp := range act.LogProb.F32() {
		a.sums.add(sacLogProb, float64(lp), 1)
	}
	a.sums.add(sacActorLoss, loss, float64(a.micro))
	a.sums.add(sacQPi, estimates, float64(a.micro))
	return a.actor.policy.Backward(a.actor.work, policy.Grad{Action: a.actor.dAction, LogProb: a.dLogProb}, ready)
}
