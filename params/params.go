// Package params lets user-defined parts have their own keys in the configuration. A part is an algorithm, policy,
// environment or reward that another module adds to a registry.
//
// The keys are the fields of a struct. The yaml tag is the key's name, and the doc tag is its documentation. The
// registered value of the struct holds the defaults. An optional method Check reports invalid values:
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
// The functions Register of packages algo, policy, env and reward take this struct, and pass the configured values to
// the part's constructor. Package internal/config reads and writes the keys.
package params

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
)

// An Own holds the keys of one part. It is a field of the section that contains the keys, tagged
// `yaml:",inline"`. The zero Own has no keys.
type Own struct {
	values any // pointer to the struct; not changed after decoding
}

// New returns an Own with the values of the struct p. New panics unless every exported field has a
// name in a yaml tag. Fields other than structs also need documentation in a doc tag.
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

// Get returns the values of o, or defaults if o is the zero Own. It returns an error if the values
// do not have the type P. If the method Check of P reports invalid values, Get returns the first as
// an error.
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

// Values returns a pointer to the struct, or nil for the zero Own. Only a decoder may write to the
// struct, and only in a clone of o.
func (o Own) Values() any { return o.values }

// Clone returns an independent copy of o.
func (o Own) Clone() Own {
	if o.IsZero() {
		return o
	}
	v := reflect.ValueOf(o.values).Elem()
	c := reflect.New(v.Type())
	c.Elem().Set(v)
	return Own{c.Interface()}
}

// Has reports whether o has a key, or a section of keys, with this name.
func (o Own) Has(key string) bool {
	for _, k := range o.Keys() {
		name, _, _ := strings.Cut(k.Name, ".")
		if name == key {
			return true
		}
	}
	return false
}

// A KeyDoc is one key of an Own, with its documentation.
type KeyDoc struct {
	Name  string // dotted, relative to the section
	Doc   string
	Value any
}

// Keys returns the keys of o in the order of the fields. A nested struct has a key for each of its
// fields.
func (o Own) Keys() []KeyDoc {
	if o.IsZero() {
		return nil
	}
	v := reflect.ValueOf(o.values).Elem()
	keys := keysOf(v.Type(), "", map[string]bool{})
	all := make([]KeyDoc, len(keys))
	for i, k := range keys {
		all[i] = KeyDoc{k.name, k.doc, v.FieldByIndex(k.index).Interface()}
	}
	return all
}

// Check calls the struct's method Check, if it has one. That method calls the given function once
// per rule. The arguments are: whether the rule holds, the key relative to the section, the value,
// and a description of valid values.
func (o Own) Check(want func(ok bool, key string, value any, want string)) {
	if o.IsZero() {
		return
	}
	if check := reflect.ValueOf(o.values).MethodByName("Check"); check.IsValid() {
		check.Call([]reflect.Value{reflect.ValueOf(want).Convert(check.Type().In(0))})
	}
}

// isCheck reports whether t is a valid type for the method Check. Its parameter may have a named
// type, such as algo.Want.
func isCheck(t reflect.Type) bool {
	return t.NumIn() == 1 && t.NumOut() == 0 && wantType.ConvertibleTo(t.In(0))
}

var wantType = reflect.TypeFor[func(ok bool, key string, value any, want string)]()

type key struct {
	name, doc string
	index     []int
}

// keysOf returns the keys of a struct, with prefix and a dot before each name. It panics if a field
// breaks the rules of New.
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

// fieldError returns an error if the yaml tag of a field is invalid.
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
