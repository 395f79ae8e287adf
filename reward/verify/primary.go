package verify

import (
	"cmp"
	"math/big"
	"strings"
	"unicode"
)

// primary parses a number, a variable, a function, or brackets.
func (p *parser) primary() *node {
	t := p.peek()
	switch t.kind {
	case number:
		p.at++
		r := rational(t.text)
		if r == nil {
			return p.fail()
		}
		return p.num(r)
	case letter:
		return p.variable()
	case word:
		if t.text[0] > unicode.MaxASCII {
			p.at++
			return p.make(opVariable, t.text)
		}
	case command:
		return p.commandNode(t.text)
	case symbol:
		switch t.text {
		case "(", "[", "{", `\{`:
			return p.brackets()
		case "|":
			return p.absolute()
		}
	}
	return p.fail()
}

// rational returns the value of a number token, or nil if it has too many digits.
func rational(text string) *big.Rat {
	if len(text) > maxDigits {
		return nil
	}
	text = strings.ReplaceAll(text, ",", "")
	text, cycle, repeats := strings.Cut(text, "(")
	if strings.HasSuffix(text, ".") {
		text += "0"
	} else if strings.HasPrefix(text, ".") {
		text = "0" + text
	}
	r, ok := new(big.Rat).SetString(text)
	if !ok || !repeats {
		return r
	}
	// 0.1(6) = 0.1 + 6/9 · 10⁻¹
	cycle = strings.TrimSuffix(cycle, ")")
	_, decimals, _ := strings.Cut(text, ".")
	if strings.HasSuffix(text, ".0") {
		decimals = ""
	}
	above, _ := new(big.Int).SetString(cycle, 10)
	below := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(len(cycle))), nil)
	below.Sub(below, big.NewInt(1))
	below.Mul(below, new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(len(decimals))), nil))
	return r.Add(r, new(big.Rat).SetFrac(above, below))
}

// variable parses a variable with its index and primes. e and i are constants.
func (p *parser) variable() *node {
	t := p.peek()
	p.at++
	name := t.text
	if t.kind == command {
		name = `\` + name
	}
	if p.take(symbol, "_") {
		index := p.peek()
		p.at++
		switch {
		case isIndex(index):
			name += "_" + index.text
		case index.is(symbol, "{"):
			start := p.at
			for isIndex(p.peek()) || p.at > start && p.peek().is(symbol, ",") {
				p.at++
			}
			if start == p.at {
				return p.fail()
			}
			name += "_" + write(p.tokens[start:p.at], false)
			p.expect(symbol, "}")
		default:
			return p.fail()
		}
	}
	for p.take(symbol, "'") {
		name += "'"
	}
	if name == "e" || name == "i" {
		return p.make(opConstant, name)
	}
	return p.make(opVariable, name)
}

// isIndex reports whether a token may be part of an index, as in V_{\text{max}} and S_{\triangle ABC}.
func isIndex(t token) bool {
	return t.kind == number || t.kind == letter || t.kind == word || t.kind == prose || t.is(command, "triangle")
}

func (p *parser) commandNode(name string) *node {
	switch {
	case greek[name], strings.HasPrefix(name, "mathcal "), strings.HasPrefix(name, "mathbb "):
		return p.variable()
	case isFunction(name):
		p.at++
		return p.function(name)
	}
	p.at++
	switch name {
	case "pi":
		return p.make(opConstant, "pi")
	case "infty":
		return p.make(opVariable, "∞")
	case "emptyset":
		return p.make(opVariable, "∅")
	case "frac":
		return p.make(opDiv, "", p.small(), p.small())
	case "angle":
		for p.peek().kind == letter {
			name += p.peek().text
			p.at++
		}
		return p.make(opVariable, name)
	case "binom":
		return p.make(opBinomial, "", p.small(), p.small())
	case "sqrt":
		degree := p.num(big.NewRat(2, 1))
		if p.take(symbol, "[") {
			degree = p.sum()
			p.expect(symbol, "]")
		}
		return p.make(opRoot, "", p.argument(), degree)
	case "lfloor", "lceil":
		end := "r" + name[1:]
		n := p.sum()
		p.expect(command, end)
		return p.make(opFunction, end[1:], n)
	case "langle":
		items := p.items()
		p.expect(command, "rangle")
		return p.tuple("<>", items)
	case "begin pmatrix", "begin bmatrix", "begin Bmatrix", "begin matrix", "begin smallmatrix", "begin array":
		return p.matrix(strings.TrimPrefix(name, "begin "))
	}
	return p.fail()
}

// small parses an argument of \frac. Without braces it is one digit or one letter: \frac12.
func (p *parser) small() *node {
	t := p.peek()
	if t.kind == number && len(t.text) > 1 && !strings.ContainsAny(t.text, ".,") {
		rest := append([]token{}, p.tokens...) // a copy: the caller's tokens must not change
		rest[p.at].text = t.text[1:]
		p.tokens = rest
		return p.num(rational(t.text[:1]))
	}
	return p.argument()
}

// function parses what follows the name of a function such as sin: base, exponent and argument.
func (p *parser) function(name string) *node {
	var base, exponent *node
	if name == "log" && p.take(symbol, "_") {
		base = p.argument()
	}
	switch {
	case !p.take(symbol, "^"):
	case !p.inverse():
		exponent = p.argument()
	case name == "sin", name == "cos", name == "tan":
		name = "arc" + name
	default:
		return p.fail()
	}
	n := p.apply(name, base, p.angle())
	if exponent != nil {
		n = p.make(opPow, "", n, exponent)
	}
	return n
}

// inverse skips the -1 of \sin^{-1}, and reports whether it was there.
func (p *parser) inverse() bool {
	rest := write(p.tokens[p.at:min(len(p.tokens), p.at+4)], false)
	switch {
	case strings.HasPrefix(rest, "{-1}"):
		p.at += 4
	case strings.HasPrefix(rest, "-1") && p.tokens[p.at+1].text == "1":
		p.at += 2
	default:
		return false
	}
	return true
}

// angle parses the argument of a function such as sin. Without brackets it is the following product, up to the next
// function.
func (p *parser) angle() *node {
	p.angles++
	defer func() { p.angles-- }()
	if t := p.peek(); t.is(symbol, "(") || t.is(symbol, "{") || t.is(symbol, "[") {
		n := p.brackets()
		if t.is(symbol, "{") && p.degree() { // \sin{30}^\circ
			return p.make(opMul, "", n, p.make(opDiv, "", p.make(opConstant, "pi"), p.num(big.NewRat(180, 1))))
		}
		if p.peek().is(symbol, "^") || p.peek().is(symbol, "!") { // ambiguous: the power of sin or of its argument
			return p.fail()
		}
		return n
	}
	n := p.power()
	for {
		t := p.peek()
		if !p.starts(t) || t.is(symbol, "(") || t.is(symbol, "[") || t.kind == command && isFunction(t.text) {
			break
		}
		n = p.make(opMul, "", n, p.power())
	}
	if t := p.peek(); t.is(symbol, "/") || t.is(symbol, "(") || t.is(symbol, "[") { // ambiguous
		return p.fail()
	}
	return n
}

// apply expresses a function by functions that the evaluator can compute. A log without a base has an unknown base.
func (p *parser) apply(name string, base, x *node) *node {
	of := func(name string, n *node) *node { return p.make(opFunction, name, n) }
	quotient := func(above, below *node) *node { return p.make(opDiv, "", above, below) }
	switch name {
	case "exp":
		return p.make(opPow, "", p.make(opConstant, "e"), x)
	case "lg":
		return quotient(of("ln", x), of("ln", p.num(big.NewRat(10, 1))))
	case "log":
		if base != nil {
			return quotient(of("ln", x), of("ln", base))
		}
		return p.make(opMul, "", p.make(opVariable, `\log`), of("ln", x))
	case "sec":
		return quotient(p.num(big.NewRat(1, 1)), of("cos", x))
	case "csc":
		return quotient(p.num(big.NewRat(1, 1)), of("sin", x))
	case "cot":
		return quotient(of("cos", x), of("sin", x))
	case "tan":
		return quotient(of("sin", x), of("cos", x))
	}
	return of(name, x)
}

// brackets parses one value in brackets, a tuple, an interval or a set.
func (p *parser) brackets() *node {
	open := p.peek().text
	p.at++
	if open == `\{` && p.take(symbol, `\}`) {
		return p.make(opVariable, "∅")
	}
	items := p.items()
	end := p.peek()
	p.at++
	if end.kind != symbol || !isEnd(end.text) {
		return p.fail()
	}
	both := open + end.text
	switch {
	case len(items) == 1 && (both == "()" || both == "[]" || both == "{}"):
		return items[0]
	case both == "{}", both == `\{\}`:
		return &node{op: opList, args: items}
	case both == "()", both == "[]", both == "(]", both == "[)":
		return p.tuple(both, items)
	}
	return p.fail()
}

func isEnd(text string) bool { return text == ")" || text == "]" || text == "}" || text == `\}` }

// items parses values separated by commas. The degree sign of a single item is the unit of the whole statement.
func (p *parser) items() []*node {
	bars, outer := p.bars, p.degrees
	p.bars = 0
	defer func() { p.bars = bars }()
	var items []*node
	for {
		p.degrees = ""
		n := p.union()
		comma := p.take(symbol, ",") || p.take(symbol, ";")
		if unit := p.degrees; unit != "" && (comma || len(items) > 0) {
			p.degrees = ""
			n = p.withUnit(n, unit)
		}
		if items = append(items, n); !comma {
			break
		}
	}
	p.degrees = cmp.Or(p.degrees, outer)
	if len(items) > maxItems {
		p.fail()
	}
	return items
}

func (p *parser) tuple(brackets string, items []*node) *node {
	if len(items) < 2 {
		return p.fail()
	}
	return &node{op: opTuple, name: brackets, args: items}
}

func (p *parser) absolute() *node {
	defer p.enter()()
	p.at++
	p.bars++
	n := p.sum()
	p.bars--
	p.expect(symbol, "|")
	return p.make(opFunction, "abs", n)
}

// matrix parses the rows up to \end.
func (p *parser) matrix(name string) *node {
	defer p.enter()()
	if name == "array" {
		p.expect(symbol, "{")
		for p.peek().kind == letter || p.peek().is(symbol, "|") {
			p.at++
		}
		p.expect(symbol, "}")
	}
	m := &node{op: opMatrix}
	row := &node{op: opTuple}
	for {
		row.args = append(row.args, p.sum())
		switch {
		case p.take(symbol, "&"):
			continue
		case p.take(symbol, `\\`):
			m.args, row = append(m.args, row), &node{op: opTuple}
			if !p.take(command, "end "+name) {
				continue
			}
		default:
			m.args = append(m.args, row)
			p.expect(command, "end "+name)
		}
		return m
	}
}
