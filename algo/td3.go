package algo

import (
	"errors"

	"github.com/rlinf/rlinf/internal/philox"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/tensor"
)

// TD3 is twin delayed deep deterministic policy gradient, Fujimoto et al. 2018, arXiv:1802.09477.
// Prepare adds a rollout to the replay buffer. Update makes update_epoch updates, each on a batch
// drawn from the buffer:
//
//  1. targets y = Σ γⁱ r + γᵏ agg Q'(s', π'(s') + noise), with normal, clipped noise and
//     the action clipped to its box                                                     smooth
//  2. the critics by their squared error against y, for each head                       QLoss
//  3. the actor by -Q₀(s, π(s)), every critic_actor_ratio updates (2 in the paper)
//  4. in these updates Q' ← Q' + τ (Q - Q') and π' ← π' + τ (π - π')                    follow
//
// Until the actor begins to learn (train_actor_steps), π' does not move, because it equals π.
//
// Metrics, over all replicas and updates of an iteration, None if there were no updates:
// td3/critic_loss, td3/actor_loss; critic/q_data = mean estimate of the actions that were taken;
// critic/lr, critic/grad_norm; actor/lr, actor/grad_norm; replay_buffer/size = transitions held,
// replay_buffer/total_samples = ever added; rollout/rewards.
type TD3 struct {
	*offPolicy
	actor           *actor
	target          *policy.SoftActor // π', which follows the actor
	targetWork      policy.Work
	critics         *critics
	low, high, half []float32 // bounds and half widths of the action box
	noiseSeed       uint64
	smoothed        tensor.Tensor // [micro,C,A]
}

var (
	_ Algorithm = (*TD3)(nil)
	_ Follower  = (*TD3)(nil)
)

// Indices of TD3's means over an iteration.
const (
	td3CriticLoss = firstMean + iota
	td3QData
	td3ActorLoss
	numTD3Means
)

func fitsTD3(pol policy.Policy) error {
	if p, ok := pol.(*policy.SoftActor); !ok || !p.Noisy() || p.QHeadType() != policy.QHeadDefault {
		return errors.New("a policy with add_q_head and exploration_noise, with continuous actions, and " +
			"q_head_type default")
	}
	return nil
}

// NewTD3 makes TD3.
func NewTD3(s Setup) (*TD3, error) { return newChecked("td3", s, fitsTD3, newTD3) }

// td3Keys declares the keys of NewTD3. The target networks follow every critic_actor_ratio updates, so TD3 does not
// read target_update_freq.
func td3Keys(s *Setup, k *Keys) {
	replayKeys(k, false)
	hindsightKeys(s, k)
	returnKeys(k)
	actorKeys(k)
	criticKeys(s, k)
	k.Read("tau", "target_update_type", "agg_q", "target_noise")
	k.ReadIf(s.Config.OffPolicy.TargetNoise > 0, "target_noise > 0", "target_noise_clip")
}

func newTD3(s *Setup) (*TD3, error) {
	e, err := newOffPolicy(s, "td3", false, numTD3Means)
	if err != nil {
		return nil, err
	}
	a := &TD3{offPolicy: e, smoothed: tensor.New(tensor.F32, e.batch.Action.Shape()...)}
	if a.actor, err = newActor(s, e.batch); err != nil {
		return nil, err
	}
	pol := a.actor.policy
	if a.target, err = pol.NewTarget(s.Alloc); err != nil {
		return nil, err
	}
	a.targetWork = a.target.NewWork(a.micro)
	seeds := s.seeds()
	criticSeed := seeds.Uint64()
	a.noiseSeed = seeds.Uint64()
	if a.critics, err = newCritics(s, a.micro, pol.NewCritic, criticSeed, true); err != nil {
		return nil, err
	}
	if err := e.encode(s, pol, a.critics); err != nil {
		return nil, err
	}
	_, space := pol.Spaces()
	a.low, a.high, a.half = space.Low, space.High, halfWidths(pol)
	a.actor.train.save(&a.state, "actor", false)
	a.critics.train.save(&a.state, "critic", true)
	saveParams(&a.state, "target", a.critics.target.Params())
	saveParams(&a.state, "target", a.target.Params())
	return a, nil
}

// Follow makes the target policy, with its encoder, equal to the policy; see Follower.
func (a *TD3) Follow() {
	a.target.Follow(a.actor.policy)
	a.offPolicy.Follow()
}

// Update makes the updates of an iteration; see Algorithm.
func (a *TD3) Update(tensor.Dict) (Metrics, error) {
	if err := a.iterate(a.update); err != nil {
		return Metrics{}, err
	}
	a.reportMean("td3/critic_loss", td3CriticLoss)
	a.reportMean("td3/actor_loss", td3ActorLoss)
	a.reportMean("critic/q_data", td3QData)
	a.reportCritic(a.critics.train)
	a.reportActor(a.actor.train)
	a.reportReplay()
	a.reportMean("rollout/rewards", rolloutReward)
	return a.metrics, nil
}

// update updates the critics and, when they are due, the actor and the targets.
func (a *TD3) update() error {
	if err := a.descend(a.critics.train, a.addCritic); err != nil {
		return err
	}
	if a.actorDue() {
		if err := a.descend(a.actor.train, a.addActor); err != nil {
			return err
		}
		follow(a.target.Params().Ops(), a.target.Data(), a.actor.policy.Data(), a.off.Tau)
	}
	if a.due(a.off.CriticActorRatio) {
		a.critics.follow(a.off.Tau)
	}
	return nil
}

// addCritic adds the gradient of the critics' loss on a micro-batch.
func (a *TD3) addCritic(b *Transitions, ready func(lo, hi int)) error {
	obs, err := a.features.ofTargetNext(b)
	if err != nil {
		return err
	}
	if err := a.smooth(obs); err != nil {
		return err
	}
	c := a.critics
	next, err := c.target.Q(c.targetWork, obs, a.smoothed)
	if err != nil {
		return err
	}
	AggregateQ(c.next, next.F32(), c.heads, a.off.AggQ)
	SoftTargets(c.y, b.Reward, b.Discount, c.next, c.next, 0)
	squares, estimates, err := c.learn(b, a.perSample, ready)
	a.sums.add(td3CriticLoss, squares, float64(a.micro))
	a.sums.add(td3QData, estimates, float64(a.micro))
	return err
}

// smooth sets a.smoothed to π'(obs) plus noise, within the box of actions. The noise is clip(ε,
// ±target_noise_clip), for actions in [-1, 1].
func (a *TD3) smooth(obs tensor.Dict) error {
	act, err := a.target.Forward(a.targetWork, obs, policy.Deterministic, policy.Noise{})
	if err != nil {
		return err
	}
	action, clip := act.Action.F32(), a.off.TargetNoiseClip
	width := len(action) / a.micro
	for row := range a.micro {
		s := philox.New(a.noiseSeed, philox.Action, uint64(a.replica*a.local+a.first+row), a.number)
		for i := row * width; i < (row+1)*width; i++ {
			z, _ := s.Normal()
			k := i % len(a.half)
			x := action[i] + a.half[k]*min(max(a.off.TargetNoise*float32(z), -clip), clip)
			a.smoothed.F32()[i] = min(max(x, a.low[k]), a.high[k])
		}
	}
	return nil
}

// addActor adds the gradient of the actor's loss, -Q₀, on a micro-batch.
func (a *TD3) addActor(b *Transitions, ready func(lo, hi int)) error {
	obs, err := a.features.ofObs(b)
	if err != nil {
		return err
	}
	act, err := a.actor.policy.Forward(a.actor.work, obs, policy.Deterministic, policy.Noise{})
	if err != nil {
		return err
	}
	c := a.critics
	q, err := c.net.Q(c.work, obs, act.Action)
	if err != nil {
		return err
	}
	c.dQ.Zero()
	for i, x := range q.F32()[:a.micro] {
		c.dQ.F32()[i] = -a.perSample
		a.sums.add(td3ActorLoss, -float64(x), 1)
	}
	c.net.ActionGrad(c.work, a.actor.dAction, c.dQ)
	return a.actor.policy.Backward(a.actor.work, policy.Grad{Action: a.actor.dAction}, ready)
}
