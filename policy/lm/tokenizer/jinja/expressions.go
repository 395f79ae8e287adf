package jinja

import (
	"slices"
	"strings"
)

type (
	// A node is a parsed expression.
	node interface{ eval(e *evaluator) any }
	expr func(e *evaluator) any
	// A call is the call of a function. The tag call adds an argument to it.
	call struct {
		function  node
		arguments arguments
	}
	arguments struct {
		items      []node
		names      []string
		values     []node
		list, dict node // *list and **dict
	}
)

func (x expr) eval(e *evaluator) any { return x(e) }

func (c *call) eval(e *evaluator) any {
	function := c.function.eval(e)
	return e.call(function, c.arguments.eval(e))
}

var constants = map[string]any{"true": true, "false": false, "none": nil, "True": true, "False": false, "None": nil}

func constantOf(v any) node { return expr(func(*evaluator) any { return v }) }

// evalAll returns the values of nodes.
func evalAll(e *evaluator, nodes []node) []any {
	values := make([]any, len(nodes))
	for i, n := range nodes {
		values[i] = n.eval(e)
	}
	return values
}

// commas parses items that are separated by commas, up to the end of a tag, a closing parenthesis, or a name equal to
// ending. single is true for one item without a comma. The argument none allows an empty list of items.
func commas[T any](p *parser, parse func() T, ending string, none bool) (items []T, single bool) {
	for {
		if t := p.peek(); t.kind == end || t.is(operator, ")") || ending != "" && t.is(name, ending) {
			break
		}
		items = append(items, parse())
		if !p.take(operator, ",") {
			return items, len(items) == 1
		}
	}
	if len(items) == 0 && !none {
		p.fail("unexpected %s: expected an expression", p.peek().text)
	}
	return items, false
}

// listOf parses values that are separated by commas. It returns one value without a comma as it is, and otherwise a
// tuple.
func (p *parser) listOf(parse func() node, ending string, none bool) node {
	items, single := commas(p, parse, ending, none)
	if single {
		return items[0]
	}
	return expr(func(e *evaluator) any { return tuple(evalAll(e, items)) })
}

// expression parses an expression, perhaps a conditional one: a if b else c.
func (p *parser) expression() node {
	defer p.enter()()
	n := p.or()
	for p.take(name, "if") {
		yes, test := n, p.or()
		no := constantOf(undefined{"the inline if-expression evaluated to false and no else section was defined"})
		if p.take(name, "else") {
			no = p.expression()
		}
		n = expr(func(e *evaluator) any {
			if truth(test.eval(e)) {
				return yes.eval(e)
			}
			return no.eval(e)
		})
	}
	return n
}

func (p *parser) or() node  { return p.logic("or", p.and) }
func (p *parser) and() node { return p.logic("and", p.not) }

// logic parses operands that are joined by word, "or" or "and". The first operand that decides is the value.
func (p *parser) logic(word string, operand func() node) node {
	n := operand()
	for p.take(name, word) {
		left, right := n, operand()
		n = expr(func(e *evaluator) any {
			if v := left.eval(e); truth(v) == (word == "or") {
				return v
			}
			return right.eval(e)
		})
	}
	return n
}

func (p *parser) not() node {
	if !p.take(name, "not") {
		return p.comparison()
	}
	defer p.enter()()
	return negated(p.not())
}

func negated(n node) node { return expr(func(e *evaluator) any { return !truth(n.eval(e)) }) }

var comparisons = []string{"==", "!=", "<", "<=", ">", ">="}

func (p *parser) comparison() node {
	first := p.sum()
	var signs []string
	var items []node
	for {
		switch t := p.peek(); {
		case t.is(name, "in"), t.kind == operator && slices.Contains(comparisons, t.text):
			p.next()
			signs = append(signs, t.text)
		case t.is(name, "not") && p.ahead().is(name, "in"):
			p.at += 2
			signs = append(signs, "not in")
		case len(signs) == 0:
			return first
		default:
			return expr(func(e *evaluator) any {
				left := first.eval(e)
				for i, sign := range signs {
					right := items[i].eval(e)
					if !compares(sign, left, right) {
						return false
					}
					left = right
				}
				return true
			})
		}
		items = append(items, p.sum())
	}
}

// binary parses operands that are joined by the given signs, from left to right.
func (p *parser) binary(operand func() node, signs ...string) node {
	n := operand()
	for p.peek().kind == operator && slices.Contains(signs, p.peek().text) {
		sign, left, right := p.next().text, n, operand()
		n = expr(func(e *evaluator) any {
			v := left.eval(e)
			return arithmetic(sign, v, right.eval(e))
		})
	}
	return n
}

func (p *parser) sum() node { return p.binary(p.concat, "+", "-") }

func (p *parser) concat() node {
	items := []node{p.product()}
	for p.take(operator, "~") {
		items = append(items, p.product())
	}
	if len(items) == 1 {
		return items[0]
	}
	return expr(func(e *evaluator) any {
		var b strings.Builder
		for _, item := range items {
			b.WriteString(str(item.eval(e)))
			limited(b.Len())
		}
		return b.String()
	})
}

func (p *parser) product() node { return p.binary(p.power, "*", "/", "//", "%") }
func (p *parser) power() node   { return p.binary(func() node { return p.unary(true) }, "**") }

func (p *parser) unary(withFilter bool) (n node) {
	if t := p.peek(); t.is(operator, "-") || t.is(operator, "+") {
		defer p.enter()()
		p.next()
		operand := p.unary(false)
		n = expr(func(e *evaluator) any { return signed(t.text, operand.eval(e)) })
	} else {
		n = p.primary()
	}
	n = p.postfix(n)
	if withFilter {
		n = p.filters(n)
	}
	return n
}

func (p *parser) primary() node {
	switch t := p.next(); {
	case t.kind == name:
		if v, ok := constants[t.text]; ok {
			return constantOf(v)
		}
		for _, m := range p.macros {
			m.caller = m.caller || t.text == "caller"
			m.varArgs = m.varArgs || t.text == "varargs"
			m.keywordArgs = m.keywordArgs || t.text == "kwargs"
		}
		return expr(func(e *evaluator) any { return e.value(t.text) })
	case t.kind == constant:
		text, ok := t.value.(string)
		if !ok {
			return constantOf(t.value)
		}
		for more, ok := p.peek().value.(string); ok; more, ok = p.peek().value.(string) {
			text += more
			p.next()
		}
		return constantOf(text)
	case t.is(operator, "("):
		n := p.tuple("", true)
		p.expect(operator, ")")
		return n
	case t.is(operator, "["):
		var items []node
		p.list("]", func() { items = append(items, p.expression()) })
		return expr(func(e *evaluator) any { return List(evalAll(e, items)) })
	case t.is(operator, "{"):
		var keys, values []node
		p.list("}", func() {
			keys = append(keys, p.expression())
			p.expect(operator, ":")
			values = append(values, p.expression())
		})
		return expr(func(e *evaluator) any {
			d := NewMapping()
			for i, key := range keys {
				d.Set(key.eval(e), values[i].eval(e))
			}
			return d
		})
	default:
		panic(errorAt(t.line, "unexpected %s: expected a value", t.text))
	}
}

// tuple parses expressions between commas: see listOf.
func (p *parser) tuple(ending string, none bool) node { return p.listOf(p.expression, ending, none) }

// list parses items that are separated by commas, up to a closing bracket. A comma may follow the last item.
func (p *parser) list(closing string, item func()) {
	for first := true; !p.take(operator, closing); first = false {
		if !first {
			p.expect(operator, ",")
			if p.take(operator, closing) {
				break
			}
		}
		item()
	}
}

func (p *parser) postfix(of node) node {
	for {
		object := of
		switch {
		case p.take(operator, "."):
			if index, ok := p.peek().value.(int); ok {
				p.next()
				of = expr(func(e *evaluator) any { return item(object.eval(e), index) })
				continue
			}
			name := p.name()
			of = expr(func(e *evaluator) any { return attribute(object.eval(e), name) })
		case p.take(operator, "["):
			of = p.subscript(object)
			if p.peek().is(operator, ",") {
				p.fail("expected one index")
			}
			p.expect(operator, "]")
		case p.peek().is(operator, "("):
			of = &call{object, p.arguments()}
		default:
			return of
		}
	}
}

// subscript parses an index or a slice.
func (p *parser) subscript(object node) node {
	parts, colons := [3]node{}, 0
	for !p.peek().is(operator, "]") && !p.peek().is(operator, ",") {
		if p.take(operator, ":") {
			if colons++; colons > 2 {
				p.fail("unexpected :")
			}
			continue
		}
		parts[colons] = p.expression()
		if t := p.peek(); !t.is(operator, ":") && !t.is(operator, "]") && !t.is(operator, ",") {
			p.fail("unexpected %s: expected ]", t.text)
		}
	}
	if colons == 0 && parts[0] == nil {
		p.fail("expected an index")
	}
	return expr(func(e *evaluator) any {
		v := object.eval(e)
		if colons == 0 {
			return item(v, parts[0].eval(e))
		}
		check(v)
		bounds := [3]any{}
		for i, part := range parts {
			if part != nil {
				bounds[i] = part.eval(e)
			}
		}
		return slice(v, bounds[0], bounds[1], bounds[2])
	})
}

func (p *parser) arguments() (a arguments) {
	p.expect(operator, "(")
	p.list(")", func() {
		switch t := p.peek(); {
		case p.take(operator, "*") && a.list == nil && a.dict == nil:
			a.list = p.expression()
		case t.is(operator, "**") && a.dict == nil:
			p.next()
			a.dict = p.expression()
		case t.kind == name && p.ahead().is(operator, "=") && a.dict == nil:
			p.at += 2
			if slices.Contains(a.names, t.text) {
				p.fail("the argument %s twice", t.text)
			}
			a.names, a.values = append(a.names, t.text), append(a.values, p.expression())
		case a.list == nil && a.dict == nil && len(a.names) == 0:
			a.items = append(a.items, p.expression())
		default:
			p.fail("unexpected argument")
		}
	})
	return a
}

// filters parses filters, tests and calls after a value.
func (p *parser) filters(n node) node {
	for {
		switch {
		case p.take(operator, "|"):
			n = p.filter(n)
		case p.take(name, "is"):
			n = p.test(n)
		case p.peek().is(operator, "("):
			n = &call{n, p.arguments()}
		default:
			return n
		}
	}
}

// filter parses a filter after its sign.
func (p *parser) filter(value node) node {
	name := p.dotted()
	filter, ok := p.known.filters[name]
	if !ok {
		p.fail("the filter %s is not supported", name)
	}
	var a arguments
	if p.peek().is(operator, "(") {
		a = p.arguments()
	}
	return filter.after(value, name, &a)
}

// moreFilters parses the filters after the first one.
func (p *parser) moreFilters(n node) node {
	for p.take(operator, "|") {
		n = p.filter(n)
	}
	return n
}

func (p *parser) dotted() string {
	text := p.name()
	for p.take(operator, ".") {
		text += "." + p.name()
	}
	return text
}

func (p *parser) test(value node) node {
	not := p.take(name, "not")
	called := p.dotted()
	test, ok := p.known.tests[called]
	if !ok {
		p.fail("the test %s is not supported", called)
	}
	var a arguments
	switch t := p.peek(); {
	case t.is(operator, "("):
		a = p.arguments()
	case t.is(name, "is"):
		p.fail("a test after a test: expected one test")
	case t.kind == constant, t.is(operator, "["), t.is(operator, "{"),
		t.kind == name && !slices.Contains([]string{"else", "or", "and"}, t.text):
		a.items = []node{p.postfix(p.primary())}
	}
	if n := test.after(value, called, &a); !not {
		return n
	} else {
		return negated(n)
	}
}

// after returns a node that applies the filter or test f to a value.
func (f function) after(value node, name string, a *arguments) node {
	return expr(func(e *evaluator) any {
		v := value.eval(e)
		return f.call(e, name, v, a.eval(e))
	})
}
