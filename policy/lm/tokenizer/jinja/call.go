package jinja

import (
	"slices"
	"strings"
)

// Arguments are the arguments of a call: Items by position, and Named by name.
type Arguments struct {
	Items []any
	Named map[string]any
	names []string // the names in Named, in their order
}

func (a *Arguments) set(name string, v any) { a.Named[name], a.names = v, append(a.names, name) }

// rest returns the arguments after the first n.
func (a *Arguments) rest(n int) *Arguments { return &Arguments{a.Items[n:], a.Named, a.names} }

// bind returns the arguments in the order of the parameters. The last parameters have defaults; for the others an
// argument must be given. bind fails if there are further arguments. Errors call the function what.
func (a *Arguments) bind(what string, parameters []string, defaults []any) []any {
	required := len(parameters) - len(defaults)
	if len(a.Items) > len(parameters) {
		fail("%s: %d arguments: expected at most %d", what, len(a.Items), len(parameters))
	}
	values := append(make([]any, required), defaults...)
	copy(values, a.Items)
	for i, name := range parameters {
		v, named := a.Named[name]
		switch {
		case i < len(a.Items) && named:
			fail("%s: two values for %s", what, name)
		case named:
			values[i] = v
		case i >= len(a.Items) && i < required:
			fail("%s: expected %d arguments", what, required)
		}
	}
	for _, name := range a.names {
		if !slices.Contains(parameters, name) {
			fail("%s: unknown argument %s", what, name)
		}
	}
	return values
}

// A function is a filter, a test, a method, or a function of its own. In the first three cases, v is the value before
// the name. In the last case, v is ignored.
type function struct {
	parameters string // names of the parameters, separated by spaces
	run        func(v any, given []any) any
	defaults   []any // defaults of the last parameters
	// all, if set, is called instead of run, with all arguments as they are.
	all func(e *evaluator, v any, a *Arguments) any
}

// takes returns a function with the named parameters. run gets the arguments in their order, or their defaults.
func takes(parameters string, run func(v any, given []any) any, defaults ...any) function {
	return function{parameters: parameters, run: run, defaults: defaults}
}

// of returns a function of the value before its name, without arguments.
func of(run func(v any) any) function {
	return takes("", func(v any, _ []any) any { return run(v) })
}

// ofText is like of, but run gets the value as text.
func ofText(run func(s string) any) function {
	return of(func(v any) any { return run(str(v)) })
}

// call calls f for the value v. Errors name the function by name.
func (f function) call(e *evaluator, name string, v any, a *Arguments) any {
	if f.all != nil {
		return f.all(e, v, a)
	}
	return f.run(v, a.bind(name, strings.Fields(f.parameters), f.defaults))
}

// on returns f as a value of templates: a method of v.
func (f function) on(name string, v any) builtin {
	return builtin{name, func(e *evaluator, a *Arguments) any { return f.call(e, name, v, a) }}
}
