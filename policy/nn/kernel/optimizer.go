package kernel

import "math"

// AdamStep updates the parameters p and the moments m and v with the gradient g, in one pass over slices of equal
// length. It is algorithm 1 of Kingma and Ba 2015, arXiv:1412.6980, with the decoupled weight decay of
// Loshchilov and Hutter 2019, arXiv:1711.05101:
//
//	g = scale·g
//	m = β₁m + (1-β₁)g,    v = β₂v + (1-β₂)g²
//	p = p - lr·wd·p - lr·(m/c1)/(√(v/c2) + eps)
//
// c1 = 1-β₁ᵗ and c2 = 1-β₂ᵗ for step t; the first step is 1. scale includes clipping and averaging. The slice g itself
// is not changed. eps must be above 0. Then, without weight decay, a parameter whose gradient was always 0 does not
// change.
func AdamStep[T Float](p, g, m, v []T, lr, beta1, beta2, eps, wd, c1, c2, scale float32) {
	checkSame("adam step", "g", len(g), len(p))
	checkSame("adam step", "m", len(m), len(p))
	checkSame("adam step", "v", len(v), len(p))
	c := adam{
		scale: scale, beta1: beta1, rest1: 1 - beta1, beta2: beta2, rest2: 1 - beta2,
		decay: 1 - float32(lr*wd), step: lr / c1, root: float32(1 / math.Sqrt(float64(c2))), eps: eps,
	}
	if vectors(p) {
		adamSIMD(address(p), address(g), address(m), address(v), len(p), &c)
		return
	}
	for i, d := range g { // every operation rounds (the conversions prevent fusing), as in the vector code
		d *= T(c.scale)
		m[i] = T(T(c.beta1)*m[i]) + T(T(c.rest1)*d)
		v[i] = T(T(c.beta2)*v[i]) + T(T(T(c.rest2)*d)*d)
		denom := T(T(c.root)*T(math.Sqrt(float64(v[i])))) + T(c.eps)
		p[i] = T(T(c.decay)*p[i]) - T(T(c.step)*(m[i]/denom))
	}
}

// adam holds the factors of one step: p = decay·p - step·m/(root·√v + eps). The vector code reads
// the fields by their offsets.
type adam struct{ scale, beta1, rest1, beta2, rest2, decay, step, root, eps float32 }

// sumLanes is the number of partial sums of SumSq: element i goes to sum i mod sumLanes.
const sumLanes = 16

// SumSq returns Σ x² in float64, in an order that depends only on the length. Squares of finite
// float32 do not overflow float64. So the result is finite if and only if every element is finite, and
// one pass gives the norm and checks for NaN and Inf.
func SumSq[T Float](x []T) float64 {
	var lanes [sumLanes]float64
	whole := 0 // number of elements that vector code adds
	if vectors(x) {
		whole = len(x) / sumLanes * sumLanes
		sumSqSIMD(&lanes, address(x), whole)
	}
	for i, v := range x[whole:] {
		lanes[i%sumLanes] += float64(v) * float64(v) // the product is exact, fused or not
	}
	var sum float64
	for _, v := range lanes {
		sum += v
	}
	return sum
}
