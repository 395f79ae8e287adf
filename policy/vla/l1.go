package vla

import (
	"math"

	"github.com/rlinf/rlinf/policy/nn"
)

// laplaceLog is the term log 2 of -|x| - log 2, the log density of a Laplace distribution of scale 1.
const laplaceLog = math.Ln2

// An l1Head computes each action with a small network. The network reads the hidden states of the action's slots, side
// by side. The loss is the absolute error (Kim et al. 2025, arXiv:2502.19645), in units of half the range of a
// dimension. The actions have a Laplace distribution of scale 1. The log density contains this error:
//
//	log p(a) = -|u - μ| - log 2
//
// An l1Head always chooses the mean, so it cannot explore.
type l1Head struct {
	p     *Policy
	net   *nn.NetWork[float32]
	mean  []float32 // [n, C·A]
	slope []float32 // [n, C·A], ∂ log p / ∂μ
}

func newL1Head(p *Policy, rows int) *l1Head {
	return &l1Head{p: p, net: p.mean.NewWork(rows * p.cfg.NumActionChunks), slope: nn.Vector[float32](rows * p.dims)}
}

// means computes the means of n rows.
func (h *l1Head) means(hidden []float32, n int) {
	h.mean = h.p.mean.Forward(h.net, nn.Batch[float32]{Rows: n * h.p.cfg.NumActionChunks, Numbers: hidden})
}

// error returns u - μ. u is the normalised action, and μ is element i of h.mean.
func (h *l1Head) error(i int, action float32) float32 {
	return float32(h.p.actions.unit(action, i%h.p.actions.dims)) - h.mean[i]
}

func (h *l1Head) choose(x *pass, action, logProb, _ []float32, _ sampling) error {
	h.means(x.slots, x.n)
	for i, mean := range h.mean {
		action[i] = h.p.actions.number(min(max(float64(mean), -1), 1), i%h.p.actions.dims)
		logProb[i] = -float32(math.Abs(float64(h.error(i, action[i])))) - laplaceLog
	}
	return nil
}

func (h *l1Head) evaluate(logProb, entropy, hidden, action []float32, n int) {
	h.means(hidden, n)
	for i := range h.mean {
		e := h.error(i, action[i])
		logProb[i], entropy[i] = -float32(math.Abs(float64(e)))-laplaceLog, 1+laplaceLog
		if h.slope[i] = 1; e < 0 {
			h.slope[i] = -1
		}
	}
}

func (h *l1Head) backward(dHidden, dLogProb, _ []float32, _ int) {
	dMean := h.p.mean.OutGrad(h.net)
	for i := range dMean {
		dMean[i] = h.slope[i] * dLogProb[i]
	}
	h.p.mean.Backward(h.net, dHidden, nil)
}
