package vla

import "github.com/rlinf/rlinf/policy/nn/kernel"

// An autoregressiveHead is a tokensHead that fills its slots one after the other. A slot attends to the prefix
// and the earlier slots. The input of a slot is its own embedding plus the embedding of the token in the
// previous slot (OpenVLA, Kim et al. 2024, arXiv:2406.09246).
type autoregressiveHead struct {
	*tokensHead
	tokens []int32 // [rows, C·A], the token of each slot
}

var _ iterativeHead = (*autoregressiveHead)(nil)

func newAutoregressiveHead(p *Policy, rows int) *autoregressiveHead {
	return &autoregressiveHead{tokensHead: newTokensHead(p, rows), tokens: make([]int32, rows*p.dims)}
}

// token returns the token for a bin of a slot. The tokens of the gripper come last.
func (h *autoregressiveHead) token(slot, bin int) int32 {
	if a := h.p.actions; slot%a.dims == a.gripper {
		return int32(a.bins + bin)
	}
	return int32(bin)
}

// previousRow returns the row of embeddings for the token in the previous slot. The slice embeddings holds weights or
// their gradients.
func (h *autoregressiveHead) previousRow(slot, row int, embeddings []float32) []float32 {
	d := h.p.d
	return embeddings[int(h.tokens[row*h.p.dims+slot-1])*d:][:d]
}

func (h *autoregressiveHead) encode(slots []float32, b batch) error {
	p, embeddings := h.p, h.p.params.Of(h.p.previous)
	for i, x := range b.action {
		h.tokens[i] = h.token(i%p.dims, p.actions.encode(x, i%p.actions.dims))
	}
	for row := range b.n {
		for slot := 1; slot < p.dims; slot++ {
			kernel.Axpy(slots[(row*p.dims+slot)*p.d:][:p.d], 1, h.previousRow(slot, row, embeddings))
		}
	}
	return nil
}

func (h *autoregressiveHead) backwardSlots(dSlots []float32, n int) {
	p, grad := h.p, h.p.params.GradOf(h.p.previous)
	for row := range n {
		for slot := 1; slot < p.dims; slot++ {
			kernel.Axpy(h.previousRow(slot, row, grad), 1, dSlots[(row*p.dims+slot)*p.d:][:p.d])
		}
	}
}

func (h *autoregressiveHead) choose(x *pass, action, logProb, _ []float32, s sampling) error {
	p, n, embeddings := h.p, x.n, h.p.params.Of(h.p.previous)
	learnt := p.params.Of(p.slotEmbedding)
	for slot := range p.dims {
		for row := range n {
			in := x.slots[row*p.d : (row+1)*p.d]
			if copy(in, learnt[slot*p.d:]); slot > 0 {
				kernel.Axpy(in, 1, h.previousRow(slot, row, embeddings))
			}
		}
		hidden, err := x.cache.extend(x, 1, false)
		if err != nil {
			return err
		}
		g := h.group(slot)
		g.softmax(hidden, n, h.temperature(&s))
		for row := range n {
			logp, prob := g.row(row)
			bin, at := s.pick(row, logp, prob), row*p.dims+slot
			h.tokens[at] = h.token(slot, bin)
			action[at], logProb[at] = p.actions.decode(bin, slot%p.actions.dims), logp[bin]
		}
	}
	return nil
}
