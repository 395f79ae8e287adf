package report

import (
	"errors"
	"os"
	"strings"

	"github.com/rlinf/rlinf/internal/durable"
	"gopkg.in/yaml.v3"
)

// A KeyValue is a key of the configuration with its value.
type KeyValue struct {
	Key     string `json:"key"`
	Value   string `json:"value"`             // YAML in one line
	Default string `json:"default"`           // YAML in one line; "" if there is none
	From    string `json:"from,omitempty"`    // the key whose value is the default
	Changed bool   `json:"changed,omitempty"` // the value is not the default
	Meaning string `json:"meaning,omitempty"`
}

// readSettings reads the keys of config.yaml, in the order of the file.
func (r *Run) readSettings(about About) {
	text, err := durable.ReadFile(r.path("config.yaml"), durable.Text)
	switch {
	case errors.Is(err, os.ErrNotExist):
		r.problem("config.yaml is missing: the configuration is unknown.")
		return
	case err != nil:
		r.problem("config.yaml cannot be read: %v.", err)
		return
	}
	settings, err := flatten(text)
	if err != nil {
		r.problem("config.yaml is damaged: %v.", err)
		return
	}
	r.Settings = settings
	defaults, err := flatten(about.Defaults)
	if err != nil {
		r.problem("The defaults are unknown: %v.", err)
		return
	}
	given, usual := map[string]string{}, map[string]string{}
	for _, s := range defaults {
		usual[s.Key] = s.Value
	}
	for _, s := range settings {
		given[s.Key] = s.Value
	}
	for i := range settings {
		s := &settings[i]
		s.Default = usual[s.Key]
		if about.Key != nil {
			s.Meaning, s.From = about.Key(s.Key)
		}
		if v, ok := given[s.From]; ok && v == s.Value {
			s.Default = v
		} else {
			s.From = ""
		}
		s.Changed = s.Value != s.Default
	}
}

// flatten returns the values of a YAML document by dotted keys. Lists are values.
func flatten(text []byte) ([]KeyValue, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		return nil, err
	}
	if len(document.Content) == 0 {
		return nil, nil
	}
	root := document.Content[0]
	if root.Kind != yaml.MappingNode || len(root.Content) == 0 {
		return nil, errors.New("expected keys with values")
	}
	var all []KeyValue
	var walk func(key string, n *yaml.Node, depth int)
	walk = func(key string, n *yaml.Node, depth int) {
		if n.Kind != yaml.MappingNode || len(n.Content) == 0 || depth == 50 {
			all = append(all, KeyValue{Key: plain(key), Value: plain(inLine(n))})
			return
		}
		for i := 0; i+1 < len(n.Content); i += 2 {
			walk(strings.TrimPrefix(key+"."+n.Content[i].Value, "."), n.Content[i+1], depth+1)
		}
	}
	walk("", root, 0)
	return all, nil
}

// inLine returns the YAML of n in one line.
func inLine(n *yaml.Node) string {
	one := *n
	one.Style |= yaml.FlowStyle
	one.HeadComment, one.LineComment, one.FootComment = "", "", ""
	text, err := yaml.Marshal(&one)
	if err != nil {
		return n.Value
	}
	return strings.Join(strings.Fields(string(text)), " ")
}

// setting returns the unquoted value of a key, or "" if the configuration does not have the key.
func (r *Run) setting(key string) string {
	for _, s := range r.Settings {
		if s.Key == key {
			return strings.Trim(s.Value, `"'`)
		}
	}
	return ""
}
