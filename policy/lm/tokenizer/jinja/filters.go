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

// allFilters returns the filters that may follow "|".
func allFilters() map[string]function {
	escape := of(func(v any) any { return escaped(v) })
	count := of(func(v any) any { return length(v) })
	otherwise := takes("default_value boolean", otherwise, "", false)
	return map[string]function{
		"abs": of(func(v any) any {
			check(v)
			if f, ok := v.(float64); ok {
				return math.Abs(f)
			}
			if i := whole(v); i < 0 {
				return numeric("-", 0, i)
			} else {
				return i
			}
		}),
		"attr": takes("name", func(v any, given []any) any {
			name := str(given[0])
			if _, isDict := v.(*Mapping); isDict {
				if m := method(v, name); m != nil {
					return m
				}
				return undefined{fmt.Sprintf("'%s' has no attribute '%s'", objectName(v), name)}
			}
			return attribute(v, name)
		}),
		"batch":      takes("linecount fill_with", batch, nil),
		"capitalize": ofText(func(s string) any { return capitalize(s) }),
		"center":     takes("width", func(v any, given []any) any { return center(str(v), whole(given[0]), " ") }, 80),
		"count":      count, "length": count, "d": otherwise, "default": otherwise,
		"dictsort": takes("case_sensitive by reverse", dictSort, false, "key", false),
		"e":        escape, "escape": escape,
		"filesizeformat": takes("binary", fileSize, false),
		"first": of(func(v any) any {
			if g, ok := v.(*generator); ok && len(g.rest) > 0 {
				first := g.rest[0]
				g.rest = g.rest[1:]
				return first
			}
			if items := iterate(v); len(items) > 0 {
				return items[0]
			}
			return undefined{"No first item, sequence was empty."}
		}),
		"float": takes("default", func(v any, given []any) any {
			check(v)
			if f, ok := toFloat(v); ok {
				return f
			}
			return given[0]
		}, 0.0),
		"forceescape": ofText(func(s string) any { return escaped(s) }),
		"format": {all: func(_ *evaluator, v any, a *Arguments) any {
			if len(a.Named) == 0 {
				return percent(str(v), tuple(a.Items))
			}
			if len(a.Items) > 0 {
				fail("format: positional and named arguments: expected one kind")
			}
			return percent(str(v), dictOf("format", a))
		}},
		"groupby": takes("attribute default case_sensitive", groupBy, nil, false),
		"indent":  takes("width first blank", indent, 4, false, false),
		"int":     takes("default base", toInt, 0, 10),
		"items": of(func(v any) any {
			switch d := v.(type) {
			case undefined:
				return &generator{}
			case *Mapping:
				return &generator{d.items()}
			}
			fail("Can only get item pairs from a mapping.")
			return nil
		}),
		"join": takes("d attribute", func(v any, given []any) any {
			items, get := slices.Clone(iterate(v)), getter(given[1], nil)
			for i, item := range items {
				items[i] = get(item)
			}
			return join(items, str(given[0]))
		}, "", nil),
		"last": of(func(v any) any {
			if _, ok := v.(*generator); ok {
				fail("'generator' object is not reversible")
			}
			if items := iterate(v); len(items) > 0 {
				return items[len(items)-1]
			}
			return undefined{"No last item, sequence was empty."}
		}),
		"list":       of(func(v any) any { return List(slices.Clone(iterate(v))) }),
		"lower":      ofText(func(s string) any { return lower(s) }),
		"map":        {all: mapped},
		"max":        extreme(">"),
		"min":        extreme("<"),
		"reject":     selected(false, false),
		"rejectattr": selected(false, true),
		"replace": takes("old new count", func(v any, given []any) any {
			return strings.Replace(str(v), str(given[0]), str(given[1]), atMost(given[2]))
		}, nil),
		"reverse": of(func(v any) any {
			items := slices.Clone(iterate(v))
			slices.Reverse(items)
			if _, ok := text(v); ok {
				return join(items, "")
			}
			return &generator{items}
		}),
		"round":      takes("precision method", round, 0, "common"),
		"safe":       ofText(func(s string) any { return markup(s) }),
		"select":     selected(true, false),
		"selectattr": selected(true, true),
		"slice":      takes("slices fill_with", sliced, nil),
		"sort": takes("reverse case_sensitive attribute", func(v any, given []any) any {
			var keys []func(any) any
			if attributes, ok := text(given[2]); ok {
				for part := range strings.SplitSeq(attributes, ",") {
					keys = append(keys, getter(part, nil))
				}
			} else {
				keys = append(keys, getter(given[2], nil))
			}
			return List(sorted(iterate(v), func(item any) any {
				key := make(List, len(keys))
				for i, get := range keys {
					key[i] = folded(get(item), given[1])
				}
				return key
			}, truth(given[0])))
		}, false, false, nil),
		"string": of(func(v any) any {
			if m, ok := v.(markup); ok {
				return m
			}
			return str(v)
		}),
		"striptags": ofText(stripTags),
		"sum": takes("attribute start", func(v any, given []any) any {
			total, get := given[1], getter(given[0], nil)
			for _, item := range iterate(v) {
				total = arithmetic("+", total, get(item))
			}
			return total
		}, nil, 0),
		"title":    ofText(titleFilter),
		"tojson":   takes("ensure_ascii indent separators sort_keys", toJSON, false, nil, nil, false),
		"trim":     takes("chars", func(v any, given []any) any { return strip(str(v), given[0], true, true) }, nil),
		"truncate": takes("length killwords end leeway", truncate, 255, false, "...", nil),
		"unique": takes("case_sensitive attribute", func(v any, given []any) any {
			get := getter(given[1], nil)
			seen := map[string]bool{}
			g := &generator{}
			for _, item := range iterate(v) {
				if h := hash(folded(get(item), given[0])); !seen[h] {
					seen[h] = true
					g.rest = append(g.rest, item)
				}
			}
			return g
		}, false, nil),
		"upper":     ofText(func(s string) any { return upper(s) }),
		"urlencode": of(urlEncode),
		"wordcount": ofText(func(s string) any {
			return len(strings.FieldsFunc(s, func(r rune) bool {
				return r != '_' && !unicode.IsLetter(r) && !unicode.IsNumber(r)
			}))
		}),
		"xmlattr": takes("autospace", xmlAttributes, true),
	}
}

var escapeHTML = strings.NewReplacer("&", "&amp;", ">", "&gt;", "<", "&lt;", "'", "&#39;", `"`, "&#34;")

// escaped returns a value as text, escaped for HTML.
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

func otherwise(v any, given []any) any {
	if _, missing := v.(undefined); missing || truth(given[1]) && !truth(v) {
		return given[0]
	}
	return v
}

// getter returns a function that finds an attribute of an item, such as "a.b.0". If attribute is nil, the function
// returns the item itself. The argument missing, unless nil, replaces undefined values.
func getter(attribute, missing any) func(any) any {
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
			if _, ok := v.(undefined); ok && missing != nil {
				v = missing
			}
		}
		return v
	}
}

// folded returns a text in lower case unless caseSensitive is true, and other values unchanged.
func folded(v, caseSensitive any) any {
	if s, ok := text(v); ok && !truth(caseSensitive) {
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

// mapping returns v as a mapping. It fails if v is not a mapping.
func mapping(what string, v any) *Mapping {
	d, ok := v.(*Mapping)
	if check(v); !ok {
		fail("%s: '%s': expected a mapping", what, typeName(v))
	}
	return d
}

func dictSort(v any, given []any) any {
	d := mapping("dictsort", v)
	by := slices.Index([]any{"key", "value"}, given[1])
	if by < 0 {
		fail(`dictsort: by: expected "key" or "value"`)
	}
	key := func(item any) any { return folded(item.(tuple)[by], given[0]) }
	return List(sorted(d.items(), key, truth(given[2])))
}

func groupBy(v any, given []any) any {
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

func batch(v any, given []any) any {
	n, fill := whole(given[0]), given[1]
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

func sliced(v any, given []any) any {
	n, fill, items := whole(given[0]), given[1], iterate(v)
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
	var get func(any) any
	if _, ok := a.Named["attribute"]; ok && len(a.Items) == 0 {
		given := a.bind("map", []string{"attribute", "default"}, []any{nil})
		get = getter(given[0], given[1])
	} else {
		get = named(e, "filter", e.filters, a)
	}
	for _, item := range iterateTrue(v) {
		g.rest = append(g.rest, get(item))
	}
	return g
}

// named returns a function that applies a filter or test to an item. The first argument in a is the name of the filter
// or test, and the other arguments are passed on to it.
func named(e *evaluator, kind string, all map[string]function, a *Arguments) func(any) any {
	if len(a.Items) == 0 {
		fail("expected a %s", kind)
	}
	name := str(a.Items[0])
	f, ok := all[name]
	if !ok {
		fail("the %s %s is not supported", kind, name)
	}
	return func(item any) any { return f.call(e, name, item, a.rest(1)) }
}

// iterateTrue returns the items of a value, or nil if the value is false, such as None or 0.
func iterateTrue(v any) []any {
	if !truth(v) {
		return nil
	}
	return iterate(v)
}

// selected returns one of the filters select, reject, selectattr and rejectattr.
func selected(keep, byAttribute bool) function {
	return function{all: func(e *evaluator, v any, a *Arguments) any {
		get := getter(nil, nil)
		if byAttribute {
			if len(a.Items) == 0 {
				fail("expected the name of an attribute")
			}
			get, a = getter(a.Items[0], nil), a.rest(1)
		}
		holds := func(v any) any { return v }
		if len(a.Items) > 0 {
			holds = named(e, "test", e.tests, a)
		}
		g := &generator{}
		for _, item := range iterateTrue(v) {
			if truth(holds(get(item))) == keep {
				g.rest = append(g.rest, item)
			}
		}
		return g
	}}
}

// extreme returns the filter max for the sign ">", and the filter min for the sign "<".
func extreme(sign string) function {
	return takes("case_sensitive attribute", func(v any, given []any) any {
		items := iterate(v)
		if len(items) == 0 {
			return undefined{"No aggregated item, sequence was empty."}
		}
		get, best := getter(given[1], nil), items[0]
		for _, item := range items[1:] {
			if compares(sign, folded(get(item), given[0]), folded(get(best), given[0])) {
				best = item
			}
		}
		return best
	}, false, nil)
}

var fileUnits = []string{"kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB"}

func fileSize(v any, given []any) any {
	size, ok := toFloat(v)
	if !ok {
		fail("filesizeformat: %s: expected a number", repr(v))
	}
	base, infix := 1000.0, ""
	if truth(given[0]) {
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

func indent(v any, given []any) any {
	margin, ok := text(given[0])
	if !ok {
		n := max(0, whole(given[0]))
		limited(n)
		margin = strings.Repeat(" ", n)
	}
	s, ok := text(v)
	if check(v); !ok {
		fail("indent: '%s': expected a text", typeName(v))
	}
	lines := lines(s+"\n", false)
	for i, line := range lines {
		if i > 0 && (line != "" || truth(given[2])) || i == 0 && truth(given[1]) {
			lines[i] = margin + line
		}
	}
	limited(len(margin) * len(lines))
	return strings.Join(lines, "\n")
}

// misplaced reports whether a number has a _ that is not between two digits.
func misplaced(s string) bool { return strings.Contains("_"+s+"_", "__") }

// toFloat is Python's float. It returns false if v is neither a number nor the text of a number.
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

func toInt(v any, given []any) any {
	check(v)
	base := whole(given[1])
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
	return given[0]
}

func round(v any, given []any) any {
	check(v)
	digits := whole(given[0])
	f, i, isInt := number(v)
	method, _ := text(given[1])
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

// wordStart matches the characters before a word in the filter title.
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

func truncate(v any, given []any) any {
	size, end := whole(given[0]), str(given[2])
	leeway := 5
	if given[3] != nil {
		leeway = whole(given[3])
	}
	if size < length(end) || leeway < 0 {
		fail("truncate: %d: expected at least %d", size, length(end))
	}
	if length(v) <= size+leeway {
		return v
	}
	cut := str(slice(v, 0, size-length(end), nil))
	if i := strings.LastIndex(cut, " "); i >= 0 && !truth(given[1]) {
		cut = cut[:i]
	}
	return cut + end
}

func urlEncode(v any) any {
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
	if d, ok := v.(*Mapping); ok {
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

func xmlAttributes(v any, given []any) any {
	d := mapping("xmlattr", v)
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
	if len(parts) > 0 && truth(given[0]) {
		parts[0] = " " + parts[0]
	}
	return strings.Join(parts, " ")
}
