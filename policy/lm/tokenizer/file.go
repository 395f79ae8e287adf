package tokenizer

import (
	"fmt"
	"slices"

	"golang.org/x/text/unicode/norm"
)

// readTokenizer reads tokenizer.json.
func (t *Tokenizer) readTokenizer(v value) {
	o := v.object()
	for _, step := range steps(o.get("normalizer"), "normalizers", 0) {
		t.readNormalizer(step)
	}
	byteLevel := false
	for _, step := range steps(o.get("pre_tokenizer"), "pretokenizers", 0) {
		if byteLevel {
			step.fail("no step after ByteLevel")
		}
		byteLevel = t.readPreTokenizer(step)
	}
	t.readModel(o.get("model"), byteLevel)
	if added := o.get("added_tokens"); !added.isNull() {
		for _, entry := range added.list() {
			token := entry.object()
			t.addToken(token, token.get("id"))
		}
	}
	for _, step := range steps(o.get("post_processor"), "processors", 0) {
		t.readPostProcessor(step)
	}
	t.decoder = readDecoder(o.get("decoder"))
	if v.reader.err == nil && byteLevel != (t.decoder[0].kind == byteLevelDecoder) {
		o.get("decoder").fail("ByteLevel if and only if the pre-tokenizer is ByteLevel")
	}
}

// maxDepth is the greatest depth of nested Sequences.
const maxDepth = 4

// steps returns the steps of v. A null has no steps, and a Sequence has the steps under key. Any other value is one
// step.
func steps(v value, key string, depth int) (all []object) {
	if v.isNull() {
		return nil
	}
	o := v.object()
	switch {
	case o.textOr("type", "") != "Sequence":
		return []object{o}
	case depth == maxDepth:
		o.fail(fmt.Sprintf("Sequences at most %d deep", maxDepth))
		return nil
	}
	for _, part := range o.get(key).list() {
		all = append(all, steps(part, key, depth+1)...)
	}
	return all
}

var normalForms = map[string]norm.Form{"NFC": norm.NFC, "NFD": norm.NFD}

func (t *Tokenizer) readNormalizer(o object) {
	switch kind := o.get("type"); kind.text() {
	case "NFC", "NFD":
		form := normalForms[kind.text()]
		t.normalizer = append(t.normalizer, normalizer{form: &form})
	case "Prepend":
		if text := o.get("prepend").text(); text != "" {
			t.normalizer = append(t.normalizer, normalizer{prepend: text})
		}
	case "Replace":
		old, with := readPattern(o.get("pattern")), o.get("content").text()
		t.normalizer = append(t.normalizer, normalizer{old: old, new: with})
	default:
		kind.unsupported("Sequence", "NFC", "NFD", "Prepend", "Replace")
	}
}

// readPattern reads a pattern that is plain text, not a regular expression.
func readPattern(v value) string {
	o := v.object()
	if regex := o.get("Regex"); !regex.isNull() {
		regex.unsupported(`a pattern {"String": "..."}`)
	}
	text := o.get("String").text()
	if text == "" {
		o.get("String").fail("a text that is not empty")
	}
	return text
}

// readPreTokenizer adds the cuts of a pre-tokenizer. byteLevel reports whether the pre-tokenizer writes bytes as
// letters.
func (t *Tokenizer) readPreTokenizer(o object) (byteLevel bool) {
	switch kind := o.get("type"); kind.text() {
	case "ByteLevel":
		if o.flag("add_prefix_space", true) {
			t.cuts = append(t.cuts, cut{kind: prefixBlank})
		}
		if o.flag("use_regex", true) {
			t.cuts = append(t.cuts, cut{kind: byRule, rule: gpt2})
		}
		return true
	case "Split":
		t.cuts = append(t.cuts, readSplit(o))
	case "Digits":
		t.cuts = append(t.cuts, cut{kind: atNumbers, single: o.flag("individual_digits", false)})
	case "Metaspace":
		letter, scheme, split := readMetaspace(o)
		t.cuts = append(t.cuts, cut{kind: blanksTo, text: letter, prepend: scheme})
		if split {
			t.cuts = append(t.cuts, cut{kind: atText, text: letter, behavior: mergedWithNext})
		}
	default:
		kind.unsupported("Sequence", "ByteLevel", "Split", "Digits", "Metaspace")
	}
	return false
}

func readSplit(o object) cut {
	how := behavior(o.oneOf("behavior",
		string(isolated), string(removed), string(mergedWithPrevious), string(mergedWithNext), string(contiguous)))
	invert := o.flag("invert", false)
	pattern := o.get("pattern").object()
	regex := pattern.get("Regex")
	if regex.isNull() {
		if invert {
			o.get("invert").unsupported("false")
		}
		return cut{kind: atText, text: readPattern(pattern.value), behavior: how}
	}
	rule, known := patterns[regex.text()]
	switch {
	case !known:
		regex.unsupported("the patterns of GPT-2, Qwen2 and Llama 3")
	case how != isolated && (how != removed || !invert):
		// The known patterns match all text, so removing the text between matches has the effect of Isolated.
		o.get("behavior").unsupported("Isolated", "Removed with invert: true")
	}
	return cut{kind: byRule, rule: rule}
}

// readMetaspace reads the fields that the Metaspace pre-tokenizer and the Metaspace decoder share.
func readMetaspace(o object) (letter, scheme string, split bool) {
	letter = o.textOr("replacement", metaspace)
	if len([]rune(letter)) != 1 {
		o.get("replacement").fail("one character")
	}
	scheme = o.oneOf("prepend_scheme", "always", "first", "never")
	if !o.flag("add_prefix_space", true) {
		if scheme == "first" {
			o.get("add_prefix_space").fail("true with prepend_scheme first")
		}
		scheme = "never"
	}
	return letter, scheme, o.flag("split", true)
}

// addToken reads an added token from the object o. idValue is the JSON value of the token's id.
func (t *Tokenizer) addToken(o object, idValue value) {
	id := idValue.id()
	a := AddedToken{
		ID:         id,
		Content:    o.get("content").text(),
		Special:    o.flag("special", false),
		SingleWord: o.flag("single_word", false),
		LStrip:     o.flag("lstrip", false),
		RStrip:     o.flag("rstrip", false),
	}
	a.Normalized = o.flag("normalized", !a.Special)
	if o.reader.err != nil || a.Content == "" {
		return
	}
	if other, taken := t.ids[a.Content]; taken && other != id {
		idValue.fail(fmt.Sprintf("%d, which the vocabulary has for %q", other, a.Content))
		return
	}
	if t.Known(id) && t.tokens[id].text != a.Content {
		idValue.fail(fmt.Sprintf("an id of its own; %q has it, too", t.tokens[id].text))
		return
	}
	for int(id) >= len(t.tokens) {
		t.tokens = append(t.tokens, token{})
	}
	if t.tokens[id].kind < added {
		t.tokens[id] = token{a.Content, added}
		t.added = append(t.added, a)
		t.ids[a.Content] = id
	}
	if a.Special {
		t.tokens[id].kind = special
	}
}

// readPostProcessor reads the ids that are put before and after a text. The ids of a later processor enclose the ids of
// earlier processors.
func (t *Tokenizer) readPostProcessor(o object) {
	switch kind := o.get("type"); kind.text() {
	case "ByteLevel": // changes offsets only
	case "TemplateProcessing":
		prefix, suffix := t.readTemplate(o)
		t.prefix, t.suffix = append(prefix, t.prefix...), append(t.suffix, suffix...)
	default:
		kind.unsupported("Sequence", "ByteLevel", "TemplateProcessing")
	}
}

// readTemplate returns the ids before and after the text of a single sequence.
func (t *Tokenizer) readTemplate(o object) (prefix, suffix []int32) {
	seen := false
	for _, entry := range o.get("single").list() {
		part := entry.object()
		if text := part.get("Sequence"); !text.isNull() {
			if seen || text.object().get("id").text() != "A" {
				text.fail("the sequence A once")
			}
			seen = true
			continue
		}
		name := part.get("SpecialToken").object().get("id")
		tokens := o.get("special_tokens").object()
		for _, id := range tokens.get(name.text()).object().get("ids").list() {
			if seen {
				suffix = append(suffix, id.id())
			} else {
				prefix = append(prefix, id.id())
			}
		}
	}
	if !seen {
		o.get("single").fail("the sequence A once")
	}
	return prefix, suffix
}

// index builds the tables for decoding and for finding added tokens, after all files are read.
func (t *Tokenizer) index() {
	slices.SortFunc(t.added, func(a, b AddedToken) int { return int(a.ID) - int(b.ID) })
	for i := range t.added {
		if a := &t.added[i]; a.Normalized {
			t.normalized.add(normalize(t.normalizer, a.Content, inside), a)
		} else {
			t.raw.add(a.Content, a)
		}
	}
	if t.model.bytes == nil {
		return
	}
	var buf []byte
	for i := range t.tokens {
		if t.tokens[i].kind == ordinary {
			raw, ok := lettersToBytes(buf[:0], t.tokens[i].text)
			if ok {
				t.tokens[i].text = string(raw)
			}
			buf = raw
		}
	}
}
