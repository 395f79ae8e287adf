package config

import (
	"encoding"
	"errors"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"
)

// Decode sets the fields of a struct to the tree's values. target points to the struct, which holds the defaults. The
// returned Check has the mistakes so far. A field's key is the name in its yaml tag. Fields of a nested struct tagged
// ",inline" count as fields of the outer struct. Types with UnmarshalYAML or UnmarshalText decode themselves;
// parseDuration reads a time.Duration.
//
// A null sets a pointer, a list, a map or a text to its zero value. It has no effect on structs and on fields that are
// zero. For other fields null is a mistake.
func (t *Tree) Decode(target any) *Check {
	c := &Check{tree: t, found: &findings{bad: map[string]bool{}}}
	for _, problem := range t.problems {
		c.report(problem)
	}
	c.Decode("", target)
	return c
}

// Decode sets the fields of a struct to the values below key, if there are any. target points to the struct. Decode
// reports at most one mistake for each key.
func (c *Check) Decode(key string, target any) {
	key = join(c.prefix, key)
	if n := c.tree.root.find(key); n != nil {
		d := decoder{check: c, all: keysOf(reflect.ValueOf(target))}
		d.value(n, reflect.ValueOf(target).Elem(), key)
	}
}

// keysOf returns the dotted keys that Decode can set in v, a struct or a pointer to a struct.
func keysOf(v reflect.Value) []string {
	var keys []string
	var walk func(v reflect.Value, key string)
	walk = func(v reflect.Value, key string) {
		for v.Kind() == reflect.Pointer {
			if v.IsNil() {
				v = reflect.New(v.Type().Elem())
			}
			v = v.Elem()
		}
		p := reflect.PointerTo(v.Type())
		if v.Kind() != reflect.Struct || p.Implements(reflect.TypeFor[yaml.Unmarshaler]()) {
			keys = append(keys, key)
			return
		}
		for _, f := range fieldsOf(v) {
			walk(f.value, join(key, f.name))
		}
	}
	walk(v, "")
	return keys
}

// Marshal writes v as YAML that Load reads back into the same values.
func Marshal(v any) ([]byte, error) {
	var y yaml.Node
	err := y.Encode(v)
	if err == nil {
		err = encodeOwn(reflect.ValueOf(v), &y)
	}
	if err != nil {
		return nil, fmt.Errorf("config as YAML: %w", err)
	}
	escape(&y)
	return yaml.Marshal(&y)
}

// escape escapes each literal ${ in values; keys are never interpolated.
func escape(y *yaml.Node) {
	if y.Kind == yaml.ScalarNode {
		y.Value = strings.ReplaceAll(y.Value, "${", `\${`)
	}
	for i, below := range y.Content {
		if y.Kind != yaml.MappingNode || i%2 == 1 {
			escape(below)
		}
	}
}

type field struct {
	name   string // key
	value  reflect.Value
	owner  reflect.Type // struct that declares the field
	goName string
}

// fieldsOf lists the fields of the struct v that have a yaml name, in order. It includes the fields of inlined structs
// and the keys of users' own parts.
func fieldsOf(v reflect.Value) []field {
	var fields []field
	for f, value := range v.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if strings.Contains(options, "inline") {
			if value = inlined(value); value.IsValid() {
				fields = append(fields, fieldsOf(value)...)
			}
		} else if name != "" && name != "-" && f.IsExported() {
			fields = append(fields, field{name, value, v.Type(), f.Name})
		}
	}
	return fields
}

// A decoder decodes one tree.
type decoder struct {
	check *Check
	all   []string // keys of all fields
	own   []string // sections with keys of a user's own part
}

// aDuration describes valid values of a time.Duration.
const aDuration = "a duration, as 90s, 1h30m or 01:30:00"

// wrong reports that the value n of key is not valid.
func (d *decoder) wrong(n *node, key, want string) {
	text, hint := n.quoted()
	if want == aDuration { // without its quotes the value would be a number, which is not valid either
		hint = ""
	}
	d.check.report(&FieldError{Origin: n.origin, Key: key, Value: text, Want: "expected " + want + hint})
}

// unresolved reports a mistake for each failed interpolation at or below key. It returns true if there are any.
func (d *decoder) unresolved(n *node, key string) (any bool) {
	for i, item := range n.items {
		any = d.unresolved(item, join(key, n.name(i))) || any
	}
	if n.wrong != nil {
		d.check.report(&FieldError{Origin: n.origin, Key: key, Value: show(n.value), Want: n.wrong.Error()})
	}
	return any || n.wrong != nil
}

// value decodes n, the value of key, into v.
func (d *decoder) value(n *node, v reflect.Value, key string) {
	own, itself := v.Addr().Interface().(yaml.Unmarshaler)
	if (itself || n.kind == scalar || v.Kind() == reflect.Interface) && d.unresolved(n, key) {
		return
	}
	n, ok := d.written(n, v.Type(), key)
	if !ok {
		return
	}
	if itself {
		d.ownError(n, key, own.UnmarshalYAML(n.yaml()))
		return
	}
	if n.isNull() {
		d.null(n, v, key)
		return
	}
	if u, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok && n.kind == scalar {
		d.ownError(n, key, u.UnmarshalText([]byte(n.text())))
		return
	}
	if v.Type() == reflect.TypeFor[time.Duration]() {
		if span, err := parseDuration(n.value); err == nil && n.kind == scalar {
			v.SetInt(int64(span))
		} else {
			d.wrong(n, key, aDuration)
		}
		return
	}
	if m, ok := v.Addr().Interface().(ordered); ok {
		if n.kind != dict {
			d.wrong(n, key, "a map")
			return
		}
		v.SetZero()
		for i, name := range n.keys {
			d.value(n.items[i], m.add(name), join(key, name))
		}
		return
	}
	if w, ok := v.Addr().Interface().(weighted); ok {
		v.SetZero()
		d.weights(n, w, key)
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		d.structure(n, v, key)
	case reflect.Pointer:
		p := reflect.New(v.Type().Elem())
		if !v.IsNil() {
			p.Elem().Set(v.Elem())
		}
		d.value(n, p.Elem(), key)
		v.Set(p)
	case reflect.Slice:
		d.list(n, v, key)
	case reflect.Map:
		d.dict(n, v, key)
	case reflect.Interface:
		d.untyped(n, v, key)
	default:
		d.scalar(n, v, key)
	}
}

// ownError reports the error of a type that decodes itself, unless the error is nil.
func (d *decoder) ownError(n *node, key string, err error) {
	if err != nil {
		d.check.report(&FieldError{Origin: n.origin, Key: key, Value: n.describe(),
			Want: strings.TrimPrefix(err.Error(), "yaml: ")})
	}
}

func (d *decoder) null(n *node, v reflect.Value, key string) {
	switch v.Kind() {
	case reflect.Struct:
	case reflect.Pointer, reflect.Slice, reflect.Map, reflect.Interface, reflect.String:
		v.SetZero()
	default:
		if !v.IsZero() {
			d.wrong(n, key, fmt.Sprintf("a value; without the key it is %v", v.Interface()))
		}
	}
}

func (d *decoder) structure(n *node, v reflect.Value, key string) {
	if n.kind != dict {
		d.wrong(n, key, "a map of settings")
		return
	}
	fields, names := fieldsOf(v), []string{}
	for _, f := range fields {
		if slices.Contains(names, f.name) {
			panic(fmt.Sprintf("config: %s: two fields for one key", join(key, f.name)))
		}
		names = append(names, f.name)
	}
	if !ownOf(v).IsZero() {
		d.own = append(d.own, key)
	}
	for i, name := range n.keys {
		if at := slices.Index(names, name); at >= 0 {
			d.value(n.items[i], fields[at].value, join(key, name))
		} else {
			d.check.classify(n.items[i], join(key, name), siblings{names, d.all, d.own})
		}
	}
}

// weighted is a type that holds names with weights.
type weighted interface {
	AddWeight(name string, weight float64)
}

// weights adds the names in n to w. n is a map from name to weight, or a list or comma-separated text of names. In a
// list or a text, each name has weight 1.
func (d *decoder) weights(n *node, w weighted, key string) {
	switch n.kind {
	case dict:
		for i, name := range n.keys {
			var weight float64
			d.value(n.items[i], reflect.ValueOf(&weight).Elem(), join(key, name))
			w.AddWeight(name, weight)
		}
	case list:
		for i, item := range n.items {
			var name string
			d.value(item, reflect.ValueOf(&name).Elem(), join(key, strconv.Itoa(i)))
			w.AddWeight(name, 1)
		}
	default:
		for name := range strings.SplitSeq(n.value, ",") {
			if name = strings.TrimSpace(name); name != "" {
				w.AddWeight(name, 1)
			}
		}
	}
}

func (d *decoder) list(n *node, v reflect.Value, key string) {
	if n.kind != list {
		d.wrong(n, key, "a list")
		return
	}
	items := reflect.MakeSlice(v.Type(), len(n.items), len(n.items))
	for i, item := range n.items {
		d.value(item, items.Index(i), join(key, strconv.Itoa(i)))
	}
	v.Set(items)
}

func (d *decoder) dict(n *node, v reflect.Value, key string) {
	if n.kind != dict {
		d.wrong(n, key, "a map")
		return
	}
	m := reflect.MakeMap(v.Type())
	for i, name := range n.keys {
		item := reflect.New(v.Type().Elem()).Elem()
		d.value(n.items[i], item, join(key, name))
		m.SetMapIndex(reflect.ValueOf(name).Convert(v.Type().Key()), item)
	}
	v.Set(m)
}

// untyped decodes n into an empty interface, in the same way as the YAML library.
func (d *decoder) untyped(n *node, v reflect.Value, key string) {
	var x any
	if err := n.yaml().Decode(&x); err != nil {
		d.wrong(n, key, strings.TrimPrefix(err.Error(), "yaml: "))
		return
	}
	v.Set(reflect.ValueOf(&x).Elem())
}

func (d *decoder) scalar(n *node, v reflect.Value, key string) {
	number := n.kind == scalar && (n.tag == intTag || n.tag == floatTag)
	ok, want := false, ""
	switch v.Kind() {
	case reflect.String:
		if ok, want = n.kind == scalar, "text"; ok {
			v.SetString(n.value)
		}
	case reflect.Bool:
		b, err := parseBool(n.value)
		if ok, want = err == nil && n.tag == boolTag, "true or false"; ok {
			v.SetBool(b)
		}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		i, err := parseInt(n.value)
		if ok, want = number && err == nil && !v.OverflowInt(i), "a whole number"; ok {
			v.SetInt(i)
		}
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		u, err := parseUint(n.value)
		if ok, want = number && err == nil && !v.OverflowUint(u), "a whole number ≥ 0"; ok {
			v.SetUint(u)
		}
	case reflect.Float32, reflect.Float64:
		f, err := parseFloat(n.value)
		fits := !math.IsNaN(f) && (math.IsInf(f, 0) || !v.OverflowFloat(f))
		if ok, want = number && err == nil && fits, "a number"; ok {
			v.SetFloat(f)
		}
	default:
		panic(fmt.Sprintf("config: %s: a field of type %s cannot be configured", key, v.Type()))
	}
	if !ok {
		d.wrong(n, key, want)
	}
}

var errNumber = errors.New("not a number")

func parseBool(s string) (bool, error) { return strconv.ParseBool(strings.ToLower(s)) }

// clock matches a duration in Slurm's form HH:MM:SS, with any number of hours.
var clock = regexp.MustCompile(`^(\d+):([0-5]\d):([0-5]\d)$`)

// parseDuration parses a duration in Go's form ("90s", "1h30m"), in Slurm's form, or 0.
func parseDuration(s string) (time.Duration, error) {
	return time.ParseDuration(clock.ReplaceAllString(s, "${1}h${2}m${3}s"))
}

// parseInt parses YAML's integers (0x1f, 1_000), and floats with a whole value, such as 1e6.
func parseInt(s string) (int64, error) {
	if i, err := strconv.ParseInt(s, 0, 64); err == nil {
		return i, nil
	}
	if f, err := parseFloat(s); err == nil && f == math.Trunc(f) && math.Abs(f) <= 1<<53 {
		return int64(f), nil
	}
	return 0, errNumber
}

func parseUint(s string) (uint64, error) {
	if u, err := strconv.ParseUint(strings.TrimPrefix(s, "+"), 0, 64); err == nil {
		return u, nil
	}
	if i, err := parseInt(s); err == nil && i >= 0 {
		return uint64(i), nil
	}
	return 0, errNumber
}

func parseFloat(s string) (float64, error) {
	var f float64
	if err := plain(s, "").yaml().Decode(&f); err != nil {
		return 0, errNumber
	}
	return f, nil
}
