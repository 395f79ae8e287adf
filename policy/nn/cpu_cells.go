package nn

import "github.com/rlinf/rlinf/policy/nn/kernel"

func (o cpu[T]) Cell(c Cell, next, prev CellState[T], gates, xw, hu []T, n int) {
	step, width, wide := gru[T], len(next.H)/n, len(gates)/n
	if c == LSTMCell {
		step = lstm[T]
	}
	for i := range n {
		step(next.row(i, width), prev.row(i, width), row(gates, i, wide), row(xw, i, wide), row(hu, i, wide))
	}
}

func (o cpu[T]) CellGrad(c Cell, d, next, prev CellState[T], gates, xw, hu []T, n int) {
	step, width, wide := gruGrad[T], len(d.H)/n, len(gates)/n
	if c == LSTMCell {
		step = lstmGrad[T]
	}
	for i := range n {
		step(d.row(i, width), next.row(i, width), prev.row(i, width), row(gates, i, wide), row(xw, i, wide),
			row(hu, i, wide))
	}
}

// row returns row i of s. A row has the given width; C of the result is empty if s.C is.
func (s CellState[T]) row(i, width int) CellState[T] {
	if s.H = row(s.H, i, width); len(s.C) > 0 {
		s.C = row(s.C, i, width)
	}
	return s
}

// row returns row i of x, [rows,width].
func row[T Float](x []T, i, width int) []T { return x[i*width : (i+1)*width] }

func gru[T Float](next, prev CellState[T], gates, xw, hu []T) {
	n := len(next.H)
	rz, r, z, g := gates[:2*n], gates[:n], gates[n:2*n], gates[2*n:]
	for i := range rz {
		rz[i] = xw[i] + hu[i]
	}
	sigmoid(rz)
	for i := range g {
		g[i] = xw[2*n+i] + r[i]*hu[2*n+i]
	}
	kernel.Tanh(g, g)
	for i := range next.H {
		next.H[i] = g[i] + z[i]*(prev.H[i]-g[i])
	}
}

func gruGrad[T Float](d, _, prev CellState[T], gates, xw, hu []T) {
	n := len(d.H)
	for i, dh := range d.H {
		r, z, g := gates[i], gates[n+i], gates[2*n+i]
		dg := dh * (1 - z) * (1 - g*g)
		dr := dg * hu[2*n+i] * r * (1 - r)
		dz := dh * (prev.H[i] - g) * z * (1 - z)
		xw[i], xw[n+i], xw[2*n+i] = dr, dz, dg
		hu[i], hu[n+i], hu[2*n+i] = dr, dz, dg*r
		d.H[i] = dh * z
	}
}

func lstm[T Float](next, prev CellState[T], gates, xw, hu []T) {
	n := len(next.H)
	for k := range gates {
		gates[k] = xw[k] + hu[k]
	}
	sigmoid(gates[:3*n])
	kernel.Tanh(gates[3*n:], gates[3*n:])
	for k := range next.C {
		next.C[k] = gates[n+k]*prev.C[k] + gates[k]*gates[3*n+k]
	}
	kernel.Tanh(next.H, next.C)
	for k := range next.H {
		next.H[k] *= gates[2*n+k]
	}
}

func lstmGrad[T Float](d, next, prev CellState[T], gates, xw, hu []T) {
	n := len(d.H)
	kernel.Tanh(xw[:n], next.C)
	for k, dh := range d.H {
		i, f, o, g, tanhC := gates[k], gates[n+k], gates[2*n+k], gates[3*n+k], xw[k]
		dc := d.C[k] + dh*o*(1-tanhC*tanhC)
		xw[k] = dc * g * i * (1 - i)
		xw[n+k] = dc * prev.C[k] * f * (1 - f)
		xw[2*n+k] = dh * tanhC * o * (1 - o)
		xw[3*n+k] = dc * i * (1 - g*g)
		d.H[k], d.C[k] = 0, dc*f
	}
	copy(hu, xw)
}

// sigmoid replaces each x with 1/(1+e^-x) = ½ + ½ tanh(x/2).
func sigmoid[T Float](x []T) {
	kernel.Scale(x, 0.5)
	kernel.Tanh(x, x)
	for i, v := range x {
		x[i] = 0.5 + 0.5*v
	}
}
