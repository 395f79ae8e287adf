package nn

import "math"

// Choices has the bounds of one or more choices. The options of choice k are the integers from Low[k] to High[k], both
// included.
type Choices struct{ Low, High []int }

// An embedding sums rows of W [Σ options, out]. W has a row for each option of each choice. The embedding reads columns
// of Batch.Choices, from column first on; a row of Batch.Choices has total columns. The embedding equals a Linear
// without bias on a one-hot code.
type embedding[T Float] struct {
	p            *Params[T]
	out, rows    int
	weight       int   // field of p for W
	zero         []int // the row of W for option 0 of each choice
	first, total int
}

func newEmbedding[T Float](p *Params[T], name string, c Choices, out, first, total int) *embedding[T] {
	e := &embedding[T]{p: p, out: out, first: first, total: total}
	for k, low := range c.Low {
		e.zero = append(e.zero, e.rows-low)
		e.rows += c.High[k] - low + 1
	}
	e.weight = p.Add(name+".weight", e.rows, out)
	return e
}

// Init draws an orthogonal weight. Its gain gives the features a variance of about 1.
func (e *embedding[T]) Init(seed uint64) {
	gain := math.Sqrt(float64(max(e.rows, e.out)) / float64(len(e.zero)))
	Orthogonal(e.p.Of(e.weight), e.rows, e.out, gain, seed, uint64(e.weight))
}

func (e *embedding[T]) NewWork(w *NetWork[T]) unitWork[T] { return &embeddingWork[T]{e, w.rows(e.out)} }

type embeddingWork[T Float] struct {
	*embedding[T]
	y []T
}

func (w *embeddingWork[T]) Forward(b *Batch[T], _ []T) []T {
	y := w.y[:b.Rows*w.out]
	clear(y)
	for k := range w.zero {
		w.p.Ops().AddRows(y, Rows{}, w.p.Of(w.weight), w.chosen(b, k), nil, w.out, b.Rows)
	}
	return y
}

func (w *embeddingWork[T]) Backward(b *Batch[T], _, dy []T, ready func(lo, hi int)) []T {
	for k := range w.zero {
		w.p.Ops().AddRows(w.p.GradOf(w.weight), w.chosen(b, k), dy[:b.Rows*w.out], Rows{}, nil, w.out, b.Rows)
	}
	ready(w.p.Range(w.weight, w.weight))
	return nil
}

// chosen returns the rows of W for choice k of the rows of b.
func (e *embedding[T]) chosen(b *Batch[T], k int) Rows {
	return Rows{Index: b.Choices[e.first+k:], Step: e.total, First: e.zero[k]}
}
