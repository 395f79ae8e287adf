package policy

import (
	"fmt"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/tensor"
)

// A Critic estimates what an action in a box is worth, H times over: by H = Config.NumQHeads networks of their own, because the least of several
// estimates, or the mean of some, overrates less than one (Fujimoto et al. 2018, arXiv:1802.09477). Parameters and works are shared as a Policy's are.
type Critic struct {
	obs    *observations
	action env.Space
	dims   int // C·A
	box    unitBox
	net    *ensemble[float32]
}

func newCritic(cfg Config, spec env.Spec, box unitBox, seed uint64, alloc tensor.Allocator) (*Critic, error) {
	params := newParams(cfg)
	obs, err := newObservations(spec.Obs, cfg, params)
	if err != nil {
		return nil, fmt.Errorf("critic for %s: %w", spec.Name, err)
	}
	dims := cfg.NumActionChunks * spec.Action.Dim()
	c := &Critic{obs: obs, action: spec.Action, dims: dims, box: box, net: newEnsemble(cfg, params, obs.width+dims)}
	if err := params.Alloc(alloc); err != nil {
		return nil, fmt.Errorf("critic for %s: %w", spec.Name, err)
	}
	c.net.init(seed)
	return c, nil
}

// Heads returns H.
func (c *Critic) Heads() int { return len(c.net.heads) }

// Params returns the parameters of all heads, one group: critic.
func (c *Critic) Params() *nn.Params[float32] { return c.net.params }

// A CriticWork holds one user's activations; only the Critic that made it can read it.
type CriticWork struct {
	maxRows int
	obs     *obsWork
	x       []float32 // [n, obs + action]
	dUnit   []float32 // [n, action]
	q       tensor.Tensor
	net     *ensembleWork[float32]
}

// NewWork returns a work for at most maxRows rows at a time.
func (c *Critic) NewWork(maxRows int) *CriticWork {
	net := c.net.newWork(maxRows)
	return &CriticWork{
		q: tensor.FromF32(net.q, len(net.q)), net: net, maxRows: maxRows, obs: c.obs.newWork(maxRows), x: nn.Vector[float32](maxRows * c.net.in),
		dUnit: nn.Vector[float32](maxRows * c.dims),
	}
}

// Q returns the values, F32 [H,N], of actions [N,C,A] at the N rows of obs. They are valid until w's next call.
func (c *Critic) Q(w *CriticWork, obs tensor.Dict, action tensor.Tensor) (tensor.Tensor, error) {
	rows, n, err := c.obs.read(w.obs, obs, w.maxRows)
	if err != nil {
		return tensor.Tensor{}, fmt.Errorf("critic: %w", err)
	}
	if action.DType() != tensor.F32 || action.Len() != n*c.dims {
		return tensor.Tensor{}, fmt.Errorf("critic: action %v: want F32 of %d rows of %d", action, n, c.dims)
	}
	width, actions := c.obs.width, action.F32()
	for i := range n {
		x := w.x[i*c.net.in : (i+1)*c.net.in]
		copy(x, rows[i*width:(i+1)*width])
		c.box.into(x[width:], actions[i*c.dims:(i+1)*c.dims])
	}
	c.net.forward(w.net, w.x, n)
	return w.q.Slice(0, c.Heads()*n).Reshape(c.Heads(), n), nil
}

// Backward adds to Params().Grad the gradient of a loss, given its derivatives by the values that the last Q on w returned. ready is as
// Policy.Backward's.
func (c *Critic) Backward(w *CriticWork, dQ tensor.Tensor, ready func(lo, hi int)) {
	c.net.backward(w.net, dQ.F32(), ready)
}

// ActionGrad sets dAction, of the actions' shape, to the derivative of a loss by the actions that the last Q on w valued, given those by the values.
// It leaves Params().Grad as it is.
func (c *Critic) ActionGrad(w *CriticWork, dAction, dQ tensor.Tensor) {
	dst := w.dUnit[:w.net.n*c.dims]
	clear(dst)
	c.net.inputGrad(w.net, dst, dQ.F32(), c.obs.width)
	to := dAction.F32()
	for i, d := range dst {
		to[i] = d / c.box.half[i%len(c.box.half)]
	}
}
