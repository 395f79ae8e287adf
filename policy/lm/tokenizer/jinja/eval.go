package jinja

import (
	"fmt"
	"slices"
	"strings"
)

// A scope has the variables of a part of a template.
type scope struct {
	values map[string]any
	outer  *scope
}

// evaluator renders a template once.
type evaluator struct {
	known
	out     *strings.Builder
	scope   *scope
	line    int
	depth   int // of calls of macros and loops
	outside error
}

// Render returns the text of the template. The values are the variables of the template. An error of a Function is
// returned as it is, and other errors have the line.
func (t *Template) Render(values map[string]any) (text string, err error) {
	globals := &scope{values: functions()}
	e := &evaluator{known: t.known, out: new(strings.Builder), scope: &scope{values: values, outer: globals}}
	e.push()
	defer recoverAs(&err, func(text string) error {
		if e.outside != nil {
			return e.outside
		}
		return fmt.Errorf("line %d: %s", e.line, text)
	})
	e.all(t.body)
	return e.out.String(), nil
}

// recoverAs makes an error of a panic with an error. Other panics go on.
func recoverAs(err *error, as func(text string) error) {
	switch p := recover().(type) {
	case nil:
	case interface{ RuntimeError() }:
		panic(p)
	case error:
		*err = as(p.Error())
	default:
		panic(p)
	}
}

func (e *evaluator) push() { e.scope = &scope{values: map[string]any{}, outer: e.scope} }
func (e *evaluator) pop()  { e.scope = e.scope.outer }

func (e *evaluator) all(body []statement) flow {
	for _, s := range body {
		if f := s.run(e); f != onward {
			return f
		}
	}
	return onward
}

// inner runs statements in a scope of their own.
func (e *evaluator) inner(body []statement) flow {
	e.push()
	defer e.pop()
	return e.all(body)
}

// capture returns the text that run writes.
func (e *evaluator) capture(run func()) string {
	out := e.out
	e.out = new(strings.Builder)
	defer func() { e.out = out }()
	run()
	return e.out.String()
}

func (e *evaluator) write(s string) {
	limited(e.out.Len() + len(s))
	e.out.WriteString(s)
}

// assign sets the names of a target.
func (e *evaluator) assign(target node, v any) {
	switch t := target.(type) {
	case nameNode:
		e.scope.values[t.name] = v
	case attributeNode:
		n, ok := t.object.eval(e).(*namespace)
		if !ok {
			fail("cannot assign attribute on non-namespace object")
		}
		n.fields.Set(t.name, v)
	case listNode:
		items := iterate(v)
		if len(items) != len(t.items) {
			fail("%d values for %d names", len(items), len(t.items))
		}
		for i, item := range items {
			e.assign(t.items[i], item)
		}
	}
}

func (n textNode) run(e *evaluator) flow {
	e.write(n.text)
	return onward
}

func (n printNode) run(e *evaluator) flow {
	e.line = n.line
	e.write(str(n.value.eval(e)))
	return onward
}

func (n ifNode) run(e *evaluator) flow {
	e.line = n.line
	if truth(n.test.eval(e)) {
		return e.all(n.yes)
	}
	return e.all(n.no)
}

func (n setNode) run(e *evaluator) flow {
	e.line = n.line
	if n.value != nil {
		e.assign(n.target, n.value.eval(e))
		return onward
	}
	var v any = e.capture(func() { e.inner(n.body) })
	if n.filter != nil {
		v = n.filter.apply(e, v)
	}
	e.assign(n.target, v)
	return onward
}

func (n withNode) run(e *evaluator) flow {
	e.line = n.line
	values := make([]any, len(n.values))
	for i, v := range n.values {
		values[i] = v.eval(e)
	}
	e.push()
	defer e.pop()
	for i, v := range values {
		e.assign(n.targets[i], v)
	}
	return e.all(n.body)
}

func (n scopeNode) run(e *evaluator) flow { return e.inner(n.body) }

func (n jumpNode) run(*evaluator) flow { return n.to }

func (n filterBlockNode) run(e *evaluator) flow {
	text := e.capture(func() { e.inner(n.body) })
	e.line = n.line
	e.write(str(n.filter.apply(e, text)))
	return onward
}

// A loop is the variable loop of a for.
type loop struct {
	items    []any
	at       int
	depth    int
	again    func(items any) any // the loop over other items, if it is recursive
	changed_ []any
}

func (l *loop) attribute(name string) (any, bool) {
	neighbour := func(i int, text string) any {
		if i < 0 || i >= len(l.items) {
			return undefined{text}
		}
		return l.items[i]
	}
	switch name {
	case "index":
		return l.at + 1, true
	case "index0":
		return l.at, true
	case "revindex":
		return len(l.items) - l.at, true
	case "revindex0":
		return len(l.items) - l.at - 1, true
	case "first":
		return l.at == 0, true
	case "last":
		return l.at == len(l.items)-1, true
	case "length":
		return len(l.items), true
	case "depth":
		return l.depth + 1, true
	case "depth0":
		return l.depth, true
	case "previtem":
		return neighbour(l.at-1, "there is no previous item"), true
	case "nextitem":
		return neighbour(l.at+1, "there is no next item"), true
	case "cycle":
		return builtin{"cycle", func(_ *evaluator, a *Arguments) any {
			if len(a.Items) == 0 {
				fail("no items for cycling given")
			}
			return a.Items[l.at%len(a.Items)]
		}}, true
	case "changed":
		return builtin{"changed", func(_ *evaluator, a *Arguments) any {
			same := l.changed_ != nil && slices.EqualFunc(l.changed_, a.Items, equal)
			l.changed_ = append([]any{}, a.Items...)
			return !same
		}}, true
	}
	return nil, false
}

func (n forNode) run(e *evaluator) flow {
	e.line = n.line
	n.over(e, n.items.eval(e), 0)
	return onward
}

// maxCalls is the maximum depth of calls of macros and of recursive loops.
const maxCalls = 100

// nested counts the depth of calls.
func (e *evaluator) nested(what string, run func()) {
	if e.depth++; e.depth > maxCalls {
		fail("%s: more than %d nested calls", what, maxCalls)
	}
	defer func() { e.depth-- }()
	run()
}

func (n forNode) over(e *evaluator, of any, depth int) {
	items := iterate(of)
	e.push()
	defer e.pop()
	if n.test != nil {
		items = slices.DeleteFunc(slices.Clone(items), func(item any) bool {
			e.push()
			defer e.pop()
			e.assign(n.target, item)
			return !truth(n.test.eval(e))
		})
	}
	l := &loop{items: items, depth: depth}
	if n.recursive {
		defined := e.scope
		l.again = func(of any) any {
			return e.capture(func() {
				e.nested("loop", func() {
					caller := e.scope
					e.scope = defined
					defer func() { e.scope = caller }()
					n.over(e, of, depth+1)
				})
			})
		}
	}
	for l.at = range items {
		e.push()
		e.scope.values["loop"] = l
		e.assign(n.target, items[l.at])
		f := e.all(n.body)
		e.pop()
		if f == breaks {
			return
		}
	}
	if len(items) == 0 {
		e.all(n.none)
	}
}

func (n *macroNode) run(e *evaluator) flow {
	e.scope.values[n.name] = n.function(e)
	return onward
}

// function returns the macro as a function.
func (n *macroNode) function(e *evaluator) builtin {
	defined := e.scope
	what := "macro '" + n.name + "'"
	return builtin{n.name, func(e *evaluator, a *Arguments) (result any) {
		values := map[string]any{}
		for i, name := range n.names {
			value, named := a.Named[name]
			switch {
			case i < len(a.Items) && named:
				fail("%s got multiple values for argument '%s'", what, name)
			case i < len(a.Items):
				values[name] = a.Items[i]
			case named:
				values[name] = value
			}
		}
		rest := NewDict()
		for _, name := range a.names {
			switch {
			case slices.Contains(n.names, name):
			case name == "caller" && n.caller:
				values["caller"] = a.Named[name]
			case !n.keywordArgs:
				fail("%s takes no keyword argument '%s'", what, name)
			default:
				rest.Set(name, a.Named[name])
			}
		}
		extra := tuple{}
		if len(a.Items) > len(n.names) {
			if !n.varArgs {
				fail("%s takes not more than %d argument(s)", what, len(n.names))
			}
			extra = a.Items[len(n.names):]
		}
		if _, ok := values["caller"]; !ok && n.caller {
			values["caller"] = undefined{"No caller defined"}
		}
		if n.varArgs {
			values["varargs"] = extra
		}
		if n.keywordArgs {
			values["kwargs"] = rest
		}
		e.nested("macro "+n.name, func() {
			caller := e.scope
			e.scope = &scope{values: values, outer: defined}
			defer func() { e.scope = caller }()
			first := len(n.names) - len(n.defaults)
			for i, name := range n.names {
				if _, ok := values[name]; ok {
					continue
				}
				if values[name] = (any)(undefined{"parameter '" + name + "' was not provided"}); i >= first {
					values[name] = n.defaults[i-first].eval(e)
				}
			}
			result = e.capture(func() { e.all(n.body) })
		})
		return result
	}}
}

func (n callBlockNode) run(e *evaluator) flow {
	e.line = n.line
	function, a := n.call.function.eval(e), n.call.arguments.eval(e)
	a.set("caller", n.body.function(e))
	e.write(str(e.call(function, a)))
	return onward
}

// eval evaluates the arguments of a call.
func (a arguments) eval(e *evaluator) *Arguments {
	result := &Arguments{Named: map[string]any{}}
	for _, n := range a.items {
		result.Items = append(result.Items, n.eval(e))
	}
	for i, n := range a.values {
		result.set(a.names[i], n.eval(e))
	}
	if a.list != nil {
		result.Items = append(result.Items, iterate(a.list.eval(e))...)
	}
	if a.dict != nil {
		d, ok := a.dict.eval(e).(*Dict)
		if !ok {
			fail("the value after ** must be a mapping")
		}
		for i, key := range d.keys {
			name, ok := text(key)
			if _, twice := result.Named[name]; !ok || twice {
				fail("the argument %s: expected texts, each once", str(key))
			}
			result.set(name, d.values[i])
		}
	}
	return result
}

func (e *evaluator) call(function any, a *Arguments) any {
	check(function)
	switch f := function.(type) {
	case builtin:
		return f.call(e, a)
	case Function:
		v, err := f(a)
		if err != nil {
			e.outside = err
			panic(err)
		}
		return v
	case *loop:
		if f.again == nil {
			fail("the loop is not recursive: expected the word recursive")
		}
		return f.again(a.bind("loop", []string{"items"}, nil)[0])
	}
	fail("'%s' object is not callable", typeName(function))
	return nil
}

func (n constantNode) eval(*evaluator) any { return n.value }

func (n nameNode) eval(e *evaluator) any {
	for s := e.scope; s != nil; s = s.outer {
		if v, ok := s.values[n.name]; ok {
			return v
		}
	}
	return undefined{"'" + n.name + "' is undefined"}
}

func (n listNode) eval(e *evaluator) any {
	items := make([]any, len(n.items))
	for i, item := range n.items {
		items[i] = item.eval(e)
	}
	if n.tuple {
		return tuple(items)
	}
	return List(items)
}

func (n dictNode) eval(e *evaluator) any {
	d := NewDict()
	for i, key := range n.keys {
		d.Set(key.eval(e), n.values[i].eval(e))
	}
	return d
}

func (n attributeNode) eval(e *evaluator) any { return attribute(n.object.eval(e), n.name) }

func (n itemNode) eval(e *evaluator) any {
	v := n.object.eval(e)
	s, ok := n.index.(sliceNode)
	if !ok {
		return item(v, n.index.eval(e))
	}
	check(v)
	bounds := [3]any{}
	for i, b := range []node{s.start, s.stop, s.step} {
		if b != nil {
			bounds[i] = b.eval(e)
		}
	}
	return slice(v, bounds[0], bounds[1], bounds[2])
}

func (n sliceNode) eval(*evaluator) any { return nil } // itemNode evaluates its parts

func (n conditionNode) eval(e *evaluator) any {
	switch {
	case truth(n.test.eval(e)):
		return n.yes.eval(e)
	case n.no == nil:
		return undefined{"the inline if-expression evaluated to false and no else section was defined"}
	}
	return n.no.eval(e)
}

func (n logicNode) eval(e *evaluator) any {
	if v := n.left.eval(e); truth(v) == n.or {
		return v
	}
	return n.right.eval(e)
}

func (n notNode) eval(e *evaluator) any { return !truth(n.operand.eval(e)) }

func (n signNode) eval(e *evaluator) any {
	v := n.operand.eval(e)
	check(v)
	if !isNumber(v) {
		fail("bad operand type for unary %s: '%s'", n.sign, typeName(v))
	}
	if n.sign == "+" {
		return numeric("+", v, 0)
	}
	if f, ok := v.(float64); ok {
		return -f
	}
	return numeric("-", 0, v)
}

func (n binaryNode) eval(e *evaluator) any {
	left := n.left.eval(e)
	return arithmetic(n.sign, left, n.right.eval(e))
}

func (n concatNode) eval(e *evaluator) any {
	var b strings.Builder
	for _, item := range n.items {
		b.WriteString(str(item.eval(e)))
		limited(b.Len())
	}
	return b.String()
}

func (n compareNode) eval(e *evaluator) any {
	left := n.first.eval(e)
	for i, sign := range n.signs {
		right := n.items[i].eval(e)
		if !compares(sign, left, right) {
			return false
		}
		left = right
	}
	return true
}

// compares tells whether a comparison holds.
func compares(sign string, a, b any) bool {
	switch sign {
	case "==":
		return equal(a, b)
	case "!=":
		return !equal(a, b)
	case "in":
		return contains(b, a)
	case "not in":
		return !contains(b, a)
	}
	c := compare(a, b, sign)
	switch sign {
	case "<":
		return c < 0
	case "<=":
		return c <= 0
	case ">":
		return c > 0
	}
	return c >= 0
}

func (n *callNode) eval(e *evaluator) any {
	function := n.function.eval(e)
	return e.call(function, n.arguments.eval(e))
}

func (n *filterNode) eval(e *evaluator) any {
	return n.apply(e, n.operand.eval(e))
}

// apply applies the filter to a value. In the tags filter and set, the first operand is missing.
func (n *filterNode) apply(e *evaluator, v any) any {
	if inner, ok := n.operand.(*filterNode); ok && inner.first() {
		v = inner.apply(e, v)
	}
	return e.filters[n.name].call(e, n.name, v, n.arguments.eval(e))
}

// first reports whether the chain of filters has no operand.
func (n *filterNode) first() bool {
	inner, ok := n.operand.(*filterNode)
	return n.operand == nil || ok && inner.first()
}

func (n *testNode) eval(e *evaluator) any {
	return e.tests[n.name].call(e, n.name, n.operand.eval(e), n.arguments.eval(e))
}
