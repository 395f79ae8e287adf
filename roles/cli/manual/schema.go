package manual

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	settings "github.com/rlinf/rlinf/roles/config"
)

// A schema is a part of a JSON Schema.
type schema = map[string]any

// Schema returns a JSON Schema of configurations with the parts of reg. Every value may be an interpolation.
func Schema(reg settings.Registries) []byte {
	root := object("")
	for _, name := range []string{"defaults", "hydra"} {
		schemaOf(root, name)["description"] = "Presets, in the form of Hydra."
	}
	for _, k := range settings.Reference(reg) {
		fill(schemaOf(root, k.Name), k)
	}
	for _, key := range settings.KeysWithoutEffect(reg) {
		key, whole := strings.CutSuffix(key, ".**")
		s := schemaOf(root, key)
		if len(s) == 0 {
			s["description"] = "A key of RLinf without effect here."
		} else if whole {
			s["additionalProperties"] = true
		}
	}
	for _, o := range settings.OldNames() {
		s := schemaOf(root, o.Old)
		s["description"], s["deprecated"] = "Old name of "+o.Today+".", true
	}
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["title"] = "Configuration of rlinf"
	root["$comment"] = "Generated: " + Regenerate
	root["$defs"] = schema{"interpolation": schema{"type": "string", "pattern": `\$\{`}}
	var b bytes.Buffer
	write(&b, root, "")
	b.WriteByte('\n')
	return b.Bytes()
}

// write writes s as JSON, one line for each key. The description of a section precedes its keys.
func write(b *bytes.Buffer, s schema, indent string) {
	properties, has := s["properties"].(schema)
	items, _ := s["items"].(schema)
	if !has && items["properties"] == nil {
		text, err := json.Marshal(s)
		if err != nil {
			panic(fmt.Sprintf("manual: schema: %v", err)) // the values of a schema have a JSON form
		}
		b.Write(text)
		return
	}
	head := maps.Clone(s)
	delete(head, "properties")
	delete(head, "items")
	write(b, head, "")
	b.Truncate(b.Len() - 1) // remove the closing brace
	if len(head) > 0 {
		b.WriteString(", ")
	}
	if !has {
		b.WriteString(`"items": `)
		write(b, items, indent)
		b.WriteByte('}')
		return
	}
	b.WriteString(`"properties": {`)
	for i, name := range slices.Sorted(maps.Keys(properties)) {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(b, "\n%s %q: ", indent, name)
		write(b, properties[name].(schema), indent+" ")
	}
	b.WriteString("\n" + indent + "}}")
}

func object(doc string) schema {
	s := schema{"type": []string{"object", "null", "string"}, "properties": schema{}, "additionalProperties": false}
	if doc != "" {
		s["description"] = doc
	}
	return s
}

// schemaOf returns the schema of a key below s. It creates the schema if it does not exist. A "*" in the key stands for
// any item of a list.
func schemaOf(s schema, key string) schema {
	for name := range strings.SplitSeq(strings.ReplaceAll(key, "[]", ".*"), ".") {
		where := s
		switch {
		case name == "<name>":
			name = "additionalProperties"
		case name == "*":
			name = "items"
		default:
			if _, ok := s["properties"]; !ok {
				s["properties"] = schema{}
			}
			where = s["properties"].(schema)
		}
		below, ok := where[name].(schema)
		if !ok {
			below = schema{}
			where[name] = below
		}
		s = below
	}
	return s
}

// fill adds the description and the type of a key.
func fill(s schema, k settings.ManualEntry) {
	doc := k.Doc
	if k.From != "" {
		doc += " Default: as " + k.From + "."
	}
	s["description"] = doc
	switch {
	case k.Type == "section":
		maps.Copy(s, object(doc))
		return
	case k.Type == "map": // an entry may be a text
		entry := object("")
		entry["type"] = []string{"object", "string", "integer"}
		s["additionalProperties"] = entry
		return
	case k.Section:
		s["anyOf"], s["items"] = forms("array"), object("")
		return
	}
	var value any
	if k.From == "" && k.Default != "" && yaml.Unmarshal([]byte(k.Default), &value) == nil {
		s["default"] = value
	}
	first, _, _ := strings.Cut(k.Type, " ")
	s["anyOf"] = forms(map[string][]string{
		"boolean": {"boolean"}, "integer": {"integer"}, "number": {"number"}, "text": {"string", "number", "boolean"},
		"duration": {"string", "integer"}, "bytes": {"string", "integer"}, "ranks": {"string", "integer", "array"},
		"words": {"string", "array"}, "names": {"string", "array", "object"}, "list": {"array"},
	}[first]...)
}

// forms returns the alternatives for a value: these types, null, or an interpolation.
func forms(types ...string) []schema {
	if len(types) == 0 {
		return []schema{{}}
	}
	return []schema{{"type": append(types, "null")}, {"$ref": "#/$defs/interpolation"}}
}
