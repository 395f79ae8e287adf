package config

import (
	"reflect"

	"gopkg.in/yaml.v3"
)

// A KeyField is a key that Decode can set, with the struct field that has the key's value.
type KeyField struct {
	// Key is dotted, from the root. "[]" after a name stands for each item of a list; <name> stands for a name that the
	// user chooses.
	Key   string
	Type  reflect.Type
	Value any          // the field's value, which is the default
	Owner reflect.Type // struct that declares the field
	Name  string       // name of the field in Owner
	// Section is true if there are keys below this key.
	Section bool
}

// Fields returns the keys that Decode can set in v, a struct or a pointer to a struct. The keys have the order of the
// fields. A section comes before the keys below it.
func Fields(v any) []KeyField {
	var all []KeyField
	var walk func(v reflect.Value, key string)
	walk = func(v reflect.Value, key string) {
		for _, f := range fieldsOf(v) {
			at := join(key, f.name)
			below, suffix := elements(f.value)
			all = append(all, KeyField{Key: at, Type: f.value.Type(), Value: f.value.Interface(), Owner: f.owner,
				Name: f.goName, Section: below.IsValid()})
			if below.IsValid() {
				walk(below, at+suffix)
			}
		}
	}
	root := reflect.ValueOf(v)
	for root.Kind() == reflect.Pointer {
		root = root.Elem()
	}
	walk(root, "")
	return all
}

// elements returns a struct whose fields are the keys below a value. suffix stands between the value's key and these
// keys: "" for a struct, "[]" for a list, ".<name>" for a map. If there are no keys below the value, elements returns
// the zero Value.
func elements(v reflect.Value) (below reflect.Value, suffix string) {
	for v.Kind() == reflect.Pointer {
		if v.IsNil() {
			v = reflect.New(v.Type().Elem())
		}
		v = v.Elem()
	}
	p := reflect.New(v.Type())
	if _, itself := p.Interface().(yaml.Unmarshaler); itself {
		return reflect.Value{}, ""
	}
	switch m, isMap := p.Interface().(ordered); {
	case isMap:
		below, _ = elements(m.add(""))
		return below, ".<name>"
	case v.Kind() == reflect.Slice:
		below, _ = elements(reflect.New(v.Type().Elem()).Elem())
		return below, "[]"
	case v.Kind() == reflect.Struct:
		return v, ""
	}
	return reflect.Value{}, ""
}
