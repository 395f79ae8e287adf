package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// Limits of one file. They bound the parsing time for any input, even for malicious aliases.
const (
	maxBytes = 4 << 20
	maxNodes = 200_000
	maxDepth = 64
)

// parse parses one YAML document into a node. It returns an error if it cannot read the document, or if the document is
// not a dict. problems are mistakes that leave the other keys usable.
func parse(file string, data []byte) (root *node, problems []*FieldError, err error) {
	if len(data) > maxBytes {
		return nil, nil, &FieldError{Origin: file, Want: fmt.Sprintf("not a configuration: larger than %d MiB",
			maxBytes>>20)}
	}
	if bytes.IndexByte(data, 0) >= 0 || !utf8.Valid(data) {
		return nil, nil, &FieldError{Origin: file, Want: "not a configuration: binary, expected YAML text in UTF-8"}
	}
	doc, err := document(data)
	if err != nil {
		return nil, nil, syntaxError(file, err)
	}
	if doc.IsZero() || doc.Content[0].Kind == yaml.ScalarNode && doc.Content[0].ShortTag() == nullTag {
		return nil, nil, &FieldError{Origin: file, Want: "empty, expected a YAML map of settings"}
	}
	r := &reader{at: func(line int) string { return fmt.Sprintf("%s:%d", file, line) }}
	root, err = r.node(doc, "", 0)
	if err != nil {
		return nil, nil, err
	}
	if root.kind != dict {
		return nil, nil, &FieldError{Origin: root.origin,
			Want: "expected a YAML map of settings, got " + root.describe()}
	}
	return root, r.problems, nil
}

// document parses the single document in data. It returns the zero Node if data is empty.
func document(data []byte) (*yaml.Node, error) {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, second yaml.Node
	if err := dec.Decode(&doc); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if err := dec.Decode(&second); err == nil {
		return nil, fmt.Errorf("line %d: a second document begins, expected only one", second.Line)
	} else if !errors.Is(err, io.EOF) {
		return nil, err
	}
	return &doc, nil
}

var (
	yamlLine = regexp.MustCompile(`^line (\d+): `)
	// fromZero matches the errors of the YAML library in which line numbers begin at 0. In its other errors they begin
	// at 1.
	fromZero = regexp.MustCompile(`^did not find expected (key|',' or|'-' indicator|node content|<document start>)`)
)

// syntaxError converts an error of the YAML library to a FieldError with the line.
func syntaxError(file string, err error) error {
	text, line := strings.TrimPrefix(err.Error(), "yaml: "), 0
	if m := yamlLine.FindStringSubmatch(text); m != nil {
		text = text[len(m[0]):]
		line, _ = strconv.Atoi(m[1])
	}
	if fromZero.MatchString(text) {
		line++
	}
	if line > 0 {
		file += ":" + strconv.Itoa(line)
	}
	return &FieldError{Origin: file, Want: "not valid YAML: " + text}
}

// A reader converts the nodes of one file.
type reader struct {
	at       func(line int) string // returns the origin of a line
	nodes    int
	problems []*FieldError
	decimal  bool // see node.decimal
}

// node converts y, the value of key in the file.
func (r *reader) node(y *yaml.Node, key string, depth int) (*node, error) {
	origin := r.at(y.Line)
	if r.nodes++; r.nodes > maxNodes || depth > maxDepth {
		return nil, &FieldError{Origin: origin, Want: "too large or nested too deeply (an alias that holds itself?)"}
	}
	switch y.Kind {
	case yaml.DocumentNode:
		return r.node(y.Content[0], key, depth)
	case yaml.AliasNode:
		return r.node(y.Alias, key, depth+1)
	case yaml.SequenceNode:
		n := &node{origin: origin, kind: list}
		for i, item := range y.Content {
			v, err := r.node(item, join(key, strconv.Itoa(i)), depth+1)
			if err != nil {
				return nil, err
			}
			n.items = append(n.items, v)
		}
		return n, nil
	case yaml.MappingNode:
		return r.dict(y, origin, key, depth)
	}
	n := &node{origin: origin, tag: scalarTag(y.ShortTag()), value: y.Value, decimal: r.decimal}
	switch {
	case y.Style&yaml.SingleQuotedStyle != 0:
		n.quote = "'"
	case y.Style&yaml.DoubleQuotedStyle != 0:
		n.quote = `"`
	}
	return n, nil
}

func (r *reader) dict(y *yaml.Node, origin, at string, depth int) (*node, error) {
	n := &node{origin: origin, kind: dict}
	var bases []*node // values merged by <<; the map's own keys win, then the first base
	for i := 0; i+1 < len(y.Content); i += 2 {
		key := y.Content[i]
		v, err := r.node(y.Content[i+1], join(at, key.Value), depth+1)
		if err != nil {
			return nil, err
		}
		origin := r.at(key.Line)
		switch {
		case key.ShortTag() == "!!merge" && v.kind == dict:
			bases = append(bases, v)
		case key.ShortTag() == "!!merge" && v.kind == list:
			bases = append(bases, v.items...)
		case key.Kind != yaml.ScalarNode:
			r.problems = append(r.problems, &FieldError{Origin: origin, Key: at, Want: "expected a word as key"})
		case slices.Contains(n.keys, key.Value):
			r.problems = append(r.problems, &FieldError{Origin: origin, Key: join(at, key.Value),
				Want: "given twice, first at " + n.child(key.Value).origin})
		default:
			v.origin = origin
			n.set(key.Value, v)
		}
	}
	for _, base := range bases {
		for i, key := range base.keys {
			if n.child(key) == nil {
				n.set(key, base.items[i])
			}
		}
	}
	return n, nil
}
