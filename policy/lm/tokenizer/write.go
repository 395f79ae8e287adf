package tokenizer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/rlinf/rlinf/internal/durable"
)

// writeFiles writes the files of a trained tokenizer. It writes merges as texts, so that old and new programs can read
// the files.
func writeFiles(dir string, o *Training, vocab []string, merges [][2]int32) error {
	texts := make([]string, len(merges))
	for i, m := range merges {
		texts[i] = vocab[m[0]] + " " + vocab[m[1]]
	}
	added, decoder := []any{}, ordered{}
	for i, s := range o.Special {
		flags := ordered{
			{"content", s}, {"single_word", false}, {"lstrip", false}, {"rstrip", false},
			{"normalized", false}, {"special", true},
		}
		id := len(vocab) + i
		added = append(added, append(ordered{{"id", id}}, flags...))
		decoder = append(decoder, field{fmt.Sprint(id), flags})
	}
	ids := make(ordered, len(vocab))
	for i, token := range vocab {
		ids[i] = field{token, i}
	}
	byteLevel := ordered{
		{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", false},
	}
	pattern := ordered{{"Regex", trainable[o.Pattern]}}
	split := ordered{{"type", "Split"}, {"pattern", pattern}, {"behavior", isolated}, {"invert", false}}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	err := writeJSON(filepath.Join(dir, tokenizerFile), ordered{
		{"version", "1.0"}, {"truncation", nil}, {"padding", nil}, {"added_tokens", added}, {"normalizer", nil},
		{"pre_tokenizer", ordered{{"type", "Sequence"}, {"pretokenizers", []any{split, byteLevel}}}},
		{"post_processor", postProcessor(o, len(vocab), byteLevel)},
		{"decoder", byteLevel},
		{"model", ordered{
			{"type", "BPE"}, {"dropout", nil}, {"unk_token", nil},
			{"continuing_subword_prefix", nil}, {"end_of_word_suffix", nil}, {"fuse_unk", false},
			{"byte_fallback", false}, {"ignore_merges", false}, {"vocab", ids}, {"merges", texts},
		}},
	})
	if err != nil {
		return err
	}
	settings := ordered{{"add_bos_token", o.AddBOS}, {"added_tokens_decoder", decoder}}
	for _, f := range []field{
		{"bos_token", o.BOS}, {"eos_token", o.EOS}, {"pad_token", o.Pad}, {"chat_template", o.ChatTemplate},
	} {
		if f.value != "" {
			settings = append(settings, f)
		}
	}
	return writeJSON(filepath.Join(dir, configFile), append(settings, field{"clean_up_tokenization_spaces", false},
		field{"tokenizer_class", "PreTrainedTokenizerFast"}))
}

// postProcessor returns the post-processor. If o.AddBOS is true, the post-processor adds BOS before sequences.
func postProcessor(o *Training, firstSpecial int, byteLevel ordered) any {
	for i, s := range o.Special {
		if !o.AddBOS || s != o.BOS {
			continue
		}
		part := func(kind, id string, side int) ordered {
			return ordered{{kind, ordered{{"id", id}, {"type_id", side}}}}
		}
		bos, a := part("SpecialToken", s, 0), part("Sequence", "A", 0)
		return ordered{{"type", "TemplateProcessing"}, {"single", []any{bos, a}},
			{"pair", []any{bos, a, part("SpecialToken", s, 1), part("Sequence", "B", 1)}},
			{"special_tokens", ordered{
				{s, ordered{{"id", s}, {"ids", []int{firstSpecial + i}}, {"tokens", []string{s}}}},
			}}}
	}
	return byteLevel
}

// ordered is a JSON object whose fields keep their order.
type ordered []field

type field struct {
	name  string
	value any
}

func (o ordered) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	b.WriteByte('{')
	for i, f := range o {
		if i > 0 {
			b.WriteByte(',')
		}
		if err := e.Encode(f.name); err != nil {
			return nil, err
		}
		b.WriteByte(':')
		if err := e.Encode(f.value); err != nil {
			return nil, err
		}
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

func writeJSON(path string, v any) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return err
	}
	return os.WriteFile(path, b.Bytes(), 0o666)
}

// Copy copies the files of a tokenizer from the folder src to the folder dst.
func Copy(dst, src string) error {
	for _, name := range fileNames {
		text, err := durable.ReadFile(filepath.Join(src, name), durable.Data)
		if errors.Is(err, fs.ErrNotExist) && name != tokenizerFile {
			continue
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(dst, name), text, 0o666)
		}
		if err != nil {
			return fmt.Errorf("copy tokenizer: %w", err)
		}
	}
	return nil
}

// Save makes c the chat template of the tokenizer whose files are in dir.
func (c *ChatTemplate) Save(dir string) error {
	path := filepath.Join(dir, configFile)
	text, err := durable.ReadFile(path, durable.Data)
	if errors.Is(err, fs.ErrNotExist) {
		text, err = []byte("{}"), nil
	}
	var keys map[string]any
	if err == nil {
		d := json.NewDecoder(bytes.NewReader(text))
		d.UseNumber() // model_max_length may be a number that is no float64
		err = d.Decode(&keys)
	}
	if err == nil {
		keys["chat_template"] = c.source
		err = writeJSON(path, keys)
	}
	if err == nil {
		err = os.RemoveAll(filepath.Join(dir, templateFile)) // it would take precedence
	}
	if err != nil {
		return fmt.Errorf("save chat template: %w", err)
	}
	return nil
}
