package vla

import (
	"math"

	"github.com/rlinf/rlinf/policy/nn"
)

// laplaceLog is log 2, of the density of a Laplace distribution of scale 1: ½ e^-|x|.
const laplaceLog = math.Ln2

// l1Head gives each action by a small network on the slots of its dimensions, side by side, and
// learns by the absolute error: Kim et al. 2025, arXiv:2502.19645. Errors count in units of half a
// dimension's range. As a distribution it is Laplace's with scale 1, whose likelihood is that loss:
//
//	log p(a) = -|u - μ| - log 2
//
// It acts by the mean alone, so it cannot explore.
type l1Head struct {
	p     *Policy
	first int // field
	mlp   *nn.MLP[float32]
	last  *nn.Linear[float32]
}

func newL1Head(p *Policy, name string) *l1Head {
	in, first := p.actions.dims*p.d, len(p.params.Fields)
	m := nn.NewMLP(p.params, name, in, []int{p.d, p.d}, nn.ReLU)
	return &l1Head{p: p, first: first, mlp: m, last: nn.NewLinear(p.params, name+".head", m.Out, p.actions.dims)}
}

func (h *l1Head) init(seed uint64) {
	h.mlp.Init(seed, math.Sqrt2)
	h.last.Init(seed, firstGain)
}

func (h *l1Head) fields() (lo, hi int) {
	lo, _ = h.p.params.Range(h.first, h.first)
	_, hi = h.last.Range()
	return lo, hi
}

type l1Work struct {
	*l1Head
	mlp     *nn.MLPWork[float32]
	x, y    []float32 // what the last layer reads, and its means [n, C·A]
	h, dy   []float32 // the slots of the last evaluate, and the derivative by y
	scratch []float32
}

func (h *l1Head) newWork(rows int) headWork {
	n := rows * h.p.count
	return &l1Work{l1Head: h, mlp: h.mlp.NewWork(rows * h.p.cfg.NumActionChunks), y: nn.Vector[float32](n),
		dy: nn.Vector[float32](n), scratch: nn.Vector[float32](h.last.In * h.last.Out)}
}

// means computes those of n rows.
func (w *l1Work) means(h []float32, n int) {
	actions := n * w.p.cfg.NumActionChunks
	w.h = h[:n*w.p.count*w.p.d]
	w.x = w.l1Head.mlp.Forward(w.mlp, w.h, actions)
	w.last.Forward(w.y, w.x, actions)
}

func (w *l1Work) choose(action, logProb, h []float32, n int, _ draws) {
	w.means(h, n)
	a := w.p.actions
	for i := range n * w.p.count {
		dim := i % a.dims
		action[i] = a.number(min(max(float64(w.y[i]), -1), 1), dim)
		logProb[i] = w.logProb(i, action[i])
	}
}

func (w *l1Work) logProb(i int, action float32) float32 {
	u := float32(w.p.actions.unit(action, i%w.p.actions.dims))
	return -float32(math.Abs(float64(u-w.y[i]))) - laplaceLog
}

func (w *l1Work) evaluate(logProb, entropy, h, action []float32, n int) {
	w.means(h, n)
	for i := range n * w.p.count {
		logProb[i], entropy[i] = w.logProb(i, action[i]), 1+laplaceLog
		w.dy[i] = 1 // ∂ log p / ∂μ
		if float32(w.p.actions.unit(action[i], i%w.p.actions.dims)) < w.y[i] {
			w.dy[i] = -1
		}
	}
}

func (w *l1Work) backward(dh, dLogProb, _ []float32, n int) {
	for i := range n * w.p.count {
		w.dy[i] *= dLogProb[i]
	}
	actions := n * w.p.cfg.NumActionChunks
	w.last.Backward(w.l1Head.mlp.OutGrad(w.mlp, actions), w.x, w.dy, actions, false, w.scratch)
	w.l1Head.mlp.Backward(w.mlp, dh[:n*w.p.count*w.p.d], w.h, actions, nil)
}
