package vla

import (
	"slices"

	"github.com/rlinf/rlinf/policy/graph"
	"github.com/rlinf/rlinf/policy/nn"
)

// An autoregressiveHead is a tokensHead that fills its slots one after the other. A slot attends to the prefix
// and the earlier slots. The input of a slot is its own embedding plus the embedding of the token in the
// previous slot (OpenVLA, Kim et al. 2024, arXiv:2406.09246).
type autoregressiveHead struct {
	tokensHead
	previous int // field [bins+2, d], for the token in the previous slot
}

func (h *autoregressiveHead) embed()       { h.previous = h.p.embedding("previous", h.p.actions.bins+2) }
func (h *autoregressiveHead) causal() bool { return true }

func (h *autoregressiveHead) graph(end graph.Node) ([]graph.Node, []graph.Param) {
	parts, _ := h.tokensHead.graph(end)
	return parts, []graph.Param{h.p.params.Param(h.previous)}
}

func (h *autoregressiveHead) newWork(rows int) headWork {
	return &autoregressiveWork{tokensWork: h.newTokensWork(rows), embeddings: h.previous,
		previous: slices.Repeat([]int32{-1}, rows*h.p.dims)}
}

// An autoregressiveWork is the memory of an autoregressiveHead.
type autoregressiveWork struct {
	*tokensWork
	embeddings int     // field [bins+2, d], the same as previous of the head
	previous   []int32 // [rows, C·A], for each slot the token in the slot before it; -1 for the first slot
}

var _ iterativeWork = (*autoregressiveWork)(nil)

// token returns the token for a bin of a slot. The tokens of the gripper come last.
func (h *autoregressiveWork) token(slot, bin int) int32 {
	if a := h.p.actions; slot%a.dims == a.gripper {
		return int32(a.bins + bin)
	}
	return int32(bin)
}

// set records the token of a slot as the previous token of the next slot. The argument at is the index of the slot in
// [rows, C·A].
func (h *autoregressiveWork) set(at int, token int32) {
	if at++; at%h.p.dims > 0 {
		h.previous[at] = token
	}
}

func (h *autoregressiveWork) encode(slots []float32, b batch) error {
	p := h.p
	for i, x := range b.action {
		h.set(i, h.token(i%p.dims, p.actions.encode(x, i%p.actions.dims)))
	}
	p.params.Ops().AddRows(slots, nn.Rows{}, p.params.Of(h.embeddings), nn.Rows{Index: h.previous}, nil, p.d,
		b.n*p.dims)
	return nil
}

func (h *autoregressiveWork) backwardSlots(dSlots []float32, n int) {
	p, grad := h.p, h.p.params.GradOf(h.embeddings)
	p.params.Ops().AddRows(grad, nn.Rows{Index: h.previous}, dSlots, nn.Rows{}, nil, p.d, n*p.dims)
}

func (h *autoregressiveWork) choose(x *pass, action, logProb, _ []float32, s sampling) error {
	p, n, o := h.p, x.n, h.p.params.Ops()
	embeddings, learnt := p.params.Of(h.embeddings), p.params.Of(p.slotEmbedding)
	for slot := range p.dims {
		o.CopyColumns(x.slots, p.d, learnt[slot*p.d:], 0, p.d, n)
		o.AddRows(x.slots, nn.Rows{}, embeddings, nn.Rows{Index: h.previous[slot:], Step: p.dims}, nil, p.d, n)
		hidden, err := x.cache.extend(x, 1, false)
		if err != nil {
			return err
		}
		g := h.group(slot)
		g.softmax(hidden, n, h.temperature(&s))
		for row := range n {
			logp, prob := g.row(row)
			bin, at := s.pick(row, logp, prob), row*p.dims+slot
			h.set(at, h.token(slot, bin))
			action[at], logProb[at] = p.actions.decode(bin, slot%p.actions.dims), logp[bin]
		}
	}
	return nil
}
