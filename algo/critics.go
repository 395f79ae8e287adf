package algo

import (
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/tensor"
)

// critics are networks in training that estimate the values of actions or of states (NewCritic and
// NewValue of policy.SoftActor), with the memory for one micro-batch.
type critics struct {
	net        *policy.Critic
	train      *trainState
	work       *policy.CriticWork
	target     *policy.Critic // Q', the target network; nil: none
	targetWork *policy.CriticWork
	heads      []int         // indices of all heads; SAC puts the heads that count in targets first
	next, y    []float32     // [micro]: estimates of the next states, and targets
	dQ         tensor.Tensor // [H,micro]
}

// newCritics makes critics with build. Their initial parameters depend on seed alone. With target it also makes a
// target network, with the same parameters.
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

// learn adds the gradient of the squared error between c.y and the estimates of the actions in b. It returns the sums
// of squares and of estimates; see QLoss.
func (c *critics) learn(b *Transitions, perSample float32, ready func(lo, hi int)) (squares, estimates float64,
	err error) {
	q, err := c.net.Q(c.work, b.Obs, b.Action)
	if err != nil {
		return 0, 0, err
	}
	squares, estimates = QLoss(c.dQ.F32(), q.F32(), c.y, perSample)
	c.net.Backward(c.work, c.dQ, ready)
	return squares, estimates, nil
}

// follow moves the target network towards the critics.
func (c *critics) follow(tau float32) { follow(c.target.Params().Data, c.net.Params().Data, tau) }
