package verify

import (
	"math/big"
	"strings"
)

// approximates reports whether an approximation begins with p.tokens[at]: \approx 1.41, (\approx 1.41), approximately
// 1.41, or = 1.41\ldots.
func (p *parser) approximates(at int) bool {
	for ; at < len(p.tokens); at++ {
		t := p.tokens[at]
		switch {
		case t.is(symbol, "("):
		case t.is(command, "approx"):
			return true
		case t.is(symbol, "="):
			for at++; at < len(p.tokens) && (p.tokens[at].is(symbol, "-") || p.tokens[at].kind == number); at++ {
			}
			return at < len(p.tokens) && p.tokens[at].is(command, "ldots")
		case t.kind == prose || t.kind == word:
			return approximately[strings.Trim(strings.ToLower(t.text), " (,.")]
		default:
			return false
		}
	}
	return false
}

// approximately are the words that may precede an approximation.
var approximately = map[string]bool{"approximately": true, "approx": true, "about": true, "roughly": true,
	"or approximately": true, "or about": true, "which is approximately": true, "which is about": true}

// approximated parses an approximation of x, and returns x. If only the approximation has a unit, x gets this unit. An
// approximation that does not fit is a syntax error, because the answer then has two meanings.
func (p *parser) approximated(x *node) *node {
	start := p.at
	open := p.take(symbol, "(")
	p.at++
	about := p.union()
	last := p.at
	p.take(command, "ldots")
	if open || p.tokens[start].kind == prose && strings.Contains(p.tokens[start].text, "(") {
		if t := p.peek(); t.kind != prose || strings.TrimSpace(t.text) != ")" {
			p.expect(symbol, ")")
		} else {
			p.at++
		}
	}
	if !x.isValue() || !about.isValue() || !agree(x.unit, about.unit) {
		return p.fail()
	}
	for _, t := range p.tokens[start:last] {
		if t.kind != number {
			continue
		}
		if !fits(x, about, rational(t.text), t.text) {
			if hundred := p.num(big.NewRat(100, 1)); x.unit == "" && about.unit == "%" &&
				fits(p.make(opMul, "", x, hundred), about, rational(t.text), t.text) {
				return x // 1/3 \approx 33.3\%
			}
			break
		}
		if x.unit == "" && about.unit != "" {
			return p.withUnit(x, about.unit)
		}
		return x
	}
	return p.fail()
}

// fits reports whether x differs from its approximation, approx, by at most one unit of the last digit of text. Here
// text is the first number in the approximation, and literal is the value of text. Trailing zeros of an integer do not
// count as digits.
func fits(x, approx *node, literal *big.Rat, text string) bool {
	if x.hasVariables() || !isDecimal(approx) || literal == nil || strings.ContainsAny(text, "(") {
		return false
	}
	v, y := x.atPoints().at(0), approx.atPoints().at(0)
	if v == nil || y == nil || v.im != nil || y.im != nil {
		return false
	}
	text = strings.ReplaceAll(text, ",", "")
	_, decimals, hasPoint := strings.Cut(text, ".")
	digits := -len(decimals)
	if !hasPoint {
		digits = len(text) - len(strings.TrimRight(text, "0"))
	}
	unit := new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(max(digits, -digits))), nil))
	if digits < 0 {
		unit.Inv(unit)
	}
	tolerance := exact(unit)
	if literal.Sign() != 0 { // 1.4 \times 10^3
		tolerance = multiply(tolerance, divide(y, exact(literal)))
	}
	d := add(v, negate(y))
	if d == nil || tolerance == nil {
		return false
	}
	a, b := d.realPart(), tolerance.realPart()
	return a != nil && b != nil && new(big.Float).Abs(a).Cmp(new(big.Float).Abs(b)) <= 0
}

// isDecimal reports whether a node is a number, with an optional sign and power of ten.
func isDecimal(n *node) bool {
	switch {
	case n.op == opNeg:
		return isDecimal(n.args[0])
	case n.op == opMul:
		power := n.args[1]
		return isDecimal(n.args[0]) && (power.op == opNumber || power.op == opPow && power.args[0].op == opNumber &&
			!power.args[1].hasVariables())
	}
	return n.op == opNumber
}
