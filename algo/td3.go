package algo

import (
	"errors"
	"fmt"

	"github.com/rlinf/rlinf/internal/philox"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/tensor"
)

// TD3 is twin delayed deep deterministic policy gradient, Fujimoto et al. 2018, arXiv:1802.09477.
// Prepare adds a rollout to the replay buffer, Update makes update_epoch updates, each on a batch
// drawn from there:
//
//  1. targets y = Σ γⁱ r + γᵏ agg Q'(s', π'(s') + noise), the noise normal and cut off,
//     the action kept in its box                                                        smooth
//  2. the critics against y, squared error, every head by itself                        QLoss
//  3. every critic_actor_ratio updates (2 in the paper) the actor, by -Q₀(s, π(s)), and
//     then Q' ← Q' + τ (Q - Q') and π' ← π' + τ (π - π')                                follow
//
// Metrics, over all replicas and updates of an iteration, NaN where there were none:
// td3/critic_loss, td3/actor_loss; critic/q_data = mean estimate of what was done, critic/lr,
// critic/grad_norm; actor/lr, actor/grad_norm; replay_buffer/size = transitions held,
// replay_buffer/total_samples = ever added; rollout/rewards.
type TD3 struct {
	*offPolicy
	policy          SoftPolicy
	critic, target  *policy.Critic
	targetActor     tensor.Tensor // F32, π': as long as the parameters
	actorOpt, qOpt  *trainState
	work, nextWork  policy.Work
	qWork, nextQ    *policy.CriticWork
	low, high, half []float32 // of the actions' box
	noiseSeed       uint64
	number          uint64 // of the update under way
	heads           []int
	y, next         []float32
	dQ, dAction     tensor.Tensor
	smoothed        tensor.Tensor // [micro,C,A]
	sums, values    []float64
	criticStep      func(b *Transitions, lo int, last bool) error
	actorStep       func(b *Transitions, lo int, last bool) error
}

var _ Algorithm = (*TD3)(nil)

// What TD3 sums over an iteration.
const (
	td3CriticLoss = iota
	td3QData
	td3Samples
	td3ActorLoss
	td3ActorSamples
	td3Reward
	td3Steps
	numTD3Sums
)

var td3Metrics = []string{
	"td3/critic_loss", "td3/actor_loss", "critic/q_data", "critic/lr", "critic/grad_norm", "actor/lr",
	"actor/grad_norm", "replay_buffer/size",
	"replay_buffer/total_samples", "rollout/rewards",
}

// fitsTD3 says why pol cannot be trained by TD3.
func fitsTD3(pol policy.Policy) error {
	if p, ok := pol.(SoftPolicy); !ok || !p.Noisy() || p.QHeadType() != policy.QHeadDefault {
		return errors.New("a policy with add_q_head and exploration_noise, with continuous actions, and " +
			"q_head_type default")
	}
	return nil
}

// NewTD3 makes TD3.
func NewTD3(s Setup) (*TD3, error) {
	a, err := newTD3(&s)
	if err != nil {
		return nil, fmt.Errorf("td3: %w", err)
	}
	return a, nil
}

func newTD3(s *Setup) (*TD3, error) {
	if err := fitsTD3(s.Policy); err != nil {
		return nil, fmt.Errorf("policy %T: expected %w", s.Policy, err)
	}
	pol := s.Policy.(SoftPolicy)
	r, err := newOffPolicy("td3", s)
	if err != nil {
		return nil, err
	}
	a := &TD3{offPolicy: r, policy: pol, sums: make([]float64, numTD3Sums), values: make([]float64, len(td3Metrics))}
	seeds := s.seeds()
	criticSeed := seeds.Uint64()
	a.noiseSeed = seeds.Uint64()
	for _, c := range []**policy.Critic{&a.critic, &a.target} {
		if *c, err = pol.NewCritic(criticSeed, s.Alloc); err != nil {
			return nil, err
		}
	}
	if a.actorOpt, err = s.newTrainState(pol.Params(), s.Optim); err != nil {
		return nil, err
	}
	if a.qOpt, err = s.newTrainState(a.critic.Params(), s.CriticOptim); err != nil {
		return nil, err
	}
	a.targetActor = tensor.New(tensor.F32, len(pol.Params().Data))
	copy(a.targetActor.F32(), pol.Params().Data)
	_, space := pol.Spaces()
	a.low, a.high, a.half = space.Low, space.High, halfWidths(space.Low, space.High)
	a.work, a.nextWork = pol.NewWork(a.micro), pol.NewWork(a.micro)
	a.qWork, a.nextQ = a.critic.NewWork(a.micro), a.target.NewWork(a.micro)
	for h := range a.critic.Heads() {
		a.heads = append(a.heads, h)
	}
	a.y, a.next = make([]float32, a.micro), make([]float32, a.micro)
	a.dQ = tensor.New(tensor.F32, len(a.heads), a.micro)
	a.dAction, a.smoothed = tensor.New(tensor.F32, a.batch.Action.Shape()...),
		tensor.New(tensor.F32, a.batch.Action.Shape()...)
	a.criticStep, a.actorStep, a.state = a.addCritic, a.addActor, a.views
	return a, nil
}

// Update makes the updates of an iteration; see Algorithm.
func (a *TD3) Update(tensor.Dict) (Metrics, error) {
	clear(a.sums)
	a.sums[td3Reward], a.sums[td3Steps] = a.rewards[0], a.rewards[1]
	iteration, err := a.iterate(a.sums, a.update)
	if err != nil {
		return Metrics{}, err
	}
	_, qLR := a.qOpt.adam.LR(iteration)
	lr, _ := a.actorOpt.adam.LR(iteration)
	size, total := a.held()
	copy(a.values, []float64{
		a.sums[td3CriticLoss] / a.sums[td3Samples], a.sums[td3ActorLoss] / a.sums[td3ActorSamples],
		a.sums[td3QData] / a.sums[td3Samples],
		qLR, a.qOpt.meanNorm(), lr, a.actorOpt.meanNorm(), size, total, a.sums[td3Reward] / a.sums[td3Steps],
	})
	return Metrics{Names: td3Metrics, Values: a.values}, nil
}

// update makes one update of the critics, and where it is time to of the actor and the targets.
func (a *TD3) update(iteration, held int, number uint64) error {
	a.number = number
	if err := a.descend(a.qOpt, iteration, a.criticStep); err != nil {
		return err
	}
	if held < a.off.TrainActorSteps || number%uint64(a.off.CriticActorRatio) != 0 {
		return nil
	}
	if err := a.descend(a.actorOpt, iteration, a.actorStep); err != nil {
		return err
	}
	follow(a.target.Params().Data, a.critic.Params().Data, a.off.Tau)
	follow(a.targetActor.F32(), a.policy.Params().Data, a.off.Tau)
	return nil
}

// addCritic adds the critics' gradient on a micro-batch.
func (a *TD3) addCritic(b *Transitions, lo int, last bool) error {
	if err := a.smooth(b.Next, lo); err != nil {
		return err
	}
	next, err := a.target.Q(a.nextQ, b.Next, a.smoothed)
	if err != nil {
		return err
	}
	AggregateQ(a.next, next.F32(), a.heads, a.off.AggQ)
	SoftTargets(a.y, b.Reward, b.Discount, a.next, a.next, 0)
	q, err := a.critic.Q(a.qWork, b.Obs, b.Action)
	if err != nil {
		return err
	}
	squares, estimates := QLoss(a.dQ.F32(), q.F32(), a.y, a.perSample)
	a.sums[td3CriticLoss] += squares
	a.sums[td3QData] += estimates
	a.sums[td3Samples] += float64(a.micro)
	a.critic.Backward(a.qWork, a.dQ, a.qOpt.readyAt(last))
	return nil
}

// smooth sets smoothed to π'(obs) with noise: clip(ε, ±target_noise_clip) of an action in [-1, 1].
func (a *TD3) smooth(obs tensor.Dict, lo int) error {
	p := a.policy.Params()
	own := p.Data
	p.Data = a.targetActor.F32()
	act, err := a.policy.Forward(a.nextWork, obs, policy.Deterministic, policy.Noise{})
	p.Data = own
	if err != nil {
		return err
	}
	action, clip := act.Action.F32(), a.off.TargetNoiseClip
	width := len(action) / a.micro
	for row := range a.micro {
		s := philox.New(a.noiseSeed, philox.Action, uint64(a.replica*a.local+lo+row), a.number)
		for i := row * width; i < (row+1)*width; i++ {
			z, _ := s.Normal()
			k := i % len(a.half)
			x := action[i] + a.half[k]*min(max(a.off.TargetNoise*float32(z), -clip), clip)
			a.smoothed.F32()[i] = min(max(x, a.low[k]), a.high[k])
		}
	}
	return nil
}

// addActor adds the actor's gradient on a micro-batch: that of -Q₀.
func (a *TD3) addActor(b *Transitions, _ int, last bool) error {
	act, err := a.policy.Forward(a.work, b.Obs, policy.Deterministic, policy.Noise{})
	if err != nil {
		return err
	}
	q, err := a.critic.Q(a.qWork, b.Obs, act.Action)
	if err != nil {
		return err
	}
	a.dQ.Zero()
	for i, x := range q.F32()[:a.micro] {
		a.dQ.F32()[i] = -a.perSample
		a.sums[td3ActorLoss] -= float64(x)
	}
	a.sums[td3ActorSamples] += float64(a.micro)
	a.critic.ActionGrad(a.qWork, a.dAction, a.dQ)
	return a.policy.Backward(a.work, policy.Grad{Action: a.dAction}, a.actorOpt.readyAt(last))
}

// views returns views of counters, optimisers, critics and targets.
func (a *TD3) views() tensor.Dict {
	var d tensor.Dict
	d.Set("counters", a.counters)
	a.actorOpt.save(&d, "actor", false)
	a.qOpt.save(&d, "critic", true)
	saveParams(&d, "target", a.target.Params())
	for _, f := range a.policy.Params().Fields {
		d.Set("target."+f.Name, tensor.FromF32(a.targetActor.F32()[f.Off:f.Off+f.Len()], f.Shape...))
	}
	return d
}
