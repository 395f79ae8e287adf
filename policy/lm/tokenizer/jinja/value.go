package jinja

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The types of values, besides nil (None), string, bool, int and float64.
type (
	// A List is a list. Templates cannot change it.
	List  []any
	tuple []any
	// A Mapping is a mapping that keeps the order of its keys.
	Mapping struct {
		keys, values []any
		index        map[string]int
	}
	// A view is what the methods keys, values and items of a mapping return.
	view struct {
		name  string
		items []any
	}
	// A generator yields its items once.
	generator struct{ rest []any }
	numbers   struct{ start, stop, step int } // a range
	namespace struct{ fields *Mapping }
	// markup is a text that the filters escape and safe return.
	markup string
	// BigNumber has the digits of a whole number beyond 64 bits. Templates can only write it.
	BigNumber string
	// undefined is the value of a missing variable, attribute or item. The text says what is missing.
	undefined struct{ text string }
	// A Function is a function that templates can call. An error ends the rendering, which returns this error.
	Function func(a *Arguments) (any, error)
	builtin  struct {
		name string
		call func(e *evaluator, a *Arguments) any
	}
)

// fail ends the evaluation with an error.
func fail(format string, values ...any) { panic(fmt.Errorf(format, values...)) }

// NewMapping returns an empty mapping.
func NewMapping() *Mapping { return &Mapping{index: map[string]int{}} }

// Set sets the value of a key.
func (d *Mapping) Set(key, value any) {
	h := hash(key)
	if i, ok := d.index[h]; ok {
		d.values[i] = value
		return
	}
	d.index[h] = len(d.keys)
	d.keys, d.values = append(d.keys, key), append(d.values, value)
}

func (d *Mapping) get(key any) (any, bool) {
	if i, ok := d.index[hash(key)]; ok {
		return d.values[i], true
	}
	return nil, false
}

func (d *Mapping) items() []any {
	items := make([]any, len(d.keys))
	for i := range items {
		items[i] = tuple{d.keys[i], d.values[i]}
	}
	return items
}

// hash returns a text that is equal for equal keys.
func hash(key any) string {
	switch k := key.(type) {
	case string:
		return "s" + k
	case markup:
		return "s" + string(k)
	case tuple:
		var b strings.Builder
		b.WriteString("t")
		for _, item := range k {
			h := hash(item)
			b.WriteString(strconv.Itoa(len(h)) + ":" + h)
		}
		return b.String()
	case bool, int, float64:
		if f, i, isInt := number(k); isInt {
			return "n" + strconv.Itoa(i)
		} else if f == math.Trunc(f) && math.Abs(f) < 1<<53 {
			return "n" + strconv.Itoa(int(f))
		} else {
			return "f" + strconv.FormatFloat(f, 'g', -1, 64)
		}
	case nil, BigNumber, undefined:
		return fmt.Sprintf("%T%v", k, k)
	case List, *Mapping, view:
		fail("unhashable type: '%s'", typeName(key))
	}
	return fmt.Sprintf("%T%p", key, key)
}

// typeNames are Python's names of the types of values. Other values are functions.
var typeNames = map[reflect.Type]string{nil: "NoneType", reflect.TypeFor[string](): "str",
	reflect.TypeFor[markup](): "Markup", reflect.TypeFor[bool](): "bool", reflect.TypeFor[int](): "int",
	reflect.TypeFor[BigNumber](): "int", reflect.TypeFor[float64](): "float", reflect.TypeFor[List](): "list",
	reflect.TypeFor[tuple](): "tuple", reflect.TypeFor[*Mapping](): "dict", reflect.TypeFor[*generator](): "generator",
	reflect.TypeFor[numbers](): "range", reflect.TypeFor[*namespace](): "Namespace",
	reflect.TypeFor[undefined](): "Undefined"}

// typeName returns Python's name of the type of a value.
func typeName(v any) string {
	if v, ok := v.(view); ok {
		return v.name
	}
	return cmp.Or(typeNames[reflect.TypeOf(v)], "function")
}

// number returns a number as a float64, and as an int if it is a whole number or a truth value.
func number(v any) (f float64, i int, isInt bool) {
	switch v := v.(type) {
	case bool:
		if v {
			return 1, 1, true
		}
		return 0, 0, true
	case int:
		return float64(v), v, true
	case float64:
		return v, 0, false
	}
	fail("'%s': expected a number", typeName(v))
	return
}

func isNumber(v any) bool {
	switch v.(type) {
	case bool, int, float64:
		return true
	}
	return false
}

// whole returns v as an integer. It fails if v is not a whole number.
func whole(v any) int {
	switch v := v.(type) {
	case bool, int:
		_, i, _ := number(v)
		return i
	}
	fail("'%s' object cannot be interpreted as an integer", typeName(v))
	return 0
}

// text returns the text of a string or markup.
func text(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case markup:
		return string(v), true
	}
	return "", false
}

// check ends the evaluation if v is undefined.
func check(v any) {
	if u, ok := v.(undefined); ok {
		fail("%s", u.text)
	}
}

func truth(v any) bool {
	switch v := v.(type) {
	case nil, undefined:
		return false
	case bool:
		return v
	case int:
		return v != 0
	case float64:
		return v != 0
	case *generator, *namespace, Function, builtin, *loop, BigNumber:
		return true
	}
	return length(v) > 0
}

func length(v any) int {
	switch v := v.(type) {
	case string:
		return utf8.RuneCountInString(v)
	case markup:
		return utf8.RuneCountInString(string(v))
	case List:
		return len(v)
	case tuple:
		return len(v)
	case view:
		return len(v.items)
	case *Mapping:
		return len(v.keys)
	case numbers:
		return v.len()
	case *loop:
		return len(v.items)
	case undefined:
		return 0
	}
	fail("object of type '%s' has no len()", typeName(v))
	return 0
}

func (r numbers) len() int {
	if r.step > 0 {
		return max(0, (r.stop-r.start+r.step-1)/r.step)
	}
	return max(0, (r.start-r.stop-r.step-1)/-r.step)
}

func (r numbers) items() []any {
	items := make([]any, r.len())
	for i := range items {
		items[i] = r.start + i*r.step
	}
	return items
}

// iterable returns the items of a value. ok reports whether a loop over the value is possible.
func iterable(v any) (items []any, ok bool) {
	switch v := v.(type) {
	case string, markup:
		s, _ := text(v)
		for _, r := range s {
			items = append(items, string(r))
		}
	case List:
		items = v
	case tuple:
		items = v
	case view:
		items = v.items
	case *Mapping:
		items = v.keys
	case numbers:
		items = v.items()
	case *generator:
		items, v.rest = v.rest, nil
	case *loop:
		items = v.items
	case undefined:
	default:
		return nil, false
	}
	return items, true
}

func iterate(v any) []any {
	items, ok := iterable(v)
	if !ok {
		fail("'%s' object is not iterable", typeName(v))
	}
	return items
}

// Text returns what a template writes for a value: Python's str.
func Text(v any) string { return str(v) }

// str is Python's str.
func str(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case markup:
		return string(v)
	case undefined:
		return ""
	}
	return repr(v)
}

// repr is Python's repr.
func repr(v any) string {
	var b strings.Builder
	represent(&b, v, 0)
	return b.String()
}

// maxDepth is the maximum depth of nested values. A namespace can contain itself.
const maxDepth = 100

func represent(b *strings.Builder, v any, depth int) {
	if depth > maxDepth {
		fail("a value nested too deep")
	}
	all := func(open string, items []any, end string) {
		b.WriteString(open)
		for i, item := range items {
			if i > 0 {
				b.WriteString(", ")
			}
			represent(b, item, depth+1)
		}
		b.WriteString(end)
	}
	switch v := v.(type) {
	case nil:
		b.WriteString("None")
	case bool:
		b.WriteString(map[bool]string{true: "True", false: "False"}[v])
	case int:
		b.WriteString(strconv.Itoa(v))
	case BigNumber:
		b.WriteString(string(v))
	case float64:
		b.WriteString(floatText(v))
	case string:
		quote(b, v)
	case markup:
		b.WriteString("Markup(")
		quote(b, string(v))
		b.WriteString(")")
	case List:
		all("[", v, "]")
	case tuple:
		if len(v) == 1 {
			all("(", v, ",)")
		} else {
			all("(", v, ")")
		}
	case view:
		all(v.name+"([", v.items, "])")
	case *Mapping:
		b.WriteString("{")
		for i, key := range v.keys {
			if i > 0 {
				b.WriteString(", ")
			}
			represent(b, key, depth+1)
			b.WriteString(": ")
			represent(b, v.values[i], depth+1)
		}
		b.WriteString("}")
	case numbers:
		fmt.Fprintf(b, "range(%d, %d", v.start, v.stop)
		if v.step != 1 {
			fmt.Fprintf(b, ", %d", v.step)
		}
		b.WriteString(")")
	case *namespace:
		b.WriteString("<Namespace ")
		represent(b, v.fields, depth+1)
		b.WriteString(">")
	case undefined:
		b.WriteString("Undefined")
	case *generator:
		fail("a generator has no text: expected the filter list after it")
	default:
		fail("a function has no text")
	}
}

// quote writes a text as Python's repr does.
func quote(b *strings.Builder, s string) {
	mark := byte('\'')
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		mark = '"'
	}
	b.WriteByte(mark)
	for _, r := range s {
		i := strings.IndexRune("\t\n\r\\"+string(mark), r)
		switch {
		case i >= 0:
			b.WriteString([]string{`\t`, `\n`, `\r`, `\\`, `\` + string(mark)}[i])
		case unicode.IsPrint(r):
			b.WriteRune(r)
		case r < 0x100:
			fmt.Fprintf(b, `\x%02x`, r)
		case r < 0x10000:
			fmt.Fprintf(b, `\u%04x`, r)
		default:
			fmt.Fprintf(b, `\U%08x`, r)
		}
	}
	b.WriteByte(mark)
}

// floatText is Python's repr of a number.
func floatText(f float64) string {
	switch {
	case math.IsNaN(f):
		return "nan"
	case math.IsInf(f, 0):
		return map[bool]string{true: "inf", false: "-inf"}[f > 0]
	}
	e := strconv.FormatFloat(f, 'e', -1, 64)
	if exponent, _ := strconv.Atoi(e[strings.IndexByte(e, 'e')+1:]); f != 0 && (exponent < -4 || exponent >= 16) {
		return e
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

func equal(a, b any) bool {
	if isNumber(a) && isNumber(b) {
		f, i, isInt := number(a)
		g, j, isInteger := number(b)
		if isInt && isInteger {
			return i == j
		}
		return f == g
	}
	s, isText := text(a)
	t, isString := text(b)
	if isText || isString {
		return isText && isString && s == t
	}
	switch a := a.(type) {
	case List, tuple:
		x, y, ok := sequences(a, b)
		return ok && slices.EqualFunc(x, y, equal)
	case *Mapping:
		b, ok := b.(*Mapping)
		if !ok || len(a.keys) != len(b.keys) {
			return false
		}
		for i, key := range a.keys {
			if v, ok := b.get(key); !ok || !equal(a.values[i], v) {
				return false
			}
		}
		return true
	case numbers:
		b, ok := b.(numbers)
		return ok && slices.EqualFunc(a.items(), b.items(), equal)
	case view:
		b, ok := b.(view)
		return ok && a.name == b.name && a.name != "dict_values" && len(a.items) == len(b.items) &&
			!slices.ContainsFunc(a.items, func(v any) bool { return !contains(List(b.items), v) })
	case undefined:
		_, ok := b.(undefined)
		return ok
	case Function, builtin:
		return false
	}
	return a == b
}

// compare returns a negative number, 0 or a positive number if a is before, equal to or after b. It fails if they have
// no order. Errors name the comparison sign.
func compare(a, b any, sign string) int {
	check(a)
	check(b)
	if isNumber(a) && isNumber(b) {
		f, i, isInt := number(a)
		g, j, isInteger := number(b)
		switch {
		case isInt && isInteger && i < j, f < g:
			return -1
		case isInt && isInteger && i > j, f > g:
			return 1
		}
		return 0
	}
	s, isText := text(a)
	t, isString := text(b)
	if isText && isString {
		return strings.Compare(s, t)
	}
	x, y, ok := sequences(a, b)
	if !ok {
		fail("'%s' not supported between instances of '%s' and '%s'", sign, typeName(a), typeName(b))
	}
	for i := range min(len(x), len(y)) {
		if !equal(x[i], y[i]) {
			return compare(x[i], y[i], sign)
		}
	}
	return len(x) - len(y)
}

// sequence returns the items of a list or tuple.
func sequence(v any) (items []any, ok bool) {
	switch v := v.(type) {
	case List:
		return v, true
	case tuple:
		return v, true
	}
	return nil, false
}

// sequences returns the items of two lists or of two tuples.
func sequences(a, b any) (x, y []any, ok bool) {
	x, isSequence := sequence(a)
	y, ok = sequence(b)
	return x, y, ok && isSequence && typeName(a) == typeName(b)
}

// like returns items as a tuple if v is a tuple, and otherwise as a list.
func like(v any, items []any) any {
	if _, ok := v.(tuple); ok {
		return tuple(items)
	}
	return List(items)
}

func less(a, b any) bool { return compare(a, b, "<") < 0 }

func contains(set, v any) bool {
	switch set := set.(type) {
	case string, markup:
		s, _ := text(set)
		t, ok := text(v)
		if !ok {
			fail("'in <string>' requires string as left operand, not %s", typeName(v))
		}
		return strings.Contains(s, t)
	case *Mapping:
		_, ok := set.get(v)
		return ok
	case *namespace, nil, bool, int, float64, Function, builtin:
		fail("argument of type '%s' is not iterable", typeName(set))
	}
	return slices.ContainsFunc(iterate(set), func(item any) bool { return equal(item, v) })
}

// maxText is the maximum number of bytes or items of a value that a template makes.
const maxText = 1 << 26

func limited(n int) {
	if n < 0 || n > maxText {
		fail("a value with %d items: expected at most %d", n, maxText)
	}
}

// arithmetic returns the result of an operation, such as a + b for the sign "+".
func arithmetic(sign string, a, b any) any {
	check(a)
	if s, ok := text(a); ok && sign == "%" {
		return percent(s, b)
	}
	check(b)
	switch {
	case isNumber(a) && isNumber(b):
		return numeric(sign, a, b)
	case sign == "*":
		if _, ok := repetitions(b); !ok {
			a, b = b, a
		}
		if n, ok := repetitions(b); ok {
			if s, ok := repeated(a, n); ok {
				return s
			}
		}
	case sign == "+":
		if s, ok := sum(a, b); ok {
			return s
		}
	}
	fail("unsupported operand type(s) for %s: '%s' and '%s'", sign, typeName(a), typeName(b))
	return nil
}

func repetitions(v any) (int, bool) {
	switch v.(type) {
	case int, bool:
		return max(0, whole(v)), true
	}
	return 0, false
}

func repeated(v any, n int) (any, bool) {
	size := 0
	switch v.(type) {
	case string, markup, List, tuple:
		size = length(v)
	}
	if size > 0 && n > maxText/size {
		limited(-1)
	}
	switch v := v.(type) {
	case string:
		return strings.Repeat(v, n), true
	case markup:
		return markup(strings.Repeat(string(v), n)), true
	}
	items, ok := sequence(v)
	return like(v, slices.Repeat(items, n)), ok
}

func sum(a, b any) (any, bool) {
	_, isMarkup := a.(markup)
	_, isMarked := b.(markup)
	s, isText := text(a)
	t, isString := text(b)
	switch {
	case isText && isString && (isMarkup || isMarked):
		return escaped(a) + escaped(b), true
	case isText && isString:
		limited(len(s) + len(t))
		return s + t, true
	}
	x, y, ok := sequences(a, b)
	limited(len(x) + len(y))
	return like(a, slices.Concat(x, y)), ok
}

// signed returns +v or -v.
func signed(sign string, v any) any {
	check(v)
	if !isNumber(v) {
		fail("bad operand type for unary %s: '%s'", sign, typeName(v))
	}
	if f, ok := v.(float64); ok && sign == "-" {
		return -f
	}
	return numeric(sign, 0, v)
}

func numeric(sign string, a, b any) any {
	f, i, isInt := number(a)
	g, j, isInteger := number(b)
	overflow := func(ok bool) {
		if !ok {
			fail("%d %s %d: expected a result of 64 bits", i, sign, j)
		}
	}
	if isInt && isInteger && sign != "/" {
		switch sign {
		case "+":
			overflow((i+j > i) == (j > 0) || j == 0)
			return i + j
		case "-":
			overflow((i-j < i) == (j > 0) || j == 0)
			return i - j
		case "*":
			overflow(i == 0 || (i*j)/i == j && !(i == -1 && j == math.MinInt))
			return i * j
		case "**":
			if j >= 0 {
				result, ok := power(i, j)
				overflow(ok)
				return result
			}
			f, g = float64(i), float64(j)
		default:
			if j == 0 {
				fail("integer division or modulo by zero")
			}
			quotient, rest := i/j, i%j
			if rest != 0 && (rest < 0) != (j < 0) {
				quotient, rest = quotient-1, rest+j
			}
			if sign == "%" {
				return rest
			}
			return quotient
		}
	}
	switch sign {
	case "+":
		return f + g
	case "-":
		return f - g
	case "*":
		return f * g
	case "**":
		if f == 0 && g < 0 {
			fail("0.0 cannot be raised to a negative power")
		}
		return math.Pow(f, g)
	}
	if g == 0 {
		fail("division by zero")
	}
	if sign == "/" {
		return f / g
	}
	rest := math.Mod(f, g)
	quotient := (f - rest) / g
	if rest != 0 && (rest < 0) != (g < 0) {
		rest, quotient = rest+g, quotient-1
	} else if rest == 0 {
		rest = math.Copysign(0, g)
	}
	if sign == "%" {
		return rest
	}
	whole := math.Floor(quotient)
	if quotient-whole > 0.5 {
		whole++
	}
	return whole
}

// power returns i to the power j ≥ 0. ok is false if it does not fit into 64 bits.
func power(i, j int) (result int, ok bool) {
	if i >= -1 && i <= 1 {
		j = min(j, 2-j%2) // 0, 1 and -1 repeat
	}
	result = 1
	for range j {
		next := result * i
		if i != 0 && next/i != result {
			return 0, false
		}
		result = next
	}
	return result, true
}

// slice returns the items from start to stop, as Python's slices do. nil stands for a missing number.
func slice(v any, start, stop, step any) any {
	by := 1
	if step != nil {
		if by = whole(step); by == 0 {
			fail("slice step cannot be zero")
		}
	}
	var items []any
	switch v.(type) {
	case string, markup, List, tuple, numbers:
		items = iterate(v)
	default:
		fail("'%s' object has no slices", typeName(v))
	}
	n := len(items)
	bound := func(v any, otherwise int) int {
		if v == nil {
			return otherwise
		}
		i := whole(v)
		if i < 0 {
			i += n
		}
		if by < 0 {
			return max(-1, min(i, n-1))
		}
		return max(0, min(i, n))
	}
	at := numbers{bound(start, 0), bound(stop, n), by}
	if by < 0 {
		at = numbers{bound(start, n-1), bound(stop, -1), by}
	}
	if r, ok := v.(numbers); ok {
		return numbers{r.start + at.start*r.step, r.start + at.stop*r.step, by * r.step}
	}
	result := make([]any, at.len())
	for i := range result {
		result[i] = items[at.start+i*by]
	}
	if _, ok := text(v); ok {
		return join(result, "")
	}
	return like(v, result)
}

// item returns v[index], or an undefined value.
func item(v, index any) any {
	check(v)
	missing := func() any {
		return undefined{fmt.Sprintf("'%s' has no element %s", objectName(v), keyText(index))}
	}
	switch v := v.(type) {
	case *Mapping:
		switch index.(type) {
		case List, *Mapping, view:
			return missing()
		}
		if found, ok := v.get(index); ok {
			return found
		}
	case string, markup, List, tuple, numbers:
		i, ok := index.(int)
		if b, isBool := index.(bool); isBool {
			i, ok = whole(b), true
		}
		if !ok {
			break
		}
		items := iterate(v)
		if i < 0 {
			i += len(items)
		}
		if i < 0 || i >= len(items) {
			return missing()
		}
		return items[i]
	}
	if s, ok := text(index); ok {
		return attribute(v, s)
	}
	return missing()
}

// attribute returns v.name, or an undefined value.
func attribute(v any, name string) any {
	check(v)
	switch v := v.(type) {
	case *namespace:
		if found, ok := v.fields.get(name); ok {
			return found
		}
	case *loop:
		if of, ok := loopAttributes[name]; ok {
			return of(v)
		}
	default:
		if m := method(v, name); m != nil {
			return m
		}
	}
	switch v := v.(type) {
	case *Mapping:
		if found, ok := v.get(name); ok {
			return found
		}
	case tuple: // the items of groups of the filter groupby have names
		if i := slices.Index([]string{"grouper", "list"}, name); i >= 0 && len(v) == 2 {
			return v[i]
		}
	}
	return undefined{fmt.Sprintf("'%s' has no attribute '%s'", objectName(v), name)}
}

func keyText(v any) string {
	if s, ok := text(v); ok {
		return "'" + s + "'"
	}
	return str(v)
}

// objectName is Jinja's name of a value in messages.
func objectName(v any) string {
	if v == nil {
		return "None"
	}
	return typeName(v) + " object"
}
