package algo

import (
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/tensor"
)

// An actor is a policy of continuous actions in training, with memory for one micro-batch. The gradient of its loss
// passes through its chosen actions.
type actor struct {
	policy  *policy.SoftActor
	train   *trainState
	work    policy.Work
	dAction tensor.Tensor // [micro,C,A]
}

// newActor makes the actor for s.Policy, which must be a SoftActor. Its optimiser does not train the encoder. b has the
// shapes of micro-batches.
func newActor(s *Setup, b *Transitions) (*actor, error) {
	pol := s.Policy.(*policy.SoftActor)
	train, err := s.newGroupState(pol.Params(), s.Optim, policy.ActorGroup)
	if err != nil {
		return nil, err
	}
	return &actor{policy: pol, train: train, work: pol.NewFeatureWork(len(b.Reward)),
		dAction: tensor.New(tensor.F32, b.Action.Shape()...)}, nil
}

// halfWidths returns half the width of the box of pol's actions, in each dimension.
func halfWidths(pol policy.Policy) []float32 {
	_, space := pol.Spaces()
	half := make([]float32, len(space.Low))
	for k, low := range space.Low {
		half[k] = (space.High[k] - low) / 2
	}
	return half
}

// critics holds critic networks in training, and memory for one micro-batch. They estimate the values of actions
// (policy.SoftActor.NewCritic) or of states (NewValue).
type critics struct {
	net        *policy.Critic
	train      *trainState
	work       *policy.CriticWork
	features   *features      // for critics of actions, if there is an encoder; else nil
	target     *policy.Critic // Q', the target network; may be nil
	targetWork *policy.CriticWork
	heads      []int         // indices of all heads; SAC moves the heads that it draws for targets to the front
	next, y    []float32     // [micro]: estimates of the next states, and targets
	dQ         tensor.Tensor // [H,micro]
}

// newCritics calls build to make critics. Their initial parameters depend only on seed. If target is set, newCritics
// also makes a target network, with equal parameters.
func newCritics(s *Setup, micro int, build func(uint64, tensor.Allocator) (*policy.Critic, error), seed uint64,
	target bool) (*critics, error) {
	net, err := build(seed, s.Alloc)
	if err != nil {
		return nil, err
	}
	c := &critics{net: net, work: net.NewWork(micro), next: make([]float32, micro), y: make([]float32, micro),
		dQ: tensor.New(tensor.F32, net.Heads(), micro)}
	for h := range net.Heads() {
		c.heads = append(c.heads, h)
	}
	if target {
		if c.target, err = build(seed, s.Alloc); err != nil {
			return nil, err
		}
		c.targetWork = c.target.NewWork(micro)
	}
	c.train, err = s.newTrainState(net.Params(), s.CriticOptim)
	return c, err
}

// criticKeys declares the keys of an actor with critics of actions. s.CriticOptim and the optimisers in others take
// their defaults from the actor's optimiser.
func criticKeys(s *Setup, k *Keys, others ...*OptimConfig) {
	k.ReadOptim("actor.optim", &s.Optim, append(others, &s.CriticOptim)...)
	k.Read("actor.optim.value_lr") // the critics' value_lr has it as its default
	k.ReadOptim("actor.critic_optim", &s.CriticOptim)
	k.Read("actor.critic_optim.value_lr", "actor.model.num_q_heads", "actor.model.layer_norm")
	imageKeys(k)
}

// imageKeys declares the keys of the images that a SoftActor sees.
func imageKeys(k *Keys) {
	k.Read("actor.model.image_num", "actor.model.image_size", "actor.model.state_dim")
}

// learn adds the gradient of the squared error between c.y and the estimates of the actions in b. It returns the sums
// of squares and of estimates; see QLoss.
func (c *critics) learn(b *Transitions, perSample float32, ready func(lo, hi int)) (squares, estimates float64,
	err error) {
	obs, err := c.features.ofObs(b)
	if err != nil {
		return 0, 0, err
	}
	q, err := c.net.Q(c.work, obs, b.Action)
	if err != nil {
		return 0, 0, err
	}
	squares, estimates = QLoss(c.dQ.F32(), q.F32(), c.y, perSample)
	c.net.Backward(c.work, c.dQ, c.features.gradientOf(len(b.Reward)), ready)
	return squares, estimates, c.features.backward(b)
}

// transfer transfers the parameters and moments of the critics, of their target network and of the encoder.
func (c *critics) transfer(to transfer) {
	c.train.transfer(to)
	if c.target != nil {
		to(c.target.Params(), c.target.Params().Data)
	}
	c.features.transfer(to)
}

// follow moves the target network towards the critics, and the target encoder towards the encoder.
func (c *critics) follow(tau float32) {
	follow(c.net.Params().Ops(), c.target.Params().Data, c.net.Params().Data, tau)
	c.features.follow(tau)
}
