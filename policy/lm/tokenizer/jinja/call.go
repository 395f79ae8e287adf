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

// bind returns the arguments in the order of the parameters. The last parameters have defaults. For the other
// parameters an argument must be given. bind fails if there are further arguments. Errors begin with the argument what.
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

// A function is a filter, a test, a method or a plain function. v is the value to the left of a filter, test or method.
// A plain function ignores v.
type function struct {
	parameters string // names of the parameters, separated by spaces
	run        func(v any, given []any) any
	defaults   []any // defaults of the last parameters
	// all, unless nil, replaces run. It gets the arguments of the call unchanged.
	all func(e *evaluator, v any, a *Arguments) any
}

// takes makes a function with the given parameters. Its callback run gets a value for each parameter, in order.
func takes(parameters string, run func(v any, given []any) any, defaults ...any) function {
	return function{parameters: parameters, run: run, defaults: defaults}
}

// of makes a function that has no arguments besides the value v.
func of(run func(v any) any) function {
	return takes("", func(v any, _ []any) any { return run(v) })
}

// ofText is like of, but its callback gets the value v as text.
func ofText(run func(s string) any) function {
	return of(func(v any) any { return run(str(v)) })
}

// call calls f. v is the value to the left of a filter, test or method. Errors begin with the given name.
func (f function) call(e *evaluator, name string, v any, a *Arguments) any {
	if f.all != nil {
		return f.all(e, v, a)
	}
	return f.run(v, a.bind(name, strings.Fields(f.parameters), f.defaults))
}

// on returns f as a method of v, in a form that templates can call.
func (f function) on(name string, v any) builtin {
	return builtin{name, func(e *evaluator, a *Arguments) any { return f.call(e, name, v, a) }}
}
