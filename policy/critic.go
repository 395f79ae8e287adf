package policy

import (
	"fmt"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/tensor"
)

// A Critic estimates the values of continuous actions. It has H = Config.NumQHeads networks. The minimum of several
// estimates overestimates less than a single estimate (Fujimoto et al. 2018, arXiv:1802.09477). Users share the
// parameters, and each user has a CriticWork.
type Critic struct {
	obs  *observations
	dims int // C·A, or 0 if the critic values observations without actions
	box  unitBox
	net  *ensemble[float32]
}

// newCritic makes a critic. An action has dims numbers. If dims is 0, the critic values observations without actions.
func newCritic(cfg Config, spec env.Spec, dims int, box unitBox, seed uint64, alloc tensor.Allocator) (*Critic, error) {
	params := newParams(cfg)
	obs, err := newObservations(spec, cfg, nil, params)
	if err != nil {
		return nil, fmt.Errorf("critic for %s: %w", spec.Name, err)
	}
	c := &Critic{obs: obs, dims: dims, box: box, net: newEnsemble(cfg, params, obs.width+dims)}
	if err := params.Alloc(alloc); err != nil {
		return nil, fmt.Errorf("critic for %s: %w", spec.Name, err)
	}
	if !cfg.Blank {
		c.net.init(seed)
	}
	return c, nil
}

// Heads returns H, the number of networks.
func (c *Critic) Heads() int { return len(c.net.heads) }

// Params returns the parameters of all heads, in one group, "critic".
func (c *Critic) Params() *nn.Params[float32] { return c.net.params }

// A CriticWork holds one user's activations. Only the Critic that made the CriticWork can read them.
type CriticWork struct {
	maxRows int
	obs     *obsWork
	x       []float32     // [n, obs + action]
	dUnit   []float32     // [n, action]
	q       tensor.Tensor // values of the last call, [H,n]
	net     *ensembleWork[float32]
}

// NewWork returns a CriticWork for at most maxRows rows at a time.
func (c *Critic) NewWork(maxRows int) *CriticWork {
	net := c.net.newWork(maxRows)
	return &CriticWork{
		net: net, maxRows: maxRows, obs: c.obs.newWork(maxRows),
		x:     nn.Vector[float32](maxRows * c.net.width),
		dUnit: nn.Vector[float32](maxRows * c.dims),
	}
}

// Q returns the values, F32 [H,N], of actions [N,C,A] at the N rows of obs. A critic from SoftActor.NewValue ignores
// the actions. The values are valid until the next call with w.
func (c *Critic) Q(w *CriticWork, obs tensor.Dict, action tensor.Tensor) (tensor.Tensor, error) {
	n, err := c.fill(w, 0, obs, action)
	if err != nil {
		return tensor.Tensor{}, fmt.Errorf("critic: %w", err)
	}
	c.net.forward(w.net, w.x, n, false)
	return w.values(c.Heads(), n), nil
}

// JointQ returns values, F32 [H,2N]: first the values of action at the N rows of obs, then the values of nextAction at
// the N rows of nextObs. All 2N rows form one batch. If Config.QHeadType is crossq, the critic normalises with the
// statistics of this batch. The values are valid until the next call with w.
func (c *Critic) JointQ(w *CriticWork, obs tensor.Dict, action tensor.Tensor, nextObs tensor.Dict,
	nextAction tensor.Tensor) (tensor.Tensor, error) {
	n, err := c.fill(w, 0, obs, action)
	if err == nil {
		_, err = c.fill(w, n, nextObs, nextAction)
	}
	if err != nil {
		return tensor.Tensor{}, fmt.Errorf("critic: %w", err)
	}
	c.net.forward(w.net, w.x, 2*n, true)
	return w.values(c.Heads(), 2*n), nil
}

// values returns the values of the given number of heads and rows as a tensor.
func (w *CriticWork) values(heads, rows int) tensor.Tensor {
	if w.q.IsZero() || w.q.Dim(1) != rows {
		w.q = tensor.FromF32(w.net.q[:heads*rows], heads, rows)
	}
	return w.q
}

// fill writes observations and actions to the rows of w.x from firstRow on, and returns the number of rows.
func (c *Critic) fill(w *CriticWork, firstRow int, obs tensor.Dict, action tensor.Tensor) (int, error) {
	rows, n, err := c.obs.read(w.obs, obs, w.maxRows-firstRow)
	if err != nil {
		return 0, err
	}
	if c.dims == 0 {
		copy(w.x[firstRow*c.net.width:], rows[:n*c.net.width])
		return n, nil
	}
	if action.DType() != tensor.F32 || action.Len() != n*c.dims {
		return 0, fmt.Errorf("action %v: expected F32 of %d rows of %d", action, n, c.dims)
	}
	width, actions := c.obs.width, action.F32()
	for i := range n {
		x := w.x[(firstRow+i)*c.net.width : (firstRow+i+1)*c.net.width]
		copy(x, rows[i*width:(i+1)*width])
		c.box.toUnit(x[width:], actions[i*c.dims:(i+1)*c.dims])
	}
	return n, nil
}

// StatsLen returns the length of sums in AddStats and MergeStats, or 0 if this critic does not normalise. The running
// statistics are buffers of the parameters. They change once per update:
//
//	c.AddStats(sums, w)         // for the calls of JointQ on w since the last AddStats
//	err = reducer.Sum(sums)     // over the replicas
//	c.MergeStats(sums)          // with equal sums on all replicas
func (c *Critic) StatsLen() int { return c.net.statsLen() }

// AddStats adds to sums the number of batches that w has seen, and the sums of the means and variances
// of these batches.
func (c *Critic) AddStats(sums []float64, w *CriticWork) { c.net.addStats(sums, w.net) }

// MergeStats updates the running statistics with sums.
func (c *Critic) MergeStats(sums []float64) { c.net.mergeStats(sums) }

// Backward adds the gradient of a loss to Params().Grad. dQ is the gradient of the loss with respect to the values that
// the last Q or JointQ with w returned. Unless dFeatures, [rows,F], is nil, Backward sets it to the gradient of the
// loss with respect to the Features in all rows of that call. Policy.Backward describes ready.
func (c *Critic) Backward(w *CriticWork, dQ tensor.Tensor, dFeatures []float32, ready func(lo, hi int)) {
	c.net.backward(w.net, dQ.F32(), dFeatures, ready)
}

// ActionGrad sets dAction to the gradient of a loss with respect to the actions of the last Q with w. dQ is the
// gradient of the loss with respect to the values. dAction has the shape of the actions. Params().Grad is unchanged.
func (c *Critic) ActionGrad(w *CriticWork, dAction, dQ tensor.Tensor) {
	dst := w.dUnit[:w.net.n*c.dims]
	clear(dst)
	c.net.inputGrad(w.net, dst, dQ.F32(), c.obs.width)
	to := dAction.F32()
	for i, d := range dst {
		to[i] = d / c.box.half[i%len(c.box.half)]
	}
}
