package vla

import (
	"github.com/rlinf/rlinf/internal/philox"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/policy/nn/kernel"
	"github.com/rlinf/rlinf/tensor"
)

// inOrder lets slots follow one another: each sees the prefix and the slots before it, and is made
// of its own place and the token that the slot before it got (OpenVLA, Kim et al. 2024,
// arXiv:2406.09246).
type inOrder struct {
	x       *pass
	bins    []int32 // [rows, C·A], the token of each slot, as rows of Policy.previous
	streams []philox.Stream
}

func newInOrder(x *pass, most int, training bool) *inOrder {
	o := &inOrder{x: x, bins: make([]int32, x.rows*x.p.count)}
	if !training {
		x.cache, o.streams = newCache(x, most), make([]philox.Stream, x.rows)
	}
	return o
}

// token returns the row of Policy.previous of a bin of a slot.
func (o *inOrder) token(slot, bin int) int32 {
	if a := o.x.p.actions; slot%a.dims == a.gripper {
		return int32(a.bins + bin)
	}
	return int32(bin)
}

func (o *inOrder) read(_ tensor.Dict, action []float32, n int, _ *policy.Noise) error {
	p := o.x.p
	for i := range n * p.count {
		o.bins[i] = o.token(i%p.count, p.actions.encode(action[i], i%p.actions.dims))
	}
	return nil
}

func (o *inOrder) add(slots []float32, row int) {
	p := o.x.p
	for slot := 1; slot < p.count; slot++ {
		kernel.Axpy(slots[slot*p.d:(slot+1)*p.d], 1, o.before(slot, row))
	}
}

// before returns what the token before a slot adds to it.
func (o *inOrder) before(slot, row int) []float32 {
	p := o.x.p
	return p.params.Of(p.previous)[int(o.bins[row*p.count+slot-1])*p.d:][:p.d]
}

func (o *inOrder) addGrad(dSlots []float32, row int) {
	p := o.x.p
	grad := p.params.GradOf(p.previous)
	for slot := 1; slot < p.count; slot++ {
		at := int(o.bins[row*p.count+slot-1]) * p.d
		kernel.Axpy(grad[at:at+p.d], 1, dSlots[slot*p.d:(slot+1)*p.d])
	}
}

func (o *inOrder) finish(int) {}

func (o *inOrder) decide(action, logProb, _ []float32, n int, t draws) error {
	x := o.x
	p, head := x.p, x.head.(*tokensWork)
	places := p.params.Of(p.slots)
	for row := range n {
		o.streams[row] = t.stream(row)
	}
	for slot := range p.count {
		for row := range n {
			in := x.slots[row*p.d : (row+1)*p.d]
			if copy(in, places[slot*p.d:]); slot > 0 {
				kernel.Axpy(in, 1, o.before(slot, row))
			}
		}
		h, err := x.cache.extend(x.slots, 1, n, false)
		if err != nil {
			return err
		}
		logp, prob := head.slot(slot, h, n, t.at(p))
		options := len(logp) / n
		for row := range n {
			of, at := logp[row*options:(row+1)*options], row*p.count+slot
			bin := t.pick(of, prob[row*options:(row+1)*options], &o.streams[row])
			o.bins[at] = o.token(slot, bin)
			action[at], logProb[at] = p.actions.decode(bin, slot%p.actions.dims), of[bin]
		}
	}
	return nil
}
