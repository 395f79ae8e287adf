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
	out      *strings.Builder
	scope    *scope
	line     int
	jump     jump
	captured string // see captured
	depth    int    // nesting of calls of macros and recursive loops
	outside  error
}

// Render returns the text of the template. The values are the variables of the template. An error of a Function is
// returned unchanged. Other errors name the line.
func (t *Template) Render(values map[string]any) (text string, err error) {
	globals := &scope{values: functions()}
	e := &evaluator{known: t.known, out: new(strings.Builder), scope: &scope{values: values, outer: globals}}
	defer recoverAs(&err, func(text string) error {
		if e.outside != nil {
			return e.outside
		}
		return fmt.Errorf("line %d: %s", e.line, text)
	})
	e.inner(e.scope, t.body)
	return e.out.String(), nil
}

// recoverAs is for a defer statement. It turns a panic with an error into *err, which the callback makes from the
// error's text. Runtime errors and other panics continue.
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

// within calls a function in a new scope. The scope has the given variables, and lies in the scope outer.
func (e *evaluator) within(values map[string]any, outer *scope, run func()) {
	before := e.scope
	e.scope = &scope{values, outer}
	run()
	e.scope = before
}

// all runs statements in order, up to the first jump.
func (e *evaluator) all(body []statement) {
	for _, s := range body {
		e.line = s.line
		if s.run(e); e.jump != onward {
			return
		}
	}
}

// inner runs statements in a new, empty scope. The scope lies in the scope outer.
func (e *evaluator) inner(outer *scope, body []statement) {
	e.within(map[string]any{}, outer, func() { e.all(body) })
}

// capture calls a function, and returns the text that it writes.
func (e *evaluator) capture(run func()) string {
	out := e.out
	e.out = new(strings.Builder)
	run()
	text := e.out.String()
	e.out = out
	return text
}

func (e *evaluator) write(s string) {
	limited(e.out.Len() + len(s))
	e.out.WriteString(s)
}

// A loop is the variable loop in the body of a for tag.
type loop struct {
	items    []any
	at       int
	depth    int
	again    func(items any) any // runs the loop over other items; nil unless the loop is recursive
	changed_ []any
}

// loopAttributes has the attributes of the variable loop, such as loop.index.
var loopAttributes = map[string]func(l *loop) any{
	"index":     func(l *loop) any { return l.at + 1 },
	"index0":    func(l *loop) any { return l.at },
	"revindex":  func(l *loop) any { return len(l.items) - l.at },
	"revindex0": func(l *loop) any { return len(l.items) - l.at - 1 },
	"first":     func(l *loop) any { return l.at == 0 },
	"last":      func(l *loop) any { return l.at == len(l.items)-1 },
	"length":    func(l *loop) any { return len(l.items) },
	"depth":     func(l *loop) any { return l.depth + 1 },
	"depth0":    func(l *loop) any { return l.depth },
	"previtem":  func(l *loop) any { return l.neighbour(l.at-1, "there is no previous item") },
	"nextitem":  func(l *loop) any { return l.neighbour(l.at+1, "there is no next item") },
	"cycle": func(l *loop) any {
		return builtin{"cycle", func(_ *evaluator, a *Arguments) any {
			if len(a.Items) == 0 {
				fail("no items for cycling given")
			}
			return a.Items[l.at%len(a.Items)]
		}}
	},
	"changed": func(l *loop) any {
		return builtin{"changed", func(_ *evaluator, a *Arguments) any {
			same := l.changed_ != nil && slices.EqualFunc(l.changed_, a.Items, equal)
			l.changed_ = append([]any{}, a.Items...)
			return !same
		}}
	},
}

func (l *loop) neighbour(i int, missing string) any {
	if i < 0 || i >= len(l.items) {
		return undefined{missing}
	}
	return l.items[i]
}

// maxCalls is the maximum depth of calls of macros and of recursive loops.
const maxCalls = 100

// nested calls a function one level deeper. It fails if there are more than maxCalls levels. The error begins with the
// argument what.
func (e *evaluator) nested(what string, run func()) {
	if e.depth++; e.depth > maxCalls {
		fail("%s: more than %d nested calls", what, maxCalls)
	}
	run()
	e.depth--
}

// A forLoop is a parsed for tag.
type forLoop struct {
	target     target
	test       node // nil for none
	recursive  bool
	body, none []statement
}

func (l *forLoop) over(e *evaluator, of any, outer *scope, depth int) {
	items := iterate(of)
	if l.test != nil {
		items = slices.DeleteFunc(slices.Clone(items), func(item any) (skip bool) {
			e.within(map[string]any{}, outer, func() {
				l.target(e, item)
				skip = !truth(l.test.eval(e))
			})
			return skip
		})
	}
	now := &loop{items: items, depth: depth}
	if l.recursive {
		now.again = func(of any) any {
			return e.capture(func() { e.nested("loop", func() { l.over(e, of, outer, depth+1) }) })
		}
	}
	for now.at = range items {
		e.within(map[string]any{"loop": now}, outer, func() {
			l.target(e, items[now.at])
			e.all(l.body)
		})
		stop := e.jump == breaks
		if e.jump = onward; stop {
			return
		}
	}
	if len(items) == 0 {
		e.inner(outer, l.none)
	}
}

// A macro is a parsed macro tag, or the body of a call tag.
type macro struct {
	name                         string
	names                        []string
	defaults                     []node // defaults of the last names
	body                         []statement
	caller, varArgs, keywordArgs bool // whether the body uses these names
}

// function returns the macro as a function that templates can call.
func (m *macro) function(e *evaluator) builtin {
	defined := e.scope
	what := "macro '" + m.name + "'"
	return builtin{m.name, func(e *evaluator, a *Arguments) (result any) {
		values := map[string]any{}
		for i, name := range m.names {
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
		rest := NewMapping()
		for _, name := range a.names {
			switch {
			case slices.Contains(m.names, name):
			case name == "caller" && m.caller:
				values["caller"] = a.Named[name]
			case !m.keywordArgs:
				fail("%s takes no keyword argument '%s'", what, name)
			default:
				rest.Set(name, a.Named[name])
			}
		}
		extra := tuple{}
		if len(a.Items) > len(m.names) {
			if !m.varArgs {
				fail("%s takes not more than %d argument(s)", what, len(m.names))
			}
			extra = a.Items[len(m.names):]
		}
		if _, ok := values["caller"]; !ok && m.caller {
			values["caller"] = undefined{"No caller defined"}
		}
		if m.varArgs {
			values["varargs"] = extra
		}
		if m.keywordArgs {
			values["kwargs"] = rest
		}
		e.nested("macro "+m.name, func() {
			e.within(values, defined, func() {
				first := len(m.names) - len(m.defaults)
				for i, name := range m.names {
					if _, ok := values[name]; ok {
						continue
					}
					if values[name] = (any)(undefined{"parameter '" + name + "' was not provided"}); i >= first {
						values[name] = m.defaults[i-first].eval(e)
					}
				}
				result = e.capture(func() { e.all(m.body) })
			})
		})
		return result
	}}
}

// eval evaluates the arguments of a call.
func (a *arguments) eval(e *evaluator) *Arguments {
	result := &Arguments{Items: evalAll(e, a.items), Named: map[string]any{}}
	for i, n := range a.values {
		result.set(a.names[i], n.eval(e))
	}
	if a.list != nil {
		result.Items = append(result.Items, iterate(a.list.eval(e))...)
	}
	if a.dict != nil {
		d, ok := a.dict.eval(e).(*Mapping)
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

// value returns the value of a variable, or an undefined value.
func (e *evaluator) value(name string) any {
	for s := e.scope; s != nil; s = s.outer {
		if v, ok := s.values[name]; ok {
			return v
		}
	}
	return undefined{"'" + name + "' is undefined"}
}

// compares returns the result of a comparison, such as a < b for the sign "<".
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
