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
	return map[string]any{
		"range": builtin{"range", func(_ *evaluator, a *Arguments) any {
			given := required("range", a.bind("range", "start", "stop", "step"), 1)
			r := numbers{0, whole(given[0]), whole(or(given[2], 1))}
			if stop := or(given[1], nil); stop != nil {
				r.start, r.stop = r.stop, whole(stop)
			}
			if r.step == 0 {
				fail("range() arg 3 must not be zero")
			}
			if math.Abs((float64(r.stop)-float64(r.start))/float64(r.step)) > maxRange {
				fail("range: more than %d numbers", maxRange)
			}
			return r
		}},
		"dict": builtin{"dict", func(_ *evaluator, a *Arguments) any { return dictOf("dict", a) }},
		"namespace": builtin{"namespace", func(_ *evaluator, a *Arguments) any {
			return &namespace{dictOf("namespace", a)}
		}},
	}
}

// maxRange is the maximum number of results of range, as in Jinja2's sandbox.
const maxRange = 100_000

// dictOf returns a mapping of a mapping or of pairs, and of named arguments.
func dictOf(what string, a *Arguments) *Dict {
	d := NewDict()
	if len(a.Items) > 1 {
		fail("%s: %d arguments: expected at most 1", what, len(a.Items))
	}
	for _, given := range a.Items {
		items := List(nil)
		if from, ok := given.(*Dict); ok {
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
	var m func(a *Arguments) any
	switch v := v.(type) {
	case string:
		m = textMethod(v, name)
	case markup:
		m = textMethod(string(v), name)
	case *Dict:
		m = dictMethod(v, name)
	case List:
		m = listMethod(v, name)
		if name == "copy" {
			m = func(a *Arguments) any { a.bind("copy"); return slices.Clone(v) }
		}
		switch name {
		case "append", "clear", "pop", "reverse", "insert", "sort", "extend", "remove":
			fail("%s changes a list: expected a method that changes nothing", name)
		}
	case tuple:
		m = listMethod(List(v), name)
	case numbers:
		m = listMethod(v.items(), name)
	}
	if m == nil {
		return nil
	}
	return builtin{name, func(_ *evaluator, a *Arguments) any { return m(a) }}
}

func dictMethod(d *Dict, name string) func(a *Arguments) any {
	views := func(items []any) func(a *Arguments) any {
		return func(a *Arguments) any { a.bind(name); return view{"dict_" + name, items} }
	}
	switch name {
	case "keys":
		return views(d.keys)
	case "values":
		return views(d.values)
	case "items":
		return views(d.items())
	case "copy":
		return func(a *Arguments) any { a.bind(name); return d }
	case "get":
		return func(a *Arguments) any {
			given := required(name, a.bind(name, "key", "default"), 1)
			if found, ok := d.get(given[0]); ok {
				return found
			}
			return or(given[1], nil)
		}
	case "clear", "pop", "popitem", "setdefault", "update":
		if _, ok := d.get(name); ok {
			return nil
		}
		fail("%s changes a mapping: expected a method that changes nothing", name)
	}
	return nil
}

func listMethod(l List, name string) func(a *Arguments) any {
	switch name {
	case "count":
		return func(a *Arguments) any {
			v, n := required(name, a.bind(name, "value"), 1)[0], 0
			for _, item := range l {
				if equal(item, v) {
					n++
				}
			}
			return n
		}
	case "index":
		return func(a *Arguments) any {
			v := required(name, a.bind(name, "value"), 1)[0]
			i := slices.IndexFunc(l, func(item any) bool { return equal(item, v) })
			if i < 0 {
				fail("%s is not in list", repr(v))
			}
			return i
		}
	}
	return nil
}

// textMethod returns a method of Python's str.
func textMethod(s, name string) func(a *Arguments) any {
	plain := func(f func(string) any) func(a *Arguments) any {
		return func(a *Arguments) any { a.bind(name); return f(s) }
	}
	each := func(is func(r rune) bool) func(a *Arguments) any {
		return plain(func(s string) any {
			return s != "" && !strings.ContainsFunc(s, func(r rune) bool { return !is(r) })
		})
	}
	// given checks that the arguments are texts.
	texts := func(a *Arguments, n int, names ...string) []string {
		texts := make([]string, n)
		for i, v := range required(name, a.bind(name, names...), n)[:n] {
			t, ok := text(v)
			if !ok {
				fail("%s: '%s': expected a text", name, typeName(v))
			}
			texts[i] = t
		}
		return texts
	}
	stripping := func(left, right bool) func(a *Arguments) any {
		return func(a *Arguments) any { return strip(s, or(a.bind(name, "chars")[0], nil), left, right) }
	}
	affix := func(has func(s, t string) bool) func(a *Arguments) any {
		return func(a *Arguments) any {
			given := required(name, a.bind(name, "text", "start", "end"), 1)
			part := str(slice(s, or(given[1], nil), or(given[2], nil), nil))
			if t, ok := text(given[0]); ok {
				return has(part, t)
			}
			all, ok := given[0].(tuple)
			if !ok {
				fail("%s: '%s': expected a text or a tuple of texts", name, typeName(given[0]))
			}
			return slices.ContainsFunc(all, func(v any) bool {
				t, ok := text(v)
				if !ok {
					fail("%s: '%s': expected a tuple of texts", name, typeName(v))
				}
				return has(part, t)
			})
		}
	}
	find := func(index func(s, t string) int, must bool) func(a *Arguments) any {
		return func(a *Arguments) any {
			t := texts(a, 1, "sub", "start", "end")[0]
			given := a.bind(name, "sub", "start", "end")
			from := 0
			if start := or(given[1], nil); start != nil {
				if from = whole(start); from < 0 {
					from = max(0, from+length(s))
				}
			}
			part := str(slice(s, or(given[1], nil), or(given[2], nil), nil))
			i := index(part, t)
			switch {
			case i >= 0:
				return from + utf8.RuneCountInString(part[:i])
			case must:
				fail("substring not found")
			}
			return -1
		}
	}
	pad := func(f func(width int, fill string) any) func(a *Arguments) any {
		return func(a *Arguments) any {
			given := required(name, a.bind(name, "width", "fill"), 1)
			fill := str(or(given[1], " "))
			if length(fill) != 1 {
				fail("%s: %s: expected one character", name, repr(fill))
			}
			return f(whole(given[0]), fill)
		}
	}
	part := func(index func(s, t string) int, last bool) func(a *Arguments) any {
		return func(a *Arguments) any {
			sep := texts(a, 1, "sep")[0]
			switch i := index(s, sep); {
			case i >= 0:
				return tuple{s[:i], sep, s[i+len(sep):]}
			case last:
				return tuple{"", "", s}
			}
			return tuple{s, "", ""}
		}
	}
	switch name {
	case "upper":
		return plain(func(s string) any { return upper(s) })
	case "lower", "casefold":
		return plain(func(s string) any { return lower(s) })
	case "title":
		return plain(func(s string) any { return title(s) })
	case "capitalize":
		return plain(func(s string) any { return capitalize(s) })
	case "swapcase":
		return plain(func(s string) any {
			var b strings.Builder
			for _, r := range s {
				if unicode.IsUpper(r) {
					b.WriteString(lower(string(r)))
				} else {
					b.WriteString(upper(string(r)))
				}
			}
			return b.String()
		})
	case "isalpha":
		return each(unicode.IsLetter)
	case "isalnum":
		return each(func(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) })
	case "isdigit":
		return each(func(r rune) bool {
			return unicode.IsDigit(r) || strings.ContainsRune("²³¹⁰⁴⁵⁶⁷⁸⁹₀₁₂₃₄₅₆₇₈₉", r)
		})
	case "isdecimal":
		return each(unicode.IsDigit)
	case "isnumeric":
		return each(unicode.IsNumber)
	case "isspace":
		return each(isSpace)
	case "isascii":
		return plain(func(s string) any {
			return !strings.ContainsFunc(s, func(r rune) bool { return r > unicode.MaxASCII })
		})
	case "islower":
		return plain(func(s string) any { return isCase(s, unicode.IsLower) })
	case "isupper":
		return plain(func(s string) any { return isCase(s, unicode.IsUpper) })
	case "istitle":
		return plain(func(s string) any { return s == title(s) && strings.ContainsFunc(s, unicode.IsLetter) })
	case "strip":
		return stripping(true, true)
	case "lstrip":
		return stripping(true, false)
	case "rstrip":
		return stripping(false, true)
	case "startswith":
		return affix(strings.HasPrefix)
	case "endswith":
		return affix(strings.HasSuffix)
	case "removeprefix":
		return func(a *Arguments) any { return strings.TrimPrefix(s, texts(a, 1, "prefix")[0]) }
	case "removesuffix":
		return func(a *Arguments) any { return strings.TrimSuffix(s, texts(a, 1, "suffix")[0]) }
	case "find":
		return find(strings.Index, false)
	case "rfind":
		return find(strings.LastIndex, false)
	case "index":
		return find(strings.Index, true)
	case "rindex":
		return find(strings.LastIndex, true)
	case "count":
		return func(a *Arguments) any {
			t := texts(a, 1, "sub", "start", "end")[0]
			given := a.bind(name, "sub", "start", "end")
			return strings.Count(str(slice(s, or(given[1], nil), or(given[2], nil), nil)), t)
		}
	case "center":
		return pad(func(width int, fill string) any { return center(s, width, fill) })
	case "ljust":
		return pad(func(width int, fill string) any { return s + fills(s, width, fill) })
	case "rjust":
		return pad(func(width int, fill string) any { return fills(s, width, fill) + s })
	case "zfill":
		return func(a *Arguments) any {
			digits := strings.TrimLeft(s, "+-")
			sign := s[:min(1, len(s)-len(digits))]
			return sign + fills(s, whole(required(name, a.bind(name, "width"), 1)[0]), "0") + s[len(sign):]
		}
	case "partition":
		return part(strings.Index, false)
	case "rpartition":
		return part(strings.LastIndex, true)
	case "split":
		return func(a *Arguments) any { return split(s, a, false) }
	case "rsplit":
		return func(a *Arguments) any { return split(s, a, true) }
	case "splitlines":
		return func(a *Arguments) any {
			var l List
			for _, line := range lines(s, truth(or(a.bind(name, "keepends")[0], false))) {
				l = append(l, line)
			}
			return l
		}
	case "replace":
		return func(a *Arguments) any {
			t, n := texts(a, 2, "old", "new", "count"), -1
			if c := or(a.bind(name, "old", "new", "count")[2], nil); c != nil {
				n = whole(c)
			}
			if t[0] == "" || len(t[1]) > len(t[0]) {
				limited((strings.Count(s, t[0]) + 1) * len(t[1]))
			}
			return strings.Replace(s, t[0], t[1], n)
		}
	case "join":
		return func(a *Arguments) any {
			var parts []string
			for i, item := range iterate(required(name, a.bind(name, "iterable"), 1)[0]) {
				t, ok := text(item)
				if !ok {
					fail("sequence item %d: expected str instance, %s found", i, typeName(item))
				}
				parts = append(parts, t)
			}
			limited(len(s) * len(parts))
			return strings.Join(parts, s)
		}
	case "format":
		return func(a *Arguments) any { return format(s, a) }
	}
	return nil
}

// fills returns the characters that s lacks to the width.
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

// split is Python's split(sep, maxsplit), or Python's rsplit if fromRight is true. Without a separator it splits at
// runs of white space.
func split(s string, a *Arguments, fromRight bool) any {
	given := a.bind("split", "sep", "maxsplit")
	separator, most := or(given[0], nil), whole(or(given[1], -1))
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
	d, isDict := values.(*Dict)
	if !isTuple {
		items = tuple{values}
	}
	unused := false // whether values that no directive takes are an error
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
