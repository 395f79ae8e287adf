package verify

import (
	"hash/fnv"
	"math/big"
	"slices"
)

// An expression with variables is evaluated at realPoints points with real numbers. At the first
// positivePoints of them, all variables are positive. If fewer than minPoints values are defined,
// as for (-1)ⁿ, the expression is also evaluated at wholePoints points with integers.
const (
	positivePoints = 3
	realPoints     = positivePoints + 6
	wholePoints    = 9
	minPoints      = 3 // minimum number of points where both expressions are defined
)

// values are the values of an expression at the points, computed on first use. A nil value is undefined. An expression
// without variables has the same value everywhere.
type values struct {
	known  []*value
	more   func(point int) *value
	varies bool
}

func (v *values) at(point int) *value {
	if !v.varies {
		point = 0
	}
	for len(v.known) <= point {
		v.known = append(v.known, v.more(len(v.known)))
	}
	return v.known[point]
}

// equalValues reports whether two expressions agree wherever both are defined, at minPoints points
// or more.
func equalValues(a, b *node) bool { return equalAt(a.atPoints(), b.atPoints()) }

func equalAt(x, y *values) bool {
	if !x.varies && !y.varies {
		v, w := x.at(0), y.at(0)
		return v != nil && w != nil && v.equals(w)
	}
	both := 0
	for i := range realPoints + wholePoints {
		if i == realPoints && both >= minPoints {
			return true
		}
		v, w := x.at(i), y.at(i)
		if v == nil || w == nil {
			continue
		}
		if !v.equals(w) {
			return false
		}
		both++
	}
	return both >= minPoints
}

// difference returns the values of a - b.
func difference(a, b *node) *values {
	x, y := a.atPoints(), b.atPoints()
	return &values{varies: x.varies || y.varies, more: func(i int) *value { return add(x.at(i), negate(y.at(i))) }}
}

func (n *node) hasVariables() bool {
	return n.op == opVariable || slices.ContainsFunc(n.args, (*node).hasVariables)
}

// atPoints returns the values of n at the points.
func (n *node) atPoints() *values {
	if n.values == nil {
		varies := n.hasVariables()
		n.values = &values{varies: varies, more: func(point int) *value {
			e := evaluator{point: point, real: varies}
			return e.eval(n)
		}}
	}
	return n.values
}

// evaluator evaluates expressions at one point. A nil value is undefined or beyond the limits.
type evaluator struct {
	point int
	real  bool // if true, roots and powers that are not real are undefined
}

func (e *evaluator) eval(n *node) *value {
	args := make([]*value, len(n.args))
	for i, a := range n.args {
		if args[i] = e.eval(a); args[i] == nil {
			return nil
		}
	}
	switch n.op {
	case opNumber:
		return exact(n.number)
	case opVariable:
		return variableAt(n.name, e.point)
	case opConstant:
		return constant(n.name)
	case opAdd:
		return add(args[0], args[1])
	case opNeg:
		return negate(args[0])
	case opMul:
		return multiply(args[0], args[1])
	case opDiv:
		return divide(args[0], args[1])
	case opPow:
		if base := n.args[0]; base.op == opConstant && base.name == "e" {
			return exponential(args[1])
		}
		return e.power(args[0], args[1])
	case opRoot:
		return e.root(args[0], args[1])
	case opFactorial:
		return factorial(args[0])
	case opBinomial:
		return binomial(args[0], args[1])
	case opFunction:
		return function(n.name, args[0])
	}
	return nil
}

func constant(name string) *value {
	switch name {
	case "pi":
		return inexact(pi())
	case "e":
		return inexact(euler())
	}
	return &value{re: float(0), im: float(1)} // i
}

// variableAt returns the value of a variable at a point. The value depends only on the name and the point. At the real
// points, its magnitude is from 1/2 to 2. At the other points, the variable has different integers from 2 to 10.
func variableAt(name string, point int) *value {
	h := fnv.New64a()
	h.Write([]byte(name)) // cannot fail
	bits := h.Sum64()
	if point >= realPoints {
		step := [...]uint64{1, 2, 4, 5, 7, 8}[bits>>32%6] // no common factor with 9
		return exact(big.NewRat(int64(2+(bits%9+uint64(point-realPoints)*step)%9), 1))
	}
	x := newFloat().SetUint64(mix(bits+uint64(point)*0x9e3779b97f4a7c15) | 1)
	x.SetMantExp(x, -64)
	x.Mul(x, float(1.5)).Add(x, float(0.5))
	if point >= positivePoints && signs(name, bits)>>(point-positivePoints)&1 == 1 {
		x.Neg(x)
	}
	return inexact(x)
}

// signs returns a bit for each real point after the positive points: 1 if the variable is negative there. At least one
// bit is set. Any two letters have different bits, so that |a|b differs from a|b|.
func signs(name string, bits uint64) uint64 {
	if len(name) == 1 && isASCIILetter(rune(name[0])) {
		return 1 + uint64(name[0]-'A')
	}
	return 1 + bits%63
}

// mix is the output function of SplitMix64.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// power returns base to the power of exponent. Both must be real, unless the exponent is an integer. An odd root of a
// negative number is negative.
func (e *evaluator) power(base, exponent *value) *value {
	if exponent.rat != nil && exponent.rat.IsInt() {
		return wholePower(base, exponent.rat.Num())
	}
	if exponent.rat != nil {
		if below := exponent.rat.Denom(); below.IsInt64() && below.Int64() <= maxRoot {
			if r := e.root(base, exact(new(big.Rat).SetInt(below))); r != nil {
				return wholePower(r, exponent.rat.Num())
			}
			return nil
		}
	}
	x, y := base.realPart(), exponent.realPart()
	if x == nil || y == nil || x.Sign() <= 0 {
		return nil
	}
	l := ln(x)
	if l == nil {
		return nil
	}
	return exponential(multiply(inexact(l), inexact(y)))
}

const maxRoot = 64

// root returns the real root of x, or nil if it is undefined. In an expression without variables, the square root of a
// negative number is imaginary.
func (e *evaluator) root(x, degree *value) *value {
	if degree.rat == nil || !degree.rat.IsInt() || !degree.rat.Num().IsInt64() {
		return nil
	}
	n := degree.rat.Num().Int64()
	if n < 2 || n > maxRoot {
		return nil
	}
	if x.sign() < 0 {
		switch {
		case x.im != nil:
			return nil
		case n%2 == 1:
			return negate(e.root(negate(x), degree))
		case n == 2 && !e.real:
			return multiply(e.root(negate(x), degree), &value{re: float(0), im: float(1)})
		}
		return nil
	}
	if x.rat != nil {
		if r := exactRoot(x.rat, n); r != nil {
			return exact(r)
		}
	}
	f := x.realPart()
	switch {
	case f == nil:
		return nil
	case f.Sign() == 0:
		return exact(new(big.Rat))
	case n == 2:
		return inexact(newFloat().Sqrt(f))
	}
	l := ln(f)
	return exponential(divide(inexact(l), exact(big.NewRat(n, 1))))
}
