package tokenizer

import (
	"maps"
	"slices"
)

// config has the settings of tokenizer_config.json.
type config struct {
	bos, eos, unk, pad string
	templates          map[string]string // chat templates by name
}

// defaultTemplate is the name of the default chat template.
const defaultTemplate = "default"

// readConfig reads tokenizer_config.json. It adds tokens that tokenizer.json lacks.
func (t *Tokenizer) readConfig(v value) {
	o := v.object()
	t.config.bos, t.config.eos = tokenText(o.get("bos_token")), tokenText(o.get("eos_token"))
	t.config.unk, t.config.pad = tokenText(o.get("unk_token")), tokenText(o.get("pad_token"))
	if more := o.get("added_tokens_decoder"); !more.isNull() {
		t.readAddedDecoder(more.object())
	}
	t.addAround(o.get("add_bos_token"), t.config.bos, &t.prefix)
	t.addAround(o.get("add_eos_token"), t.config.eos, &t.suffix)
	if template := o.get("chat_template"); !template.isNull() {
		t.config.templates = readTemplates(template)
	}
}

// tokenText returns the text of a token. v is the text, or an object whose field content is the text.
func tokenText(v value) string {
	switch {
	case v.isNull():
		return ""
	case v.raw[0] == '{':
		return v.object().get("content").text()
	}
	return v.text()
}

// readAddedDecoder reads an object of added tokens. The keys of the object are ids.
func (t *Tokenizer) readAddedDecoder(o object) {
	for _, key := range slices.Sorted(maps.Keys(o.fields)) {
		entry := o.get(key).object()
		if _, known := t.ids[entry.get("content").text()]; !known {
			t.addToken(entry, value{o.reader, entry.at, []byte(key)})
		}
	}
}

// addAround applies the value of add_bos_token or add_eos_token to ids, the ids before or after a sequence. True adds
// the token, and false removes it. Null keeps the ids of the post-processor.
func (t *Tokenizer) addAround(flag value, token string, ids *[]int32) {
	if flag.isNull() {
		return
	}
	var add bool
	if !flag.decode(&add, "true or false") {
		return
	}
	id, ok := t.ids[token]
	switch {
	case !ok && add:
		flag.fail("a token to add, which bos_token or eos_token names")
	case add && !slices.Contains(*ids, id):
		*ids = append(*ids, id)
	case !add && ok:
		*ids = slices.DeleteFunc(*ids, func(i int32) bool { return i == id })
	}
}

// readTemplates reads one chat template, or a list of named templates.
func readTemplates(v value) map[string]string {
	if v.raw[0] != '[' {
		return map[string]string{defaultTemplate: v.text()}
	}
	templates := map[string]string{}
	for _, entry := range v.list() {
		o := entry.object()
		templates[o.get("name").text()] = o.get("template").text()
	}
	return templates
}

// readSpecialTokens reads special_tokens_map.json of older folders. tokenizer_config.json takes precedence.
func (t *Tokenizer) readSpecialTokens(v value) {
	o := v.object()
	for _, f := range []struct {
		key string
		to  *string
	}{
		{"bos_token", &t.config.bos}, {"eos_token", &t.config.eos},
		{"unk_token", &t.config.unk}, {"pad_token", &t.config.pad},
	} {
		if text := tokenText(o.get(f.key)); *f.to == "" {
			*f.to = text
		}
	}
}
