package tokenizer

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
)

// A refusal is a key of tokenizer.json, such as "model.type", with a wrong value, and the error for this value.
type refusal struct{ key, value, want string }

// refuse changes a valid tokenizer.json in each way. The error names the file, the key, the value, and the expected
// values.
func refuse(t *testing.T, cases []refusal) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.want, func(t *testing.T) {
			set, model := map[string]json.RawMessage{}, map[string]json.RawMessage{}
			if field, ok := strings.CutPrefix(c.key, "model."); ok {
				model[field] = json.RawMessage(c.value)
			} else {
				set[c.key] = json.RawMessage(c.value)
			}
			_, err := changed(t, "gpt2", set, model)
			if err == nil || !strings.HasPrefix(err.Error(), "tokenizer.json: ") ||
				!strings.Contains(err.Error(), c.want) {
				t.Errorf("%s = %s:\n got %v\nwant %s", c.key, c.value, err, c.want)
			}
		})
	}
}

// TestRefusedNormalizers: a normalizer that is not supported is refused.
func TestRefusedNormalizers(t *testing.T) {
	refuse(t, []refusal{
		{"normalizer", `{"type": "Lowercase"}`,
			`normalizer.type: "Lowercase": expected Sequence, NFC, NFD, Prepend, Replace (others are not supported)`},
		{"normalizer", `{"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Precompiled"}]}`,
			`normalizer.normalizers[1].type: "Precompiled": expected`},
		{"normalizer", `{"type": "Replace", "pattern": {"Regex": " +"}, "content": "_"}`,
			`normalizer.pattern.Regex: " +": expected a pattern {"String": "..."}`},
		{"normalizer", `{"type": "Replace", "pattern": {"String": ""}, "content": "_"}`,
			`normalizer.pattern.String: "": expected a text that is not empty`},
		{"normalizer", `{"type": "Replace", "pattern": {}, "content": "_"}`,
			`normalizer.pattern.String: missing: expected a text`},
		{"normalizer", `[1]`, `normalizer: [1]: expected an object`},
		{"normalizer", strings.Repeat(`{"type": "Sequence", "normalizers": [`, 5) + strings.Repeat("]}", 5),
			`expected Sequences at most 4 deep`},
	})
}

// TestRefusedPreTokenizers: a pre-tokenizer that is not supported, or does not fit the decoder, is refused.
func TestRefusedPreTokenizers(t *testing.T) {
	refuse(t, []refusal{
		{"pre_tokenizer", `{"type": "Whitespace"}`,
			`pre_tokenizer.type: "Whitespace": expected Sequence, ByteLevel, Split, Digits, Metaspace`},
		{"pre_tokenizer",
			`{"type": "Split", "pattern": {"Regex": "\\w+|\\s+"}, "behavior": "Isolated", "invert": false}`,
			`pre_tokenizer.pattern.Regex: "\\w+|\\s+": expected the patterns of GPT-2, Qwen2 and Llama 3 (others are ` +
				`not supported)`},
		{"pre_tokenizer", `{"type": "Split", "pattern": {"String": " "}, "behavior": "Isolated", "invert": true}`,
			`pre_tokenizer.invert: true: expected false`},
		{"pre_tokenizer", `{"type": "Split", "pattern": {"String": " "}, "behavior": "Other"}`,
			`pre_tokenizer.behavior: "Other": expected Isolated, Removed`},
		{"pre_tokenizer", `{"type": "Split", "pattern": {"Regex": "` + strings.ReplaceAll(qwen2Pattern, `\`, `\\`) +
			`"}, "behavior": "Removed"}`,
			`pre_tokenizer.behavior: "Removed": expected Isolated, Removed with invert: true`},
		{"pre_tokenizer", `{"type": "Sequence", "pretokenizers": [{"type": "ByteLevel"}, {"type": "Digits"}]}`,
			`pre_tokenizer.pretokenizers[1]: {"type":"Digits"}: expected no step after ByteLevel`},
		{"pre_tokenizer", `{"type": "Metaspace", "replacement": "ab"}`,
			`pre_tokenizer.replacement: "ab": expected one character`},
		{"pre_tokenizer", `{"type": "Metaspace", "prepend_scheme": "first", "add_prefix_space": false}`,
			`pre_tokenizer.add_prefix_space: false: expected true with prepend_scheme first`},
		{"pre_tokenizer", `null`, `decoder: {"type":"ByteLevel","add_prefix_space":true,"trim_offsets":true}: ` +
			`expected ByteLevel if and only if`},
	})
}

// TestRefusedPostProcessors: a post-processor that is not supported is refused.
func TestRefusedPostProcessors(t *testing.T) {
	refuse(t, []refusal{
		{"post_processor", `{"type": "BertProcessing"}`,
			`post_processor.type: "BertProcessing": expected Sequence, ByteLevel, TemplateProcessing`},
		{"post_processor", `{"type": "TemplateProcessing", "single": [{"Sequence": {"id": "B"}}]}`,
			`post_processor.single[0].Sequence: {"id":"B"}: expected the sequence A once`},
		{"post_processor", `{"type": "TemplateProcessing", "single": []}`,
			`post_processor.single: []: expected the sequence A once`},
		{"post_processor",
			`{"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "x"}}], "special_tokens": {}}`,
			`post_processor.special_tokens.x: missing: expected an object`},
	})
}

// TestRefusedDecoders: a decoder that is not supported is refused.
func TestRefusedDecoders(t *testing.T) {
	refuse(t, []refusal{
		{"decoder", `null`, `decoder: null: expected an object`},
		{"decoder", `{"type": "WordPiece"}`,
			`decoder.type: "WordPiece": expected Sequence, ByteLevel, Replace, Metaspace, ByteFallback, Fuse, Strip`},
		{"decoder", `{"type": "Sequence", "decoders": [{"type": "Fuse"}, {"type": "ByteFallback"}]}`,
			`decoder.decoders[1].type: "ByteFallback": expected only Strip after Fuse`},
		{"decoder", `{"type": "Sequence", "decoders": [{"type": "Fuse"}]}`,
			`expected a decoder with at least one step`},
		{"decoder", `{"type": "Sequence", "decoders": []}`, `expected a decoder with at least one step`},
		{"decoder", `{"type": "Strip", "content": " ", "start": 1, "stop": 1}`, `decoder.stop: 1: expected 0`},
		{"decoder", `{"type": "Strip", "content": "", "start": 1, "stop": 0}`,
			`decoder.content: "": expected one character`},
		{"decoder", `{"type": "Strip", "content": " ", "start": -1, "stop": 0}`,
			`decoder.start: -1: expected a number`},
	})
}

// TestRefusedAddedTokens: added tokens with an invalid id or flag are refused.
func TestRefusedAddedTokens(t *testing.T) {
	refuse(t, []refusal{
		{"added_tokens", `{}`, `added_tokens: {}: expected a list`},
		{"added_tokens", `[{"id": 5, "content": "x"}]`,
			`added_tokens[0].id: 5: expected 87, which the vocabulary has for "x"`},
		{"added_tokens", `[{"id": 5, "content": "<x>"}]`,
			`added_tokens[0].id: 5: expected an id of its own; "&" has it, too`},
		{"added_tokens", `[{"id": 4194304, "content": "<x>"}]`,
			`added_tokens[0].id: 4194304: expected a token id from 0 to 4194303`},
		{"added_tokens", `[{"id": -1, "content": "<x>"}]`, `added_tokens[0].id: -1: expected a token id`},
		{"added_tokens", `[{"id": 1.5, "content": "<x>"}]`, `added_tokens[0].id: 1.5: expected a token id`},
		{"added_tokens", `[{"id": 900, "content": "<x>", "lstrip": 1}]`,
			`added_tokens[0].lstrip: 1: expected true or false`},
	})
}

// TestRefusedModels: a model other than byte-pair encoding, and one with a wrong vocabulary, is refused.
func TestRefusedModels(t *testing.T) {
	refuse(t, []refusal{
		{"model", `null`, `model: null: expected an object`},
		{"model.type", `"Unigram"`, `model.type: "Unigram": expected BPE`},
		{"model.dropout", `0.1`, `model.dropout: 0.1: expected null, 0.0`},
		{"model.continuing_subword_prefix", `"##"`, `model.continuing_subword_prefix: "##": expected null, ""`},
		{"model.end_of_word_suffix", `"@"`, `model.end_of_word_suffix: "@": expected null, ""`},
		{"model.unk_token", `"none"`, `model.unk_token: "none": expected a token of model.vocab`},
		{"model.ignore_merges", `"yes"`, `model.ignore_merges: "yes": expected true or false`},
		{"model.vocab", `null`, `model.vocab: null: expected an object with an id for each token`},
		{"model.vocab", `{"a": 0, "b": 0}`, `model.vocab["b"]: 0: expected an id of its own; "a" has it, too`},
		{"model.vocab", `{"a": -3}`, `model.vocab["a"]: -3: expected a token id from 0 to 4194303`},
		{"model.vocab", `{"a": 99999999}`, `model.vocab["a"]: 99999999: expected a token id from 0 to 4194303`},
		{"model.vocab", `{"a": "0"}`, `model.vocab: {"a":"0"}: expected an object with an id for each token`},
	})
}

// TestRefusedMerges: merges that are not of two tokens of the vocabulary are refused.
func TestRefusedMerges(t *testing.T) {
	refuse(t, []refusal{
		{"model.merges", `null`, `model.merges: null: expected a list of texts or of pairs`},
		{"model.merges", `["a"]`, `model.merges[0]: "a": expected two tokens`},
		{"model.merges", `["a b c"]`, `model.merges[0]: "a b c": expected two tokens`},
		{"model.merges", `[["a", "b", "c"]]`, `model.merges[0]: ["a" "b" "c"]: expected two tokens`},
		{"model.merges", `[["a", 1]]`, `expected a list of texts or of pairs`},
		{"model.merges", `["a nothing"]`, `model.merges[0]: "a", "nothing": expected two tokens of model.vocab`},
		{"model.merges", `["z q"]`,
			`model.merges[0]: "z", "q": expected two tokens that together are a token of model.vocab`},
	})
}

func TestRefusedFiles(t *testing.T) {
	good := test.Must(os.ReadFile("testdata/llama2/tokenizer.json"))(t)
	for _, c := range []struct{ tokenizer, config, specials, want string }{
		{"", "", "", "tokenizer.json: unexpected end of JSON"},
		{string(good[:len(good)/2]), "", "", "tokenizer.json: at byte "},
		{"\x00\x01", "", "", "tokenizer.json: at byte 1: invalid character"},
		{"[]", "", "", "tokenizer.json: []: expected an object"},
		{"{}", "", "", "tokenizer.json: model: missing: expected an object"},
		{string(good), "{", "", "tokenizer_config.json: at byte 1: unexpected end"},
		{string(good), `{"bos_token": 5}`, "", "tokenizer_config.json: bos_token: 5: expected a text"},
		{string(good), `{"add_bos_token": true}`, "",
			"tokenizer_config.json: add_bos_token: true: expected a token to add, which bos_token or eos_token names"},
		{string(good), `{"add_bos_token": 1}`, "", "tokenizer_config.json: add_bos_token: 1: expected true or false"},
		{string(good), `{"chat_template": 5}`, "", "tokenizer_config.json: chat_template: 5: expected a text"},
		{string(good), `{"chat_template": [{"name": "x"}]}`, "",
			"tokenizer_config.json: chat_template[0].template: missing: expected a text"},
		{string(good), `{"added_tokens_decoder": {"x": {"content": "<y>"}}}`, "",
			"tokenizer_config.json: added_tokens_decoder.x: x: expected a token id"},
		{string(good), `{"added_tokens_decoder": {"3": {"content": "<y>"}}}`, "",
			`tokenizer_config.json: added_tokens_decoder.3: 3: expected an id of its own; "<0x00>" has it, too`},
		{string(good), "", `{"eos_token": []}`, "special_tokens_map.json: eos_token: []: expected a text"},
	} {
		dir := t.TempDir()
		for name, text := range map[string]string{tokenizerFile: c.tokenizer, configFile: c.config,
			mapFile: c.specials} {
			if text != "" || name == tokenizerFile {
				test.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666))
			}
		}
		if _, err := Load(dir); err == nil || !strings.HasPrefix(err.Error(), "load tokenizer from "+dir+": "+c.want) {
			t.Errorf("got %v\nwant %s", err, c.want)
		}
	}
	test.Fails(t, test.Err(Load(t.TempDir())), "tokenizer.json: no such file", "an empty folder")
}
