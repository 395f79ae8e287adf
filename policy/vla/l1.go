package vla

import (
	"math"

	"github.com/rlinf/rlinf/policy/nn"
)

// laplaceLog is log 2, of the density of a Laplace distribution of scale 1: ½ e^-|x|.
const laplaceLog = math.Ln2

// An l1Head computes each action by a small network on the slots of its dimensions, side by side, and
// learns by the absolute error: Kim et al. 2025, arXiv:2502.19645. Errors count in units of half a
// dimension's range. As a distribution it is Laplace's with scale 1, whose likelihood is that loss:
//
//	log p(a) = -|u - μ| - log 2
//
// It always chooses the mean, so it cannot explore.
type l1Head struct {
	p       *Policy
	mlp     *nn.MLPWork[float32]
	hidden  []float32 // of the slots, [n, C·A, d]
	x       []float32 // the input of the last layer
	mean    []float32 // [n, C·A]
	dMean   []float32 // [n, C·A]
	scratch []float32
}

func newL1Head(p *Policy, rows int) *l1Head {
	return &l1Head{p: p, mlp: p.mlp.NewWork(rows * p.cfg.NumActionChunks),
		mean: nn.Vector[float32](rows * p.dims), dMean: nn.Vector[float32](rows * p.dims),
		scratch: nn.Vector[float32](p.out.In * p.out.Out)}
}

// means computes those of n rows.
func (w *l1Head) means(hidden []float32, n int) {
	actions := n * w.p.cfg.NumActionChunks
	w.hidden = hidden[:n*w.p.dims*w.p.d]
	w.x = w.p.mlp.Forward(w.mlp, w.hidden, actions)
	w.p.out.Forward(w.mean, w.x, actions)
}

// deviation returns u - μ of an element of the last means, given its action.
func (w *l1Head) deviation(i int, action float32) float32 {
	return float32(w.p.actions.unit(action, i%w.p.actions.dims)) - w.mean[i]
}

func (w *l1Head) choose(action, logProb, hidden []float32, n int, _ sampling) {
	w.means(hidden, n)
	for i := range n * w.p.dims {
		action[i] = w.p.actions.number(min(max(float64(w.mean[i]), -1), 1), i%w.p.actions.dims)
		logProb[i] = -float32(math.Abs(float64(w.deviation(i, action[i])))) - laplaceLog
	}
}

func (w *l1Head) evaluate(logProb, entropy, hidden, action []float32, n int) {
	w.means(hidden, n)
	for i := range n * w.p.dims {
		e := w.deviation(i, action[i])
		logProb[i], entropy[i] = -float32(math.Abs(float64(e)))-laplaceLog, 1+laplaceLog
		w.dMean[i] = 1 // ∂ log p / ∂μ
		if e < 0 {
			w.dMean[i] = -1
		}
	}
}

func (w *l1Head) backward(dHidden, dLogProb, _ []float32, n int) {
	for i := range n * w.p.dims {
		w.dMean[i] *= dLogProb[i]
	}
	actions := n * w.p.cfg.NumActionChunks
	w.p.out.Backward(w.p.mlp.OutGrad(w.mlp, actions), w.x, w.dMean, actions, false, w.scratch)
	w.p.mlp.Backward(w.mlp, dHidden[:n*w.p.dims*w.p.d], w.hidden, actions, nil)
}
