package lm

import (
	"slices"

	"github.com/rlinf/rlinf/policy/nn"
)

// Backward adds the gradient of a loss to the gradients of the trainable parameters. dlogp and dentropy are the
// gradients of the loss with respect to the results of the last LogProbs; dentropy may be nil. targets and temperature
// are the arguments of the last LogProbs. The loss also has the term aux·Config.Experts.AuxCoef·AuxLoss of the last
// Forward.
//
// The gradient of a weight is summed over the tokens in order. So two consecutive batches give the same bits as one
// combined batch, except for AuxLoss, which is computed per batch. Call FinishGradients before you read gradients.
func (m *Model) Backward(w *Work, dlogp, dentropy []float32, targets []Target, temperature, aux float32) {
	m.headBackward(w, dlogp, dentropy, targets, temperature)
	m.BackwardHidden(w, w.head.dh[:w.n*m.Config.Hidden], aux)
}

// BackwardHidden is Backward for a head outside the model. dh [rows, hidden] is the gradient of the loss with respect
// to Hidden. BackwardHidden overwrites dh.
func (m *Model) BackwardHidden(w *Work, dh []float32, aux float32) {
	c := &m.Config
	d, n := c.Hidden, w.n
	dx := w.delta[:n*d]
	w.ops.RMSNormGrad(dx, m.norm.grad(), dh, w.final.x[:n*d], m.norm.data(), w.final.inv[:n], n, d, 1,
		false)
	w.announce(m.heads)
	m.backwardLayers(w, dx, aux)
}

// backwardLayers runs the backward passes of this stage's layers. dx [rows, hidden] is the gradient with respect to the
// output of the last layer, and becomes the gradient with respect to the input of the first layer.
func (m *Model) backwardLayers(w *Work, dx []float32, aux float32) {
	x, pairs := &m.Config.Experts, float32(max(w.pairs(), 1))
	for e := range w.slope {
		w.slope[e] = aux * float32(x.AuxCoef) * float32(x.Count) * (w.share[e] / pairs) / pairs
	}
	for i := len(m.layers) - 1; i >= 0; i-- {
		if a := w.acts[i]; i < w.repeated {
			m.layers[i].forward(w, a, w.final.x, i) // w.final.x is not needed any more
		}
		m.layers[i].backward(w, w.acts[i], dx, i)
		if w.ready != nil {
			w.normSums.finish(w, i)
			w.announce(m.layers[i].fields)
		}
	}
	if m.first() && m.embed.grad() != nil {
		m.embedGrad(w, m.embed.grad(), dx)
	}
}

// announce reports to w.ready that the gradients of the parameters [fields[0], fields[1]) are final.
func (w *Work) announce(fields [2]int) {
	if w.ready != nil && fields[0] < fields[1] {
		w.ready(w.m.Params.Range(fields[0], fields[1]-1))
	}
}

// InputGrad returns the gradient [rows, hidden] of the loss with respect to the input of the first layer, from the last
// backward pass. The result is valid until the next pass.
func (w *Work) InputGrad() []float32 { return w.delta[:w.n*w.m.Config.Hidden] }

// backward replaces dx, the gradient with respect to the layer's output, with the gradient with respect to the layer's
// input.
func (l *layer) backward(w *Work, a *activations, dx []float32, number int) {
	c, n := &w.m.local, w.n
	d := c.Hidden
	normed, dn := w.normed[:n*d], w.delta2[:n*d]
	w.ops.RMSNorm(normed, a.inv2[:n], a.middle[:n*d], l.norm2.data(), n, d, c.Eps)
	if l.experts != nil {
		l.experts.backward(w, a.routed, dn, dx, normed, w.slope, n)
	} else {
		l.ff.backward(w, dn, dx, normed, a.gate, a.up, n)
	}
	w.ops.RMSNormGrad(dx, l.norm2.grad(), dn, a.middle[:n*d], l.norm2.data(), a.inv2[:n], n, d, 1, true)

	w.inputGrad(w.doOut, a.o, n, derivative{&l.o, dx})
	w.attendGrad(number, a)
	w.rotate(w.dq, w.dk, true)
	if c.QKNorm {
		q, k := w.normSums.sums(w, number)
		w.headNormGrad(q, w.dq, a.rawQ, a.invQ, &l.qNorm, c.Heads)
		w.headNormGrad(k, w.dk, a.rawK, a.invK, &l.kNorm, c.KVHeads)
	}
	w.ops.RMSNorm(normed, a.inv1[:n], a.x[:n*d], l.norm1.data(), n, d, c.Eps)
	w.inputGrad(dn, normed, n, derivative{&l.q, w.dq}, derivative{&l.k, w.dk}, derivative{&l.v, w.dv})
	w.ops.RMSNormGrad(dx, l.norm1.grad(), dn, a.x[:n*d], l.norm1.data(), a.inv1[:n], n, d, 1, true)
}

// tiedRows sums the gradients of the input embeddings if the embedding is also the output matrix. The gradients of the
// output matrix are summed separately, so the bits do not depend on the split into batches.
type tiedRows struct {
	index map[int32]int32 // index of each id in ids, and of its row in sum
	ids   []int32         // relative to the first id of this part of the vocabulary
	sum   []float32       // [rows, d], a row for each of the ids
	at    []int32         // the row in sum of each token of a pass; -1 if there is none
}

// embedGrad adds dx [n,d] to the gradient of the embedding.
func (m *Model) embedGrad(w *Work, grad, dx []float32) {
	d, rows := m.Config.Hidden, nn.Rows{Index: w.ids, First: -m.firstID} // ids of other ranks are outside
	if m.Config.Tied {
		w.tiedRows.find(w, w.ids)
		grad, rows = w.tiedRows.sum, nn.Rows{Index: w.tiedRows.at}
	}
	w.base.AddRows(grad, rows, dx, nn.Rows{}, nil, d, w.n)
}

// find sets t.at, and adds rows for the ids of this part of the vocabulary that t lacks.
func (t *tiedRows) find(w *Work, ids []int32) {
	m := w.m
	t.at = t.at[:0]
	if t.index == nil {
		t.index = map[int32]int32{}
	}
	for _, id := range ids {
		at := int32(-1)
		if id != Given && m.owner(id) == m.part.Index {
			id -= int32(m.firstID)
			here := false
			if at, here = t.index[id]; !here {
				at = int32(len(t.ids))
				t.index[id], t.ids = at, append(t.ids, id)
			}
		}
		t.at = append(t.at, at)
	}
	n := len(t.ids) * m.Config.Hidden
	if w.onDevice {
		t.sum = w.embedded[:n]
		return
	}
	have := len(t.sum)
	t.sum = slices.Grow(t.sum, n-have)[:n]
	clear(t.sum[have:])
}

// FinishGradients completes the gradients after the last Backward of an optimiser step. For the norms of queries and
// keys it adds up the gradients of all blocks of heads. If the embedding is also the output matrix, it adds up the
// gradients of both uses.
func (m *Model) FinishGradients(w *Work) {
	for i := range m.layers {
		w.normSums.finish(w, i)
	}
	t := &w.tiedRows
	if m.Config.Tied && w.pipe != nil && !m.fixed && (m.first() || m.last()) {
		w.joinEnds()
	}
	if len(t.ids) == 0 {
		return
	}
	w.ops.AddEmbeddings(m.embed.grad(), t.sum, t.ids, m.Config.Hidden)
	w.clear(t.sum)
	clear(t.index)
	t.ids, t.sum = t.ids[:0], t.sum[:0]
}

// joinEnds exchanges gradients of the embedding between the first and the last stage. The first stage has the gradients
// of the input embeddings, and the last stage has the gradient of the output matrix. Afterwards both stages have both
// gradients.
func (w *Work) joinEnds() {
	t, grad, end := &w.tiedRows, w.m.embed.grad(), w.pipe.Size()-1
	count, ids := []float32{float32(len(t.ids))}, make([]float32, len(t.ids))
	if w.m.last() {
		stream(w.send, 0, grad)
		w.recv(0, count)
		n := int(count[0])
		ids = make([]float32, n)
		t.ids, t.sum = resize(t.ids, n), resize(t.sum, n*w.m.Config.Hidden)
		w.recv(0, ids)
		stream(w.recv, 0, t.sum)
		for i, id := range ids {
			t.ids[i] = int32(id)
		}
		w.flush()
		return
	}
	stream(w.recv, end, grad)
	w.send(end, count)
	for i, id := range t.ids {
		ids[i] = float32(id)
	}
	w.send(end, ids)
	stream(w.send, end, t.sum)
	w.flush()
}
