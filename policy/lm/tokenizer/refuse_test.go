package tokenizer

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Each error names the file, the key, what was found, and what is wanted.
func TestRefused(t *testing.T) {
	for _, c := range []struct{ key, value, want string }{
		{"normalizer", `{"type": "Lowercase"}`, `normalizer.type: "Lowercase": want Sequence, NFC, NFD, Prepend, Replace (others are not supported)`},
		{"normalizer", `{"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Precompiled"}]}`, `normalizer.normalizers[1].type: "Precompiled": want`},
		{"normalizer", `{"type": "Replace", "pattern": {"Regex": " +"}, "content": "_"}`, `normalizer.pattern.Regex: " +": want a pattern {"String": "..."}`},
		{"normalizer", `{"type": "Replace", "pattern": {"String": ""}, "content": "_"}`, `normalizer.pattern.String: "": want a text that is not empty`},
		{"normalizer", `{"type": "Replace", "pattern": {}, "content": "_"}`, `normalizer.pattern.String: missing: want a text`},
		{"normalizer", `[1]`, `normalizer: [1]: want an object`},
		{"normalizer", strings.Repeat(`{"type": "Sequence", "normalizers": [`, 5) + strings.Repeat("]}", 5), `want Sequences at most 4 deep`},
		{"pre_tokenizer", `{"type": "Whitespace"}`, `pre_tokenizer.type: "Whitespace": want Sequence, ByteLevel, Split, Digits, Metaspace`},
		{"pre_tokenizer", `{"type": "Split", "pattern": {"Regex": "\\w+|\\s+"}, "behavior": "Isolated", "invert": false}`,
			`pre_tokenizer.pattern.Regex: "\\w+|\\s+": want the patterns of GPT-2, Qwen2 and Llama 3 (others are not supported)`},
		{"pre_tokenizer", `{"type": "Split", "pattern": {"String": " "}, "behavior": "Isolated", "invert": true}`, `pre_tokenizer.invert: true: want false`},
		{"pre_tokenizer", `{"type": "Split", "pattern": {"String": " "}, "behavior": "Other"}`, `pre_tokenizer.behavior: "Other": want Isolated, Removed`},
		{"pre_tokenizer", `{"type": "Split", "pattern": {"Regex": "` + strings.ReplaceAll(qwen2Pattern, `\`, `\\`) + `"}, "behavior": "Removed"}`,
			`pre_tokenizer.behavior: "Removed": want Isolated, Removed with invert: true`},
		{"pre_tokenizer", `{"type": "Sequence", "pretokenizers": [{"type": "ByteLevel"}, {"type": "Digits"}]}`, `pre_tokenizer.pretokenizers[1]: {"type":"Digits"}: want nothing behind ByteLevel`},
		{"pre_tokenizer", `{"type": "Metaspace", "replacement": "ab"}`, `pre_tokenizer.replacement: "ab": want one character`},
		{"pre_tokenizer", `{"type": "Metaspace", "prepend_scheme": "first", "add_prefix_space": false}`, `pre_tokenizer.add_prefix_space: false: want true with prepend_scheme first`},
		{"pre_tokenizer", `null`, `decoder: {"type":"ByteLevel","add_prefix_space":true,"trim_offsets":true}: want ByteLevel if and only if`},
		{"post_processor", `{"type": "BertProcessing"}`, `post_processor.type: "BertProcessing": want Sequence, ByteLevel, TemplateProcessing`},
		{"post_processor", `{"type": "TemplateProcessing", "single": [{"Sequence": {"id": "B"}}]}`, `post_processor.single[0].Sequence: {"id":"B"}: want the sequence A once`},
		{"post_processor", `{"type": "TemplateProcessing", "single": []}`, `post_processor.single: []: want the sequence A once`},
		{"post_processor", `{"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "x"}}], "special_tokens": {}}`, `post_processor.special_tokens.x: missing: want an object`},
		{"decoder", `null`, `decoder: null: want an object`},
		{"decoder", `{"type": "WordPiece"}`, `decoder.type: "WordPiece": want Sequence, ByteLevel, Replace, Metaspace, ByteFallback, Fuse, Strip`},
		{"decoder", `{"type": "Sequence", "decoders": [{"type": "Fuse"}, {"type": "ByteFallback"}]}`, `decoder.decoders[1].type: "ByteFallback": want Strip alone behind Fuse`},
		{"decoder", `{"type": "Sequence", "decoders": [{"type": "Fuse"}]}`, `want a decoder that does something`},
		{"decoder", `{"type": "Sequence", "decoders": []}`, `want a decoder that does something`},
		{"decoder", `{"type": "Strip", "content": " ", "start": 1, "stop": 1}`, `decoder.stop: 1: want 0`},
		{"decoder", `{"type": "Strip", "content": "", "start": 1, "stop": 0}`, `decoder.content: "": want one character`},
		{"decoder", `{"type": "Strip", "content": " ", "start": -1, "stop": 0}`, `decoder.start: -1: want a number`},
		{"added_tokens", `{}`, `added_tokens: {}: want a list`},
		{"added_tokens", `[{"id": 5, "content": "x"}]`, `added_tokens[0].id: 5: want 87, which the vocabulary has for "x"`},
		{"added_tokens", `[{"id": 5, "content": "<x>"}]`, `added_tokens[0].id: 5: want an id of its own; "&" has it, too`},
		{"added_tokens", `[{"id": 4194304, "content": "<x>"}]`, `added_tokens[0].id: 4194304: want a token id from 0 to 4194303`},
		{"added_tokens", `[{"id": -1, "content": "<x>"}]`, `added_tokens[0].id: -1: want a token id`},
		{"added_tokens", `[{"id": 1.5, "content": "<x>"}]`, `added_tokens[0].id: 1.5: want a token id`},
		{"added_tokens", `[{"id": 900, "content": "<x>", "lstrip": 1}]`, `added_tokens[0].lstrip: 1: want true or false`},
		{"model", `null`, `model: null: want an object`},
		{"model.type", `"Unigram"`, `model.type: "Unigram": want BPE`},
		{"model.dropout", `0.1`, `model.dropout: 0.1: want null, 0.0`},
		{"model.continuing_subword_prefix", `"##"`, `model.continuing_subword_prefix: "##": want null, ""`},
		{"model.end_of_word_suffix", `"@"`, `model.end_of_word_suffix: "@": want null, ""`},
		{"model.unk_token", `"none"`, `model.unk_token: "none": want a token of model.vocab`},
		{"model.ignore_merges", `"yes"`, `model.ignore_merges: "yes": want true or false`},
		{"model.vocab", `null`, `model.vocab: null: want an object with an id for each token`},
		{"model.vocab", `{"a": 0, "b": 0}`, `model.vocab["b"]: 0: want an id of its own; "a" has it, too`},
		{"model.vocab", `{"a": -3}`, `model.vocab["a"]: -3: want a token id from 0 to 4194303`},
		{"model.vocab", `{"a": 99999999}`, `model.vocab["a"]: 99999999: want a token id from 0 to 4194303`},
		{"model.vocab", `{"a": "0"}`, `model.vocab: {"a":"0"}: want an object with an id for each token`},
		{"model.merges", `null`, `model.merges: null: want a list of texts or of pairs`},
		{"model.merges", `["a"]`, `model.merges[0]: "a": want two tokens`},
		{"model.merges", `["a b c"]`, `model.merges[0]: "a b c": want two tokens`},
		{"model.merges", `[["a", "b", "c"]]`, `model.merges[0]: ["a" "b" "c"]: want two tokens`},
		{"model.merges", `[["a", 1]]`, `want a list of texts or of pairs`},
		{"model.merges", `["a nothing"]`, `model.merges[0]: "a", "nothing": want two tokens of model.vocab`},
		{"model.merges", `["z q"]`, `model.merges[0]: "z", "q": want two tokens that are one of model.vocab together`},
	} {
		set, model := map[string]json.RawMessage{}, map[string]json.RawMessage{}
		if field, ok := strings.CutPrefix(c.key, "model."); ok {
			model[field] = json.RawMessage(c.value)
		} else {
			set[c.key] = json.RawMessage(c.value)
		}
		_, err := changed(t, "gpt2", set, model)
		if err == nil || !strings.HasPrefix(err.Error(), "tokenizer.json: ") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s = %s:\n got %v\nwant %s", c.key, c.value, err, c.want)
		}
	}
}

func TestRefusedFiles(t *testing.T) {
	good, err := os.ReadFile("testdata/llama2/tokenizer.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ tokenizer, config, specials, want string }{
		{"", "", "", "tokenizer.json: unexpected end of JSON"},
		{string(good[:len(good)/2]), "", "", "tokenizer.json: at byte "},
		{"\x00\x01", "", "", "tokenizer.json: at byte 1: invalid character"},
		{"[]", "", "", "tokenizer.json: []: want an object"},
		{"{}", "", "", "tokenizer.json: model: missing: want an object"},
		{string(good), "{", "", "tokenizer_config.json: at byte 1: unexpected end"},
		{string(good), `{"bos_token": 5}`, "", "tokenizer_config.json: bos_token: 5: want a text"},
		{string(good), `{"add_bos_token": true}`, "", "tokenizer_config.json: add_bos_token: true: want a token to add, which bos_token or eos_token names"},
		{string(good), `{"add_bos_token": 1}`, "", "tokenizer_config.json: add_bos_token: 1: want true or false"},
		{string(good), `{"chat_template": 5}`, "", "tokenizer_config.json: chat_template: 5: want a text"},
		{string(good), `{"chat_template": [{"name": "x"}]}`, "", "tokenizer_config.json: chat_template[0].template: missing: want a text"},
		{string(good), `{"added_tokens_decoder": {"x": {"content": "<y>"}}}`, "", "tokenizer_config.json: added_tokens_decoder.x: x: want a token id"},
		{string(good), `{"added_tokens_decoder": {"3": {"content": "<y>"}}}`, "", `tokenizer_config.json: added_tokens_decoder.3: 3: want an id of its own; "<0x00>" has it, too`},
		{string(good), "", `{"eos_token": []}`, "special_tokens_map.json: eos_token: []: want a text"},
	} {
		dir := t.TempDir()
		for name, text := range map[string]string{tokenizerFile: c.tokenizer, configFile: c.config, mapFile: c.specials} {
			if text != "" || name == tokenizerFile {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
					t.Fatal(err)
				}
			}
		}
		if _, err := Load(dir); err == nil || !strings.HasPrefix(err.Error(), "load tokenizer from "+dir+": "+c.want) {
			t.Errorf("got %v\nwant %s", err, c.want)
		}
	}
	if _, err := Load(t.TempDir()); err == nil || !strings.Contains(err.Error(), "tokenizer.json: no such file") {
		t.Errorf("an empty folder: %v", err)
	}
}
