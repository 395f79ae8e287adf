package nn

import "math"

// layerNormVariance is added to the variance of a row, so that the output for a constant row is finite.
const layerNormVariance = 1e-5

// layerNorm computes, for each row x of width n with mean μ and variance σ² (Ba, Kiros and Hinton 2016,
// arXiv:1607.06450):
//
//	y = γ x̂ + β,    x̂ = (x - μ)/√(σ² + 1e-5)
type layerNorm[T Float] struct {
	p           *Params[T]
	width       int
	gamma, beta int // fields of p
}

func newLayerNorm[T Float](p *Params[T], name string, width int) *layerNorm[T] {
	return &layerNorm[T]{p: p, width: width, gamma: p.Add(name+".weight", width), beta: p.Add(name+".bias", width)}
}

func (u *layerNorm[T]) Init(uint64) {
	gamma := u.p.Of(u.gamma)
	for i := range gamma {
		gamma[i] = 1
	}
	clear(u.p.Of(u.beta))
}

func (u *layerNorm[T]) NewWork(w *NetWork[T]) unitWork[T] {
	return &layerNormWork[T]{layerNorm: u, unit: w.rows(u.width), y: w.rows(u.width), inv: w.rows(1)}
}

type layerNormWork[T Float] struct {
	*layerNorm[T]
	unit, y []T // [rows,width]: x̂ and the output
	inv     []T // [rows]: 1/√(σ² + 1e-5)
}

func (w *layerNormWork[T]) Forward(b *Batch[T], x []T) []T {
	gamma, beta := w.p.Of(w.gamma), w.p.Of(w.beta)
	for i := range b.Rows {
		row := x[i*w.width : (i+1)*w.width]
		var sum, square float64
		for _, v := range row {
			sum += float64(v)
		}
		mean := sum / float64(w.width)
		for _, v := range row {
			d := float64(v) - mean
			square += d * d
		}
		inv := 1 / math.Sqrt(square/float64(w.width)+layerNormVariance)
		w.inv[i] = T(inv)
		unit, y := w.unit[i*w.width:(i+1)*w.width], w.y[i*w.width:(i+1)*w.width]
		for k, v := range row {
			unit[k] = T((float64(v) - mean) * inv)
			y[k] = T(gamma[k]*unit[k]) + beta[k]
		}
	}
	return w.y[:b.Rows*w.width]
}

func (w *layerNormWork[T]) Backward(b *Batch[T], dx, dy []T, ready func(lo, hi int)) []T {
	dGamma, dBeta := w.p.GradOf(w.gamma), w.p.GradOf(w.beta)
	for i := range b.Rows {
		unit := w.unit[i*w.width : (i+1)*w.width]
		for k, v := range dy[i*w.width : (i+1)*w.width] {
			dGamma[k] += T(v * unit[k])
			dBeta[k] += v
		}
	}
	if dx != nil {
		w.InputGrad(b, dx, dy, 0)
	}
	ready(w.p.Range(w.gamma, w.beta))
	return dx
}

// InputGrad computes dx = (g - mean(g) - x̂ mean(g x̂))/√(σ² + 1e-5), with g = γ dy. first must be 0.
func (w *layerNormWork[T]) InputGrad(b *Batch[T], dx, dy []T, _ int) []T {
	gamma := w.p.Of(w.gamma)
	for i := range b.Rows {
		unit, d := w.unit[i*w.width:(i+1)*w.width], dy[i*w.width:(i+1)*w.width]
		var mean, along float64
		for k, v := range d {
			g := float64(gamma[k]) * float64(v)
			mean += g
			along += g * float64(unit[k])
		}
		mean /= float64(w.width)
		along /= float64(w.width)
		to := dx[i*w.width : (i+1)*w.width]
		for k, v := range d {
			g := float64(gamma[k]) * float64(v)
			to[k] = T((g - mean - float64(unit[k])*along) * float64(w.inv[i]))
		}
	}
	return dx
}
