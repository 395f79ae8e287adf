package nn

import "github.com/rlinf/rlinf/internal/philox"

// A Linear is the layer y = x·W + b, with W [In, Out] and b [Out].
type Linear[T Float] struct {
	In, Out int

	p      *Params[T]
	weight int // fields of p
	bias   int // -1 without b
}

// NewLinear declares a layer in p: name.weight and name.bias.
func NewLinear[T Float](p *Params[T], name string, in, out int) *Linear[T] {
	return &Linear[T]{In: in, Out: out, p: p, weight: p.Add(name+".weight", in, out), bias: p.Add(name+".bias", out)}
}

// Init draws an orthogonal weight with the given gain and sets the bias to 0. Each layer of a Params
// draws from its own random stream.
func (l *Linear[T]) Init(seed uint64, gain float64) {
	Orthogonal(l.p.Of(l.weight), l.In, l.Out, gain, seed, uint64(l.weight))
	clear(l.Bias())
}

// InitUniform draws a weight uniformly from (-bound, bound). Like Init, it sets the bias to 0.
func (l *Linear[T]) InitUniform(seed uint64, bound float64) {
	s := philox.New(seed, philox.Init, uint64(l.weight), 0)
	w := l.Weight()
	for i := range w {
		w[i] = T(bound * (2*float64(s.Uint32())/(1<<32) - 1))
	}
	clear(l.Bias())
}

// Weight returns W.
func (l *Linear[T]) Weight() []T { return l.p.Of(l.weight) }

// Bias returns b, or nil if there is none.
func (l *Linear[T]) Bias() []T {
	if l.bias < 0 {
		return nil
	}
	return l.p.Of(l.bias)
}

// Forward sets y, [n,Out], from x, [n,In].
func (l *Linear[T]) Forward(y, x []T, n int) {
	l.p.Ops().Product(y[:n*l.Out], x[:n*l.In], l.Weight(), l.Bias(), n, l.Out, l.In, false)
}

// Backward adds to the gradients of W and b. x, [n,In], is the input of the last Forward, and dy, [n,Out], is the
// gradient of the output. Unless dx, [n,In], is nil, Backward sets dx to the gradient of x. If add is set, it adds the
// gradient to dx instead; otherwise dx may be x. If dx is not nil, scratch must have In·Out elements.
//
//	dW += xᵀ·dy,   db += Σ_n dy_n,   dx = dy·Wᵀ
func (l *Linear[T]) Backward(dx, x, dy []T, n int, add bool, scratch []T) {
	dy, x = dy[:n*l.Out], x[:n*l.In]
	o := l.p.Ops()
	o.ColSum(l.p.GradOf(l.bias), dy, n, l.Out, true)
	o.Gradient(l.p.GradOf(l.weight), x, dy, l.In, l.Out, n, true)
	if dx == nil {
		return
	}
	wt := scratch[:l.In*l.Out]
	o.Transpose(wt, l.Weight(), l.In, l.Out, 1)
	o.Product(dx[:n*l.In], dy, wt, nil, n, l.In, l.Out, add)
}

// InputGrad sets dx, [n,In-first], to the gradient of the columns [first,In) of x. dy, [n,Out], is the gradient of the
// output. InputGrad does not change the gradients of W and b. scratch must have In·Out elements.
func (l *Linear[T]) InputGrad(dx, dy []T, n, first int, scratch []T) {
	in := l.In - first
	wt := scratch[:in*l.Out]
	l.p.Ops().Transpose(wt, l.Weight()[first*l.Out:], in, l.Out, 1)
	l.p.Ops().Product(dx[:n*in], dy[:n*l.Out], wt, nil, n, in, l.Out, false)
}

// Range returns the part of Params.Grad that belongs to this layer.
func (l *Linear[T]) Range() (lo, hi int) { return l.p.Range(l.weight, max(l.weight, l.bias)) }
