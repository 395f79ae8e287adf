package jinja

import (
	"fmt"
	"slices"
)

// The nodes of expressions.
type (
	node         interface{ eval(*evaluator) any }
	constantNode struct{ value any }
	nameNode     struct{ name string }
	listNode     struct {
		items []node
		tuple bool
	}
	dictNode      struct{ keys, values []node }
	attributeNode struct {
		object node
		name   string
	}
	itemNode      struct{ object, index node }
	sliceNode     struct{ start, stop, step node } // nil for a missing one
	conditionNode struct{ test, yes, no node }     // no is nil without else
	logicNode     struct {
		or          bool
		left, right node
	}
	notNode  struct{ operand node }
	signNode struct {
		sign    string
		operand node
	}
	binaryNode struct {
		sign        string
		left, right node
	}
	concatNode  struct{ items []node }
	compareNode struct {
		first node
		signs []string
		items []node
	}
	callNode struct {
		function node
		arguments
	}
	filterNode struct {
		operand node // nil in the tags set and filter
		name    string
		arguments
	}
	testNode struct {
		operand node
		name    string
		arguments
	}
	arguments struct {
		items      []node
		names      []string
		values     []node
		list, dict node // *list and **dict
	}
)

// The nodes of statements.
type (
	statement interface{ run(*evaluator) flow }
	textNode  struct{ text string }
	printNode struct {
		line  int
		value node
	}
	ifNode struct {
		line int
		test node
		yes  []statement
		no   []statement
	}
	forNode struct {
		line       int
		target     node
		items      node
		test       node
		recursive  bool
		body, none []statement
	}
	setNode struct {
		line   int
		target node
		value  node        // or body
		filter *filterNode // of body
		body   []statement
	}
	withNode struct {
		line    int
		targets []node
		values  []node
		body    []statement
	}
	macroNode struct {
		line                         int
		name                         string
		names                        []string
		defaults                     []node // of the last names
		body                         []statement
		caller, varArgs, keywordArgs bool // whether the body has these names
	}
	callBlockNode struct {
		line int
		call *callNode
		body *macroNode
	}
	filterBlockNode struct {
		line   int
		filter *filterNode
		body   []statement
	}
	scopeNode struct{ body []statement } // the tag generation
	jumpNode  struct{ to flow }
)

// flow says how a statement ended.
type flow uint8

const (
	onward flow = iota
	breaks
	continues
)

// parser is a recursive-descent parser. It panics with an error.
type parser struct {
	known  known
	tokens []token
	at     int
	depth  int
	loops  int
	macros []*macroNode
}

func (p *parser) peek() token  { return p.tokens[p.at] }
func (p *parser) ahead() token { return p.tokens[min(p.at+1, len(p.tokens)-1)] }

func (p *parser) next() token {
	t := p.tokens[p.at]
	p.at = min(p.at+1, len(p.tokens)-1)
	return t
}

func (p *parser) take(k kind, text string) bool {
	if p.peek().is(k, text) {
		p.next()
		return true
	}
	return false
}

func (p *parser) fail(format string, values ...any) {
	panic(errorAt(p.peek().line, format, values...))
}

func (p *parser) expect(k kind, text string) {
	if !p.take(k, text) {
		p.fail("unexpected %s: expected %s", p.peek().text, text)
	}
}

func (p *parser) name() string {
	if p.peek().kind != name {
		p.fail("unexpected %s: expected a name", p.peek().text)
	}
	return p.next().text
}

// enter counts the depth of nested expressions and tags. It returns the function that leaves one level.
func (p *parser) enter() func() {
	if p.depth++; p.depth > maxBrackets {
		p.fail("nested expressions: expected at most %d", maxBrackets)
	}
	return func() { p.depth-- }
}

// statements parses up to a tag with one of these names, or up to the end of the template without names. The next
// token is then the name of the tag.
func (p *parser) statements(ends ...string) (body []statement) {
	defer p.enter()()
	for {
		switch t := p.next(); {
		case t.kind == eof && len(ends) > 0:
			p.fail("the template ends: expected %s", ends[len(ends)-1])
		case t.kind == eof:
			return body
		case t.kind == data:
			body = append(body, textNode{t.text})
		case t.text == "{{":
			body = append(body, printNode{t.line, p.tuple(p.expression, "", false)})
			p.expect(end, "}}")
		default:
			if slices.Contains(ends, p.peek().text) {
				return body
			}
			body = append(body, p.statement())
			p.expect(end, "%}")
		}
	}
}

// body parses the end of a tag and the statements up to a tag with one of these names.
func (p *parser) body(ends ...string) []statement {
	p.take(operator, ":")
	p.expect(end, "%}")
	return p.statements(ends...)
}

// blockBody parses a body and the name of its end tag.
func (p *parser) blockBody(ending string) []statement {
	body := p.body(ending)
	p.next()
	return body
}

func (p *parser) statement() statement {
	t := p.peek()
	switch p.name() {
	case "if":
		return p.branch(t.line)
	case "for":
		return p.loop(t.line)
	case "set":
		return p.set(t.line)
	case "with":
		return p.with(t.line)
	case "macro":
		m := &macroNode{line: t.line, name: p.name()}
		p.signature(m)
		p.macroBody(m, "endmacro")
		return m
	case "call":
		m := &macroNode{line: t.line, name: "caller"}
		if p.peek().is(operator, "(") {
			p.signature(m)
		}
		call, ok := p.expression().(*callNode)
		if !ok {
			p.fail("the tag call: expected a call")
		}
		p.macroBody(m, "endcall")
		return callBlockNode{t.line, call, m}
	case "filter":
		f := p.filter(nil)
		return filterBlockNode{t.line, p.moreFilters(f), p.blockBody("endfilter")}
	case "generation":
		return scopeNode{p.blockBody("endgeneration")}
	case "break", "continue":
		if p.loops == 0 {
			p.fail("%s outside of a loop", t.text)
		}
		if t.text == "break" {
			return jumpNode{breaks}
		}
		return jumpNode{continues}
	}
	panic(errorAt(t.line, "the tag %s is not supported", t.text))
}

func (p *parser) branch(line int) statement {
	defer p.enter()()
	n := ifNode{line: line, test: p.tuple(p.or, "", false)}
	n.yes = p.body("elif", "else", "endif")
	switch t := p.next(); t.text {
	case "elif":
		n.no = []statement{p.branch(t.line)}
	case "else":
		n.no = p.blockBody("endif")
	}
	return n
}

func (p *parser) loop(line int) statement {
	n := forNode{line: line, target: p.target(false, "in")}
	p.expect(name, "in")
	n.items = p.tuple(p.or, "recursive", false)
	if p.take(name, "if") {
		n.test = p.expression()
	}
	n.recursive = p.take(name, "recursive")
	p.loops++
	n.body = p.body("endfor", "else")
	p.loops--
	if p.next().text == "else" {
		n.none = p.blockBody("endfor")
	}
	return n
}

// target parses the names that a value is assigned to. With a namespace, ns.name is one, too.
func (p *parser) target(namespace bool, ending string) node {
	return p.tuple(func() node {
		if p.take(operator, "(") {
			defer p.enter()()
			n := p.target(false, "")
			p.expect(operator, ")")
			return n
		}
		t := p.peek()
		n := node(nameNode{p.name()})
		if namespace && p.take(operator, ".") {
			return attributeNode{n, p.name()}
		}
		switch t.text {
		case "true", "false", "none", "True", "False", "None":
			p.fail("%s: expected a name", t.text)
		}
		return n
	}, ending, false)
}

func (p *parser) set(line int) statement {
	n := setNode{line: line, target: p.target(true, "")}
	if p.take(operator, "=") {
		n.value = p.tuple(p.expression, "", false)
		return n
	}
	if p.take(operator, "|") {
		n.filter = p.moreFilters(p.filter(nil))
	}
	n.body = p.blockBody("endset")
	return n
}

func (p *parser) with(line int) statement {
	n := withNode{line: line}
	for p.peek().kind != end {
		if len(n.targets) > 0 {
			p.expect(operator, ",")
		}
		n.targets = append(n.targets, nameNode{p.name()})
		p.expect(operator, "=")
		n.values = append(n.values, p.expression())
	}
	n.body = p.blockBody("endwith")
	return n
}

// signature parses the parameters of a macro.
func (p *parser) signature(m *macroNode) {
	p.expect(operator, "(")
	for !p.take(operator, ")") {
		if len(m.names) > 0 {
			p.expect(operator, ",")
		}
		m.names = append(m.names, p.name())
		switch {
		case p.take(operator, "="):
			m.defaults = append(m.defaults, p.expression())
		case len(m.defaults) > 0:
			p.fail("%s: expected a default, as the parameters before it have", m.names[len(m.names)-1])
		}
	}
}

func (p *parser) macroBody(m *macroNode, ending string) {
	loops := p.loops
	p.loops, p.macros = 0, append(p.macros, m)
	m.body = p.blockBody(ending)
	p.loops, p.macros = loops, p.macros[:len(p.macros)-1]
}

// tuple parses values between commas. One value without a comma stays a value.
func (p *parser) tuple(parse func() node, ending string, brackets bool) node {
	var items []node
	for {
		if t := p.peek(); t.kind == end || t.is(operator, ")") || ending != "" && t.is(name, ending) {
			break
		}
		items = append(items, parse())
		if !p.take(operator, ",") {
			if len(items) == 1 {
				return items[0]
			}
			break
		}
	}
	if len(items) == 0 && !brackets {
		p.fail("unexpected %s: expected an expression", p.peek().text)
	}
	return listNode{items, true}
}

// expression parses a conditional expression, a if b else c.
func (p *parser) expression() node {
	defer p.enter()()
	n := p.or()
	for p.take(name, "if") {
		c := conditionNode{test: p.or(), yes: n}
		if p.take(name, "else") {
			c.no = p.expression()
		}
		n = c
	}
	return n
}

func (p *parser) or() node {
	n := p.and()
	for p.take(name, "or") {
		n = logicNode{true, n, p.and()}
	}
	return n
}

func (p *parser) and() node {
	n := p.not()
	for p.take(name, "and") {
		n = logicNode{false, n, p.not()}
	}
	return n
}

func (p *parser) not() node {
	if p.take(name, "not") {
		defer p.enter()()
		return notNode{p.not()}
	}
	return p.comparison()
}

var comparisons = []string{"==", "!=", "<", "<=", ">", ">="}

func (p *parser) comparison() node {
	c := compareNode{first: p.sum()}
	for {
		switch t := p.peek(); {
		case t.is(name, "in"), t.kind == operator && slices.Contains(comparisons, t.text):
			p.next()
			c.signs = append(c.signs, t.text)
		case t.is(name, "not") && p.ahead().is(name, "in"):
			p.at += 2
			c.signs = append(c.signs, "not in")
		case len(c.signs) == 0:
			return c.first
		default:
			return c
		}
		c.items = append(c.items, p.sum())
	}
}

// binary parses operands between these signs, from left to right.
func (p *parser) binary(operand func() node, signs ...string) node {
	n := operand()
	for p.peek().kind == operator && slices.Contains(signs, p.peek().text) {
		n = binaryNode{p.next().text, n, operand()}
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
	return concatNode{items}
}

func (p *parser) product() node { return p.binary(p.power, "*", "/", "//", "%") }
func (p *parser) power() node   { return p.binary(func() node { return p.unary(true) }, "**") }

func (p *parser) unary(withFilter bool) (n node) {
	if t := p.peek(); t.is(operator, "-") || t.is(operator, "+") {
		defer p.enter()()
		p.next()
		n = signNode{t.text, p.unary(false)}
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
		switch t.text {
		case "true", "True":
			return constantNode{true}
		case "false", "False":
			return constantNode{false}
		case "none", "None":
			return constantNode{nil}
		}
		for _, m := range p.macros {
			m.caller = m.caller || t.text == "caller"
			m.varArgs = m.varArgs || t.text == "varargs"
			m.keywordArgs = m.keywordArgs || t.text == "kwargs"
		}
		return nameNode{t.text}
	case t.kind == constant:
		value := t.value
		if text, ok := value.(string); ok {
			for {
				more, ok := p.peek().value.(string)
				if !ok {
					break
				}
				text += more
				p.next()
			}
			value = text
		}
		return constantNode{value}
	case t.is(operator, "("):
		n := p.tuple(p.expression, "", true)
		p.expect(operator, ")")
		return n
	case t.is(operator, "["):
		return listNode{p.items("]"), false}
	case t.is(operator, "{"):
		var d dictNode
		for !p.take(operator, "}") {
			if len(d.keys) > 0 {
				p.expect(operator, ",")
				if p.take(operator, "}") {
					break
				}
			}
			d.keys = append(d.keys, p.expression())
			p.expect(operator, ":")
			d.values = append(d.values, p.expression())
		}
		return d
	default:
		panic(errorAt(t.line, "unexpected %s: expected a value", t.text))
	}
}

// items parses expressions between commas up to a closing bracket.
func (p *parser) items(closing string) (items []node) {
	for !p.take(operator, closing) {
		if len(items) > 0 {
			p.expect(operator, ",")
			if p.take(operator, closing) {
				break
			}
		}
		items = append(items, p.expression())
	}
	return items
}

func (p *parser) postfix(n node) node {
	for {
		switch t := p.peek(); {
		case t.is(operator, "."):
			p.next()
			if index, ok := p.peek().value.(int); ok {
				p.next()
				n = itemNode{n, constantNode{index}}
				continue
			}
			n = attributeNode{n, p.name()}
		case t.is(operator, "["):
			p.next()
			index := p.subscript()
			if p.peek().is(operator, ",") {
				p.fail("expected one index")
			}
			p.expect(operator, "]")
			n = itemNode{n, index}
		case t.is(operator, "("):
			n = &callNode{n, p.arguments()}
		default:
			return n
		}
	}
}

// subscript parses an index or a slice.
func (p *parser) subscript() node {
	var parts [3]node
	colons := 0
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
	if colons > 0 {
		return sliceNode{parts[0], parts[1], parts[2]}
	}
	if parts[0] == nil {
		p.fail("expected an index")
	}
	return parts[0]
}

func (p *parser) arguments() (a arguments) {
	p.expect(operator, "(")
	for !p.take(operator, ")") {
		if len(a.items)+len(a.names) > 0 || a.list != nil || a.dict != nil {
			p.expect(operator, ",")
			if p.take(operator, ")") {
				break
			}
		}
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
	}
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
			n = &callNode{n, p.arguments()}
		default:
			return n
		}
	}
}

// filter parses a filter after its sign. The value is nil in the tags filter and set.
func (p *parser) filter(value node) *filterNode {
	f := &filterNode{operand: value, name: p.dotted()}
	if _, ok := p.known.filters[f.name]; !ok {
		p.fail("the filter %s is not supported", f.name)
	}
	if p.peek().is(operator, "(") {
		f.arguments = p.arguments()
	}
	return f
}

// moreFilters parses the filters after the first one.
func (p *parser) moreFilters(f *filterNode) *filterNode {
	for p.take(operator, "|") {
		f = p.filter(f)
	}
	return f
}

func (p *parser) dotted() string {
	text := p.name()
	for p.take(operator, ".") {
		text += "." + p.name()
	}
	return text
}

func (p *parser) test(operand node) node {
	negated := p.take(name, "not")
	n := &testNode{operand: operand, name: p.dotted()}
	if _, ok := p.known.tests[n.name]; !ok {
		p.fail("the test %s is not supported", n.name)
	}
	switch t := p.peek(); {
	case t.is(operator, "("):
		n.arguments = p.arguments()
	case t.is(name, "is"):
		p.fail("a test after a test: expected one test")
	case t.kind == constant, t.is(operator, "["), t.is(operator, "{"),
		t.kind == name && !slices.Contains([]string{"else", "or", "and"}, t.text):
		n.items = []node{p.postfix(p.primary())}
	}
	if negated {
		return notNode{n}
	}
	return n
}

// A Template is a parsed template. Any number of goroutines can render it.
type Template struct {
	body []statement
	known
}

// known has the filters and tests by their names.
type known struct {
	filters, tests map[string]function
}

// maxSource is the maximum length of a template in bytes. The largest published templates have about 30,000 bytes.
const maxSource = 1 << 17

// Parse parses a template. The error has the line.
func Parse(source string) (t *Template, err error) {
	if len(source) > maxSource {
		return nil, fmt.Errorf("%d bytes: expected at most %d", len(source), maxSource)
	}
	defer recoverAs(&err, func(text string) error { return fmt.Errorf("%s", text) })
	p := &parser{known: known{allFilters(), allTests()}, tokens: tokenize(source)}
	return &Template{p.statements(), p.known}, nil
}
