package verify

import (
	"math/big"
	"strings"
)

// sum parses terms with signs, and the unit after them.
func (p *parser) sum() *node {
	defer p.enter()()
	total, sign := (*node)(nil), p.sign()
	currency := ""
	t := p.peek()
	if p.isCurrency() || (t.kind == prose || t.kind == word) && currencies[unitOf(t.text)] { // \text{USD } 5
		currency = unitOf(t.text)
		p.at++
		if sign == 0 { // €-5
			sign = p.sign()
		}
	}
	for {
		t := p.term()
		if sign == '-' {
			t = p.make(opNeg, "", t)
		}
		if total == nil {
			total = t
		} else {
			total = p.make(opAdd, "", total, t)
		}
		if sign = p.sign(); sign == 0 {
			break
		}
	}
	total = p.measured(total) // $5 million
	if currency != "" {
		total = p.withUnit(total, currency)
	}
	return total
}

// isCurrency reports whether the next token is the sign of a currency.
func (p *parser) isCurrency() bool {
	t := p.peek()
	return t.kind == command && currencies[t.text]
}

// sign parses a sign, + or -. It returns 0 if there is none.
func (p *parser) sign() rune {
	switch {
	case p.take(symbol, "+"):
		return '+'
	case p.take(symbol, "-"):
		return '-'
	case p.peek().is(command, "pm"), p.peek().is(command, "mp"):
		p.plusMinus = true
		if (p.tokens[p.at].text == "pm") != p.minus {
			p.at++
			return '+'
		}
		p.at++
		return '-'
	}
	return 0
}

// term parses a product. After a fraction a/b, the next factor needs a multiplication sign, because
// 1/2x is ambiguous.
func (p *parser) term() *node {
	n := p.factor(true)
	slash := false
	for {
		switch {
		case p.take(command, "cdot"):
			n, slash = p.make(opMul, "", n, p.signed(true)), false
		case p.take(symbol, "/"):
			n, slash = p.make(opDiv, "", n, p.signed(false)), true
		case p.starts(p.peek()):
			if slash {
				return p.fail()
			}
			// the method make fails if the next factor is not a single value, as in 2(1, 2)
			n = p.make(opMul, "", n, p.power())
		default:
			return n
		}
	}
}

// signed parses a factor with an optional minus sign.
func (p *parser) signed(mixed bool) *node {
	if p.take(symbol, "-") {
		return p.make(opNeg, "", p.factor(mixed))
	}
	return p.factor(mixed)
}

// starts reports whether t begins a factor that can follow another factor without a multiplication
// sign.
func (p *parser) starts(t token) bool {
	switch t.kind {
	case letter:
		return true
	case number:
		return p.at > 0 && p.tokens[p.at-1].is(symbol, "!") // 3! 7!
	case symbol:
		if t.text == "(" && p.approximates(p.at) {
			return false
		}
		return t.text == "(" || t.text == "[" || t.text == "{" || t.text == "|" && p.bars == 0
	case command:
		return starters[t.text] || isFunction(t.text) || isVariable(t)
	}
	return false
}

var starters = set("pi frac sqrt infty binom lfloor lceil")

func isFunction(name string) bool {
	return names[name] && name != "sqrt" && name != "pi" && name != "infty" && name != "or" && name != "and"
}

// factor parses a power, or a mixed number if mixed is true.
func (p *parser) factor(mixed bool) *node {
	t := p.peek()
	if !mixed || t.kind != number || strings.Contains(t.text, ".") || p.at+1 >= len(p.tokens) {
		return p.power()
	}
	ahead := p.tokens[p.at+1:]
	switch {
	case ahead[0].is(command, "frac"):
		whole := p.power()
		fraction := p.power()
		if isProper(fraction) {
			return p.make(opAdd, "", whole, fraction)
		}
		return p.make(opMul, "", whole, fraction)
	case len(ahead) > 2 && ahead[0].kind == number && ahead[1].is(symbol, "/"):
		whole, above := p.power(), p.power()
		p.expect(symbol, "/")
		fraction := p.make(opDiv, "", above, p.power())
		if !isProper(fraction) || p.starts(p.peek()) {
			return p.fail()
		}
		return p.make(opAdd, "", whole, fraction)
	}
	return p.power()
}

// isProper reports whether a node is a fraction of integers with a value below 1.
func isProper(n *node) bool {
	if n.op != opDiv || n.args[0].op != opNumber || n.args[1].op != opNumber {
		return false
	}
	above, below := n.args[0].number, n.args[1].number
	return above.IsInt() && below.IsInt() && above.Cmp(below) < 0
}

// power parses a primary with exponents, factorials and degree signs.
func (p *parser) power() *node {
	defer p.enter()()
	n := p.primary()
	for {
		switch {
		case p.degree():
			if p.angles == 0 {
				p.setDegrees()
				break
			}
			half := p.make(opDiv, "", p.make(opConstant, "pi"), p.num(big.NewRat(180, 1)))
			n = p.make(opMul, "", n, half)
		case p.take(symbol, "^"):
			n = p.make(opPow, "", n, p.exponent())
		case p.take(symbol, "!"):
			n = p.make(opFactorial, "", n)
		default:
			return n
		}
	}
}

// setDegrees records that a degree sign was read. It skips C and F after the sign.
func (p *parser) setDegrees() {
	unit := "degree"
	if t := p.peek(); t.kind == letter || t.kind == prose || t.kind == word {
		if scale := unitOf("°" + t.text); scale != "" {
			unit = scale
			p.at++
		}
	}
	if p.degrees != "" && p.degrees != unit {
		p.fail()
	}
	p.degrees = unit
}

// degree skips a degree sign, in any notation, and reports whether it was there.
func (p *parser) degree() bool {
	start := p.at
	if p.take(command, "degree") {
		return true
	}
	if p.take(symbol, "^") {
		braces := p.take(symbol, "{")
		if (p.take(command, "circ") || p.take(command, "degree")) && (!braces || p.take(symbol, "}")) {
			return true
		}
	}
	p.at = start
	return false
}

func (p *parser) exponent() *node {
	if p.take(symbol, "-") {
		return p.make(opNeg, "", p.exponent1())
	}
	return p.exponent1()
}

// exponent1 parses an exponent without a sign. Powers are right-associative.
func (p *parser) exponent1() *node {
	n := p.argument()
	if p.peek().is(symbol, "^") {
		p.at++
		return p.make(opPow, "", n, p.exponent())
	}
	return n
}

// argument parses the argument of ^ or \sqrt: a group, brackets, or one token.
func (p *parser) argument() *node {
	switch t := p.peek(); {
	case t.is(symbol, "{"), t.is(symbol, "("), t.kind == number, t.kind == letter:
		return p.primary()
	case t.kind == command && (starters[t.text] || isVariable(t)):
		return p.primary()
	}
	return p.fail()
}
