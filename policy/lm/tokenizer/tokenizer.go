package tokenizer

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/rlinf/rlinf/internal/durable"
)

// A Tokenizer turns text into token ids and back. It is read-only, so any number of goroutines can use it.
type Tokenizer struct {
	added      []AddedToken // by id
	raw        matcher      // finds added tokens in the original text
	normalized matcher      // finds added tokens in the normalized text
	normalizer []normalizer
	cuts       []cut // the pre-tokenizer
	model      bpe
	prefix     []int32 // ids before a sequence, from the post-processor; suffix has the ids after a sequence
	suffix     []int32
	decoder    []decodeStep
	classes    *classes

	tokens []token          // by id
	ids    map[string]int32 // ids by the text in the file
	config config
}

// A token is the data for decoding an id.
type token struct {
	text string // text in the file; for an ordinary token of a byte-level model: the bytes
	kind tokenKind
}

type tokenKind uint8

const (
	gap      tokenKind = iota // no token has this id
	ordinary                  // in the vocabulary
	added                     // an added token
	special                   // an added token that is special
)

// Load reads the tokenizer of a folder: tokenizer.json and, if they exist, tokenizer_config.json,
// special_tokens_map.json and chat_template.jinja. An error names the file, the key, the value and
// the supported values.
func Load(dir string) (*Tokenizer, error) {
	files := map[string][]byte{}
	for _, name := range fileNames {
		text, err := durable.ReadFile(filepath.Join(dir, name), durable.Data)
		if err != nil && (name == tokenizerFile || !errors.Is(err, fs.ErrNotExist)) {
			return nil, fmt.Errorf("load tokenizer: %w", err)
		}
		if err == nil {
			files[name] = text
		}
	}
	t, err := parse(files)
	if err != nil {
		return nil, fmt.Errorf("load tokenizer from %s: %w", dir, err)
	}
	return t, nil
}

const (
	tokenizerFile = "tokenizer.json"
	configFile    = "tokenizer_config.json"
	mapFile       = "special_tokens_map.json"
	templateFile  = "chat_template.jinja"
)

var fileNames = []string{tokenizerFile, configFile, mapFile, templateFile}

// parse makes a tokenizer from the contents of its files.
func parse(files map[string][]byte) (*Tokenizer, error) {
	t := &Tokenizer{classes: newClasses()}
	for _, part := range []struct {
		file string
		read func(value)
	}{
		{tokenizerFile, t.readTokenizer},
		{configFile, t.readConfig},
		{mapFile, t.readSpecialTokens},
	} {
		text, ok := files[part.file]
		if !ok && part.file != tokenizerFile {
			continue
		}
		r := &reader{}
		v := readValue(r, text)
		if r.err == nil {
			part.read(v)
		}
		if r.err != nil {
			return nil, fmt.Errorf("%s: %w", part.file, r.err)
		}
	}
	if text, ok := files[templateFile]; ok {
		t.config.templates = map[string]string{defaultTemplate: string(text)}
	}
	t.index()
	return t, nil
}

// Size returns the highest token id plus one. An embedding needs at least this size. Some ids below Size may have no
// token.
func (t *Tokenizer) Size() int { return len(t.tokens) }

// ID returns the id of a token, given its text in tokenizer.json. ok is false if there is no such token.
func (t *Tokenizer) ID(token string) (id int32, ok bool) {
	id, ok = t.ids[token]
	return id, ok
}

// Known reports whether there is a token with this id.
func (t *Tokenizer) Known(id int32) bool {
	return id >= 0 && int(id) < len(t.tokens) && t.tokens[id].kind != gap
}

// IsSpecial reports whether the id belongs to a special token.
func (t *Tokenizer) IsSpecial(id int32) bool { return t.Known(id) && t.tokens[id].kind == special }

// Added returns the added tokens in the order of their ids.
func (t *Tokenizer) Added() []AddedToken { return slices.Clone(t.added) }

// BOS returns the id of the token that begins a sequence, or -1 if there is none.
func (t *Tokenizer) BOS() int32 { return t.configured(t.config.bos) }

// EOS returns the id of the token that ends a sequence, or -1 if there is none.
func (t *Tokenizer) EOS() int32 { return t.configured(t.config.eos) }

// Pad returns the id of the token that pads sequences, or -1 if there is none.
func (t *Tokenizer) Pad() int32 { return t.configured(t.config.pad) }

func (t *Tokenizer) configured(token string) int32 {
	if id, ok := t.ids[token]; ok && token != "" {
		return id
	}
	return -1
}
