package config

import (
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"
)

// padded matches a whole number with a leading zero. YAML 1.1, which RLinf's files are read as, takes it
// as octal.
var padded = regexp.MustCompile(`^([-+]?)0([0-9_]+)$`)

// written returns n with numbers as they are meant, for a value of type t. A leading zero on the
// command line means nothing; in a file it is reported, with what it may mean, and ok is false.
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
	if want := n.ambiguous(); want != "" {
		d.check.report(&FieldError{Origin: n.origin, Key: key, Value: n.value, Want: want})
		return n, false
	}
	c := *n
	c.value = WithoutZeros(n.value)
	return &c, true
}

// ambiguous says what a number with a leading zero in a file may mean; "" for one that means the same
// in any way of reading it.
func (n *node) ambiguous() string {
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
	return fmt.Sprintf("expected %s, or %s, as which RLinf reads %s: without a leading zero", decimal, other, n.value)
}

// WithoutZeros returns a whole number without its leading zeros, and any other text as it is.
func WithoutZeros(value string) string {
	m := padded.FindStringSubmatch(value)
	if m == nil {
		return value
	}
	digits := strings.TrimLeft(strings.ReplaceAll(m[2], "_", ""), "0")
	if digits == "" {
		digits = "0"
	}
	return m[1] + digits
}

// holdsNumbers reports whether values of type t are numbers, or may be read as such.
func holdsNumbers(t reflect.Type) bool {
	for t.Kind() == reflect.Slice || t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t.Kind() != reflect.String && t.Kind() != reflect.Map
}

// quoted returns the text n as it was written, with what to do about its quotes where it would be
// another value without them.
func (n *node) quoted() (text, hint string) {
	other := n.quote != "" && strings.ContainsAny(n.value[:min(1, len(n.value))], "[{")
	if n.kind != scalar || n.tag != strTag || n.value == "" || !other && plain(n.value, "").tag == strTag {
		return n.what(), ""
	}
	quote := n.quote
	if quote == "" {
		quote = "'"
	}
	return quote + n.value + quote, "; drop the quotes: " + WithoutZeros(n.value)
}
