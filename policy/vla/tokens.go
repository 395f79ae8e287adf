package vla

import (
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/policy/nn/kernel"
)

// A tokensHead gives each slot a distribution over the bins of its dimension: Kim et al. 2025,
// arXiv:2502.19645, with the log-probs that reinforcement learning needs. Slots are independent given
// what is observed.
type tokensHead struct {
	p       *Policy
	options []options // of bins, of the gripper, or of both
	chosen  []int32   // [n, C·A], bins
	entropy []float32 // [n, C·A]
	scratch []float32
}

// An options is a layer with the distributions of the slots that it serves.
type options struct {
	layer      *nn.Linear[float32]
	slots      []int32   // of a row
	x          []float32 // [n·slots, d], hidden states, then the derivative by them
	logp, prob []float32 // [n·slots, bins]
}

func newTokensHead(p *Policy, rows int) *tokensHead {
	a := p.actions
	w := &tokensHead{p: p, chosen: make([]int32, rows*p.dims), entropy: make([]float32, rows*p.dims),
		scratch: nn.Vector[float32](p.d * max(2, a.bins))}
	for _, l := range []*nn.Linear[float32]{p.bins, p.gripper} {
		if l == nil {
			continue
		}
		o := options{layer: l}
		for slot := range p.dims {
			if (slot%a.dims == a.gripper) == (l == p.gripper) {
				o.slots = append(o.slots, int32(slot))
			}
		}
		n := rows * len(o.slots)
		o.x, o.logp, o.prob = nn.Vector[float32](n*p.d), nn.Vector[float32](n*l.Out), nn.Vector[float32](n*l.Out)
		w.options = append(w.options, o)
	}
	return w
}

// optionsOf returns the options of a slot.
func (w *tokensHead) optionsOf(slot int) *options {
	if slot%w.p.actions.dims == w.p.actions.gripper {
		return &w.options[len(w.options)-1]
	}
	return &w.options[0]
}

// each calls f for all slots of n rows: the slot of that row has row i of o, and element at of [n, C·A].
func (w *tokensHead) each(n int, f func(o *options, i, row, slot, at int)) {
	for k := range w.options {
		o := &w.options[k]
		i := 0
		for row := range n {
			for _, slot := range o.slots {
				f(o, i, row, int(slot), row*w.p.dims+int(slot))
				i++
			}
		}
	}
}

// softmax sets logp and prob to those of the hidden states x, [n,d]: log softmax(logits/temperature).
func (o *options) softmax(x []float32, n int, temperature float64) {
	logp, prob := o.logp[:n*o.layer.Out], o.prob[:n*o.layer.Out]
	o.layer.Forward(logp, x, n)
	if temperature != 1 {
		kernel.Scale(logp, float32(1/temperature))
	}
	kernel.LogSoftmax(logp, logp, n, o.layer.Out)
	kernel.Exp(prob, logp)
}

// row returns a row of logp and prob.
func (o *options) row(i int) (logp, prob []float32) {
	n := o.layer.Out
	return o.logp[i*n : (i+1)*n], o.prob[i*n : (i+1)*n]
}

// temperature returns that by which the logits are divided: that of training where the likeliest
// actions are taken.
func (w *tokensHead) temperature(s *sampling) float64 {
	if s.temperature == 0 {
		return w.p.cfg.Temperature
	}
	return s.temperature
}

// distribute computes the log-probs of all options of n rows.
func (w *tokensHead) distribute(hidden []float32, n int, temperature float64) {
	d := w.p.d
	w.each(n, func(o *options, i, _, _, at int) { copy(o.x[i*d:(i+1)*d], hidden[at*d:]) })
	for k := range w.options {
		w.options[k].softmax(w.options[k].x, n*len(w.options[k].slots), temperature)
	}
}

func (w *tokensHead) choose(action, logProb, hidden []float32, n int, s sampling) {
	w.distribute(hidden, n, w.temperature(&s))
	a := w.p.actions
	w.each(n, func(o *options, i, row, slot, at int) {
		logp, prob := o.row(i)
		bin := s.pick(row, logp, prob)
		action[at], logProb[at] = a.decode(bin, slot%a.dims), logp[bin]
	})
}

func (w *tokensHead) evaluate(logProb, entropy, hidden, action []float32, n int) {
	w.distribute(hidden, n, w.p.cfg.Temperature)
	a := w.p.actions
	w.each(n, func(o *options, i, _, slot, at int) {
		logp, prob := o.row(i)
		bin := a.encode(action[at], slot%a.dims)
		var sum float32 // H = -Σ p log p
		for j, p := range prob {
			if p > 0 {
				sum -= p * logp[j]
			}
		}
		w.chosen[at], w.entropy[at] = int32(bin), sum
		logProb[at], entropy[at] = logp[bin], sum
	})
}

// backward: with p = softmax(z/T) and entropy H,
//
//	∂ log p_a / ∂z_j = ([j=a] - p_j)/T,    ∂H / ∂z_j = -p_j (log p_j + H)/T
func (w *tokensHead) backward(dHidden, dLogProb, dEntropy []float32, n int) {
	d, scale := w.p.d, float32(1/w.p.cfg.Temperature)
	w.each(n, func(o *options, i, _, _, at int) {
		dl, de, h := dLogProb[at], dEntropy[at], w.entropy[at]
		logp, dz := o.row(i)
		for j, p := range dz {
			if p > 0 {
				dz[j] = -p * (dl + de*(logp[j]+h)) * scale
			}
		}
		dz[w.chosen[at]] += dl * scale
	})
	for k := range w.options {
		o := &w.options[k]
		rows := n * len(o.slots)
		o.layer.Backward(o.x, o.x, o.prob[:rows*o.layer.Out], rows, false, w.scratch)
	}
	w.each(n, func(o *options, i, _, _, at int) { copy(dHidden[at*d:(at+1)*d], o.x[i*d:]) })
}
