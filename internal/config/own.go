package config

import (
	"fmt"
	"reflect"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/rlinf/rlinf/params"
)

// An OwnKey is a key of a user's own part, and the current value of this key.
type OwnKey struct {
	Key     string // dotted, from the root
	Section string // the section with the keys of the part
	Value   string // YAML on one line
	Origin  string // where it was given; "" for a default
	Doc     string
}

// Own returns the keys of users' own parts in the struct v, into which c's tree was decoded.
func (c *Check) Own(v any) []OwnKey {
	var all []OwnKey
	eachOwn(reflect.ValueOf(v), "", func(section string, own params.Own) {
		for _, k := range own.Keys() {
			o := OwnKey{Key: join(section, k.Name), Section: section, Doc: k.Doc}
			o.Value = InLine(k.Value)
			if c.tree.has(o.Key) {
				o.Origin = c.tree.origin(o.Key)
			}
			all = append(all, o)
		}
	})
	return all
}

// InLine returns the YAML of v on one line.
func InLine(v any) string {
	var y yaml.Node
	if y.Encode(v) != nil {
		return fmt.Sprint(v)
	}
	y.Style |= yaml.FlowStyle
	text, err := yaml.Marshal(&y)
	if err != nil {
		return fmt.Sprint(v)
	}
	return strings.Join(strings.Fields(string(text)), " ")
}

// eachOwn calls f for every user's own part in v, a struct or a pointer to a struct.
func eachOwn(v reflect.Value, section string, f func(section string, own params.Own)) {
	for v.Kind() == reflect.Pointer && !v.IsNil() {
		v = v.Elem()
	}
	if v.Kind() != reflect.Struct {
		return
	}
	if own := ownOf(v); !own.IsZero() {
		f(section, own)
	}
	for _, below := range fieldsOf(v) {
		eachOwn(below.value, join(section, below.name), f)
	}
}

// inlined returns the struct of the inlined field v. The fields of this struct count as fields of the outer struct.
// inlined returns the zero Value if v is a zero params.Own.
func inlined(v reflect.Value) reflect.Value {
	if v.Type() != ownType {
		return v
	}
	own := v.Interface().(params.Own)
	if own.IsZero() {
		return reflect.Value{}
	}
	return reflect.ValueOf(own.Values()).Elem()
}

var ownType = reflect.TypeFor[params.Own]()

// ownOf returns the keys of the user's own part in the section v.
func ownOf(v reflect.Value) params.Own {
	for f, value := range v.Fields() {
		switch inline := strings.Contains(f.Tag.Get("yaml"), ",inline"); {
		case inline && value.Type() == ownType:
			return value.Interface().(params.Own)
		case inline && value.Kind() == reflect.Struct:
			if own := ownOf(value); !own.IsZero() {
				return own
			}
		}
	}
	return params.Own{}
}

// encodeOwn adds the keys of users' own parts in v to y.
func encodeOwn(v reflect.Value, y *yaml.Node) (err error) {
	eachOwn(v, "", func(section string, own params.Own) {
		var values yaml.Node
		if err == nil {
			err = values.Encode(own.Values())
		}
		if err == nil {
			at := mapping(y, section)
			at.Content = append(at.Content, values.Content...)
		}
	})
	return err
}

// mapping returns the map at a dotted key below y. It adds the map if it is missing.
func mapping(y *yaml.Node, key string) *yaml.Node {
	if y.Kind == yaml.DocumentNode {
		y = y.Content[0]
	}
	y.Style &^= yaml.FlowStyle // an empty map has this style
	if key == "" {
		return y
	}
	name, rest, _ := strings.Cut(key, ".")
	for i := 0; i+1 < len(y.Content); i += 2 {
		if y.Content[i].Value == name {
			return mapping(y.Content[i+1], rest)
		}
	}
	var at yaml.Node
	at.SetString(name)
	below := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	y.Content = append(y.Content, &at, below)
	return mapping(below, rest)
}
