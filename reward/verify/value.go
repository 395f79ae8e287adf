package verify

import "math/big"

const (
	precision = 1088    // bits of floating-point numbers, for values that are not rational
	agreeBits = 700     // number of bits to which floating-point numbers must agree
	maxScale  = 256     // floating-point numbers have magnitudes from 2^-256 to 2^256
	mixedBits = 256     // maximum bits of a rational number that is converted to floating point
	exactBits = 1 << 14 // maximum bits of any rational number
)

// A value is a number: rational, real or complex.
type value struct {
	rat *big.Rat // if not nil, the value is rational, and re and im are nil
	re  *big.Float
	im  *big.Float // nil if the value is real
}

// exact returns a rational value, or nil if it is beyond the limit.
func exact(r *big.Rat) *value {
	if r.Num().BitLen() > exactBits || r.Denom().BitLen() > exactBits {
		return nil
	}
	return &value{rat: r}
}

// inexact returns a real value, or nil if x is nil or beyond the limits. It takes ownership of x.
func inexact(x *big.Float) *value {
	if x = within(x); x == nil {
		return nil
	}
	return &value{re: x}
}

// within returns x if its magnitude is within the limits. It returns 0 if x is so small that it must be a rounding
// error, and nil for all other magnitudes.
func within(x *big.Float) *big.Float {
	if x == nil || x.IsInf() {
		return nil
	}
	switch e := x.MantExp(nil); {
	case x.Sign() == 0, -maxScale <= e && e <= maxScale:
		return x
	case e < -agreeBits:
		return float(0)
	}
	return nil
}

func newFloat() *big.Float { return new(big.Float).SetPrec(precision) }

func float(x float64) *big.Float { return newFloat().SetFloat64(x) }

// complexOf returns a complex value, or a real value if im is 0. It returns nil beyond the limits.
func complexOf(re, im *big.Float) *value {
	re, im = within(re), within(im)
	switch {
	case re == nil || im == nil:
		return nil
	case im.Sign() == 0:
		return &value{re: re}
	}
	return &value{re: re, im: im}
}

// approximate returns v as floating-point numbers. ok is false if v is beyond the limits.
func (v *value) approximate() (re, im *big.Float, ok bool) {
	if v.rat == nil {
		if im = v.im; im == nil {
			im = float(0)
		}
		return v.re, im, true
	}
	if v.rat.Num().BitLen() > mixedBits || v.rat.Denom().BitLen() > mixedBits {
		return nil, nil, false
	}
	return newFloat().SetRat(v.rat), float(0), true
}

// realPart returns a real v as a floating-point number. It returns nil if v is complex or beyond the limits.
func (v *value) realPart() *big.Float {
	re, _, ok := v.approximate()
	if !ok || v.im != nil {
		return nil
	}
	return re
}

// sign returns the sign of the real part.
func (v *value) sign() int {
	if v.rat != nil {
		return v.rat.Sign()
	}
	return v.re.Sign()
}

func (v *value) equals(w *value) bool {
	if v.rat != nil && w.rat != nil {
		return v.rat.Cmp(w.rat) == 0
	}
	a, b, ok := v.approximate()
	c, d, okay := w.approximate()
	return ok && okay && near(a, c) && near(b, d)
}

// near reports whether two numbers agree to agreeBits, relative to max(1, |a|, |b|).
func near(a, b *big.Float) bool {
	d := new(big.Float).Sub(a, b)
	scale := max(0, a.MantExp(nil), b.MantExp(nil))
	return d.Sign() == 0 || d.MantExp(nil) < scale-agreeBits
}

// combine returns the sum or the product of a and b. It calls rational if both numbers are rational, and complex
// otherwise.
func combine(a, b *value, rational func(z, a, b *big.Rat) *big.Rat, complex func(x, y, u, v *big.Float) *value) *value {
	if a == nil || b == nil {
		return nil
	}
	if a.rat != nil && b.rat != nil {
		return exact(rational(new(big.Rat), a.rat, b.rat))
	}
	x, y, ok := a.approximate()
	u, v, okay := b.approximate()
	if !ok || !okay {
		return nil
	}
	return complex(x, y, u, v)
}

func add(a, b *value) *value {
	return combine(a, b, (*big.Rat).Add, func(x, y, u, v *big.Float) *value {
		return complexOf(new(big.Float).Add(x, u), new(big.Float).Add(y, v))
	})
}

func negate(a *value) *value {
	switch {
	case a == nil:
		return nil
	case a.rat != nil:
		return &value{rat: new(big.Rat).Neg(a.rat)}
	case a.im == nil:
		return &value{re: new(big.Float).Neg(a.re)}
	}
	return &value{re: new(big.Float).Neg(a.re), im: new(big.Float).Neg(a.im)}
}

func multiply(a, b *value) *value {
	return combine(a, b, (*big.Rat).Mul, func(x, y, u, v *big.Float) *value {
		f := newFloat
		return complexOf(f().Sub(f().Mul(x, u), f().Mul(y, v)), f().Add(f().Mul(x, v), f().Mul(y, u)))
	})
}

func divide(a, b *value) *value {
	if a == nil || b == nil {
		return nil
	}
	if b.rat != nil {
		if b.rat.Sign() == 0 {
			return nil
		}
		if a.rat != nil {
			return exact(new(big.Rat).Quo(a.rat, b.rat))
		}
	}
	u, v, ok := b.approximate()
	if !ok {
		return nil
	}
	f := newFloat
	if v.Sign() == 0 {
		x, y, ok := a.approximate()
		if !ok || u.Sign() == 0 {
			return nil
		}
		return complexOf(f().Quo(x, u), f().Quo(y, u))
	}
	square := within(f().Add(f().Mul(u, u), f().Mul(v, v)))
	if square == nil {
		return nil
	}
	inverse := complexOf(f().Quo(u, square), f().Neg(f().Quo(v, square)))
	return multiply(a, inverse)
}

// wholePower returns a to the power n, by repeated squaring. Powers of 0 with n ≤ 0 are undefined.
func wholePower(a *value, n *big.Int) *value {
	if !n.IsInt64() || a == nil {
		return nil
	}
	k := n.Int64()
	if k < 0 {
		return divide(exact(big.NewRat(1, 1)), wholePower(a, new(big.Int).Neg(n)))
	}
	if k == 0 {
		if a.rat != nil && a.rat.Sign() == 0 || a.rat == nil && a.im == nil && a.re.Sign() == 0 {
			return nil
		}
		return exact(big.NewRat(1, 1))
	}
	if a.rat != nil && a.rat.IsInt() && a.rat.Num().BitLen() < 2 { // 0, 1 and -1 stay small
		if k%2 == 0 {
			return multiply(a, a)
		}
		return a
	}
	result := (*value)(nil)
	for square := a; ; square = multiply(square, square) {
		if square == nil {
			return nil
		}
		if k&1 == 1 {
			if result == nil {
				result = square
			} else if result = multiply(result, square); result == nil {
				return nil
			}
		}
		if k >>= 1; k == 0 {
			return result
		}
	}
}

// exactRoot returns the nth root of r ≥ 0, or nil if the root is not rational.
func exactRoot(r *big.Rat, n int64) *big.Rat {
	above, below := wholeRoot(r.Num(), n), wholeRoot(r.Denom(), n)
	if above == nil || below == nil {
		return nil
	}
	return new(big.Rat).SetFrac(above, below)
}

// wholeRoot returns the nth root of x ≥ 0, or nil if the root is no integer or x is too large.
func wholeRoot(x *big.Int, n int64) *big.Int {
	if n == 2 {
		r := new(big.Int).Sqrt(x)
		if new(big.Int).Mul(r, r).Cmp(x) == 0 {
			return r
		}
		return nil
	}
	if x.BitLen() > mixedBits {
		return nil
	}
	r, power := new(big.Int), big.NewInt(n)
	for bit := x.BitLen() / int(n); bit >= 0; bit-- {
		r.SetBit(r, bit, 1)
		if new(big.Int).Exp(r, power, nil).Cmp(x) > 0 {
			r.SetBit(r, bit, 0)
		}
	}
	if new(big.Int).Exp(r, power, nil).Cmp(x) == 0 {
		return r
	}
	return nil
}

const maxFactorial = 1000

// small returns v if it is an integer from 0 to maxFactorial, otherwise -1.
func (v *value) small() int64 {
	if v.rat == nil || !v.rat.IsInt() || !v.rat.Num().IsInt64() {
		return -1
	}
	if n := v.rat.Num().Int64(); 0 <= n && n <= maxFactorial {
		return n
	}
	return -1
}

func factorial(a *value) *value {
	n := a.small()
	if n < 0 {
		return nil
	}
	return exact(new(big.Rat).SetInt(new(big.Int).MulRange(1, n)))
}

// binomial returns a (a-1) … (a-b+1) / b!. It returns 0 for a negative integer b. It returns nil if a is not rational,
// or if b is not a small integer.
func binomial(a, b *value) *value {
	k := b.small()
	if b.rat != nil && b.rat.IsInt() && b.rat.Sign() < 0 {
		return exact(new(big.Rat))
	}
	if n := a.small(); n >= 0 && k >= 0 {
		return exact(new(big.Rat).SetInt(new(big.Int).Binomial(n, k)))
	}
	if a.rat == nil || k < 0 || a.rat.IsInt() && a.rat.Sign() > 0 {
		return nil
	}
	result := exact(big.NewRat(1, 1))
	for i := range k {
		factor := new(big.Rat).Sub(a.rat, big.NewRat(i, 1))
		result = multiply(result, exact(factor.Quo(factor, big.NewRat(i+1, 1))))
	}
	return result
}
