package lm

import (
	"math"
	"slices"
	"strconv"

	"github.com/rlinf/rlinf/policy/nn"
)

// experts are the feed-forward blocks of a sparse layer. A router sends every token to a few of
// them; the shared expert gets all tokens. Shazeer et al. 2017, arXiv:1701.06538.
type experts struct {
	router     linear // without bias; every rank has the whole router
	all        []feedForward
	shared     feedForward
	sharedGate linear   // [d,1], if there is a shared expert
	c          *Experts // sizes of this part
	apart      bool     // whether outputs are summed over the ranks for each expert separately
}

func (m *Model) newExperts(prefix string) *experts {
	c := &m.Config.Experts
	x := &experts{c: &m.local.Experts, router: m.newLinear(prefix+"gate", m.Config.Hidden, c.Count, false, uncut)}
	for j := range c.Count {
		f := m.newFeedForward(prefix+"experts."+strconv.Itoa(j)+".", c.Intermediate)
		x.apart = x.apart || f.down.bias || f.gate.adapter != nil || f.up.adapter != nil || f.down.adapter != nil
		x.all = append(x.all, f)
	}
	if c.SharedIntermediate > 0 {
		x.shared = m.newFeedForward(prefix+"shared_expert.", c.SharedIntermediate)
		x.sharedGate = m.newLinear(prefix+"shared_expert_gate", m.Config.Hidden, 1, false, uncut)
	}
	return x
}

// routed has the activations of a sparse layer for n tokens. A token has a slot for each of its PerToken experts: slot
// s of token t has number t·PerToken + s. A place is the number of a slot in the order of computation: by expert, then
// by token.
type routed struct {
	probs    []float32 // [n, experts]
	chosen   []int32   // [slots]: the chosen expert
	weight   []float32 // [slots]
	place    []int32   // [slots]: place of the slot
	slot     []int32   // [places]: slot at the place
	starts   []int32   // [experts+1]: first place of the expert
	gate, up []float32 // [places, intermediate]
	out      []float32 // [places, d]

	sharedGate, sharedUp []float32 // [n, shared intermediate]
	sharedOut            []float32 // [n, d]
	sharedWeight         []float32 // [n]
}

func newRouted(m *Model, n int) *routed {
	c := &m.local.Experts
	slots, d := n*c.PerToken, m.Config.Hidden
	vector := func(n int) []float32 { return make([]float32, n) }
	return &routed{
		probs: vector(n * c.Count), chosen: make([]int32, slots), weight: vector(slots), place: make([]int32, slots),
		slot:   make([]int32, slots),
		starts: make([]int32, c.Count+1), gate: vector(slots * c.Intermediate), up: vector(slots * c.Intermediate),
		out:        vector(slots * d),
		sharedGate: vector(n * c.SharedIntermediate), sharedUp: vector(n * c.SharedIntermediate),
		sharedOut: vector(n * d), sharedWeight: vector(n),
	}
}

// forward adds the output of the experts for input [n,d] to y [n,d]. It adds contributions in the order of the slots,
// and the shared expert last.
func (x *experts) forward(w *Work, r *routed, y, input []float32, n int) {
	d, per := w.m.Config.Hidden, x.c.PerToken
	x.route(w, r, input, n)
	gathered := w.gathered[:n*per*d]
	w.base.CopyRows(gathered, nn.Rows{}, input, nn.Rows{Index: r.slot, Repeat: per}, nil, d, n*per)
	w.deferred = !x.apart
	for j := range x.all {
		lo, hi, f := int(r.starts[j]), int(r.starts[j+1]), x.c.Intermediate
		if lo < hi {
			x.all[j].forward(w, r.out[lo*d:], gathered[lo*d:hi*d], r.gate[lo*f:hi*f], r.up[lo*f:hi*f], hi-lo, nil)
		}
	}
	w.sumDeferred(r.out[:n*per*d])
	w.base.AddRows(y, nn.Rows{Repeat: per}, r.out, nn.Rows{Index: r.place}, r.weight, d, n*per)
	if x.c.SharedIntermediate == 0 {
		return
	}
	x.shared.forward(w, r.sharedOut, input, r.sharedGate, r.sharedUp, n, nil)
	x.sharedGate.forward(w, r.sharedWeight, input, n, nil)
	for t := range n {
		r.sharedWeight[t] = float32(1 / (1 + math.Exp(-float64(r.sharedWeight[t]))))
	}
	w.base.AddRows(y, nn.Rows{}, r.sharedOut, nn.Rows{}, r.sharedWeight, d, n)
}

// route chooses the most probable experts for every token. Of equally probable experts, it takes
// the expert with the smallest number.
func (x *experts) route(w *Work, r *routed, input []float32, n int) {
	count, per := x.c.Count, x.c.PerToken
	probs := r.probs[:n*count]
	x.router.forward(w, probs, input, n, nil)
	w.base.LogSoftmax(probs, probs, n, count)
	w.base.Exp(probs, probs)
	clear(r.starts)
	for t := range n {
		row := probs[t*count : (t+1)*count]
		chosen, weight := r.chosen[t*per:(t+1)*per], r.weight[t*per:(t+1)*per]
		sum := float32(0)
		for s := range per {
			best := -1
			for j, p := range row {
				if !slices.Contains(chosen[:s], int32(j)) && (best < 0 || p > row[best]) {
					best = j
				}
			}
			chosen[s], weight[s] = int32(best), row[best]
			sum += row[best]
			r.starts[best+1]++
		}
		if x.c.Normalize {
			for s := range weight {
				weight[s] /= sum
			}
		}
	}
	for j := range count {
		r.starts[j+1] += r.starts[j]
	}
	next := w.next[:count]
	copy(next, r.starts)
	for slot, j := range r.chosen[:n*per] {
		r.place[slot], r.slot[next[j]] = next[j], int32(slot)
		next[j]++
	}
}

// backward sets dx [n,d] from dy [n,d] and input, the input of the forward pass. It adds to the gradients of the
// weights. slope[e] is the derivative of the auxiliary loss with respect to a token's probability of expert e.
func (x *experts) backward(w *Work, r *routed, dx, dy, input, slope []float32, n int) {
	d, per, f := w.m.Config.Hidden, x.c.PerToken, x.c.Intermediate
	dprobs := w.dprobs[:n*x.c.Count]
	x.routeGrad(w, r, dprobs, dy, slope, n, d)

	gathered, dout, din := w.gathered[:n*per*d], r.out[:n*per*d], w.gathered2[:n*per*d]
	w.base.CopyRows(gathered, nn.Rows{}, input, nn.Rows{Index: r.slot, Repeat: per}, nil, d, n*per)
	// routeGrad has used the previous content of dout.
	w.base.CopyRows(dout, nn.Rows{Index: r.place}, dy, nn.Rows{Repeat: per}, r.weight, d, n*per)
	w.deferred = !x.apart
	for j := range x.all {
		lo, hi := int(r.starts[j]), int(r.starts[j+1])
		if lo < hi {
			x.all[j].backward(w, din[lo*d:hi*d], dout[lo*d:hi*d], gathered[lo*d:hi*d], r.gate[lo*f:hi*f],
				r.up[lo*f:hi*f], hi-lo)
		}
	}
	w.sumDeferred(din)
	w.inputGrad(dx, input, n, derivative{&x.router, dprobs})
	w.base.AddRows(dx, nn.Rows{Repeat: per}, din, nn.Rows{Index: r.place}, nil, d, n*per)
	if x.c.SharedIntermediate > 0 {
		x.sharedBackward(w, r, dx, dy, input, n, d)
	}
}

// routeGrad sets dprobs [n,experts] to the gradient of the loss with respect to the router's logits. Arguments are as
// in backward.
func (x *experts) routeGrad(w *Work, r *routed, dprobs, dy, slope []float32, n, d int) {
	count, per := x.c.Count, x.c.PerToken
	dweight, means := w.dslots[:n*per], w.dshared[:n]
	w.base.DotRows(dweight, dy, nn.Rows{Repeat: per}, r.out, nn.Rows{Index: r.place}, d, n*per)
	for t := range n {
		row, probs := dprobs[t*count:(t+1)*count], r.probs[t*count:(t+1)*count]
		copy(row, slope)
		sum, mean := float32(0), float32(0) // sum of the chosen probabilities; weighted mean of the weights' gradients
		for s := t * per; s < (t+1)*per; s++ {
			sum += probs[r.chosen[s]]
		}
		if x.c.Normalize {
			for s := t * per; s < (t+1)*per; s++ {
				mean += r.weight[s] * dweight[s]
			}
		}
		for s := t * per; s < (t+1)*per; s++ {
			by := dweight[s]
			if x.c.Normalize {
				by = (by - mean) / sum
			}
			row[r.chosen[s]] += by
		}
	}
	w.base.DotRows(means, dprobs, nn.Rows{}, r.probs, nn.Rows{}, count, n)
	for t, mean := range means {
		row := dprobs[t*count : (t+1)*count]
		for j, p := range r.probs[t*count : (t+1)*count] {
			row[j] = p * (row[j] - mean)
		}
	}
}

func (x *experts) sharedBackward(w *Work, r *routed, dx, dy, input []float32, n, d int) {
	dweight, dout, din := w.dshared[:n], r.sharedOut[:n*d], w.gathered2[:n*d]
	w.base.DotRows(dweight, dy, nn.Rows{}, dout, nn.Rows{}, d, n)
	for t, g := range r.sharedWeight[:n] {
		dweight[t] = dweight[t] * g * (1 - g)
	}
	w.base.CopyRows(dout, nn.Rows{}, dy, nn.Rows{}, r.sharedWeight, d, n)
	x.shared.backward(w, din, dout, input, r.sharedGate, r.sharedUp, n)
	w.base.Axpy(dx[:n*d], 1, din)
	w.inputGrad(din, input, n, derivative{&x.sharedGate, dweight})
	w.base.Axpy(dx[:n*d], 1, din)
}
