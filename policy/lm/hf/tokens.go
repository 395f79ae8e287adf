package hf

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"github.com/rlinf/rlinf/internal/durable"
)

// Tokens are the ids of special tokens.
type Tokens struct {
	BOS int   // the token that begins a text; -1 if there is none
	EOS []int // the tokens that end a text
	Pad int   // the token that pads sequences; -1 if there is none
}

// generationConfig is the file with the settings of generation. It need not exist.
const generationConfig = "generation_config.json"

// ReadTokens reads the ids from config.json in the model's folder dir. The ids in the folder's generation_config.json
// take precedence, if that file exists. The ids in the generation_config.json of the folder adapters take precedence
// over both; adapters is "" if there are none. An id that is missing in config.json gets the family's default.
func ReadTokens(dir, adapters string) (Tokens, error) {
	t := Tokens{BOS: -1, Pad: -1}
	paths := []string{filepath.Join(dir, "config.json"), filepath.Join(dir, generationConfig)}
	if adapters != "" {
		paths = append(paths, filepath.Join(adapters, generationConfig))
	}
	for i, path := range paths {
		text, err := durable.ReadFile(path, durable.Text)
		if i > 0 && errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return t, fmt.Errorf("special tokens: %w", err)
		}
		r := &reader{}
		if err := json.Unmarshal(text, &r.keys); err != nil {
			return t, fmt.Errorf("special tokens: %s: %w", path, err)
		}
		if i == 0 {
			r.addDefaults()
		}
		t.BOS, t.Pad = get(r, "bos_token_id", t.BOS), get(r, "pad_token_id", t.Pad)
		if r.has("eos_token_id") {
			if strings.HasPrefix(strings.TrimSpace(string(r.keys["eos_token_id"])), "[") {
				t.EOS = get(r, "eos_token_id", []int(nil))
			} else {
				t.EOS = []int{get(r, "eos_token_id", 0)}
			}
		}
		if r.errs != nil {
			return t, fmt.Errorf("special tokens: %s: %s", path, strings.Join(r.errs, "; "))
		}
	}
	return t, nil
}

// save writes the ids to generation_config.json in a folder.
func (t Tokens) save(dir string) error {
	keys := map[string]any{}
	t.addTo(keys)
	maps.DeleteFunc(keys, func(_ string, id any) bool { return id == nil })
	text, err := json.MarshalIndent(keys, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, generationConfig), append(text, '\n'), 0o666)
}

// addTo adds the ids to keys, the content of a config.json. Missing tokens become null, because a
// missing key means the family's default.
func (t Tokens) addTo(keys map[string]any) {
	keys["bos_token_id"], keys["pad_token_id"], keys["eos_token_id"] = nil, nil, nil
	if t.BOS >= 0 {
		keys["bos_token_id"] = t.BOS
	}
	if t.Pad >= 0 {
		keys["pad_token_id"] = t.Pad
	}
	switch len(t.EOS) {
	case 0:
	case 1:
		keys["eos_token_id"] = t.EOS[0]
	default:
		keys["eos_token_id"] = t.EOS
	}
}
