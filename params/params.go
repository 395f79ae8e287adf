// Package params holds the keys of a user's own part: an algorithm, a policy, an environment or a
// reward that another module adds to a registry, with keys of its own in the configuration.
//
// Such keys are the fields of a struct. The yaml tag names the key, the doc tag says what it means,
// and the value that the part is registered with has the defaults. A method Check, where there is
// one, says what values are valid:
//
//	type Params struct {
//		Coef float32 `yaml:"my_coef" doc:"Weight of the entropy of the values."`
//	}
//
//	func (p Params) Check(want func(ok bool, key string, value any, want string)) {
//		want(p.Coef >= 0, "my_coef", p.Coef, "a number >= 0")
//	}
//
//	algo.Register(registry, "gae", "my_loss", Params{Coef: 0.1}, newAlgorithm)
//
// Register of packages algo, policy, env and reward takes such a struct, and its constructor gets
// the values that were read. Package internal/config reads and writes them.
package params

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
)

// An Own holds the keys of one part, as a field of the section that they stand in, tagged
// `yaml:",inline"`. The zero Own has none.
type Own struct {
	values any // a pointer to the struct, which is not changed once it has been read
}

// New returns an Own with the values of p, a struct whose exported fields all have a name in a yaml
// tag and a meaning in a doc tag; a field that is a struct may do without the latter. Any other p
// panics.
func New[P any](p P) Own {
	t := reflect.TypeFor[P]()
	if t.Kind() != reflect.Struct {
		panic(fmt.Sprintf("params: %v: expected a struct", t))
	}
	if len(keysOf(t, "", map[string]bool{})) == 0 {
		panic(fmt.Sprintf("params: %v: expected a struct with exported fields", t))
	}
	if check := reflect.ValueOf(&p).MethodByName("Check"); check.IsValid() && !isCheck(check.Type()) {
		panic(fmt.Sprintf("params: %v: Check is %v: expected func(expected %v)", t, check.Type(), wantType))
	}
	return Own{&p}
}

// Get returns the values of o, which are of the type P, or defaults where o is the zero Own. The
// error is for values of another type, or for the first that P's Check does not accept.
func Get[P any](o Own, defaults P) (P, error) {
	if o.IsZero() {
		o = Own{&defaults}
	}
	p, ok := o.values.(*P)
	if !ok {
		return defaults, fmt.Errorf("parameters %T: expected %T", o.values, &defaults)
	}
	var err error
	o.Check(func(ok bool, key string, value any, want string) {
		if !ok && err == nil {
			err = fmt.Errorf("%s: %v: expected %s", key, value, want)
		}
	})
	return *p, err
}

// IsZero reports whether o has no keys.
func (o Own) IsZero() bool { return o.values == nil }

// Values returns a pointer to the struct with the values; nil for the zero Own. Only a decoder that
// has cloned o may write to it.
func (o Own) Values() any { return o.values }

// Clone returns an Own with the same values, of its own.
func (o Own) Clone() Own {
	if o.IsZero() {
		return o
	}
	v := reflect.ValueOf(o.values).Elem()
	c := reflect.New(v.Type())
	c.Elem().Set(v)
	return Own{c.Interface()}
}

// Has reports whether key is one of o's: a name, without what may lie below it.
func (o Own) Has(key string) bool {
	for _, k := range o.Keys() {
		name, _, _ := strings.Cut(k.Name, ".")
		if name == key {
			return true
		}
	}
	return false
}

// A Key is one of an Own's keys, with its meaning.
type Key struct {
	Name  string // below the section, dotted
	Doc   string
	Value any
}

// Keys returns the keys of o in the order of its fields, those of nested structs one by one.
func (o Own) Keys() []Key {
	if o.IsZero() {
		return nil
	}
	v := reflect.ValueOf(o.values).Elem()
	keys := keysOf(v.Type(), "", map[string]bool{})
	all := make([]Key, len(keys))
	for i, k := range keys {
		all[i] = Key{k.name, k.doc, v.FieldByIndex(k.index).Interface()}
	}
	return all
}

// Check calls want for every rule of the struct's method Check, if it has one, with whether it
// holds, the key below the section, its value, and what would be valid.
func (o Own) Check(want func(ok bool, key string, value any, want string)) {
	if o.IsZero() {
		return
	}
	if check := reflect.ValueOf(o.values).MethodByName("Check"); check.IsValid() {
		check.Call([]reflect.Value{reflect.ValueOf(want).Convert(check.Type().In(0))})
	}
}

// isCheck reports whether t is the type of such a method; the function that it takes may have a
// name, as algo.Want.
func isCheck(t reflect.Type) bool {
	return t.NumIn() == 1 && t.NumOut() == 0 && wantType.ConvertibleTo(t.In(0))
}

var wantType = reflect.TypeFor[func(ok bool, key string, value any, want string)]()

type key struct {
	name, doc string
	index     []int
}

// keysOf returns the keys of a struct below prefix, and panics where a field is not as New wants
// it.
func keysOf(t reflect.Type, prefix string, seen map[string]bool) (keys []key) {
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if name == "-" || !f.IsExported() {
			continue
		}
		inline := options == "inline" && f.Type.Kind() == reflect.Struct
		if err := fieldError(name, options, inline); err != nil {
			panic(fmt.Sprintf("params: %v.%s: %v", t, f.Name, err))
		}
		name = strings.TrimPrefix(prefix+"."+name, ".")
		if inline {
			name = prefix
		} else if seen[name] {
			panic(fmt.Sprintf("params: %v.%s: two fields for the key %s", t, f.Name, name))
		}
		seen[name] = true
		doc := f.Tag.Get("doc")
		if f.Type.Kind() == reflect.Struct && doc == "" {
			for _, k := range keysOf(f.Type, name, seen) {
				k.index = append([]int{f.Index[0]}, k.index...)
				keys = append(keys, k)
			}
			continue
		}
		if doc == "" {
			panic(fmt.Sprintf("params: %v.%s: expected a doc tag that says what the key means", t, f.Name))
		}
		keys = append(keys, key{name, doc, f.Index})
	}
	return keys
}

// fieldError says what is wrong with the yaml tag of a field.
func fieldError(name, options string, inline bool) error {
	switch {
	case inline && name == "":
		return nil
	case options != "":
		return errors.New("expected a yaml tag without options, or one that is inline for a struct")
	case name == "" || strings.ContainsAny(name, ". \t"):
		return errors.New(`expected a yaml tag with the name of the key, or "-"`)
	}
	return nil
}
