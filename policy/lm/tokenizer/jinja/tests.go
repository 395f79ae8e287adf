package jinja

import (
	"strings"
	"unicode"
)

// allTests returns the tests that may follow "is".
func allTests() map[string]function {
	with := func(holds func(v, other any) bool) function {
		return takes("other", func(v any, given []any) any { return holds(v, given[0]) })
	}
	known := func(of func(e *evaluator) map[string]function) function {
		return function{all: func(e *evaluator, v any, _ *Arguments) any {
			_, ok := of(e)[str(v)]
			return ok
		}}
	}
	isUndefined := func(v any) bool { _, ok := v.(undefined); return ok }
	set := map[string]function{
		"odd":         of(func(v any) any { return equal(arithmetic("%", v, 2), 1) }),
		"even":        of(func(v any) any { return equal(arithmetic("%", v, 2), 0) }),
		"divisibleby": with(func(v, other any) bool { return equal(arithmetic("%", v, other), 0) }),
		"defined":     of(func(v any) any { return !isUndefined(v) }),
		"undefined":   of(func(v any) any { return isUndefined(v) }),
		"filter":      known(func(e *evaluator) map[string]function { return e.filters }),
		"test":        known(func(e *evaluator) map[string]function { return e.tests }),
		"none":        of(func(v any) any { return v == nil }),
		"boolean":     of(func(v any) any { _, ok := v.(bool); return ok }),
		"false":       of(func(v any) any { return v == false }),
		"true":        of(func(v any) any { return v == true }),
		"integer": of(func(v any) any {
			switch v.(type) {
			case int, BigNumber:
				return true
			}
			return false
		}),
		"float":   of(func(v any) any { _, ok := v.(float64); return ok }),
		"lower":   ofText(func(s string) any { return isCase(s, unicode.IsLower) }),
		"upper":   ofText(func(s string) any { return isCase(s, unicode.IsUpper) }),
		"string":  of(func(v any) any { _, ok := text(v); return ok }),
		"mapping": of(func(v any) any { _, ok := v.(*Mapping); return ok }),
		"number":  of(func(v any) any { _, big := v.(BigNumber); return big || isNumber(v) }),
		"sequence": of(func(v any) any {
			switch v.(type) {
			case string, markup, List, tuple, *Mapping, numbers, undefined:
				return true
			}
			return false
		}),
		"iterable": of(func(v any) any {
			if _, ok := v.(*generator); ok {
				return true
			}
			_, ok := iterable(v)
			return ok
		}),
		"callable": of(func(v any) any {
			switch l := v.(type) {
			case builtin, Function, undefined:
				return true
			case *loop:
				return l != nil
			}
			return false
		}),
		"sameas":  with(same),
		"escaped": of(func(v any) any { _, ok := v.(markup); return ok }),
		"in":      with(func(v, set any) bool { return contains(set, v) }),
	}
	for _, names := range []string{"== eq equalto", "!= ne", "> gt greaterthan", ">= ge", "< lt lessthan", "<= le"} {
		sign, _, _ := strings.Cut(names, " ")
		for name := range strings.FieldsSeq(names) {
			set[name] = with(func(v, other any) bool { return compares(sign, v, other) })
		}
	}
	return set
}

// same is Python's operator "is", for values that templates can compare with it.
func same(a, b any) bool {
	switch a := a.(type) {
	case nil, bool, int, string:
		return a == b
	case *Mapping, *namespace, *generator, *loop:
		return a == b
	case List:
		b, ok := b.(List)
		return ok && len(a) == len(b) && len(a) > 0 && &a[0] == &b[0]
	}
	return false
}

// isCase is Python's islower or isupper. It reports whether the text has letters with a case, and all of them have the
// case that the given function tests.
func isCase(s string, is func(rune) bool) bool {
	found := false
	for _, r := range s {
		if unicode.IsLower(r) || unicode.IsUpper(r) || unicode.IsTitle(r) {
			if !is(r) {
				return false
			}
			found = true
		}
	}
	return found
}
