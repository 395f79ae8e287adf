package nn

import "github.com/rlinf/rlinf/policy/nn/kernel"

// lstm is the cell of Hochreiter and Schmidhuber 1997 with the forget gate of Gers et al. 2000. s = x·W + b + h·U + d
// has columns for the gates i, f and o, and for the candidate g. σ is the logistic function:
//
//	i, f, o = σ(s_i), σ(s_f), σ(s_o),   g = tanh(s_g),   c' = f·c + i·g,   h' = o·tanh(c')
type lstm[T Float] struct{}

// NewLSTM declares a long short-term memory in p: the fields name.input.* and name.hidden.*. Its state is its output h
// and the cell c.
func NewLSTM[T Float](p *Params[T], name string, in, out int) *Recurrent[T] {
	return newRecurrent(p, name, in, out, 4, 2*out, lstm[T]{})
}

func (lstm[T]) Forward(next, prev cellState[T], gates, xw, hu []T) {
	n := len(next.h)
	for k := range gates {
		gates[k] = xw[k] + hu[k]
	}
	sigmoid(gates[:3*n])
	kernel.Tanh(gates[3*n:], gates[3*n:])
	for k := range next.c {
		next.c[k] = gates[n+k]*prev.c[k] + gates[k]*gates[3*n+k]
	}
	kernel.Tanh(next.h, next.c)
	for k := range next.h {
		next.h[k] *= gates[2*n+k]
	}
}

func (lstm[T]) Backward(d, next, prev cellState[T], gates, xw, hu []T) {
	n := len(d.h)
	kernel.Tanh(xw[:n], next.c)
	for k, dh := range d.h {
		i, f, o, g, tanhC := gates[k], gates[n+k], gates[2*n+k], gates[3*n+k], xw[k]
		dc := d.c[k] + dh*o*(1-tanhC*tanhC)
		xw[k] = dc * g * i * (1 - i)
		xw[n+k] = dc * prev.c[k] * f * (1 - f)
		xw[2*n+k] = dh * tanhC * o * (1 - o)
		xw[3*n+k] = dc * i * (1 - g*g)
		d.h[k], d.c[k] = 0, dc*f
	}
	copy(hu, xw)
}
