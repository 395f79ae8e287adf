package vla

import (
	"github.com/rlinf/rlinf/policy/graph"
	"github.com/rlinf/rlinf/policy/nn"
)

// A tokensHead computes a distribution over bins for each slot (Kim et al. 2025, arXiv:2502.19645). Given the
// observation, slots are independent.
type tokensHead struct {
	commonHead
	bins    *nn.Linear[float32] // [d, bins], for all dimensions except the gripper; nil if the gripper is the only one
	gripper *nn.Linear[float32] // [d, 2]; nil without a gripper
}

func (h *tokensHead) add() {
	p, a := h.p, h.p.actions
	if a.gripper != 0 {
		h.bins = p.linear("actor.bins", p.d, a.bins, firstGain)
	}
	if a.gripper >= 0 {
		h.gripper = p.linear("actor.gripper", p.d, 2, firstGain)
	}
}

func (h *tokensHead) graph(end graph.Node) ([]graph.Node, []graph.Param) {
	end.Op = graph.Bins
	end.Consts = append(end.Consts, graph.Const{Name: "bins", Value: h.p.actions.bins})
	for _, l := range []*nn.Linear[float32]{h.bins, h.gripper} {
		if l != nil {
			end.Parts = append(end.Parts, l.Graph())
		}
	}
	return []graph.Node{end}, nil
}

func (h *tokensHead) newWork(rows int) headWork { return h.newTokensWork(rows) }

// A tokensWork is the memory of a tokensHead.
type tokensWork struct {
	p       *Policy
	groups  []slotGroup // the group of slots with bins, the group of the gripper, or both
	chosen  []int32     // [n, C·A]: the chosen bins
	entropy []float32   // [n, C·A]
	scratch []float32
}

// A slotGroup holds the slots that share a layer, and the distributions of these slots.
type slotGroup struct {
	ops        nn.Ops[float32]
	layer      *nn.Linear[float32]
	slots      []int32   // indices of the slots in a row
	x          []float32 // [n·slots, d], hidden states, then their gradient
	logp, prob []float32 // [n·slots, bins]
}

func (head *tokensHead) newTokensWork(rows int) *tokensWork {
	p, a := head.p, head.p.actions
	h := &tokensWork{p: p, chosen: make([]int32, rows*p.dims), entropy: make([]float32, rows*p.dims),
		scratch: nn.Vector[float32](p.d * max(2, a.bins))}
	for _, l := range []*nn.Linear[float32]{head.bins, head.gripper} {
		if l == nil {
			continue
		}
		g := slotGroup{ops: p.params.Ops(), layer: l}
		for slot := range p.dims {
			if (slot%a.dims == a.gripper) == (l == head.gripper) {
				g.slots = append(g.slots, int32(slot))
			}
		}
		n := rows * len(g.slots)
		g.x, g.logp, g.prob = nn.Vector[float32](n*p.d), nn.Vector[float32](n*l.Out), nn.Vector[float32](n*l.Out)
		h.groups = append(h.groups, g)
	}
	return h
}

// group returns the group of a slot.
func (h *tokensWork) group(slot int) *slotGroup {
	if slot%h.p.actions.dims == h.p.actions.gripper {
		return &h.groups[len(h.groups)-1]
	}
	return &h.groups[0]
}

// each calls f for all slots of n rows. g is the group of the slot, and i is the index of the slot's row of x in g.
// index is the slot's index in [n, C·A].
func (h *tokensWork) each(n int, f func(g *slotGroup, i, row, slot, index int)) {
	for k := range h.groups {
		g := &h.groups[k]
		i := 0
		for row := range n {
			for _, slot := range g.slots {
				f(g, i, row, int(slot), row*h.p.dims+int(slot))
				i++
			}
		}
	}
}

// softmax sets logp and prob for the hidden states x, [n,d]. logp is log softmax(logits/temperature), and prob is
// e^logp.
func (g *slotGroup) softmax(x []float32, n int, temperature float64) {
	logp, prob := g.logp[:n*g.layer.Out], g.prob[:n*g.layer.Out]
	g.layer.Forward(logp, x, n)
	if temperature != 1 {
		g.ops.Scale(logp, float32(1/temperature))
	}
	g.ops.LogSoftmax(logp, logp, n, g.layer.Out)
	g.ops.Exp(prob, logp)
}

// row returns a row of logp and prob.
func (g *slotGroup) row(i int) (logp, prob []float32) {
	n := g.layer.Out
	return g.logp[i*n : (i+1)*n], g.prob[i*n : (i+1)*n]
}

// temperature returns the divisor of the logits: s.temperature, or the temperature of training if s.temperature is 0.
func (h *tokensWork) temperature(s *sampling) float64 {
	if s.temperature == 0 {
		return h.p.cfg.Temperature
	}
	return s.temperature
}

// distribute computes the distributions of n rows.
func (h *tokensWork) distribute(hidden []float32, n int, temperature float64) {
	d := h.p.d
	h.each(n, func(g *slotGroup, i, _, _, at int) { copy(g.x[i*d:(i+1)*d], hidden[at*d:]) })
	for k := range h.groups {
		h.groups[k].softmax(h.groups[k].x, n*len(h.groups[k].slots), temperature)
	}
}

func (h *tokensWork) choose(x *pass, action, logProb, _ []float32, s sampling) error {
	h.distribute(x.slots, x.n, h.temperature(&s))
	a := h.p.actions
	h.each(x.n, func(g *slotGroup, i, row, slot, at int) {
		logp, prob := g.row(i)
		bin := s.pick(row, logp, prob)
		action[at], logProb[at] = a.decode(bin, slot%a.dims), logp[bin]
	})
	return nil
}

func (h *tokensWork) evaluate(logProb, entropy, hidden, action []float32, n int) {
	h.distribute(hidden, n, h.p.cfg.Temperature)
	a := h.p.actions
	h.each(n, func(g *slotGroup, i, _, slot, at int) {
		logp, prob := g.row(i)
		bin := a.encode(action[at], slot%a.dims)
		var sum float32 // H = -Σ p log p
		for j, p := range prob {
			if p > 0 {
				sum -= p * logp[j]
			}
		}
		h.chosen[at], h.entropy[at] = int32(bin), sum
		logProb[at], entropy[at] = logp[bin], sum
	})
}

// backward computes the gradient of the logits z. With p = softmax(z/T) and entropy H,
//
//	∂ log p_a / ∂z_j = ([j=a] - p_j)/T,    ∂H / ∂z_j = -p_j (log p_j + H)/T
func (h *tokensWork) backward(dHidden, dLogProb, dEntropy []float32, n int) {
	d, scale := h.p.d, float32(1/h.p.cfg.Temperature)
	h.each(n, func(g *slotGroup, i, _, _, at int) {
		dl, de, entropy := dLogProb[at], dEntropy[at], h.entropy[at]
		logp, dz := g.row(i)
		for j, p := range dz {
			if p > 0 {
				dz[j] = -p * (dl + de*(logp[j]+entropy)) * scale
			}
		}
		dz[h.chosen[at]] += dl * scale
	})
	for k := range h.groups {
		g := &h.groups[k]
		rows := n * len(g.slots)
		g.layer.Backward(g.x, g.x, g.prob[:rows*g.layer.Out], rows, false, h.scratch)
	}
	h.each(n, func(g *slotGroup, i, _, _, at int) { copy(dHidden[at*d:(at+1)*d], g.x[i*d:]) })
}
