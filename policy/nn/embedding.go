package nn

import "math"

// Choices has the bounds of one or more choices. The options of choice k are the integers from Low[k] to High[k], both
// included.
type Choices struct{ Low, High []int }

// An Embedding computes features of choices, for example of the words of a sentence. W [Σ options, Out] has a row for
// each option of each choice. The features are the sum of the rows of the chosen options. An Embedding is a Linear
// without bias on a one-hot code of all choices.
type Embedding[T Float] struct {
	Out int

	p      *Params[T]
	zero   []int // the row of W for option 0 of each choice
	rows   int
	weight int
}

// NewEmbedding declares the layer in p: name.weight.
func NewEmbedding[T Float](p *Params[T], name string, c Choices, out int) *Embedding[T] {
	e := &Embedding[T]{Out: out, p: p}
	for k, low := range c.Low {
		e.zero = append(e.zero, e.rows-low)
		e.rows += c.High[k] - low + 1
	}
	e.weight = p.Add(name+".weight", e.rows, out)
	return e
}

// Init draws an orthogonal weight. Its gain gives the features a variance of about 1.
func (e *Embedding[T]) Init(seed uint64) {
	gain := math.Sqrt(float64(max(e.rows, e.Out)) / float64(len(e.zero)))
	Orthogonal(e.p.Of(e.weight), e.rows, e.Out, gain, seed, uint64(e.weight))
}

// Forward sets y, [n,Out], from the choices of n rows. The choices of a row begin step elements apart.
func (e *Embedding[T]) Forward(y []T, choices []int32, step, n int) {
	y = y[:n*e.Out]
	clear(y)
	for k := range e.zero {
		e.p.Ops().AddRows(y, Rows{}, e.p.Of(e.weight), e.chosen(choices, k, step), nil, e.Out, n)
	}
}

// Backward adds to the gradient of W. choices and step are from the last Forward, and dy, [n,Out], is the gradient of
// the output.
func (e *Embedding[T]) Backward(dy []T, choices []int32, step, n int) {
	for k := range e.zero {
		e.p.Ops().AddRows(e.p.GradOf(e.weight), e.chosen(choices, k, step), dy[:n*e.Out], Rows{}, nil, e.Out, n)
	}
}

// chosen returns the rows of W for the options of choice k.
func (e *Embedding[T]) chosen(choices []int32, k, step int) Rows {
	return Rows{Index: choices[k:], Step: step, First: e.zero[k]}
}

// Range returns the part of Params.Grad that belongs to this layer.
func (e *Embedding[T]) Range() (lo, hi int) { return e.p.Range(e.weight, e.weight) }
