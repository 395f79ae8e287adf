package algo

import (
	"errors"

	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/tensor"
)

// DQN learns the values of discrete actions, Mnih et al. 2015, doi:10.1038/nature14236, with
// double Q-learning, van Hasselt et al. 2016, arXiv:1509.06461, and returns of n_step steps.
// Prepare adds a rollout to the replay buffer. Update makes update_epoch updates, each on a batch
// drawn from the buffer:
//
//  1. targets y = Σ γⁱ r + γᵏ Q'(s', argmax Q(s', ·)); argmax Q' without double_q         GreedyTargets
//  2. loss of Q against y: squared error, or Huber's loss with huber_delta                ChosenQLoss
//  3. Q' ← Q' + τ (Q - Q') every target_update_freq updates; τ = 1 copies Q               follow
//
// Metrics, over all replicas and updates of an iteration, None if there were no updates: dqn/loss;
// critic/q_data = mean estimate of the actions that were taken, critic/lr, critic/grad_norm;
// replay_buffer/size = transitions held, replay_buffer/total_samples = ever added; rollout/rewards.
type DQN struct {
	*offPolicy
	policy, target   *policy.Greedy // networks of Q and Q'
	work, targetWork policy.Work
	train            *trainState
	y                []float32     // [micro]: targets of the values of the actions taken
	dQ               tensor.Tensor // [micro,A]
}

var (
	_ Algorithm = (*DQN)(nil)
	_ Follower  = (*DQN)(nil)
)

// Indices of DQN's means over an iteration.
const (
	dqnLoss = firstMean + iota
	dqnQData
	numDQNMeans
)

func fitsDQN(pol policy.Policy) error {
	if _, ok := pol.(*policy.Greedy); !ok {
		return errors.New("a policy with add_q_head, whose actions are discrete (embodied_sac is for continuous " +
			"actions)")
	}
	return nil
}

// NewDQN makes DQN.
func NewDQN(s Setup) (*DQN, error) { return newChecked("dqn", s, fitsDQN, newDQN) }

// dqnKeys declares the keys of NewDQN.
func dqnKeys(s *Setup, k *Keys) {
	replayKeys(k, false)
	hindsightKeys(s, k)
	returnKeys(k)
	k.Read("tau", "target_update_freq", "double_q", "huber_delta", "actor.model.epsilon_start",
		"actor.model.epsilon_end", "actor.model.epsilon_steps")
	k.ReadOptim("actor.optim", &s.Optim)
	k.Read("actor.optim.value_lr")
}

func newDQN(s *Setup) (*DQN, error) {
	e, err := newOffPolicy(s, "dqn", false, numDQNMeans)
	if err != nil {
		return nil, err
	}
	d := &DQN{offPolicy: e, policy: s.Policy.(*policy.Greedy), y: make([]float32, e.micro)}
	if d.target, err = d.policy.NewTarget(s.Alloc); err != nil {
		return nil, err
	}
	d.work, d.targetWork = d.policy.NewWork(d.micro), d.target.NewWork(d.micro)
	if d.train, err = s.newTrainState(d.policy.Params(), s.Optim); err != nil {
		return nil, err
	}
	_, space := d.policy.Spaces()
	d.dQ = tensor.New(tensor.F32, d.micro, space.Nvec[0])
	d.train.save(&d.state, "critic", false)
	saveParams(&d.state, "target", d.target.Params())
	return d, nil
}

// Follow makes the target network equal to the network; see Follower.
func (d *DQN) Follow() { copy(d.target.Params().State(), d.policy.Params().State()) }

// Update makes the updates of an iteration; see Algorithm.
func (d *DQN) Update(tensor.Dict) (Metrics, error) {
	if err := d.iterate(d.update); err != nil {
		return Metrics{}, err
	}
	d.reportMean("dqn/loss", dqnLoss)
	d.reportMean("critic/q_data", dqnQData)
	d.reportCritic(d.train)
	d.reportReplay()
	d.reportMean("rollout/rewards", rolloutReward)
	return d.metrics, nil
}

// update makes one step of the network. When it is due, it also moves the target network.
func (d *DQN) update() error {
	if err := d.descend(d.train, d.add); err != nil {
		return err
	}
	if d.due(d.off.TargetUpdateFreq) {
		follow(d.policy.Params().Ops(), d.target.Params().Data, d.policy.Params().Data, d.off.Tau)
	}
	return nil
}

// add adds the gradient of the loss on a micro-batch.
func (d *DQN) add(b *Transitions, ready func(lo, hi int)) error {
	next, err := d.target.Values(d.targetWork, b.Next)
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
	loss, estimates := ChosenQLoss(d.dQ.F32(), q.F32(), b.Action.I32(), d.y, d.cfg.HuberDelta, d.perSample)
	d.sums.add(dqnLoss, loss, float64(d.micro))
	d.sums.add(dqnQData, estimates, float64(d.micro))
	return d.policy.BackwardValues(d.work, d.dQ, ready)
}
