package vla

import "github.com/rlinf/rlinf/policy/nn/kernel"

// An autoregressiveHead is a tokensHead whose slots follow one another: each sees the prefix and the
// slots before it. A slot is made of its own embedding and of that of the token before it (OpenVLA,
// Kim et al. 2024, arXiv:2406.09246).
type autoregressiveHead struct {
	*tokensHead
	tokens []int32 // [rows, C·A], the token of each slot
}

func newAutoregressiveHead(p *Policy, rows int) *autoregressiveHead {
	return &autoregressiveHead{tokensHead: newTokensHead(p, rows), tokens: make([]int32, rows*p.dims)}
}

// token returns the token of a bin of a slot: those of the gripper come last.
func (w *autoregressiveHead) token(slot, bin int) int32 {
	if a := w.p.actions; slot%a.dims == a.gripper {
		return int32(a.bins + bin)
	}
	return int32(bin)
}

// before returns the row of embeddings, weights or gradients, of the token before a slot.
func (w *autoregressiveHead) before(slot, row int, embeddings []float32) []float32 {
	d := w.p.d
	return embeddings[int(w.tokens[row*w.p.dims+slot-1])*d:][:d]
}

func (w *autoregressiveHead) encode(slots []float32, b batch) error {
	p, embeddings := w.p, w.p.params.Of(w.p.previous)
	for i, x := range b.action {
		w.tokens[i] = w.token(i%p.dims, p.actions.encode(x, i%p.actions.dims))
	}
	for row := range b.n {
		for slot := 1; slot < p.dims; slot++ {
			kernel.Axpy(slots[(row*p.dims+slot)*p.d:][:p.d], 1, w.before(slot, row, embeddings))
		}
	}
	return nil
}

func (w *autoregressiveHead) backwardSlots(dSlots []float32, n int) {
	p, grad := w.p, w.p.params.GradOf(w.p.previous)
	for row := range n {
		for slot := 1; slot < p.dims; slot++ {
			kernel.Axpy(w.before(slot, row, grad), 1, dSlots[(row*p.dims+slot)*p.d:][:p.d])
		}
	}
}

func (w *autoregressiveHead) choose(x *pass, action, logProb, _ []float32, n int, s sampling) error {
	p, embeddings := w.p, w.p.params.Of(w.p.previous)
	learnt := p.params.Of(p.slotEmbedding)
	for slot := range p.dims {
		for row := range n {
			in := x.slots[row*p.d : (row+1)*p.d]
			if copy(in, learnt[slot*p.d:]); slot > 0 {
				kernel.Axpy(in, 1, w.before(slot, row, embeddings))
			}
		}
		hidden, err := x.cache.extend(x, 1, false)
		if err != nil {
			return err
		}
		options := w.optionsOf(slot)
		options.softmax(hidden, n, w.temperature(&s))
		for row := range n {
			logp, prob := options.row(row)
			bin, at := s.pick(row, logp, prob), row*p.dims+slot
			w.tokens[at] = w.token(slot, bin)
			action[at], logProb[at] = p.actions.decode(bin, slot%p.actions.dims), logp[bin]
		}
	}
	return nil
}
