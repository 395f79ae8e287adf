package jinja

import (
	"fmt"
	"html"
	"math"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

type filter = func(e *evaluator, v any, a *Arguments) any

// allFilters returns the filters that may follow "|".
func allFilters() map[string]filter {
	// plain is a filter without arguments of a text.
	plain := func(what string, f func(string) any) filter {
		return func(_ *evaluator, v any, a *Arguments) any {
			a.bind(what)
			return f(str(v))
		}
	}
	escape := func(_ *evaluator, v any, a *Arguments) any { a.bind("escape"); return escaped(v) }
	count := func(_ *evaluator, v any, a *Arguments) any { a.bind("length"); return length(v) }
	return map[string]filter{
		"abs": func(_ *evaluator, v any, a *Arguments) any {
			a.bind("abs")
			check(v)
			if f, ok := v.(float64); ok {
				return math.Abs(f)
			}
			if i := whole(v); i < 0 {
				return numeric("-", 0, i)
			} else {
				return i
			}
		},
		"attr": func(_ *evaluator, v any, a *Arguments) any {
			name := str(required("attr", a.bind("attr", "name"), 1)[0])
			if _, isDict := v.(*Dict); isDict {
				if m := method(v, name); m != nil {
					return m
				}
				return undefined{fmt.Sprintf("'%s' has no attribute '%s'", objectName(v), name)}
			}
			return attribute(v, name)
		},
		"batch":      batch,
		"capitalize": plain("capitalize", func(s string) any { return capitalize(s) }),
		"center": func(_ *evaluator, v any, a *Arguments) any {
			return center(str(v), whole(or(a.bind("center", "width")[0], 80)), " ")
		},
		"count": count, "length": count, "d": otherwise, "default": otherwise,
		"dictsort": dictSort,
		"e":        escape, "escape": escape,
		"filesizeformat": fileSize,
		"first": func(e *evaluator, v any, a *Arguments) any {
			a.bind("first")
			if g, ok := v.(*generator); ok && len(g.rest) > 0 {
				first := g.rest[0]
				g.rest = g.rest[1:]
				return first
			}
			if items := iterate(v); len(items) > 0 {
				return items[0]
			}
			return undefined{"No first item, sequence was empty."}
		},
		"float": func(_ *evaluator, v any, a *Arguments) any {
			check(v)
			if f, ok := toFloat(v); ok {
				return f
			}
			return or(a.bind("float", "default")[0], 0.0)
		},
		"forceescape": plain("forceescape", func(s string) any { return escaped(s) }),
		"format": func(_ *evaluator, v any, a *Arguments) any {
			if len(a.Named) == 0 {
				return percent(str(v), tuple(a.Items))
			}
			if len(a.Items) > 0 {
				fail("format: positional and named arguments: expected one kind")
			}
			d := NewDict()
			for name, v := range a.Named {
				d.Set(name, v)
			}
			return percent(str(v), d)
		},
		"groupby": groupBy,
		"indent":  indent,
		"int":     toInt,
		"items": func(_ *evaluator, v any, a *Arguments) any {
			a.bind("items")
			switch d := v.(type) {
			case undefined:
				return &generator{}
			case *Dict:
				return &generator{d.items()}
			}
			fail("Can only get item pairs from a mapping.")
			return nil
		},
		"join": func(_ *evaluator, v any, a *Arguments) any {
			given := a.bind("join", "d", "attribute")
			items, get := slices.Clone(iterate(v)), getter(given[1], absent{})
			for i, item := range items {
				items[i] = get(item)
			}
			return join(items, str(or(given[0], "")))
		},
		"last": func(_ *evaluator, v any, a *Arguments) any {
			a.bind("last")
			if _, ok := v.(*generator); ok {
				fail("'generator' object is not reversible")
			}
			if items := iterate(v); len(items) > 0 {
				return items[len(items)-1]
			}
			return undefined{"No last item, sequence was empty."}
		},
		"list": func(_ *evaluator, v any, a *Arguments) any {
			a.bind("list")
			return List(slices.Clone(iterate(v)))
		},
		"lower":      plain("lower", func(s string) any { return lower(s) }),
		"map":        mapped,
		"max":        extreme("max", ">"),
		"min":        extreme("min", "<"),
		"reject":     selected(false, false),
		"rejectattr": selected(false, true),
		"replace": func(_ *evaluator, v any, a *Arguments) any {
			given := required("replace", a.bind("replace", "old", "new", "count"), 2)
			n := -1
			if c := or(given[2], nil); c != nil {
				n = whole(c)
			}
			return strings.Replace(str(v), str(given[0]), str(given[1]), n)
		},
		"reverse": func(_ *evaluator, v any, a *Arguments) any {
			a.bind("reverse")
			items := slices.Clone(iterate(v))
			slices.Reverse(items)
			if _, ok := text(v); ok {
				return join(items, "")
			}
			return &generator{items}
		},
		"round":      round,
		"safe":       func(_ *evaluator, v any, a *Arguments) any { a.bind("safe"); return markup(str(v)) },
		"select":     selected(true, false),
		"selectattr": selected(true, true),
		"slice":      sliced,
		"sort": func(_ *evaluator, v any, a *Arguments) any {
			given := a.bind("sort", "reverse", "case_sensitive", "attribute")
			attributes, ok := text(or(given[2], nil))
			var keys []func(any) any
			if ok {
				for part := range strings.SplitSeq(attributes, ",") {
					keys = append(keys, getter(part, absent{}))
				}
			} else {
				keys = append(keys, getter(given[2], absent{}))
			}
			return List(sorted(iterate(v), func(item any) any {
				key := make(List, len(keys))
				for i, get := range keys {
					key[i] = folded(get(item), given[1])
				}
				return key
			}, truth(or(given[0], false))))
		},
		"string": func(_ *evaluator, v any, a *Arguments) any {
			a.bind("string")
			if m, ok := v.(markup); ok {
				return m
			}
			return str(v)
		},
		"striptags": plain("striptags", stripTags),
		"sum": func(_ *evaluator, v any, a *Arguments) any {
			given := a.bind("sum", "attribute", "start")
			total, get := or(given[1], 0), getter(given[0], absent{})
			for _, item := range iterate(v) {
				total = arithmetic("+", total, get(item))
			}
			return total
		},
		"title":  plain("title", titleFilter),
		"tojson": toJSON,
		"trim": func(_ *evaluator, v any, a *Arguments) any {
			return strip(str(v), or(a.bind("trim", "chars")[0], nil), true, true)
		},
		"truncate": truncate,
		"unique": func(_ *evaluator, v any, a *Arguments) any {
			given := a.bind("unique", "case_sensitive", "attribute")
			get := getter(given[1], absent{})
			seen := map[string]bool{}
			g := &generator{}
			for _, item := range iterate(v) {
				if h := hash(folded(get(item), given[0])); !seen[h] {
					seen[h] = true
					g.rest = append(g.rest, item)
				}
			}
			return g
		},
		"upper":     plain("upper", func(s string) any { return upper(s) }),
		"urlencode": urlEncode,
		"wordcount": plain("wordcount", func(s string) any {
			return len(strings.FieldsFunc(s, func(r rune) bool {
				return r != '_' && !unicode.IsLetter(r) && !unicode.IsNumber(r)
			}))
		}),
		"xmlattr": xmlAttributes,
	}
}

var escapeHTML = strings.NewReplacer("&", "&amp;", ">", "&gt;", "<", "&lt;", "'", "&#39;", `"`, "&#34;")

// escaped returns a value as HTML.
func escaped(v any) markup {
	if m, ok := v.(markup); ok {
		return m
	}
	return markup(escapeHTML.Replace(str(v)))
}

func join(items []any, separator string) string {
	texts := make([]string, len(items))
	for i, item := range items {
		texts[i] = str(item)
	}
	return strings.Join(texts, separator)
}

// upper is Python's upper.
func upper(s string) string { return strings.ToUpper(strings.ReplaceAll(s, "ß", "SS")) }

func lower(s string) string { return strings.ToLower(s) }

func capitalize(s string) string {
	r, n := utf8.DecodeRuneInString(s)
	if n == 0 {
		return s
	}
	return string(unicode.ToTitle(r)) + lower(s[n:])
}

func otherwise(_ *evaluator, v any, a *Arguments) any {
	given := a.bind("default", "default_value", "boolean")
	if _, missing := v.(undefined); missing || truth(or(given[1], false)) && !truth(v) {
		return or(given[0], "")
	}
	return v
}

// getter returns the function that finds an attribute, such as "a.b.0", of an item. If the attribute is absent, the
// function returns the item.
func getter(attribute, missing any) func(any) any {
	attribute = or(attribute, nil)
	if attribute == nil {
		return func(item any) any { return item }
	}
	parts := []any{attribute}
	if path, ok := text(attribute); ok {
		parts = nil
		for part := range strings.SplitSeq(path, ".") {
			if n, err := strconv.Atoi(part); err == nil {
				parts = append(parts, n)
			} else {
				parts = append(parts, part)
			}
		}
	}
	return func(v any) any {
		for _, part := range parts {
			v = item(v, part)
			if _, ok := v.(undefined); ok && or(missing, nil) != nil {
				v = missing
			}
		}
		return v
	}
}

// folded returns a text in lower case unless caseSensitive is true, and other values unchanged.
func folded(v, caseSensitive any) any {
	if s, ok := text(v); ok && !truth(or(caseSensitive, false)) {
		return lower(s)
	}
	return v
}

// sorted returns the items in the order of their keys. Items with equal keys keep their order.
func sorted(items []any, key func(any) any, reverse bool) []any {
	keys := make([]any, len(items))
	order := make([]int, len(items))
	for i, item := range items {
		keys[i], order[i] = key(item), i
	}
	slices.SortStableFunc(order, func(i, j int) int {
		switch {
		case reverse && less(keys[i], keys[j]), !reverse && less(keys[j], keys[i]):
			return 1
		case less(keys[i], keys[j]), less(keys[j], keys[i]):
			return -1
		}
		return 0
	})
	result := make([]any, len(items))
	for i, from := range order {
		result[i] = items[from]
	}
	return result
}

func dictSort(_ *evaluator, v any, a *Arguments) any {
	given := a.bind("dictsort", "case_sensitive", "by", "reverse")
	d, ok := v.(*Dict)
	if check(v); !ok {
		fail("dictsort: '%s': expected a mapping", typeName(v))
	}
	by := slices.Index([]any{"key", "value"}, or(given[1], "key"))
	if by < 0 {
		fail(`dictsort: by: expected "key" or "value"`)
	}
	key := func(item any) any { return folded(item.(tuple)[by], given[0]) }
	return List(sorted(d.items(), key, truth(or(given[2], false))))
}

func groupBy(_ *evaluator, v any, a *Arguments) any {
	given := required("groupby", a.bind("groupby", "attribute", "default", "case_sensitive"), 1)
	get := getter(given[0], given[1])
	key := func(item any) any { return folded(get(item), given[2]) }
	var groups List
	for items := sorted(iterate(v), key, false); len(items) > 0; {
		first := key(items[0])
		n := 1
		for n < len(items) && equal(key(items[n]), first) {
			n++
		}
		groups, items = append(groups, tuple{get(items[0]), List(items[:n:n])}), items[n:]
	}
	return groups
}

func batch(_ *evaluator, v any, a *Arguments) any {
	given := required("batch", a.bind("batch", "linecount", "fill_with"), 1)
	n, fill := whole(given[0]), or(given[1], nil)
	if n < 1 {
		fail("batch: %d: expected a number > 0", n)
	}
	g := &generator{}
	for part := range slices.Chunk(iterate(v), n) {
		part = slices.Clone(part)
		for limited(n); fill != nil && len(part) < n; {
			part = append(part, fill)
		}
		g.rest = append(g.rest, List(part))
	}
	return g
}

func sliced(_ *evaluator, v any, a *Arguments) any {
	given := required("slice", a.bind("slice", "slices", "fill_with"), 1)
	n, fill, items := whole(given[0]), or(given[1], nil), iterate(v)
	if limited(n); n == 0 {
		fail("integer division or modulo by zero")
	}
	g := &generator{}
	at := 0
	for i := range n {
		size := len(items) / n
		if i < len(items)%n {
			size++
		}
		part := slices.Clone(items[at : at+size])
		at += size
		if fill != nil && i >= len(items)%n {
			part = append(part, fill)
		}
		g.rest = append(g.rest, List(part))
	}
	return g
}

func mapped(e *evaluator, v any, a *Arguments) any {
	g := &generator{}
	var f func(any) any
	if attribute, ok := a.Named["attribute"]; ok && len(a.Items) == 0 {
		f = getter(attribute, a.bind("map", "attribute", "default")[1])
	} else {
		if len(a.Items) == 0 {
			fail("map: expected a filter")
		}
		name := str(a.Items[0])
		if e.filters[name] == nil {
			fail("the filter %s is not supported", name)
		}
		f = func(item any) any { return e.filters[name](e, item, &Arguments{a.Items[1:], a.Named, a.names}) }
	}
	for _, item := range iterateTrue(v) {
		g.rest = append(g.rest, f(item))
	}
	return g
}

// iterateTrue returns the items of a value, or none if it is false, as None and 0 are.
func iterateTrue(v any) []any {
	if !truth(v) {
		return nil
	}
	return iterate(v)
}

// selected returns one of the filters select, reject, selectattr and rejectattr.
func selected(keep, byAttribute bool) filter {
	return func(e *evaluator, v any, a *Arguments) any {
		given, get := a.Items, getter(nil, nil)
		if byAttribute {
			if len(given) == 0 {
				fail("expected the name of an attribute")
			}
			get, given = getter(given[0], absent{}), given[1:]
		}
		holds := truth
		if len(given) > 0 {
			name := str(given[0])
			if e.tests[name] == nil {
				fail("the test %s is not supported", name)
			}
			holds = func(v any) bool { return e.tests[name](e, v, &Arguments{given[1:], a.Named, a.names}) }
		}
		g := &generator{}
		for _, item := range iterateTrue(v) {
			if holds(get(item)) == keep {
				g.rest = append(g.rest, item)
			}
		}
		return g
	}
}

// extreme returns the filter max or min, whose result is before other items in the order of sign.
func extreme(what, sign string) filter {
	return func(_ *evaluator, v any, a *Arguments) any {
		given, items := a.bind(what, "case_sensitive", "attribute"), iterate(v)
		if len(items) == 0 {
			return undefined{"No aggregated item, sequence was empty."}
		}
		get, best := getter(given[1], absent{}), items[0]
		for _, item := range items[1:] {
			if compares(sign, folded(get(item), given[0]), folded(get(best), given[0])) {
				best = item
			}
		}
		return best
	}
}

var fileUnits = []string{"kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB"}

func fileSize(_ *evaluator, v any, a *Arguments) any {
	size, ok := toFloat(v)
	if !ok {
		fail("filesizeformat: %s: expected a number", repr(v))
	}
	base, infix := 1000.0, ""
	if truth(or(a.bind("filesizeformat", "binary")[0], false)) {
		base, infix = 1024, "i"
	}
	switch {
	case size == 1:
		return "1 Byte"
	case size < base:
		return fmt.Sprintf("%d Bytes", int(size))
	}
	unit := base
	for i, name := range fileUnits {
		if unit *= base; size < unit || i == len(fileUnits)-1 {
			if infix != "" {
				name = strings.ToUpper(name[:1]) + infix + name[1:]
			}
			return strconv.FormatFloat(base*size/unit, 'f', 1, 64) + " " + name
		}
	}
	return nil
}

func indent(_ *evaluator, v any, a *Arguments) any {
	given := a.bind("indent", "width", "first", "blank")
	margin, ok := text(or(given[0], 4))
	if !ok {
		n := max(0, whole(or(given[0], 4)))
		limited(n)
		margin = strings.Repeat(" ", n)
	}
	s, ok := text(v)
	if check(v); !ok {
		fail("indent: '%s': expected a text", typeName(v))
	}
	lines := lines(s+"\n", false)
	for i, line := range lines {
		if i > 0 && (line != "" || truth(or(given[2], false))) || i == 0 && truth(or(given[1], false)) {
			lines[i] = margin + line
		}
	}
	limited(len(margin) * len(lines))
	return strings.Join(lines, "\n")
}

// misplaced reports whether a number has a _ that is not between two digits.
func misplaced(s string) bool { return strings.Contains("_"+s+"_", "__") }

// toFloat is Python's float.
func toFloat(v any) (float64, bool) {
	if isNumber(v) {
		f, _, _ := number(v)
		return f, true
	}
	s, ok := text(v)
	if !ok {
		return 0, false
	}
	s = strings.ToLower(strip(s, nil, true, true))
	if strings.ContainsAny(s, "xp") || misplaced(s) {
		return 0, false
	}
	f, err := strconv.ParseFloat(strings.ReplaceAll(s, "_", ""), 64)
	return f, err == nil || math.IsInf(f, 0)
}

func toInt(_ *evaluator, v any, a *Arguments) any {
	given := a.bind("int", "default", "base")
	check(v)
	base := whole(or(given[1], 10))
	if s, ok := text(v); ok {
		s = strings.ToLower(strip(s, nil, true, true))
		digits := strings.TrimLeft(s, "+-")
		for prefix, b := range map[string]int{"0x": 16, "0o": 8, "0b": 2} {
			if strings.HasPrefix(digits, prefix) && (base == b || base == 0) {
				s, base = strings.Replace(s, prefix, "", 1), b
			}
		}
		if !misplaced(s) {
			if n, err := strconv.ParseInt(strings.ReplaceAll(s, "_", ""), base, 64); err == nil {
				return int(n)
			}
		}
	}
	switch v := v.(type) {
	case bool, int:
		return whole(v)
	case BigNumber:
		return v
	}
	if f, ok := toFloat(v); ok && !math.IsInf(f, 0) && f == f {
		if f = math.Trunc(f); math.Abs(f) >= 1<<63 {
			fail("int: %s: expected a result of 64 bits", floatText(f))
		}
		return int(f)
	}
	return or(given[0], 0)
}

func round(_ *evaluator, v any, a *Arguments) any {
	given := a.bind("round", "precision", "method")
	check(v)
	digits := whole(or(given[0], 0))
	f, i, isInt := number(v)
	method, _ := text(or(given[1], "common"))
	power := math.Pow(10, float64(digits))
	switch method {
	case "common":
		switch {
		case isInt && digits >= 0:
			return i
		case isInt:
			return int(math.RoundToEven(f*math.Pow(10, float64(digits))) * math.Pow(10, float64(-digits)))
		case digits >= 0 && digits < 300:
			rounded, _ := strconv.ParseFloat(strconv.FormatFloat(f, 'f', digits, 64), 64)
			return rounded
		}
		return math.RoundToEven(f*power) / power
	case "ceil":
		return math.Ceil(f*power) / power
	case "floor":
		return math.Floor(f*power) / power
	}
	fail("round: method: expected common, ceil or floor")
	return nil
}

var (
	comments = regexp.MustCompile(`(?s)<!--.*?-->`)
	tags     = regexp.MustCompile(`(?s)<.*?>`)
)

func stripTags(s string) any {
	s = tags.ReplaceAllLiteralString(comments.ReplaceAllLiteralString(s, ""), "")
	return html.UnescapeString(strings.Join(strings.FieldsFunc(s, isSpace), " "))
}

// wordStart matches what precedes the words of the filter title.
var wordStart = regexp.MustCompile(`[-\s({\[<]+`)

func titleFilter(s string) any {
	var b strings.Builder
	for s != "" {
		word, mark := s, ""
		if at := wordStart.FindStringIndex(s); at != nil {
			word, mark, s = s[:at[0]], s[at[0]:at[1]], s[at[1]:]
		} else {
			s = ""
		}
		if r, n := utf8.DecodeRuneInString(word); n > 0 {
			b.WriteString(upper(string(r)) + lower(word[n:]))
		}
		b.WriteString(mark)
	}
	return b.String()
}

func truncate(_ *evaluator, v any, a *Arguments) any {
	given := a.bind("truncate", "length", "killwords", "end", "leeway")
	size, end := whole(or(given[0], 255)), str(or(given[2], "..."))
	leeway := 5
	if l := or(given[3], nil); l != nil {
		leeway = whole(l)
	}
	if size < length(end) || leeway < 0 {
		fail("truncate: %d: expected at least %d", size, length(end))
	}
	if length(v) <= size+leeway {
		return v
	}
	cut := str(slice(v, 0, size-length(end), nil))
	if i := strings.LastIndex(cut, " "); i >= 0 && !truth(or(given[1], false)) {
		cut = cut[:i]
	}
	return cut + end
}

func urlEncode(_ *evaluator, v any, a *Arguments) any {
	a.bind("urlencode")
	quote := func(v any, safe string) string {
		s := strings.ReplaceAll(url.QueryEscape(str(v)), "+", "%20")
		if safe == "/" {
			return strings.ReplaceAll(s, "%2F", "/")
		}
		return strings.ReplaceAll(s, "%20", "+")
	}
	items, ok := iterable(v)
	if _, isText := text(v); isText || !ok {
		return quote(v, "/")
	}
	if d, ok := v.(*Dict); ok {
		items = d.items()
	}
	var parts []string
	for _, item := range items {
		pair := iterate(item)
		if len(pair) != 2 {
			fail("urlencode: expected pairs")
		}
		parts = append(parts, quote(pair[0], "")+"="+quote(pair[1], ""))
	}
	return strings.Join(parts, "&")
}

func xmlAttributes(_ *evaluator, v any, a *Arguments) any {
	given := a.bind("xmlattr", "autospace")
	d, ok := v.(*Dict)
	if check(v); !ok {
		fail("xmlattr: '%s': expected a mapping", typeName(v))
	}
	var parts []string
	for i, key := range d.keys {
		switch d.values[i].(type) {
		case nil, undefined:
			continue
		}
		if strings.ContainsAny(str(key), " \t\n\r\f\v/>=") {
			fail("Invalid character in attribute name: %s", repr(key))
		}
		parts = append(parts, string(escaped(key))+`="`+string(escaped(d.values[i]))+`"`)
	}
	if len(parts) > 0 && truth(or(given[0], true)) {
		parts[0] = " " + parts[0]
	}
	return strings.Join(parts, " ")
}
