package nntest

import "github.com/rlinf/rlinf/policy/nn"

// A CountingOps counts the calls of its Ops, and panics if the length of an argument does not fit. If Idle is set, it
// does not call these Ops, so that results show only what layers compute by themselves.
type CountingOps[T nn.Float] struct {
	nn.Ops[T]
	Calls map[string]int
	Idle  bool
}

// Count makes the layers of p use a CountingOps.
func Count[T nn.Float](p *nn.Params[T]) *CountingOps[T] {
	c := &CountingOps[T]{Ops: p.Ops(), Calls: map[string]int{}}
	p.Use(c)
	return c
}

// called counts a call of the method with the given name. It reports whether the Ops must compute it.
func (o *CountingOps[T]) called(name string, fits bool) bool {
	if !fits {
		panic("nntest: " + name + ": lengths do not fit")
	}
	o.Calls[name]++
	return !o.Idle
}

func (o *CountingOps[T]) Product(c, a, b, bias []T, m, n, k int, acc bool) {
	if o.called("Product", len(c) == m*n && len(a) == m*k && len(b) == k*n &&
		(bias == nil || len(bias) == n && !acc)) {
		o.Ops.Product(c, a, b, bias, m, n, k, acc)
	}
}

func (o *CountingOps[T]) Gradient(c, a, b []T, m, n, k int, acc bool) {
	if o.called("Gradient", len(c) == m*n && len(a) == k*m && len(b) == k*n) {
		o.Ops.Gradient(c, a, b, m, n, k, acc)
	}
}

func (o *CountingOps[T]) ColSum(dst, a []T, m, n int, acc bool) {
	if o.called("ColSum", len(dst) == n && len(a) == m*n) {
		o.Ops.ColSum(dst, a, m, n, acc)
	}
}

func (o *CountingOps[T]) Transpose(dst, a []T, m, n, count int) {
	if o.called("Transpose", len(dst) == m*n*count && len(a) == m*n*count) {
		o.Ops.Transpose(dst, a, m, n, count)
	}
}

func (o *CountingOps[T]) Conv(y, x, weight, bias []T, s *nn.Windows, w *nn.ConvWork[T], n int) {
	if o.called("Conv", len(y) == n*s.Out.Len() && len(x) == n*s.In.Len() &&
		len(weight) == s.Size*s.Size*s.In.C*s.Out.C && (bias == nil || len(bias) == s.Out.C)) {
		o.Ops.Conv(y, x, weight, bias, s, w, n)
	}
}

func (o *CountingOps[T]) ConvGrad(dx, dWeight, dBias, x, dy, weight []T, s *nn.Windows, w *nn.ConvWork[T], n int) {
	if o.called("ConvGrad", len(dy) == n*s.Out.Len() && len(x) == n*s.In.Len() &&
		len(dWeight) == len(weight) && (dBias == nil || len(dBias) == s.Out.C)) {
		o.Ops.ConvGrad(dx, dWeight, dBias, x, dy, weight, s, w, n)
	}
}

func (o *CountingOps[T]) Modulate(y, x, film []T, s nn.Image, n int) {
	if o.called("Modulate", true) {
		o.Ops.Modulate(y, x, film, s, n)
	}
}

func (o *CountingOps[T]) ModulateGrad(dFilm, d, x, film []T, s nn.Image, n int) {
	if o.called("ModulateGrad", len(dFilm) == 2*n*s.C) {
		o.Ops.ModulateGrad(dFilm, d, x, film, s, n)
	}
}

func (o *CountingOps[T]) SpatialSoftmax(y, scale, prob, u []T, g *nn.PixelGrid[T], n, c int) {
	if o.called("SpatialSoftmax", len(y) == 2*n*c && len(scale) == n*c && len(prob) == n*c*len(g.One) &&
		len(u) == len(prob)) {
		o.Ops.SpatialSoftmax(y, scale, prob, u, g, n, c)
	}
}

func (o *CountingOps[T]) SpatialSoftmaxGrad(prob, u, y, scale, dy []T, g *nn.PixelGrid[T], n, c int) {
	if o.called("SpatialSoftmaxGrad", len(y) == 2*n*c && len(scale) == n*c && len(prob) == n*c*len(g.One) &&
		len(u) == len(prob)) {
		o.Ops.SpatialSoftmaxGrad(prob, u, y, scale, dy, g, n, c)
	}
}

func (o *CountingOps[T]) Activate(f nn.Activation, y, x []T) {
	if o.called("Activate", len(y) == len(x)) {
		o.Ops.Activate(f, y, x)
	}
}

func (o *CountingOps[T]) ActivateGrad(f nn.Activation, dx, dy, y []T) {
	if o.called("ActivateGrad", len(dx) == len(dy) && len(dy) == len(y)) {
		o.Ops.ActivateGrad(f, dx, dy, y)
	}
}

func (o *CountingOps[T]) Exp(dst, x []T) {
	if o.called("Exp", len(dst) == len(x)) {
		o.Ops.Exp(dst, x)
	}
}

func (o *CountingOps[T]) Log(dst, x []T) {
	if o.called("Log", len(dst) == len(x)) {
		o.Ops.Log(dst, x)
	}
}

func (o *CountingOps[T]) LogSoftmax(dst, x []T, m, n int) {
	if o.called("LogSoftmax", len(dst) == m*n && len(x) == m*n) {
		o.Ops.LogSoftmax(dst, x, m, n)
	}
}

func (o *CountingOps[T]) Normalize(dst, x, mean, inv []T, m, n int, clip T) {
	if o.called("Normalize", len(dst) == m*n && len(x) == m*n && len(mean) == n && len(inv) == n) {
		o.Ops.Normalize(dst, x, mean, inv, m, n, clip)
	}
}

func (o *CountingOps[T]) Cell(c nn.Cell, next, prev nn.CellState[T], gates, xw, hu []T, n int) {
	if o.called("Cell", len(next.H) == len(prev.H) && len(gates) == len(xw) && len(gates) == len(hu) &&
		len(next.H)%n == 0) {
		o.Ops.Cell(c, next, prev, gates, xw, hu, n)
	}
}

func (o *CountingOps[T]) CellGrad(c nn.Cell, d, next, prev nn.CellState[T], gates, xw, hu []T, n int) {
	if o.called("CellGrad", len(d.H) == len(prev.H) && len(gates) == len(xw) && len(gates) == len(hu) &&
		len(d.H)%n == 0) {
		o.Ops.CellGrad(c, d, next, prev, gates, xw, hu, n)
	}
}

func (o *CountingOps[T]) Axpy(dst []T, a T, x []T) {
	if o.called("Axpy", len(dst) == len(x)) {
		o.Ops.Axpy(dst, a, x)
	}
}

func (o *CountingOps[T]) Scale(dst []T, a T) {
	if o.called("Scale", true) {
		o.Ops.Scale(dst, a)
	}
}

func (o *CountingOps[T]) CopyColumns(dst []T, dstStep int, src []T, srcStep, width, n int) {
	if o.called("CopyColumns", n == 0 || len(dst) >= (n-1)*dstStep+width && len(src) >= (n-1)*srcStep+width) {
		o.Ops.CopyColumns(dst, dstStep, src, srcStep, width, n)
	}
}

func (o *CountingOps[T]) AddColumns(dst []T, dstStep int, src []T, srcStep, width, n int) {
	if o.called("AddColumns", n == 0 || len(dst) >= (n-1)*dstStep+width && len(src) >= (n-1)*srcStep+width) {
		o.Ops.AddColumns(dst, dstStep, src, srcStep, width, n)
	}
}

func (o *CountingOps[T]) CopyRows(dst []T, to nn.Rows, src []T, from nn.Rows, scale []T, width, n int) {
	if o.called("CopyRows", scale == nil || len(scale) >= n) {
		o.Ops.CopyRows(dst, to, src, from, scale, width, n)
	}
}

func (o *CountingOps[T]) AddRows(dst []T, to nn.Rows, src []T, from nn.Rows, scale []T, width, n int) {
	if o.called("AddRows", scale == nil || len(scale) >= n) {
		o.Ops.AddRows(dst, to, src, from, scale, width, n)
	}
}

func (o *CountingOps[T]) DotRows(dst, x []T, a nn.Rows, y []T, b nn.Rows, width, n int) {
	if o.called("DotRows", len(dst) == n) {
		o.Ops.DotRows(dst, x, a, y, b, width, n)
	}
}

func (o *CountingOps[T]) SumSq(x []T) float64 {
	o.called("SumSq", true)
	return o.Ops.SumSq(x)
}

func (o *CountingOps[T]) AdamStep(p, g, m, v []T, lr, beta1, beta2, eps, wd, c1, c2, scale float32) {
	if o.called("AdamStep", len(p) == len(g) && len(g) == len(m) && len(m) == len(v)) {
		o.Ops.AdamStep(p, g, m, v, lr, beta1, beta2, eps, wd, c1, c2, scale)
	}
}
