package hf

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
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

// ReadTokens reads the ids from config.json. If generation_config.json exists, its ids take precedence. An id that is
// missing in config.json gets the family's default.
func ReadTokens(dir string) (Tokens, error) {
	t := Tokens{BOS: -1, Pad: -1}
	for _, name := range []string{"config.json", "generation_config.json"} {
		path := filepath.Join(dir, name)
		text, err := durable.ReadFile(path, durable.Text)
		if name != "config.json" && errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return t, fmt.Errorf("special tokens: %w", err)
		}
		r := &reader{}
		if err := json.Unmarshal(text, &r.keys); err != nil {
			return t, fmt.Errorf("special tokens: %s: %w", path, err)
		}
		if name == "config.json" {
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
