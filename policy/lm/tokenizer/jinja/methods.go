package jinja

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// functions returns the functions that templates may call.
func functions() map[string]any {
	all := map[string]function{
		"range": takes("start stop step", func(_ any, given []any) any {
			r := numbers{0, whole(given[0]), whole(given[2])}
			if stop := given[1]; stop != nil {
				r.start, r.stop = r.stop, whole(stop)
			}
			if r.step == 0 {
				fail("range() arg 3 must not be zero")
			}
			if math.Abs((float64(r.stop)-float64(r.start))/float64(r.step)) > maxRange {
				fail("range: more than %d numbers", maxRange)
			}
			return r
		}, nil, 1),
		"dict":      {all: func(_ *evaluator, _ any, a *Arguments) any { return dictOf("dict", a) }},
		"namespace": {all: func(_ *evaluator, _ any, a *Arguments) any { return &namespace{dictOf("namespace", a)} }},
	}
	values := map[string]any{}
	for name, f := range all {
		values[name] = f.on(name, nil)
	}
	return values
}

// maxRange is the maximum number of results of range, as in Jinja2's sandbox.
const maxRange = 100_000

// dictOf makes a mapping from a mapping or from pairs, and from named arguments.
func dictOf(what string, a *Arguments) *Mapping {
	d := NewMapping()
	if len(a.Items) > 1 {
		fail("%s: %d arguments: expected at most 1", what, len(a.Items))
	}
	for _, given := range a.Items {
		items := List(nil)
		if from, ok := given.(*Mapping); ok {
			items = from.items()
		} else {
			items = iterate(given)
		}
		for _, item := range items {
			pair := iterate(item)
			if len(pair) != 2 {
				fail("%s: %d values: expected pairs", what, len(pair))
			}
			d.Set(pair[0], pair[1])
		}
	}
	for _, name := range a.names {
		d.Set(name, a.Named[name])
	}
	return d
}

// method returns a method of a value, or nil if there is none.
func method(v any, name string) any {
	var f function
	switch v := v.(type) {
	case string, markup:
		if f = textMethods[name]; name == "format" {
			f.all = func(_ *evaluator, v any, a *Arguments) any { return format(str(v), a) }
		}
	case *Mapping:
		f = dictMethod(v, name)
	case List:
		switch name {
		case "append", "clear", "pop", "reverse", "insert", "sort", "extend", "remove":
			fail("%s changes a list: expected a method that changes nothing", name)
		case "copy":
			f = of(func(any) any { return slices.Clone(v) })
		default:
			f = listMethod(v, name)
		}
	case tuple, numbers:
		f = listMethod(iterate(v), name)
	}
	if f.run == nil && f.all == nil {
		return nil
	}
	return f.on(name, v)
}

func dictMethod(d *Mapping, name string) (none function) {
	views := func(items []any) function { return of(func(any) any { return view{"dict_" + name, items} }) }
	switch name {
	case "keys":
		return views(d.keys)
	case "values":
		return views(d.values)
	case "items":
		return views(d.items())
	case "copy":
		return of(func(any) any { return d })
	case "get":
		return takes("key default", func(_ any, given []any) any {
			if found, ok := d.get(given[0]); ok {
				return found
			}
			return given[1]
		}, nil)
	case "clear", "pop", "popitem", "setdefault", "update":
		if _, ok := d.get(name); !ok {
			fail("%s changes a mapping: expected a method that changes nothing", name)
		}
	}
	return none
}

func listMethod(l List, name string) (none function) {
	switch name {
	case "count":
		return takes("value", func(_ any, given []any) any {
			n := 0
			for _, item := range l {
				if equal(item, given[0]) {
					n++
				}
			}
			return n
		})
	case "index":
		return takes("value", func(_ any, given []any) any {
			i := slices.IndexFunc(l, func(item any) bool { return equal(item, given[0]) })
			if i < 0 {
				fail("%s is not in list", repr(given[0]))
			}
			return i
		})
	}
	return none
}

// needText returns v as text. It fails if v is not a text.
func needText(v any) string {
	t, ok := text(v)
	if !ok {
		fail("'%s': expected a text", typeName(v))
	}
	return t
}

// atMost returns the maximum number of replacements. None means all; the result is then -1.
func atMost(count any) int {
	if count == nil {
		return -1
	}
	return whole(count)
}

// textMethods are the methods of Python's str, except format.
var textMethods = map[string]function{
	"upper":      ofText(func(s string) any { return upper(s) }),
	"lower":      ofText(func(s string) any { return lower(s) }),
	"casefold":   ofText(func(s string) any { return lower(s) }),
	"title":      ofText(func(s string) any { return title(s) }),
	"capitalize": ofText(func(s string) any { return capitalize(s) }),
	"swapcase": ofText(func(s string) any {
		var b strings.Builder
		for _, r := range s {
			if unicode.IsUpper(r) {
				b.WriteString(lower(string(r)))
			} else {
				b.WriteString(upper(string(r)))
			}
		}
		return b.String()
	}),
	"isalpha": each(unicode.IsLetter),
	"isalnum": each(func(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) }),
	"isdigit": each(func(r rune) bool {
		return unicode.IsDigit(r) || strings.ContainsRune("²³¹⁰⁴⁵⁶⁷⁸⁹₀₁₂₃₄₅₆₇₈₉", r)
	}),
	"isdecimal": each(unicode.IsDigit),
	"isnumeric": each(unicode.IsNumber),
	"isspace":   each(isSpace),
	"isascii": ofText(func(s string) any {
		return !strings.ContainsFunc(s, func(r rune) bool { return r > unicode.MaxASCII })
	}),
	"islower":      ofText(func(s string) any { return isCase(s, unicode.IsLower) }),
	"isupper":      ofText(func(s string) any { return isCase(s, unicode.IsUpper) }),
	"istitle":      ofText(func(s string) any { return s == title(s) && strings.ContainsFunc(s, unicode.IsLetter) }),
	"strip":        stripping(true, true),
	"lstrip":       stripping(true, false),
	"rstrip":       stripping(false, true),
	"startswith":   affix(strings.HasPrefix),
	"endswith":     affix(strings.HasSuffix),
	"removeprefix": trim(strings.TrimPrefix),
	"removesuffix": trim(strings.TrimSuffix),
	"find":         find(strings.Index, false),
	"rfind":        find(strings.LastIndex, false),
	"index":        find(strings.Index, true),
	"rindex":       find(strings.LastIndex, true),
	"count":        ranged(func(_, part string, given []any) any { return strings.Count(part, needText(given[0])) }),
	"center":       pad(center),
	"ljust":        pad(func(s string, width int, fill string) string { return s + fills(s, width, fill) }),
	"rjust":        pad(func(s string, width int, fill string) string { return fills(s, width, fill) + s }),
	"zfill": takes("width", func(v any, given []any) any {
		s := str(v)
		digits := strings.TrimLeft(s, "+-")
		sign := s[:min(1, len(s)-len(digits))]
		return sign + fills(s, whole(given[0]), "0") + s[len(sign):]
	}),
	"partition":  cut(strings.Index, false),
	"rpartition": cut(strings.LastIndex, true),
	"split":      splitting(false),
	"rsplit":     splitting(true),
	"splitlines": takes("keepends", func(v any, given []any) any {
		var l List
		for _, line := range lines(str(v), truth(given[0])) {
			l = append(l, line)
		}
		return l
	}, false),
	"replace": takes("old new count", func(v any, given []any) any {
		s, old, to := str(v), needText(given[0]), needText(given[1])
		if old == "" || len(to) > len(old) {
			limited((strings.Count(s, old) + 1) * len(to))
		}
		return strings.Replace(s, old, to, atMost(given[2]))
	}, nil),
	"join": takes("iterable", func(v any, given []any) any {
		s := str(v)
		var parts []string
		for i, item := range iterate(given[0]) {
			t, ok := text(item)
			if !ok {
				fail("sequence item %d: expected str instance, %s found", i, typeName(item))
			}
			parts = append(parts, t)
		}
		limited(len(s) * len(parts))
		return strings.Join(parts, s)
	}),
}

// each returns a method that reports whether a text is not empty and all its characters fulfil the given condition.
func each(is func(r rune) bool) function {
	return ofText(func(s string) any {
		return s != "" && !strings.ContainsFunc(s, func(r rune) bool { return !is(r) })
	})
}

// ranged returns a method that calls f with the part of a text between two indices, the arguments start and end.
func ranged(f func(s, part string, given []any) any) function {
	return takes("text start end", func(v any, given []any) any {
		return f(str(v), str(slice(str(v), given[1], given[2], nil)), given)
	}, nil, nil)
}

// stripping returns a method that trims a text: see strip.
func stripping(left, right bool) function {
	return takes("chars", func(v any, given []any) any { return strip(str(v), given[0], left, right) }, nil)
}

// affix returns the method startswith or endswith. Its argument is a text or a tuple of texts.
func affix(has func(s, t string) bool) function {
	return ranged(func(_, part string, given []any) any {
		if all, ok := given[0].(tuple); ok {
			return slices.ContainsFunc(all, func(v any) bool { return has(part, needText(v)) })
		}
		return has(part, needText(given[0]))
	})
}

// find returns a method that finds a text in another. If the text is missing, find and rfind return -1; index and
// rindex, for which must is set, fail.
func find(index func(s, t string) int, must bool) function {
	return ranged(func(s, part string, given []any) any {
		from := 0
		if start := given[1]; start != nil {
			if from = whole(start); from < 0 {
				from = max(0, from+length(s))
			}
		}
		i := index(part, needText(given[0]))
		switch {
		case i >= 0:
			return from + utf8.RuneCountInString(part[:i])
		case must:
			fail("substring not found")
		}
		return -1
	})
}

// pad returns a method that fills a text up to a width.
func pad(f func(s string, width int, fill string) string) function {
	return takes("width fill", func(v any, given []any) any {
		fill := str(given[1])
		if length(fill) != 1 {
			fail("%s: expected one character", repr(fill))
		}
		return f(str(v), whole(given[0]), fill)
	}, " ")
}

// cut returns the method partition, or rpartition if last is set. Both split a text at a separator into three parts. If
// there is no separator, the whole text becomes the first part, or the last part in rpartition.
func cut(index func(s, t string) int, last bool) function {
	return takes("sep", func(v any, given []any) any {
		s, sep := str(v), needText(given[0])
		switch i := index(s, sep); {
		case i >= 0:
			return tuple{s[:i], sep, s[i+len(sep):]}
		case last:
			return tuple{"", "", s}
		}
		return tuple{s, "", ""}
	})
}

// trim returns the method removeprefix or removesuffix.
func trim(f func(s, t string) string) function {
	return takes("affix", func(v any, given []any) any { return f(str(v), needText(given[0])) })
}

// splitting returns the method split, or rsplit.
func splitting(fromRight bool) function {
	return takes("sep maxsplit", func(v any, given []any) any {
		return split(str(v), given[0], whole(given[1]), fromRight)
	}, nil, -1)
}

// fills returns the characters that s needs to reach the width.
func fills(s string, width int, fill string) string {
	limited(max(0, width))
	return strings.Repeat(fill, max(0, width-length(s)))
}

// center is Python's center.
func center(s string, width int, fill string) string {
	missing := length(fills(s, width, fill))
	left := missing/2 + (missing & width & 1)
	return strings.Repeat(fill, left) + s + strings.Repeat(fill, missing-left)
}

// strip trims s: its left end if left is true, and its right end if right is true. It removes the characters in chars,
// or white space if chars is nil.
func strip(s string, chars any, left, right bool) string {
	cut := isSpace
	if chars != nil {
		all, ok := text(chars)
		if !ok {
			fail("strip arg must be None or str")
		}
		cut = func(r rune) bool { return strings.ContainsRune(all, r) }
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

// split is Python's split(separator, most), or Python's rsplit if fromRight is true. Without a separator it splits at
// runs of white space.
func split(s string, separator any, most int, fromRight bool) any {
	sep, ok := text(separator)
	switch {
	case separator != nil && !ok:
		fail("must be str or None, not %s", typeName(separator))
	case ok && sep == "":
		fail("empty separator")
	}
	cut := func(s string) (before, after string, ok bool) { // cut at the next separator
		i, n := strings.Index(s, sep), len(sep)
		if fromRight {
			i = strings.LastIndex(s, sep)
		}
		if separator == nil {
			s = strip(s, nil, !fromRight, fromRight)
			if i = strings.IndexFunc(s, isSpace); fromRight {
				i = strings.LastIndexFunc(s, isSpace)
			}
			if i >= 0 {
				_, n = utf8.DecodeRuneInString(s[i:])
			}
		}
		if i < 0 {
			return s, s, false
		}
		return s[:i], s[i+n:], true
	}
	var parts List
	for most < 0 || len(parts) < most {
		before, after, ok := cut(s)
		if !ok {
			break
		}
		if fromRight {
			before, after = after, before
		}
		parts, s = append(parts, before), after
	}
	if separator == nil {
		s = strip(s, nil, !fromRight, fromRight)
	}
	if s != "" || separator != nil {
		parts = append(parts, s)
	}
	if fromRight {
		slices.Reverse(parts)
	}
	return parts
}

// lines is Python's splitlines(keepends).
func lines(s string, keep bool) (lines []string) {
	for s != "" {
		i := strings.IndexAny(s, "\n\r\v\f\x1c\x1d\x1e\u0085\u2028\u2029")
		if i < 0 {
			return append(lines, s)
		}
		_, n := utf8.DecodeRuneInString(s[i:])
		if strings.HasPrefix(s[i:], "\r\n") {
			n = 2
		}
		end := i
		if keep {
			end += n
		}
		lines, s = append(lines, s[:end]), s[i+n:]
	}
	return lines
}

// percent is Python's s % values.
func percent(s string, values any) any {
	items, isTuple := values.(tuple)
	d, isDict := values.(*Mapping)
	if !isTuple {
		items = tuple{values}
	}
	unused := false // whether unused values are an error
	switch values.(type) {
	case tuple, nil, string, markup, bool, int, float64:
		unused = true
	}
	at := 0
	next := func() any {
		if at++; at > len(items) {
			fail("not enough arguments for format string")
		}
		return items[at-1]
	}
	var b strings.Builder
	for s != "" {
		i := strings.IndexByte(s, '%')
		if i < 0 {
			break
		}
		b.WriteString(s[:i])
		m := directive.FindStringSubmatch(s[i:])
		if m == nil {
			fail("incomplete or unsupported format: %s", s[i:])
		}
		s = s[i+len(m[0]):]
		if m[5] == "%" {
			b.WriteByte('%')
			continue
		}
		spec := layout{align: '>', kind: m[5][0], precision: -1, sign: '-'}
		if m[3] == "*" {
			m[3] = strconv.Itoa(whole(next()))
		}
		spec.width, _ = strconv.Atoi(m[3])
		if m[4] != "" {
			spec.precision, _ = strconv.Atoi(m[4][1:])
		}
		for _, flag := range m[2] {
			switch flag {
			case '-':
				spec.align = '<'
			case '0':
				spec.zero = true
			case '#':
				spec.alternate = true
			default:
				spec.sign = byte(flag)
			}
		}
		var v any
		if m[1] != "" {
			found, ok := d, isDict
			if !ok {
				fail("format requires a mapping")
			}
			name := m[1][1 : len(m[1])-1]
			if v, ok = found.get(name); !ok {
				fail("the format has no value for %s", name)
			}
			at = len(items)
		} else {
			v = next()
		}
		b.WriteString(spec.percent(v))
		limited(b.Len())
	}
	if at < len(items) && unused {
		fail("not all arguments converted during string formatting")
	}
	return b.String() + s
}
