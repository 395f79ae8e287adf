package jinja

import "slices"

// A statement is a part of a template that writes text or changes variables.
type statement struct {
	line int
	run  func(e *evaluator)
}

// A jump says how a statement ended: as usual, by break, or by continue.
type jump uint8

const (
	onward jump = iota
	breaks
	continues
)

// statements parses statements up to a tag with one of the given names, or up to the end of the template if no name is
// given. The next token is then the name of the tag.
func (p *parser) statements(ends ...string) (body []statement) {
	defer p.enter()()
	for {
		switch t := p.next(); {
		case t.kind == eof && len(ends) > 0:
			p.fail("the template ends: expected %s", ends[len(ends)-1])
		case t.kind == eof:
			return body
		case t.kind == data:
			body = append(body, statement{t.line, func(e *evaluator) { e.write(t.text) }})
		case t.text == "{{":
			value := p.tuple("", false)
			body = append(body, statement{t.line, func(e *evaluator) { e.write(str(value.eval(e))) }})
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

// body parses the end of a tag, and the statements up to a tag with one of the given names.
func (p *parser) body(ends ...string) []statement {
	p.take(operator, ":")
	p.expect(end, "%}")
	return p.statements(ends...)
}

// blockBody parses a body up to a tag with the given name, and then this name.
func (p *parser) blockBody(ending string) []statement {
	body := p.body(ending)
	p.next()
	return body
}

func (p *parser) statement() statement {
	t := p.peek()
	return statement{t.line, p.tag(p.name())}
}

// tag parses a tag after its name.
func (p *parser) tag(name string) func(e *evaluator) {
	switch name {
	case "if":
		return p.branch()
	case "for":
		return p.loop()
	case "set":
		return p.set()
	case "with":
		return p.with()
	case "macro":
		m := &macro{name: p.name()}
		p.signature(m)
		p.macroBody(m, "endmacro")
		return func(e *evaluator) { e.scope.values[m.name] = m.function(e) }
	case "call":
		return p.callBlock()
	case "filter":
		value := p.moreFilters(p.filter(captured))
		return p.capturing(value, "endfilter", func(e *evaluator, v any) { e.write(str(v)) })
	case "generation":
		body := p.blockBody("endgeneration")
		return func(e *evaluator) { e.inner(e.scope, body) }
	case "break", "continue":
		if p.loops == 0 {
			p.fail("%s outside of a loop", name)
		}
		to := map[string]jump{"break": breaks, "continue": continues}[name]
		return func(e *evaluator) { e.jump = to }
	}
	panic(errorAt(p.tokens[p.at-1].line, "the tag %s is not supported", name))
}

func (p *parser) branch() func(e *evaluator) {
	defer p.enter()()
	test := p.listOf(p.or, "", false)
	yes, no := p.body("elif", "else", "endif"), []statement(nil)
	switch t := p.next(); t.text {
	case "elif":
		no = []statement{{t.line, p.branch()}}
	case "else":
		no = p.blockBody("endif")
	}
	return func(e *evaluator) {
		if truth(test.eval(e)) {
			e.all(yes)
		} else {
			e.all(no)
		}
	}
}

func (p *parser) loop() func(e *evaluator) {
	l := &forLoop{target: p.target(false, "in")}
	p.expect(name, "in")
	items := p.listOf(p.or, "recursive", false)
	if p.take(name, "if") {
		l.test = p.expression()
	}
	l.recursive = p.take(name, "recursive")
	p.loops++
	l.body = p.body("endfor", "else")
	p.loops--
	if p.next().text == "else" {
		l.none = p.blockBody("endfor")
	}
	return func(e *evaluator) { l.over(e, items.eval(e), e.scope, 0) }
}

// A target assigns a value to one or more names.
type target func(e *evaluator, v any)

// target parses a target up to a name equal to ending. If namespace is set, ns.name is a target, too.
func (p *parser) target(namespace bool, ending string) target {
	all, single := commas(p, func() target { return p.oneTarget(namespace) }, ending, false)
	if single {
		return all[0]
	}
	return func(e *evaluator, v any) {
		items := iterate(v)
		if len(items) != len(all) {
			fail("%d values for %d names", len(items), len(all))
		}
		for i, assign := range all {
			assign(e, items[i])
		}
	}
}

func (p *parser) oneTarget(fields bool) target {
	if p.take(operator, "(") {
		defer p.enter()()
		t := p.target(false, "")
		p.expect(operator, ")")
		return t
	}
	name := p.name()
	if fields && p.take(operator, ".") {
		field := p.name()
		return func(e *evaluator, v any) {
			n, ok := e.value(name).(*namespace)
			if !ok {
				fail("cannot assign attribute on non-namespace object")
			}
			n.fields.Set(field, v)
		}
	}
	if _, ok := constants[name]; ok {
		p.fail("%s: expected a name", name)
	}
	return func(e *evaluator, v any) { e.scope.values[name] = v }
}

func (p *parser) set() func(e *evaluator) {
	assign := p.target(true, "")
	if p.take(operator, "=") {
		value := p.tuple("", false)
		return func(e *evaluator) { assign(e, value.eval(e)) }
	}
	value := node(captured)
	if p.take(operator, "|") {
		value = p.moreFilters(p.filter(value))
	}
	return p.capturing(value, "endset", assign)
}

// capturing parses the body of a tag. When the tag runs, captured stands for the text of its body. The tag then assigns
// value to the given target.
func (p *parser) capturing(value node, ending string, to target) func(e *evaluator) {
	body := p.blockBody(ending)
	return func(e *evaluator) {
		line := e.line
		e.captured = e.capture(func() { e.inner(e.scope, body) })
		if e.line = line; e.jump == onward {
			to(e, value.eval(e))
		}
	}
}

// captured is the node that stands for the text in the body of a tag set or filter.
var captured = expr(func(e *evaluator) any { return e.captured })

func (p *parser) with() func(e *evaluator) {
	var names []string
	var values []node
	for p.peek().kind != end {
		if len(names) > 0 {
			p.expect(operator, ",")
		}
		names = append(names, p.name())
		p.expect(operator, "=")
		values = append(values, p.expression())
	}
	body := p.blockBody("endwith")
	return func(e *evaluator) {
		inner := map[string]any{}
		for i, v := range values {
			inner[names[i]] = v.eval(e)
		}
		e.within(inner, e.scope, func() { e.all(body) })
	}
}

func (p *parser) callBlock() func(e *evaluator) {
	m := &macro{name: "caller"}
	if p.peek().is(operator, "(") {
		p.signature(m)
	}
	c, ok := p.expression().(*call)
	if !ok {
		p.fail("the tag call: expected a call")
	}
	p.macroBody(m, "endcall")
	return func(e *evaluator) {
		function, a := c.function.eval(e), c.arguments.eval(e)
		a.set("caller", m.function(e))
		e.write(str(e.call(function, a)))
	}
}

// signature parses the parameters of a macro.
func (p *parser) signature(m *macro) {
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

func (p *parser) macroBody(m *macro, ending string) {
	loops := p.loops
	p.loops, p.macros = 0, append(p.macros, m)
	m.body = p.blockBody(ending)
	p.loops, p.macros = loops, p.macros[:len(p.macros)-1]
}
