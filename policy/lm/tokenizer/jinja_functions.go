package tokenizer

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/nikolalohinski/gonja/v2/builtins"
	"github.com/nikolalohinski/gonja/v2/exec"
)

// argument returns the argument at position i or with the given name. It returns nil if the argument is missing or
// null.
func argument(args *exec.VarArgs, i int, name string) *exec.Value {
	v := args.KwArgs[name]
	if i < len(args.Args) {
		v = args.Args[i]
	}
	if v == nil || v.IsNil() {
		return nil
	}
	return v
}

// namespace returns an object whose fields can be set inside loops.
func namespace(args *exec.VarArgs) *exec.Value {
	fields := map[string]any{}
	for name, v := range args.KwArgs {
		fields[name] = v
	}
	return exec.AsValue(fields)
}

func dictOf(args *exec.VarArgs) *exec.Value {
	dict := exec.NewDict()
	for _, name := range slices.Sorted(maps.Keys(args.KwArgs)) {
		dict.Pairs = append(dict.Pairs, &exec.Pair{Key: exec.AsValue(name), Value: args.KwArgs[name]})
	}
	return exec.AsValue(dict)
}

// maxRange is the maximum number of results of range.
const maxRange = 100_000

// numbersFrom implements range(stop), range(start, stop) and range(start, stop, step).
func numbersFrom(args *exec.VarArgs) (*exec.Value, error) {
	var n [3]int
	if len(args.Args) < 1 || len(args.Args) > 3 {
		return nil, errors.New("range: expected 1 to 3 numbers")
	}
	for i, v := range args.Args {
		if !v.IsInteger() {
			return nil, fmt.Errorf("range: %s: expected a whole number", short(v.String()))
		}
		n[i] = v.Integer()
	}
	start, stop, step := n[0], n[1], n[2]
	switch len(args.Args) {
	case 1:
		start, stop, step = 0, n[0], 1
	case 2:
		step = 1
	}
	l := list{}
	for i := start; step > 0 && i < stop || step < 0 && i > stop; i += step {
		if len(l) == maxRange {
			return nil, fmt.Errorf("range: more than %d numbers", maxRange)
		}
		l = append(l, i)
	}
	if step == 0 {
		return nil, errors.New("range: a step of 0: expected another number")
	}
	return exec.AsValue(l), nil
}

// tests returns the tests that may follow "is".
func tests() *exec.TestSet {
	type test = func(*exec.Evaluator, *exec.Value, *exec.VarArgs) (bool, error)
	of := func(f func(*exec.Value) bool) test {
		return func(_ *exec.Evaluator, v *exec.Value, _ *exec.VarArgs) (bool, error) { return f(v), nil }
	}
	defined := func(v *exec.Value) bool { return !v.IsError() && (!v.IsNil() || isNone(v)) }
	set := map[string]exec.TestFunction{
		"defined":   of(defined),
		"undefined": of(func(v *exec.Value) bool { return !defined(v) }),
		"sequence":  of(func(v *exec.Value) bool { return v.IsList() || v.IsString() || v.IsDict() }),
		"true":      of(func(v *exec.Value) bool { return v.IsBool() && v.Bool() }),
		"false":     of(func(v *exec.Value) bool { return v.IsBool() && !v.Bool() }),
	}
	for _, name := range []string{
		"none", "boolean", "callable", "string", "number", "integer", "float", "mapping", "iterable",
		"even", "odd", "divisibleby", "in", "lower", "upper", "eq", "equalto", "==", "ne", "!=", "ge",
		">=", "gt", "greaterthan", ">", "le", "<=", "lt", "lessthan", "<",
	} {
		set[name], _ = builtins.Tests.Get(name)
	}
	return exec.NewTestSet(set)
}

// filters returns the filters that may follow "|".
func filters() *exec.FilterSet {
	set := map[string]exec.FilterFunction{}
	for _, name := range []string{
		"abs", "attr", "batch", "capitalize", "dictsort", "e", "escape", "first", "float", "indent", "int",
		"join", "last", "length", "count", "list", "lower", "map", "max", "min", "reject", "rejectattr",
		"replace", "reverse", "round", "safe", "select", "selectattr", "slice", "sort", "string", "sum",
		"unique", "upper", "wordcount",
	} {
		filter, _ := builtins.Filters.Get(name)
		set[name] = func(e *exec.Evaluator, in *exec.Value, args *exec.VarArgs) *exec.Value {
			return asList(filter(e, in, args))
		}
	}
	set["tojson"] = toJSON
	set["items"] = func(_ *exec.Evaluator, in *exec.Value, _ *exec.VarArgs) *exec.Value {
		if !in.IsDict() && !in.IsNil() {
			return exec.AsValue(errors.New("items: expected a mapping"))
		}
		return exec.AsValue(items(in))
	}
	set["trim"] = func(_ *exec.Evaluator, in *exec.Value, args *exec.VarArgs) *exec.Value {
		return exec.AsValue(strip(in.String(), argument(args, 0, "chars"), true, true))
	}
	set["title"] = func(_ *exec.Evaluator, in *exec.Value, _ *exec.VarArgs) *exec.Value {
		return exec.AsValue(title(in.String()))
	}
	otherwise := func(_ *exec.Evaluator, in *exec.Value, args *exec.VarArgs) *exec.Value {
		value, loose := args.First(), argument(args, 1, "boolean")
		if v := argument(args, 0, "default_value"); v != nil {
			value = v
		}
		if in.IsError() || in.IsNil() && !isNone(in) || loose != nil && loose.IsTrue() && !in.IsTrue() {
			return value
		}
		return in
	}
	set["default"], set["d"] = otherwise, otherwise
	return exec.NewFilterSet(set)
}

// asList returns a slice as a list, and other values unchanged.
func asList(v *exec.Value) *exec.Value {
	if v.IsError() || !v.IsList() {
		return v
	}
	if _, ok := v.Interface().(list); ok {
		return v
	}
	l := list{}
	v.Iterate(func(_, _ int, item, _ *exec.Value) bool {
		l = append(l, item)
		return true
	}, func() {})
	return exec.AsValue(l)
}

// items returns the pairs of key and value of a mapping.
func items(v *exec.Value) list {
	l := list{}
	v.Iterate(func(_, _ int, key, value *exec.Value) bool {
		l = append(l, list{key, value})
		return true
	}, func() {})
	return l
}

// toJSON is Python's json.dumps with ensure_ascii=False, as chat templates expect.
func toJSON(_ *exec.Evaluator, in *exec.Value, args *exec.VarArgs) *exec.Value {
	if in.IsError() {
		return in
	}
	style := jsonStyle{item: ", ", key: ": "}
	for name, v := range args.KwArgs {
		switch name {
		case "indent":
			style.setIndent(v)
		case "separators":
			style.item, style.key = v.Index(0).String(), v.Index(1).String()
		case "sort_keys":
			style.sort = v.IsTrue()
		case "ensure_ascii":
			style.ascii = v.IsTrue()
		default:
			return exec.AsValue(fmt.Errorf("tojson: unknown argument %s", name))
		}
	}
	if v := argument(args, 0, "indent"); v != nil {
		style.setIndent(v)
	}
	if style.lines && args.KwArgs["separators"] == nil {
		style.item = ","
	}
	var b strings.Builder
	if err := style.write(&b, in, 0); err != nil {
		return exec.AsValue(err)
	}
	return exec.AsValue(b.String())
}

func (s *jsonStyle) setIndent(v *exec.Value) {
	switch {
	case v.IsNil():
	case v.IsString():
		s.lines, s.indent = true, v.String()
	default:
		s.lines, s.indent = true, strings.Repeat(" ", max(0, min(v.Integer(), maxLevels)))
	}
}

// strip trims s: its left end if left is true, and its right end if right is true. It removes the characters in chars,
// or white space if chars is nil.
func strip(s string, chars *exec.Value, left, right bool) string {
	cut := func(r rune) bool { return unicode.IsSpace(r) || 0x1c <= r && r <= 0x1f }
	if chars != nil {
		cut = func(r rune) bool { return strings.ContainsRune(chars.String(), r) }
	}
	if left {
		s = strings.TrimLeftFunc(s, cut)
	}
	if right {
		s = strings.TrimRightFunc(s, cut)
	}
	return s
}

// title makes the first letter of each word upper case and other letters lower case.
func title(s string) string {
	inWord := false
	return strings.Map(func(r rune) rune {
		was := inWord
		if inWord = unicode.IsLetter(r); !inWord {
			return r
		} else if was {
			return unicode.ToLower(r)
		}
		return unicode.ToTitle(r)
	}, s)
}
