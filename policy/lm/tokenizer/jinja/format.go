package jinja

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// directive matches a directive of Python's % operator: name, flags, width, precision, conversion.
var directive = regexp.MustCompile(`^%(\([^)]*\))?([-+ 0#]*)([0-9]{1,6}|\*)?(\.[0-9]{1,4})?[hlL]?([srdiufFeEgGxXoc%])`)

// A layout says how to format a value.
type layout struct {
	fill      string
	align     byte // <, >, ^ or =
	sign      byte // -, + or a space
	zero      bool // zeros after the sign
	alternate bool // 0x before a hexadecimal number
	comma     string
	width     int
	precision int // -1 for none
	kind      byte
}

// percent formats a value as a directive of the % operator does.
func (l layout) percent(v any) string {
	switch l.kind {
	case 's', 'r', 'c':
		s := str(v)
		if l.kind == 'r' {
			s = repr(v)
		}
		if n, ok := v.(int); l.kind == 'c' && ok {
			s = string(rune(n))
		}
		l.zero, l.kind = false, 's'
		return l.text(s)
	case 'd', 'i', 'u':
		l.kind = 'd'
		check(v)
		if f, ok := v.(float64); ok {
			v = int(f)
		}
		if !isNumber(v) {
			fail("%%d format: a real number is required, not %s", typeName(v))
		}
	}
	if l.align != '<' && l.zero {
		l.align = '='
	}
	return l.number(v)
}

// text formats a text: it cuts the text to the precision, and pads it to the width.
func (l layout) text(s string) string {
	if l.precision >= 0 {
		s = str(slice(s, nil, l.precision, nil))
	}
	if l.align == 0 {
		l.align = '<'
	}
	return l.padded("", s)
}

// padded returns a sign and digits, filled up to the width.
func (l layout) padded(sign, s string) string {
	fill := l.fill
	if fill == "" {
		fill = " "
		if l.zero {
			fill = "0"
		}
	}
	limited(l.width)
	missing := max(0, l.width-utf8.RuneCountInString(sign+s))
	switch l.align {
	case '<':
		if l.zero {
			fill = " "
		}
		return sign + s + strings.Repeat(fill, missing)
	case '^':
		return strings.Repeat(fill, missing/2) + sign + s + strings.Repeat(fill, missing-missing/2)
	case '=':
		return sign + strings.Repeat(fill, missing) + s
	}
	return strings.Repeat(fill, missing) + sign + s
}

func (l layout) number(v any) string {
	check(v)
	f, i, isInt := number(v)
	sign := ""
	switch {
	case f < 0 || math.Signbit(f):
		sign = "-"
	case l.sign != '-' && l.sign != 0:
		sign = string(l.sign)
	}
	bases := map[byte]int{'d': 10, 'x': 16, 'X': 16, 'o': 8, 'b': 2}
	digits := ""
	if base := bases[l.kind]; base > 0 {
		if !isInt {
			fail("%%%c format: an integer is required, not %s", l.kind, typeName(v))
		}
		digits = strings.TrimPrefix(strconv.FormatInt(int64(i), base), "-")
		if l.kind == 'X' {
			digits = strings.ToUpper(digits)
		}
		digits = strings.Repeat("0", max(0, l.precision-len(digits))) + digits
		if l.alternate && l.kind != 'd' {
			sign += "0" + string(l.kind)
		}
	} else {
		precision := l.precision
		if precision < 0 {
			precision = 6
		}
		f = math.Abs(f)
		switch l.kind {
		case 'f', 'F':
			digits = strconv.FormatFloat(f, 'f', precision, 64)
		case 'e', 'E':
			digits = strconv.FormatFloat(f, l.kind, precision, 64)
		case 'g', 'G':
			if digits = floatText(f); !math.IsInf(f, 0) && f == f {
				digits = strconv.FormatFloat(f, l.kind, max(1, precision), 64)
			}
		case '%':
			digits = strconv.FormatFloat(f*100, 'f', precision, 64) + "%"
		default:
			digits = floatText(f)
		}
	}
	if l.comma != "" {
		whole, rest := digits, ""
		if at := strings.IndexAny(digits, ".e%"); at >= 0 {
			whole, rest = digits[:at], digits[at:]
		}
		for i := len(whole) - 3; i > 0; i -= 3 {
			whole = whole[:i] + l.comma + whole[i:]
		}
		digits = whole + rest
	}
	if l.align == 0 {
		l.align = '>'
		if l.zero {
			l.align = '='
		}
	}
	return l.padded(sign, digits)
}

var (
	field      = regexp.MustCompile(`^\{([^{}!:]*)(?:!([rsa]))?(?::([^{}]*))?\}`)
	formatSpec = regexp.MustCompile(
		`^(?:(.)?([<>=^]))?([-+ ])?(#)?(0)?([0-9]{1,6})?([,_])?(?:\.([0-9]{1,4}))?([sdxXobfFeEgG%c])?$`)
	fieldPath = regexp.MustCompile(`^([A-Za-z0-9_]*)((?:\.[A-Za-z0-9_]+|\[[^\]]+\])*)$`)
	fieldStep = regexp.MustCompile(`\.([A-Za-z0-9_]+)|\[([^\]]+)\]`)
)

// format is Python's str.format.
func format(s string, a *Arguments) any {
	var b strings.Builder
	at := 0
	for s != "" {
		i := strings.IndexAny(s, "{}")
		if i < 0 {
			break
		}
		b.WriteString(s[:i])
		if s = s[i:]; strings.HasPrefix(s, "{{") || strings.HasPrefix(s, "}}") {
			b.WriteByte(s[0])
			s = s[2:]
			continue
		}
		m := field.FindStringSubmatch(s)
		if m == nil {
			fail("format: %s: expected a field", s)
		}
		s = s[len(m[0]):]
		path := fieldPath.FindStringSubmatch(m[1])
		if path == nil {
			fail("format: {%s}: expected a name or a number", m[1])
		}
		v, found := a.Named[path[1]]
		if index, err := strconv.Atoi(path[1]); path[1] == "" || err == nil {
			if path[1] == "" {
				index = at
				at++
			}
			if found = index < len(a.Items); found {
				v = a.Items[index]
			}
		}
		if !found {
			fail("format: no argument for {%s}", m[1])
		}
		for _, step := range fieldStep.FindAllStringSubmatch(path[2], -1) {
			if index, err := strconv.Atoi(step[2]); step[1] != "" {
				v = attribute(v, step[1])
			} else if err == nil {
				v = item(v, index)
			} else {
				v = item(v, step[2])
			}
		}
		if m[2] == "r" || m[2] == "a" {
			v = repr(v)
		} else if m[2] == "s" {
			v = str(v)
		}
		b.WriteString(formatted(v, m[3]))
		limited(b.Len())
	}
	return b.String() + s
}

// formatted is Python's format(v, spec).
func formatted(v any, spec string) string {
	if spec == "" {
		return str(v)
	}
	m := formatSpec.FindStringSubmatch(spec)
	if m == nil {
		fail("Invalid format specifier '%s'", spec)
	}
	l := layout{fill: m[1], zero: m[5] != "", alternate: m[4] != "", comma: m[7], precision: -1}
	if m[2] != "" {
		l.align = m[2][0]
	}
	if m[3] != "" {
		l.sign = m[3][0]
	}
	l.width, _ = strconv.Atoi(m[6])
	if m[8] != "" {
		l.precision, _ = strconv.Atoi(m[8])
	}
	if m[9] != "" {
		l.kind = m[9][0]
	}
	if !isNumber(v) {
		if l.kind != 0 && l.kind != 's' {
			fail("Unknown format code '%c' for object of type '%s'", l.kind, typeName(v))
		}
		return l.text(str(v))
	}
	if _, isFloat := v.(float64); l.kind == 0 && !isFloat {
		l.kind = 'd'
	} else if l.kind == 0 && l.precision >= 0 {
		l.kind = 'g'
	}
	return l.number(v)
}

// A jsonStyle is a layout of JSON. Its fields are options of Python's json.dumps.
type jsonStyle struct {
	item, key string // separators of items, and of a key and its value
	indent    string // indentation of each level, if lines is true
	lines     bool   // each item is on a line of its own
	sort      bool   // sort keys
	ascii     bool   // write characters that are not ASCII as \uXXXX
}

// toJSON is the filter tojson of apply_chat_template: Python's json.dumps.
func toJSON(v any, given []any) any {
	style := jsonStyle{item: ", ", key: ": ", ascii: truth(given[0]), sort: truth(given[3])}
	switch width := given[1].(type) {
	case nil:
	case string:
		style.lines, style.indent = true, width
	default:
		n := max(0, whole(width))
		limited(n)
		style.lines, style.indent = true, strings.Repeat(" ", n)
	}
	if style.lines {
		style.item = ","
	}
	if separators := given[2]; separators != nil {
		pair := iterate(separators)
		if len(pair) != 2 {
			fail("tojson: separators: expected two texts")
		}
		style.item, style.key = str(pair[0]), str(pair[1])
	}
	var b strings.Builder
	style.write(&b, v, 0)
	return b.String()
}

func (s *jsonStyle) write(b *strings.Builder, v any, level int) {
	if level > maxDepth {
		fail("tojson: a value nested too deep")
	}
	limited(b.Len())
	switch v := v.(type) {
	case nil:
		b.WriteString("null")
	case bool:
		b.WriteString(strconv.FormatBool(v))
	case int:
		b.WriteString(strconv.Itoa(v))
	case BigNumber:
		b.WriteString(string(v))
	case float64:
		b.WriteString(jsonFloat(v))
	case string:
		s.quote(b, v)
	case markup:
		s.quote(b, string(v))
	case *Mapping:
		s.object(b, v, level)
	case List:
		s.list(b, v, level)
	case tuple:
		s.list(b, List(v), level)
	default:
		fail("tojson: an object of type %s is not JSON serializable", typeName(v))
	}
}

func jsonFloat(f float64) string {
	text := floatText(f)
	if name, ok := map[string]string{"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[text]; ok {
		return name
	}
	return text
}

func (s *jsonStyle) list(b *strings.Builder, l List, level int) {
	b.WriteByte('[')
	for i, item := range l {
		s.separate(b, i, level+1)
		s.write(b, item, level+1)
	}
	s.close(b, len(l), level, ']')
}

func (s *jsonStyle) object(b *strings.Builder, d *Mapping, level int) {
	items := d.items()
	if s.sort {
		items = sorted(items, func(item any) any { return item.(tuple)[0] }, false)
	}
	b.WriteByte('{')
	for i, item := range items {
		s.separate(b, i, level+1)
		key, value := item.(tuple)[0], item.(tuple)[1]
		switch k := key.(type) {
		case string, markup:
			s.quote(b, str(k))
		case nil, bool, int, float64, BigNumber:
			var text strings.Builder
			s.write(&text, k, level)
			s.quote(b, text.String())
		default:
			fail("tojson: keys must be str, int, float, bool or None, not %s", typeName(key))
		}
		b.WriteString(s.key)
		s.write(b, value, level+1)
	}
	s.close(b, len(items), level, '}')
}

func (s *jsonStyle) separate(b *strings.Builder, i, level int) {
	if i > 0 {
		b.WriteString(s.item)
	}
	if s.lines {
		b.WriteString("\n" + strings.Repeat(s.indent, level))
	}
}

func (s *jsonStyle) close(b *strings.Builder, items, level int, end byte) {
	if s.lines && items > 0 {
		b.WriteString("\n" + strings.Repeat(s.indent, level))
	}
	b.WriteByte(end)
}

func (s *jsonStyle) quote(b *strings.Builder, text string) {
	b.WriteByte('"')
	for _, r := range text {
		switch i := strings.IndexRune("\"\\\n\r\t\b\f", r); {
		case i >= 0:
			b.WriteString(`\` + `"\nrtbf`[i:i+1])
		case r < ' ' || s.ascii && 0x7f < r && r < 0x10000:
			fmt.Fprintf(b, `\u%04x`, r)
		case s.ascii && r >= 0x10000:
			fmt.Fprintf(b, `\u%04x\u%04x`, 0xd800+(r-0x10000)>>10, 0xdc00+(r-0x10000)&0x3ff)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
}
