package vla

import (
	"fmt"
	"math"

	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/policy/graph"
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
	commonHead
	mean *nn.Net[float32] // [A·d, A], from the slots of an action
}

func (h *l1Head) check(c *policy.Config) error {
	if err := h.noLogits(c); err != nil || c.EvalTemperature == 0 {
		return err
	}
	return fmt.Errorf("rollout.sampling_params.temperature_eval: %v: expected 0 (action_head %s does not draw)",
		c.EvalTemperature, h.p.own.ActionHead)
}

func (h *l1Head) add() {
	p, dims := h.p, h.p.actions.dims
	h.mean = p.stack("actor", dims*p.d, []int{p.d, p.d}, nn.ReLU, dims, firstGain)
}

func (h *l1Head) graph(end graph.Node) ([]graph.Node, []graph.Param) {
	end.Op = graph.Laplace
	return []graph.Node{h.mean.Graph(), end}, nil
}

func (h *l1Head) explores() bool { return false }

func (h *l1Head) newWork(rows int) headWork {
	return &l1Work{l1Head: h, net: h.mean.NewWork(rows * h.p.cfg.NumActionChunks),
		slope: nn.Vector[float32](rows * h.p.dims)}
}

// An l1Work is the memory of an l1Head.
type l1Work struct {
	*l1Head
	net   *nn.NetWork[float32]
	means []float32 // [n, C·A]
	slope []float32 // [n, C·A], ∂ log p / ∂μ
}

// forward computes the means of n rows.
func (h *l1Work) forward(hidden []float32, n int) {
	h.means = h.mean.Forward(h.net, nn.Batch[float32]{Rows: n * h.p.cfg.NumActionChunks, Numbers: hidden})
}

// error returns u - μ, where u is the normalised action, and μ is element i of h.means.
func (h *l1Work) error(i int, action float32) float32 {
	return float32(h.p.actions.unit(action, i%h.p.actions.dims)) - h.means[i]
}

func (h *l1Work) choose(x *pass, action, logProb, _ []float32, _ sampling) error {
	h.forward(x.slots, x.n)
	for i, mean := range h.means {
		action[i] = h.p.actions.number(min(max(float64(mean), -1), 1), i%h.p.actions.dims)
		logProb[i] = -float32(math.Abs(float64(h.error(i, action[i])))) - laplaceLog
	}
	return nil
}

func (h *l1Work) evaluate(logProb, entropy, hidden, action []float32, n int) {
	h.forward(hidden, n)
	for i := range h.means {
		e := h.error(i, action[i])
		logProb[i], entropy[i] = -float32(math.Abs(float64(e)))-laplaceLog, 1+laplaceLog
		if h.slope[i] = 1; e < 0 {
			h.slope[i] = -1
		}
	}
}

func (h *l1Work) backward(dHidden, dLogProb, _ []float32, _ int) {
	dMean := h.mean.OutGrad(h.net)
	for i := range dMean {
		dMean[i] = h.slope[i] * dLogProb[i]
	}
	h.mean.Backward(h.net, dHidden, nil)
}
