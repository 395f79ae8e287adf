package vla

import (
	"github.com/rlinf/rlinf/internal/philox"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/policy/nn/kernel"
)

// tokensHead gives each slot a distribution over the bins of its dimension: Kim et al. 2025,
// arXiv:2502.19645, in the form that reinforcement learning needs. Slots are independent given what
// is observed.
type tokensHead struct {
	p          *Policy
	wide, grip *nn.Linear[float32] // of all dimensions but the gripper, [d, bins], and of that, [d, 2]
}

func newTokensHead(p *Policy, name string) *tokensHead {
	h := &tokensHead{p: p}
	if p.actions.gripper != 0 {
		h.wide = nn.NewLinear(p.params, name+".bins", p.d, p.actions.bins)
	}
	if p.actions.gripper >= 0 {
		h.grip = nn.NewLinear(p.params, name+".gripper", p.d, 2)
	}
	return h
}

// firstGain is that of the first weights of action heads: the first policy hardly depends on what
// it sees.
const firstGain = 0.01

func (h *tokensHead) init(seed uint64) {
	for _, l := range []*nn.Linear[float32]{h.wide, h.grip} {
		if l != nil {
			l.Init(seed, firstGain)
		}
	}
}

func (h *tokensHead) fields() (lo, hi int) {
	switch {
	case h.grip == nil:
		return h.wide.Range()
	case h.wide == nil:
		return h.grip.Range()
	}
	lo, _ = h.wide.Range()
	_, hi = h.grip.Range()
	return lo, hi
}

// A part is the slots of one number of options, and their logits.
type part struct {
	layer      *nn.Linear[float32]
	slots      []int32   // of a row
	x, dx      []float32 // [n·slots, d]
	logp, prob []float32 // [n·slots, options]
}

type tokensWork struct {
	*tokensHead
	rows    int
	parts   []part
	chosen  []int32   // [n, C·A], bins
	entropy []float32 // [n, C·A]
	scratch []float32
}

func (h *tokensHead) newWork(rows int) headWork {
	a := h.p.actions
	w := &tokensWork{tokensHead: h, rows: rows, chosen: make([]int32, rows*h.p.count),
		entropy: make([]float32, rows*h.p.count), scratch: nn.Vector[float32](h.p.d * max(2, a.bins))}
	for _, l := range []*nn.Linear[float32]{h.wide, h.grip} {
		if l == nil {
			continue
		}
		t := part{layer: l}
		for slot := range h.p.count {
			if (slot%a.dims == a.gripper) == (l == h.grip) {
				t.slots = append(t.slots, int32(slot))
			}
		}
		n := rows * len(t.slots)
		t.x, t.logp, t.prob = nn.Vector[float32](n*h.p.d), nn.Vector[float32](n*l.Out), nn.Vector[float32](n*l.Out)
		w.parts = append(w.parts, t)
	}
	return w
}

// distribute computes the log-probs of all options of n rows: log softmax(logits/temperature).
func (w *tokensWork) distribute(h []float32, n int, temperature float64) {
	d, all := w.p.d, w.p.count
	for i := range w.parts {
		t := &w.parts[i]
		rows := n * len(t.slots)
		for row := range n {
			for k, slot := range t.slots {
				copy(t.x[(row*len(t.slots)+k)*d:][:d], h[(row*all+int(slot))*d:])
			}
		}
		t.softmax(t.x, rows, temperature)
	}
}

// softmax sets logp and prob to those of hidden states x [rows, d], and returns them.
func (t *part) softmax(x []float32, rows int, temperature float64) (logp, prob []float32) {
	n := rows * t.layer.Out
	logp, prob = t.logp[:n], t.prob[:n]
	t.layer.Forward(logp, x, rows)
	if temperature != 1 {
		kernel.Scale(logp, float32(1/temperature))
	}
	kernel.LogSoftmax(logp, logp, rows, t.layer.Out)
	kernel.Exp(prob, logp)
	return logp, prob
}

// options returns the log-probs and probabilities of slot k of part t in a row.
func (t *part) options(row, k int) (logp, prob []float32) {
	at, n := (row*len(t.slots)+k)*t.layer.Out, t.layer.Out
	return t.logp[at : at+n], t.prob[at : at+n]
}

// at returns the temperature of the distribution that actions are drawn from: that of training where
// they are not drawn.
func (t *draws) at(p *Policy) float64 {
	if t.temperature == 0 {
		return p.cfg.Temperature
	}
	return t.temperature
}

// stream names the random numbers of a row.
func (t *draws) stream(row int) philox.Stream {
	if t.temperature == 0 {
		return philox.Stream{}
	}
	return philox.New(t.noise.Seed, philox.Action, t.noise.Env[t.row+row], t.noise.Step[t.row+row])
}

// pick returns an option.
func (t *draws) pick(logp, prob []float32, s *philox.Stream) int {
	if t.temperature == 0 {
		return policy.Argmax(logp)
	}
	return policy.Draw(prob, s.Float64())
}

func (w *tokensWork) choose(action, logProb, h []float32, n int, t draws) {
	w.distribute(h, n, t.at(w.p))
	all, a := w.p.count, w.p.actions
	for row := range n {
		s := t.stream(row)
		for i := range w.parts {
			part := &w.parts[i]
			for k, slot := range part.slots {
				logp, prob := part.options(row, k)
				bin := t.pick(logp, prob, &s)
				at := row*all + int(slot)
				action[at], logProb[at] = a.decode(bin, int(slot)%a.dims), logp[bin]
			}
		}
	}
}

// slot computes the log-probs and probabilities of one slot of n rows, from its hidden states
// h [n,d]. They have the bits that distribute gives them.
func (w *tokensWork) slot(slot int, h []float32, n int, temperature float64) (logp, prob []float32) {
	t := &w.parts[0]
	if slot%w.p.actions.dims == w.p.actions.gripper {
		t = &w.parts[len(w.parts)-1]
	}
	return t.softmax(h, n, temperature)
}

func (w *tokensWork) evaluate(logProb, entropy, h, action []float32, n int) {
	w.distribute(h, n, w.p.cfg.Temperature)
	all, a := w.p.count, w.p.actions
	for row := range n {
		for i := range w.parts {
			part := &w.parts[i]
			for k, slot := range part.slots {
				logp, prob := part.options(row, k)
				at := row*all + int(slot)
				bin := a.encode(action[at], int(slot)%a.dims)
				var sum float32 // H = -Σ p log p
				for j, p := range prob {
					if p > 0 {
						sum -= p * logp[j]
					}
				}
				w.chosen[at], w.entropy[at] = int32(bin), sum
				logProb[at], entropy[at] = logp[bin], sum
			}
		}
	}
}

// backward: with p = softmax(z/T) and entropy H,
//
//	∂ log p_a / ∂z_j = ([j=a] - p_j)/T,    ∂H / ∂z_j = -p_j (log p_j + H)/T
func (w *tokensWork) backward(dh, dLogProb, dEntropy []float32, n int) {
	all, d := w.p.count, w.p.d
	scale := float32(1 / w.p.cfg.Temperature)
	for i := range w.parts {
		t := &w.parts[i]
		rows := n * len(t.slots)
		if t.dx == nil {
			t.dx = nn.Vector[float32](w.rows * len(t.slots) * d)
		}
		for row := range n {
			for k, slot := range t.slots {
				at := row*all + int(slot)
				dl, de, h := dLogProb[at], dEntropy[at], w.entropy[at]
				logp, dz := t.options(row, k)
				for j, p := range dz {
					if p > 0 {
						dz[j] = -p * (dl + de*(logp[j]+h)) * scale
					}
				}
				dz[w.chosen[at]] += dl * scale
			}
		}
		t.layer.Backward(t.dx, t.x, t.prob[:rows*t.layer.Out], rows, false, w.scratch)
		for row := range n {
			for k, slot := range t.slots {
				copy(dh[(row*all+int(slot))*d:][:d], t.dx[(row*len(t.slots)+k)*d:])
			}
		}
	}
}
