package nn

import "github.com/rlinf/rlinf/policy/nn/kernel"

// gru is the cell of Cho et al. 2014, arXiv:1406.1078, but it applies the reset gate after the product h·U, so that one
// product is enough. a = x·W + b and u = h·U + d have columns for the gates r and z and for the candidate g. σ is the
// logistic function:
//
//	r = σ(a_r + u_r),   z = σ(a_z + u_z),   g = tanh(a_g + r·u_g),   h' = (1-z)·g + z·h
type gru[T Float] struct{}

// NewGRU declares a gated recurrent unit in p: the fields name.input.* and name.hidden.*. Its output is also its state.
func NewGRU[T Float](p *Params[T], name string, in, out int) *Recurrent[T] {
	return newRecurrent(p, name, in, out, 3, out, gru[T]{})
}

func (gru[T]) Forward(next, prev cellState[T], gates, xw, hu []T) {
	n := len(next.h)
	rz, r, z, g := gates[:2*n], gates[:n], gates[n:2*n], gates[2*n:]
	for i := range rz {
		rz[i] = xw[i] + hu[i]
	}
	sigmoid(rz)
	for i := range g {
		g[i] = xw[2*n+i] + r[i]*hu[2*n+i]
	}
	kernel.Tanh(g, g)
	for i := range next.h {
		next.h[i] = g[i] + z[i]*(prev.h[i]-g[i])
	}
}

func (gru[T]) Backward(d, _, prev cellState[T], gates, xw, hu []T) {
	n := len(d.h)
	for i, dh := range d.h {
		r, z, g := gates[i], gates[n+i], gates[2*n+i]
		dg := dh * (1 - z) * (1 - g*g)
		dr := dg * hu[2*n+i] * r * (1 - r)
		dz := dh * (prev.h[i] - g) * z * (1 - z)
		xw[i], xw[n+i], xw[2*n+i] = dr, dz, dg
		hu[i], hu[n+i], hu[2*n+i] = dr, dz, dg*r
		d.h[i] = dh * z
	}
}
