package config

import (
	"errors"
	"reflect"
	"strings"

	"gopkg.in/yaml.v3"
)

// A Map is a map in the configuration that keeps its order.
type Map[T any] []Entry[T]

// An Entry is one key of a Map with its value.
type Entry[T any] struct {
	Key   string
	Value T
}

// MarshalYAML writes m as a map, in order.
func (m Map[T]) MarshalYAML() (any, error) {
	y := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	for _, e := range m {
		var key, value yaml.Node
		key.SetString(e.Key)
		if err := value.Encode(e.Value); err != nil {
			return nil, err
		}
		y.Content = append(y.Content, &key, &value)
	}
	return y, nil
}

// ordered is the interface of every Map. The decoder uses it.
type ordered interface {
	add(key string) reflect.Value
}

var _ ordered = (*Map[int])(nil)

// add appends an entry and returns its value, for the caller to set.
func (m *Map[T]) add(key string) reflect.Value {
	*m = append(*m, Entry[T]{Key: key})
	return reflect.ValueOf(&(*m)[len(*m)-1].Value).Elem()
}

// Words is a list of words. In YAML it may also be a single text with commas between the words.
type Words []string

// String joins the words with commas.
func (w Words) String() string { return strings.Join(w, ",") }

// UnmarshalYAML reads a list or a comma-separated text.
func (w *Words) UnmarshalYAML(y *yaml.Node) error {
	if y.Kind == yaml.ScalarNode {
		*w = nil
		for word := range strings.SplitSeq(y.Value, ",") {
			if word = strings.TrimSpace(word); word != "" && y.Tag != nullTag {
				*w = append(*w, word)
			}
		}
		return nil
	}
	if err := y.Decode((*[]string)(w)); err != nil {
		return errors.New("expected a list, or words with commas between them")
	}
	return nil
}
