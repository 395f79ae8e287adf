package lm

import (
	"fmt"
	"math"
)

// Forward runs the forward pass of a batch. In training, call LogProbs and Backward afterwards. w keeps all activations
// until the next Forward, and b.Given must not change until then. With a Work of NewInference, call only Hidden
// afterwards.
func (m *Model) Forward(w *Work, b Batch) error {
	if !w.whole {
		panic("lm: Forward with a Work of NewDecoding")
	}
	if err := w.Err(); err != nil {
		return err
	}
	if err := m.checkBatch(w, b); err != nil {
		return err
	}
	longest := 0
	w.spans = w.spans[:0]
	for i := range len(b.Starts) - 1 {
		at := span{row: int(b.Starts[i]), n: int(b.Starts[i+1] - b.Starts[i]), parallel: b.Parallel}
		if b.Prefix != nil {
			at.prefix = int(b.Prefix[i])
		}
		w.spans, longest = append(w.spans, at), max(longest, at.n)
	}
	if err := w.prepareRotations(longest); err != nil {
		return err
	}
	if !w.onDevice {
		w.takePages(longest)
	} else if !m.frozen.uploaded {
		m.Params.Upload(m.frozen.data)
		m.frozen.uploaded = true
	}
	w.ids, w.given = append(w.ids[:0], b.IDs...), b.Given
	m.forward(w)
	return w.err
}

// takePages gives the spans pages of an empty cache. longest is the length of the longest one.
func (w *Work) takePages(longest int) {
	for _, s := range w.sequences {
		s.Truncate(0)
	}
	pages := 0
	for i := range w.spans {
		pages += (w.spans[i].n + PageLen - 1) / PageLen
	}
	w.cache.extend(pages)
	for i := range w.spans {
		if i == len(w.sequences) {
			w.sequences = append(w.sequences, w.cache.NewText(longest))
		}
		w.sequences[i].grow(w.spans[i].n)
		w.spans[i].pages = w.sequences[i].pages
	}
}

// checkBatch returns an error if b is not a valid batch for w.
func (m *Model) checkBatch(w *Work, b Batch) error {
	n := len(b.Starts)
	if n < 2 || b.Starts[0] != 0 || int(b.Starts[n-1]) != len(b.IDs) {
		return fmt.Errorf("a batch of %d tokens with starts %v: expected starts from 0 to the number of tokens",
			len(b.IDs), b.Starts)
	}
	for i := range n - 1 {
		if b.Starts[i+1] <= b.Starts[i] {
			return fmt.Errorf("sequence %d of a batch is empty", i)
		}
	}
	if len(b.IDs) > w.rows {
		return fmt.Errorf("a batch of %d tokens: there is memory for %d", len(b.IDs), w.rows)
	}
	if b.Prefix != nil && len(b.Prefix) != n-1 {
		return fmt.Errorf("a batch of %d sequences with %d prefixes: expected one for each", n-1, len(b.Prefix))
	}
	for i, prefix := range b.Prefix {
		if prefix < 0 || prefix > b.Starts[i+1]-b.Starts[i] {
			return fmt.Errorf("sequence %d of a batch has %d tokens and a prefix of %d", i, b.Starts[i+1]-b.Starts[i],
				prefix)
		}
	}
	return m.checkIDs(b.IDs, b.Given)
}

// checkIDs returns an error if an id is outside the vocabulary, or if vectors does not have one row for each id that
// equals Given.
func (m *Model) checkIDs(ids []int32, vectors []float32) error {
	rows := 0
	for i, id := range ids {
		if id == Given {
			rows++
			continue
		}
		if id < 0 || int(id) >= m.Config.Vocab {
			return fmt.Errorf("token %d is %d: expected 0 to %d", i, id, m.Config.Vocab-1)
		}
	}
	if len(vectors) != rows*m.Config.Hidden {
		return fmt.Errorf("%d numbers for %d given rows: expected %d for each", len(vectors), rows, m.Config.Hidden)
	}
	return nil
}

// A Piece holds new tokens of a cached sequence.
type Piece struct {
	Seq    *CachedText
	IDs    []int32
	Given  []float32 // as in a Batch
	Prefix int       // as in a Batch, for the whole sequence; all tokens of a prefix must be in one piece
	// Parallel lets the tokens of this piece after a prefix attend to each other in both directions, as in a Batch.
	Parallel bool
}

// Extend runs the forward pass of new tokens of sequences. It adds the keys and values of these tokens to the cache.
// Each sequence may have only one piece. For Logits and LogProbs, row i belongs to the i-th token over all pieces.
// Extend changes nothing if it returns an error about its arguments.
func (m *Model) Extend(w *Work, pieces ...Piece) error {
	if w.whole {
		panic("lm: Extend with a Work that NewDecoding did not make")
	}
	if err := w.Err(); err != nil {
		return err
	}
	n, missing, longest := 0, 0, 0
	for _, p := range pieces {
		if p.Seq.cache != pieces[0].Seq.cache || len(p.IDs) == 0 {
			return fmt.Errorf("a piece of %d tokens: pieces must have tokens and share a cache", len(p.IDs))
		}
		if err := m.checkIDs(p.IDs, p.Given); err != nil {
			return err
		}
		if p.Prefix < 0 || p.Prefix > p.Seq.len+len(p.IDs) || 0 < p.Seq.len && p.Seq.len < p.Prefix {
			return fmt.Errorf("a prefix of %d tokens: the sequence has %d and gets %d more", p.Prefix, p.Seq.len,
				len(p.IDs))
		}
		n += len(p.IDs)
		missing += p.Seq.Missing(len(p.IDs))
		longest = max(longest, p.Seq.len+len(p.IDs))
	}
	if n == 0 || n > w.rows {
		return fmt.Errorf("%d new tokens: there is memory for %d", n, w.rows)
	}
	w.cache = pieces[0].Seq.cache
	if free := w.cache.Free(); missing > free {
		return fmt.Errorf("%d new tokens need %d pages of the cache: %d are free", n, missing, free)
	}
	if err := w.prepareRotations(longest); err != nil {
		return err
	}
	w.spans, w.ids, w.room = w.spans[:0], w.ids[:0], w.room[:0]
	for _, p := range pieces {
		first := p.Seq.len
		p.Seq.grow(len(p.IDs))
		w.spans = append(w.spans, span{row: len(w.ids), n: len(p.IDs), first: first, pages: p.Seq.pages,
			prefix: p.Prefix, parallel: p.Parallel})
		w.ids, w.room = append(w.ids, p.IDs...), append(w.room, p.Given...)
	}
	w.given = w.room
	m.forward(w)
	return w.err
}

// forward runs the forward pass of the tokens w.ids. The tokens belong to the sequences of w.spans.
func (m *Model) forward(w *Work) {
	c := &m.Config
	w.n = len(w.ids)
	w.gatherRotations()
	d, n := c.Hidden, w.n
	x := w.acts[0].x
	clear(w.share)
	clear(w.means)
	if m.first() {
		m.embedRows(w, x)
	} else {
		w.recv(w.pipe.Index()-1, x[:n*d], w.share, bits(w.means))
	}
	for i := range m.layers {
		next := w.final.x
		if w.training && i+1 < len(m.layers) {
			next = w.acts[i+1].x
		} else if i+1 < len(m.layers) {
			next = x
		}
		m.layers[i].forward(w, w.acts[i], next, i)
		if w.training && m.layers[i].experts != nil {
			w.count(w.acts[i].routed)
		}
		x = next
	}
	if !m.last() {
		w.send(w.pipe.Index()+1, x[:n*d], w.share, bits(w.means))
		return
	}
	w.ops.RMSNorm(w.final.hidden[:n*d], w.final.inv[:n], w.final.x[:n*d], m.norm.data(), n, d, c.Eps)
}

// embedRows sets x [n,d] to the embeddings of the tokens, or to the given rows. Each rank has the rows of its part of
// the vocabulary.
func (m *Model) embedRows(w *Work, x []float32) {
	d, given := m.Config.Hidden, w.given
	if w.axis == nil {
		w.ops.Embed(x[:w.n*d], m.embed.data(), w.ids, d, m.Config.Tied)
		for i, id := range w.ids {
			if id == Given {
				given = given[copy(x[i*d:(i+1)*d], given):]
			}
		}
		return
	}
	counts, rows := w.counts(), w.partial[:w.n*d] // the rows of rank 0, then the rows of rank 1, …
	for _, id := range w.ids {
		if id != Given {
			counts[m.owner(id)] += d
		}
	}
	next := make([]int, len(counts)) // for each rank, the offset of its next row in the slice rows
	for i := 1; i < len(next); i++ {
		next[i] = next[i-1] + counts[i-1]
	}
	var own []int32 // ids of this rank's rows
	for _, id := range w.ids {
		if id != Given && m.owner(id) == m.part.Index {
			own = append(own, id-int32(m.firstID))
		}
	}
	w.ops.Embed(rows[next[m.part.Index]:][:len(own)*d], m.embed.data(), own, d, m.Config.Tied)
	w.collect(rows[:next[len(next)-1]+counts[len(counts)-1]], counts)
	for i, id := range w.ids {
		row := x[i*d : (i+1)*d]
		if id == Given {
			given = given[copy(row, given):]
			continue
		}
		from := &next[m.owner(id)]
		copy(row, rows[*from:])
		*from += d
	}
}

// forward computes the layer. It reads the residual stream a.x and writes the new residual stream to out. out may be
// a.x.
func (l *layer) forward(w *Work, a *activations, out []float32, number int) {
	m, n := w.m, w.n
	c := &m.local
	d := c.Hidden
	w.ops.RMSNorm(w.normed[:n*d], a.inv1[:n], a.x[:n*d], l.norm1.data(), n, d, c.Eps)
	q, key := a.q, a.key
	if c.QKNorm {
		q, key = a.rawQ, a.rawK
	}
	l.q.forward(w, q, w.normed, n, nil)
	l.k.forward(w, key, w.normed, n, nil)
	l.v.forward(w, a.value, w.normed, n, nil)
	if c.QKNorm {
		e := c.HeadDim
		rows := n * c.Heads
		w.ops.RMSNorm(a.q[:rows*e], a.invQ[:rows], a.rawQ[:rows*e], l.qNorm.data(), rows, e, c.Eps)
		rows = n * c.KVHeads
		w.ops.RMSNorm(a.key[:rows*e], a.invK[:rows], a.rawK[:rows*e], l.kNorm.data(), rows, e, c.Eps)
	}
	w.rotate(a.q, a.key, false)
	w.attend(number, a)
	l.o.forward(w, a.middle, a.o, n, a.x)

	w.ops.RMSNorm(w.normed[:n*d], a.inv2[:n], a.middle[:n*d], l.norm2.data(), n, d, c.Eps)
	if l.experts != nil {
		copy(out, a.middle[:n*d])
		l.experts.forward(w, a.routed, out, w.normed, n)
	} else {
		l.ff.forward(w, out, w.normed, a.gate, a.up, n, a.middle)
	}
}

// queryScale returns the factor by which products of queries and keys are scaled.
func queryScale(c *Config) float32 { return float32(1 / math.Sqrt(float64(c.HeadDim))) }

// Rows returns the number of tokens of the last pass.
func (w *Work) Rows() int { return w.n }

// Hidden returns the residual stream [rows, hidden] after the final norm. This is the input of the output matrix. The
// result is valid until the next pass.
func (w *Work) Hidden() []float32 { return w.final.hidden[:w.n*w.m.Config.Hidden] }

// AuxLoss returns the load-balancing loss of the last pass, without the factor
// Config.Experts.AuxCoef. It is 0 without experts. Fedus et al. 2021, arXiv:2101.03961:
//
//	experts · Σ_e share_e · mean_e
//
// where share_e is the number of times that expert e was chosen, divided by the number of (sparse
// layer, token) pairs, and mean_e is the mean of the expert's probability.
func (w *Work) AuxLoss() float64 {
	c := &w.m.Config.Experts
	sum, pairs := 0.0, float64(w.pairs())
	if c.Count == 0 || pairs == 0 {
		return 0
	}
	for e, n := range w.share {
		sum += float64(n/float32(pairs)) * w.means[e] / pairs
	}
	return float64(c.Count) * sum
}

// pairs returns the number of (sparse layer, token) pairs, on all stages.
func (w *Work) pairs() int {
	n := 0
	for i := range w.m.Config.Layers {
		if w.m.Config.Sparse(i) {
			n += w.n
		}
	}
	return n
}

// count adds the choices of a sparse layer to w.share, and the probabilities of the experts to w.means.
func (w *Work) count(r *routed) {
	c := &w.m.Config.Experts
	for _, e := range r.chosen[:w.n*c.PerToken] {
		w.share[e]++
	}
	for e := range w.means {
		sum := 0.0 // a sum for this layer alone, because other layers may be on other ranks
		for t := range w.n {
			sum += float64(r.probs[t*c.Count+e])
		}
		w.means[e] += sum
	}
}

// Residual returns the residual stream [rows, hidden] at the input of a layer in the last Forward.
// The result is valid until the next pass.
func (w *Work) Residual(layer int) []float32 { return w.acts[layer].x[:w.n*w.m.Config.Hidden] }
