package vla

import (
	"github.com/rlinf/rlinf/internal/philox"
	"github.com/rlinf/rlinf/policy/lm"
	"github.com/rlinf/rlinf/policy/nn/kernel"
)

// inOrder lets slots follow one another: each sees the prefix and the slots before it, and its row is
// its own place plus the token that the slot before it got (OpenVLA, Kim et al. 2024,
// arXiv:2406.09246). In a pass that acts, prefix and slots lie in a cache.
type inOrder struct {
	x    *pass
	bins []int32 // [rows, C·A], the token of each slot, as rows of Policy.previous

	sequences []*lm.Sequence // nil where a gradient follows
	pieces    []lm.Piece
	streams   []philox.Stream
	id        [1]int32 // of a slot
}

func newInOrder(x *pass, most int, training bool) *inOrder {
	o := &inOrder{x: x, bins: make([]int32, x.rows*x.p.count), id: [1]int32{lm.Given}}
	if training {
		return o
	}
	cache := x.p.trunk.NewCache(x.rows * ((most + lm.PageLen - 1) / lm.PageLen))
	for range x.rows {
		o.sequences = append(o.sequences, cache.NewSequence(most))
	}
	o.pieces, o.streams = make([]lm.Piece, x.rows), make([]philox.Stream, x.rows)
	return o
}

// token returns the row of Policy.previous of a bin of a slot.
func (o *inOrder) token(slot, bin int) int32 {
	if a := o.x.p.actions; slot%a.dims == a.gripper {
		return int32(a.bins + bin)
	}
	return int32(bin)
}

// fill sets the rows of all slots, [C·A, d], of a row of the batch, to their places and what action
// has before them.
func (o *inOrder) fill(dst, places, action []float32, row int) {
	p := o.x.p
	copy(dst, places)
	bins := o.bins[row*p.count:]
	for slot := range p.count {
		bins[slot] = o.token(slot, p.actions.encode(action[slot], slot%p.actions.dims))
	}
	for slot := 1; slot < p.count; slot++ {
		kernel.Axpy(dst[slot*p.d:(slot+1)*p.d], 1, o.before(slot, row))
	}
}

// before returns what the token before a slot adds to it.
func (o *inOrder) before(slot, row int) []float32 {
	p := o.x.p
	return p.params.Of(p.previous)[int(o.bins[row*p.count+slot-1])*p.d:][:p.d]
}

// backward adds the derivative by the rows of all slots to that by what came before them.
func (o *inOrder) backward(dx []float32, row int) {
	p := o.x.p
	grad := p.params.GradOf(p.previous)
	for slot := 1; slot < p.count; slot++ {
		at := int(o.bins[row*p.count+slot-1]) * p.d
		kernel.Axpy(grad[at:at+p.d], 1, dx[slot*p.d:(slot+1)*p.d])
	}
}

// begin computes the prefixes of n rows, which x has laid out.
func (o *inOrder) begin(n int) error {
	x := o.x
	width := x.p.senses.tokens * x.p.d
	for _, s := range o.sequences {
		s.Truncate(0)
	}
	for row := range n {
		o.pieces[row] = lm.Piece{Seq: o.sequences[row], IDs: x.ids[x.starts[row]:x.starts[row+1]],
			Given: x.given[row*width : (row+1)*width], Prefix: int(x.prefix[row])}
	}
	return x.p.trunk.Extend(x.trunk, o.pieces[:n]...)
}

// choose chooses the tokens of n rows one slot after the other.
func (o *inOrder) choose(action, logProb []float32, n int, t draws) error {
	x := o.x
	p, head := x.p, x.head.(*tokensWork)
	places := p.params.Of(p.slots)
	for row := range n {
		o.streams[row] = t.stream(row)
	}
	for slot := range p.count {
		for row := range n {
			in := x.slots[row*p.d : (row+1)*p.d]
			copy(in, places[slot*p.d:])
			if slot > 0 {
				kernel.Axpy(in, 1, o.before(slot, row))
			}
			o.pieces[row] = lm.Piece{Seq: o.sequences[row], IDs: o.id[:], Given: in, Prefix: int(x.prefix[row])}
		}
		if err := p.trunk.Extend(x.trunk, o.pieces[:n]...); err != nil {
			return err
		}
		logp, prob := head.slot(slot, x.trunk.Hidden(), n, t.at(p))
		options := len(logp) / n
		for row := range n {
			at := row*p.count + slot
			row := [2][]float32{logp[row*options : (row+1)*options], prob[row*options : (row+1)*options]}
			bin := t.pick(row[0], row[1], &o.streams[at/p.count])
			o.bins[at] = o.token(slot, bin)
			action[at], logProb[at] = p.actions.decode(bin, slot%p.actions.dims), row[0][bin]
		}
	}
	return nil
}
