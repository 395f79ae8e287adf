package hf

import (
	_ "embed" // defaults.json
	"encoding/json"
	"maps"
)

// defaultKeys has the defaults of each family in transformers 5.0,
// src/transformers/models/FAMILY/configuration_FAMILY.py. Version 4.44 has the same values.
// Defaults that all families share are in the functions that read the keys.
//
//go:embed defaults.json
var defaultKeys []byte

// addDefaults sets missing keys to the defaults of transformers for the family of model_type. A
// null key stays null.
func (r *reader) addDefaults() {
	var all map[string]map[string]json.RawMessage
	if err := json.Unmarshal(defaultKeys, &all); err != nil {
		panic(err) // the file is compiled into the program
	}
	keys := all[get(&reader{keys: r.keys}, "model_type", "")]
	if keys == nil {
		keys = map[string]json.RawMessage{}
	}
	maps.Copy(keys, r.keys)
	r.keys = keys
}
