package algo

import (
	"errors"
	"fmt"

	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/tensor"
)

// DQN learns what discrete actions are worth, Mnih et al. 2015, doi:10.1038/nature14236, with
// double Q-learning, van Hasselt et al. 2016, arXiv:1509.06461, and returns of n_step steps.
// Prepare adds a rollout to the replay buffer, Update makes update_epoch updates, each on a batch
// drawn from there:
//
//  1. targets y = Σ γⁱ r + γᵏ Q'(s', argmax Q(s', ·)), without double_q argmax Q'         GreedyTargets
//  2. the network against y, by squared error or Huber's (huber_delta)                    ChosenQLoss
//  3. every target_update_freq updates Q' ← Q' + τ (Q - Q'); τ = 1 copies                 follow
//
// Metrics, over all replicas and updates of an iteration, NaN where there were none: dqn/loss;
// critic/q_data = mean estimate of what was done, critic/lr, critic/grad_norm; replay_buffer/size =
// transitions held, replay_buffer/total_samples = ever added; rollout/rewards.
type DQN struct {
	*offPolicy
	policy     ValuePolicy
	target     tensor.Tensor // F32, Q': as long as the parameters
	opt        *trainState
	work, next policy.Work
	y          []float32
	dQ         tensor.Tensor // [micro,A], made for the first batch
	sums       []float64
	values     []float64
	step       func(b *Transitions, lo int, last bool) error
}

// A ValuePolicy chooses discrete actions by what it thinks they are worth.
type ValuePolicy interface {
	policy.Policy
	// Values returns that, F32 [N,A], -Inf for actions that are not allowed.
	Values(w policy.Work, obs tensor.Dict) (tensor.Tensor, error)
	// BackwardValues adds the gradient of a loss, given its derivatives by what Values, the last
	// call on w, returned; ready is as Backward's.
	BackwardValues(w policy.Work, dValues tensor.Tensor, ready func(lo, hi int)) error
}

var (
	_ Algorithm   = (*DQN)(nil)
	_ ValuePolicy = (*policy.Greedy)(nil)
)

// What DQN sums over an iteration.
const (
	dqnLoss = iota
	dqnQData
	dqnSamples
	dqnReward
	dqnSteps
	numDQNSums
)

var dqnMetrics = []string{
	"dqn/loss", "critic/q_data", "critic/lr", "critic/grad_norm", "replay_buffer/size", "replay_buffer/total_samples",
	"rollout/rewards",
}

// fitsDQN says why pol cannot be trained by DQN.
func fitsDQN(pol policy.Policy) error {
	if _, ok := pol.(ValuePolicy); !ok {
		return errors.New("a policy with add_q_head, whose actions are discrete (embodied_sac is for continuous " +
			"actions)")
	}
	return nil
}

// NewDQN makes DQN.
func NewDQN(s Setup) (*DQN, error) {
	pol, ok := s.Policy.(ValuePolicy)
	if !ok {
		return nil, fmt.Errorf("dqn: policy %T: expected %w", s.Policy, fitsDQN(s.Policy))
	}
	r, err := newOffPolicy("dqn", &s)
	if err != nil {
		return nil, fmt.Errorf("dqn: %w", err)
	}
	d := &DQN{offPolicy: r, policy: pol, y: make([]float32, r.micro), sums: make([]float64, numDQNSums),
		values: make([]float64, len(dqnMetrics))}
	if d.opt, err = s.newTrainState(pol.Params(), s.Optim); err != nil {
		return nil, fmt.Errorf("dqn: %w", err)
	}
	d.target = tensor.New(tensor.F32, len(pol.Params().Data))
	copy(d.target.F32(), pol.Params().Data)
	d.work, d.next = pol.NewWork(d.micro), pol.NewWork(d.micro)
	d.step, d.state = d.add, d.views
	return d, nil
}

// Update makes the updates of an iteration; see Algorithm.
func (d *DQN) Update(tensor.Dict) (Metrics, error) {
	clear(d.sums)
	d.sums[dqnReward], d.sums[dqnSteps] = d.rewards[0], d.rewards[1]
	iteration, err := d.iterate(d.sums, d.update)
	if err != nil {
		return Metrics{}, err
	}
	_, lr := d.opt.adam.LR(iteration)
	size, total := d.held()
	copy(d.values, []float64{
		d.sums[dqnLoss] / d.sums[dqnSamples], d.sums[dqnQData] / d.sums[dqnSamples], lr, d.opt.meanNorm(), size, total,
		d.sums[dqnReward] / d.sums[dqnSteps],
	})
	return Metrics{Names: dqnMetrics, Values: d.values}, nil
}

func (d *DQN) update(iteration, _ int, number uint64) error {
	if err := d.descend(d.opt, iteration, d.step); err != nil {
		return err
	}
	if number%uint64(d.off.TargetUpdateFreq) == 0 {
		follow(d.target.F32(), d.policy.Params().Data, d.off.Tau)
	}
	return nil
}

// add adds the gradient on a micro-batch.
func (d *DQN) add(b *Transitions, _ int, last bool) error {
	next, err := d.targetValues(b.Next)
	if err != nil {
		return err
	}
	choice := next
	if d.off.DoubleQ {
		if choice, err = d.policy.Values(d.work, b.Next); err != nil {
			return err
		}
	}
	GreedyTargets(d.y, b.Reward, b.Discount, next.F32(), choice.F32())
	q, err := d.policy.Values(d.work, b.Obs)
	if err != nil {
		return err
	}
	if d.dQ.IsZero() {
		d.dQ = tensor.New(tensor.F32, q.Shape()...)
	}
	loss, estimates := ChosenQLoss(d.dQ.F32(), q.F32(), b.Action.I32(), d.y, d.cfg.HuberDelta, d.perSample)
	d.sums[dqnLoss] += loss
	d.sums[dqnQData] += estimates
	d.sums[dqnSamples] += float64(d.micro)
	return d.policy.BackwardValues(d.work, d.dQ, d.opt.readyAt(last))
}

// targetValues returns Q' of obs: the policy computes it with other parameters.
func (d *DQN) targetValues(obs tensor.Dict) (tensor.Tensor, error) {
	p := d.policy.Params()
	own := p.Data
	p.Data = d.target.F32()
	defer func() { p.Data = own }()
	return d.policy.Values(d.next, obs)
}

// views returns views of counters, optimiser and target network.
func (d *DQN) views() tensor.Dict {
	var s tensor.Dict
	s.Set("counters", d.counters)
	d.opt.save(&s, "critic", false)
	for _, f := range d.policy.Params().Fields {
		s.Set("target."+f.Name, tensor.FromF32(d.target.F32()[f.Off:f.Off+f.Len()], f.Shape...))
	}
	return s
}
