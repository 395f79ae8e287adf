package config

import (
	"cmp"
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"
)

// padded matches a whole number with a leading zero. Such a number is octal in YAML 1.1, the format of RLinf's files.
var padded = regexp.MustCompile(`^([-+]?)0([0-9_]+)$`)

// written returns the value n for a field of type t. It drops the leading zeros of a number from the command line. In a
// file, a leading zero may mark an octal number. If such a number is ambiguous, written reports a mistake, and ok is
// false.
func (d *decoder) written(n *node, t reflect.Type, key string) (as *node, ok bool) {
	if n.kind == list {
		c, ok := *n, true
		c.items = make([]*node, len(n.items))
		for i, item := range n.items {
			var fine bool
			c.items[i], fine = d.written(item, t, join(key, n.name(i)))
			ok = ok && fine
		}
		return &c, ok
	}
	if n.kind != scalar || n.tag == strTag || !padded.MatchString(n.value) || !holdsNumbers(t) {
		return n, true
	}
	if want := n.ambiguity(); want != "" {
		d.check.report(&FieldError{Origin: n.origin, Key: key, Value: n.value, Want: want})
		return n, false
	}
	c := *n
	c.value = WithoutZeros(n.value)
	return &c, true
}

// ambiguity describes the possible meanings of a number with a leading zero. It returns "" if there is only one
// meaning.
func (n *node) ambiguity() string {
	if n.decimal || n.tag == strTag || !padded.MatchString(n.value) {
		return ""
	}
	decimal := WithoutZeros(n.value)
	octal, err := strconv.ParseInt(strings.ReplaceAll(n.value, "_", ""), 8, 64)
	other := strconv.FormatInt(octal, 10)
	switch {
	case err != nil:
		return fmt.Sprintf("expected %s, without the leading zero: RLinf reads %s as a text", decimal, n.value)
	case other == strings.TrimPrefix(decimal, "+"):
		return ""
	}
	return fmt.Sprintf("expected %s or %s, without a leading zero: RLinf reads %s as %[2]s", decimal, other, n.value)
}

// WithoutZeros removes the leading zeros of a whole number. Other text is unchanged.
func WithoutZeros(value string) string {
	m := padded.FindStringSubmatch(value)
	if m == nil {
		return value
	}
	return m[1] + cmp.Or(strings.TrimLeft(strings.ReplaceAll(m[2], "_", ""), "0"), "0")
}

// holdsNumbers reports whether a value of type t, or an item of its lists, may be a number.
func holdsNumbers(t reflect.Type) bool {
	for t.Kind() == reflect.Slice || t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t.Kind() != reflect.String && t.Kind() != reflect.Map
}

// quoted returns the text of n as written. If the value would have another type without its quotes, hint advises to
// drop the quotes.
func (n *node) quoted() (text, hint string) {
	other := n.quote != "" && strings.ContainsAny(n.value[:min(1, len(n.value))], "[{")
	if n.kind != scalar || n.tag != strTag || n.value == "" || !other && plain(n.value, "").tag == strTag {
		return n.describe(), ""
	}
	quote := cmp.Or(n.quote, "'")
	return quote + n.value + quote, "; drop the quotes: " + WithoutZeros(n.value)
}
