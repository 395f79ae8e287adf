package verify

import (
	"math"
	"math/big"
	"sync"
)

// function returns the value of the named function at a real x. For abs, x may be complex.
func function(name string, x *value) *value {
	switch name {
	case "abs":
		return absolute(x)
	case "floor":
		return floor(x)
	case "ceil":
		return negate(floor(negate(x)))
	}
	f := x.realPart()
	if f == nil {
		return nil
	}
	switch name {
	case "ln":
		return inexact(ln(f))
	case "sin", "cos":
		if f.MantExp(nil) > maxAngle {
			return nil
		}
		c, s := cosSin(f)
		if name == "sin" {
			return inexact(s)
		}
		return inexact(c)
	case "arctan":
		return inexact(atan(f))
	case "arcsin", "arccos":
		// asin x = atan(x / √(1-x²))
		one := float(1)
		c := one.Sub(one, newFloat().Mul(f, f))
		if c = within(c); c == nil || c.Sign() < 0 {
			return nil
		}
		y := newFloat().Quo(pi(), float(2))
		if c.Sign() == 0 {
			if f.Sign() < 0 {
				y.Neg(y)
			}
		} else {
			y = atan(newFloat().Quo(f, c.Sqrt(c)))
		}
		if name == "arcsin" {
			return inexact(y)
		}
		return inexact(newFloat().Sub(newFloat().Quo(pi(), float(2)), y))
	}
	return nil
}

// floor returns the largest integer that is at most x. A floating-point number that agrees with an integer is this
// integer.
func floor(x *value) *value {
	switch {
	case x == nil || x.im != nil:
		return nil
	case x.rat != nil: // the method Div rounds down, because Denom is positive
		return exact(new(big.Rat).SetInt(new(big.Int).Div(x.rat.Num(), x.rat.Denom())))
	}
	half := newFloat().Add(x.re, float(0.5))
	nearest, _ := half.Int(nil)
	if half.Sign() < 0 && !half.IsInt() {
		nearest.Sub(nearest, big.NewInt(1)) // the method Int rounds toward 0
	}
	if n := newFloat().SetInt(nearest); n.Cmp(x.re) > 0 && !near(n, x.re) {
		nearest.Sub(nearest, big.NewInt(1))
	}
	return exact(new(big.Rat).SetInt(nearest))
}

const maxAngle = 64 // maximum binary exponent of an angle

func absolute(x *value) *value {
	switch {
	case x.rat != nil:
		return &value{rat: new(big.Rat).Abs(x.rat)}
	case x.im == nil:
		return &value{re: newFloat().Abs(x.re)}
	}
	square := newFloat().Add(newFloat().Mul(x.re, x.re), newFloat().Mul(x.im, x.im))
	return inexact(square.Sqrt(square))
}

// exponential returns e^x. For complex x, it computes e^(a+bi) = e^a (cos b + i sin b).
func exponential(x *value) *value {
	if x == nil {
		return nil
	}
	re, im, ok := x.approximate()
	if !ok || re.MantExp(nil) > 8 || im.MantExp(nil) > maxAngle {
		return nil
	}
	e := exp(re)
	if x.im == nil {
		return inexact(e)
	}
	c, s := cosSin(im)
	return complexOf(newFloat().Mul(e, c), newFloat().Mul(e, s))
}

// exp returns e^x for |x| < 2⁸, in the precision of x. It sums the power series at x/2⁴⁰, and squares the sum 40
// times.
func exp(x *big.Float) *big.Float {
	const halvings = 40
	bits := x.Prec()
	r := newFloat().SetPrec(bits).SetMantExp(x, -halvings)
	total, term := float(1).SetPrec(bits), float(1).SetPrec(bits)
	for k := 1; ; k++ {
		term.Mul(term, r).Quo(term, float(float64(k)))
		if term.Sign() == 0 || term.MantExp(nil) < -int(bits) {
			break
		}
		total.Add(total, term)
	}
	for range halvings {
		total.Mul(total, total)
	}
	return total
}

// steps returns the precision of each iteration of ln and atan, in bits. The iterations start from a float64. Each
// precision is at most three times the previous one.
func steps() [3]uint { return [3]uint{192, 448, precision} }

// ln returns the logarithm of x, or nil if x ≤ 0. Each step of Halley's method triples the number of correct bits:
//
//	y ← y + 2 (x - e^y) / (x + e^y)
func ln(x *big.Float) *big.Float {
	if x.Sign() <= 0 {
		return nil
	}
	mantissa := newFloat()
	e := x.MantExp(mantissa)
	m, _ := mantissa.Float64()
	y := float(math.Log(m) + float64(e)*math.Ln2)
	for _, bits := range steps() {
		p := exp(y.SetPrec(bits))
		d := newFloat().Sub(x, p)
		d.Quo(d, p.Add(p, x)).Mul(d, float(2))
		y.Add(y, d)
	}
	return y
}

// cosSin returns the cosine and the sine of x, in the precision of x. It sums the power series at an angle below 2⁻²⁰,
// and then doubles the angle repeatedly.
func cosSin(x *big.Float) (cos, sin *big.Float) {
	const halvings = 24
	bits := x.Prec()
	at := func(x *big.Float) *big.Float { return x.SetPrec(bits) }
	turn := newFloat().Mul(pi(), float(2))
	turns, _ := newFloat().Quo(x, turn).Int(nil)
	r := at(newFloat().Sub(x, newFloat().Mul(turn, newFloat().SetInt(turns))))
	r.SetMantExp(r, -halvings)
	cos, sin = at(float(1)), at(float(0))
	term := at(float(1))
	for k := 1; ; k++ {
		term.Mul(term, r).Quo(term, float(float64(k)))
		if term.Sign() == 0 || term.MantExp(nil) < -int(bits) {
			break
		}
		to := sin
		if k%2 == 0 {
			to = cos
		}
		if k%4 >= 2 {
			to.Sub(to, term)
		} else {
			to.Add(to, term)
		}
	}
	for range halvings {
		c := at(new(big.Float)).Mul(cos, cos)
		s := at(new(big.Float)).Mul(sin, sin)
		cos, sin = c.Sub(c, s), sin.Mul(sin, cos).Mul(sin, float(2))
	}
	return cos, sin
}

// atan returns the arc tangent of x. Each step triples the number of correct bits:
//
//	y ← y + tan(atan x - y) = y + (x cos y - sin y) / (cos y + x sin y)
func atan(x *big.Float) *big.Float {
	f, _ := x.Float64()
	y := float(math.Atan(f))
	for _, bits := range steps() {
		c, s := cosSin(y.SetPrec(bits))
		above := newFloat().Sub(newFloat().Mul(x, c), s)
		below := newFloat().Add(c, newFloat().Mul(x, s)) // at least √(1+x²)/2, because y is close to atan x
		y.Add(y, above.Quo(above, below))
	}
	return y
}

// pi and euler are computed once. Callers must not change the results.
var (
	pi    = sync.OnceValue(machin)
	euler = sync.OnceValue(func() *big.Float { return exp(float(1)) })
)

// machin returns π = 16 atan(1/5) - 4 atan(1/239), computed in fixed point.
func machin() *big.Float {
	const bits = precision + 64
	inverse := func(n, times int64) *big.Int {
		term := new(big.Int).Lsh(big.NewInt(times), bits)
		term.Quo(term, big.NewInt(n))
		total := new(big.Int).Set(term)
		square := big.NewInt(n * n)
		for k := int64(3); term.Sign() != 0; k += 2 {
			term.Quo(term, square).Neg(term)
			total.Add(total, new(big.Int).Quo(term, big.NewInt(k)))
		}
		return total
	}
	total := inverse(5, 16)
	total.Sub(total, inverse(239, 4))
	x := newFloat().SetInt(total)
	return x.SetMantExp(x, -bits)
}
