package nn

import "github.com/rlinf/rlinf/policy/nn/kernel"

// modulate sets y to (1+γ)x + β, for images x and y of the shape s. For each image, film has the γ of all channels,
// then the β of all channels (FiLM, Perez et al. 2018, arXiv:1709.07871).
func modulate[T Float](y, x, film []T, s Image, rows int) {
	c := s.C
	for i := range rows {
		gamma, beta := film[2*i*c:][:c], film[(2*i+1)*c:][:c]
		for range s.H * s.W {
			to, from := y[:len(gamma)], x[:len(gamma)]
			y, x = y[c:], x[c:]
			beta := beta[:len(gamma)]
			for k, v := range from {
				to[k] = v + T(gamma[k]*v) + beta[k]
			}
		}
	}
}

// modulateGrad sets dFilm to the gradient of film. d is the gradient of y, and modulateGrad replaces it with the
// gradient of x.
func modulateGrad[T Float](dFilm, d, x, film []T, s Image, rows int) {
	c := s.C
	clear(dFilm[:2*rows*c])
	for i := range rows {
		gamma, dGamma := film[2*i*c:][:c], dFilm[2*i*c:][:c]
		kernel.ColSum(dFilm[(2*i+1)*c:][:c], d[:s.H*s.W*c], s.H*s.W, c, false)
		for range s.H * s.W {
			to, from, dGamma := d[:len(gamma)], x[:len(gamma)], dGamma[:len(gamma)]
			d, x = d[c:], x[c:]
			for k, v := range to {
				dGamma[k] += T(v * from[k])
				to[k] = v + T(gamma[k]*v)
			}
		}
	}
}

// film modulates the features of images with the output of another unit.
type film[T Float] struct {
	in Image
	by unit[T] // gives γ and β
}

func (u *film[T]) Init(seed uint64) { u.by.Init(seed) }

func (u *film[T]) NewWork(w *NetWork[T]) unitWork[T] {
	return &filmWork[T]{film: u, by: u.by.NewWork(w), y: w.rows(u.in.Len()), rows: w.maxRows}
}

type filmWork[T Float] struct {
	*film[T]
	by       unitWork[T]
	x, y     []T
	factors  []T // γ and β of each image
	dFactors []T // the gradients of γ and β; allocated by the first Backward
	rows     int
}

func (w *filmWork[T]) Forward(b *Batch[T], x []T) []T {
	w.x, w.factors = x, w.by.Forward(b, nil)
	modulate(w.y, x, w.factors, w.in, b.Rows)
	return w.y[:b.Rows*w.in.Len()]
}

func (w *filmWork[T]) Backward(b *Batch[T], _, dy []T, ready func(lo, hi int)) []T {
	if w.dFactors == nil {
		w.dFactors = Vector[T](2 * w.rows * w.in.C)
	}
	dFactors := w.dFactors[:2*b.Rows*w.in.C]
	modulateGrad(dFactors, dy, w.x, w.factors, w.in, b.Rows)
	w.by.Backward(b, nil, dFactors, ready)
	return dy[:b.Rows*w.in.Len()]
}
