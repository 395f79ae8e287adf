package tokenizer

import "slices"

// config is what tokenizer_config.json adds to tokenizer.json.
type config struct {
	bos, eos, unk, pad string
	templates          map[string]string // chat templates by name
}

// defaultTemplate is the name of the chat template that is used where none is named.
const defaultTemplate = "default"

// readConfig reads tokenizer_config.json. Added tokens that tokenizer.json lacks are added.
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

// tokenText reads a token that is written as a text, or as an object with a content.
func tokenText(v value) string {
	switch {
	case v.isNull():
		return ""
	case v.raw[0] == '{':
		return v.object().get("content").text()
	}
	return v.text()
}

// readAddedDecoder reads added tokens by id.
func (t *Tokenizer) readAddedDecoder(o object) {
	keys := make([]string, 0, len(o.fields))
	for key := range o.fields {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		entry := o.get(key).object()
		if _, known := t.ids[entry.get("content").text()]; !known {
			t.addToken(entry, value{o.reader, entry.at, []byte(key)})
		}
	}
}

// addAround puts a token before or after sequences, or takes it away, as add_bos_token and
// add_eos_token say; null leaves what the post-processor says.
func (t *Tokenizer) addAround(flag value, token string, around *[]int32) {
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
	case add && !slices.Contains(*around, id):
		*around = append(*around, id)
	case !add && ok:
		*around = slices.DeleteFunc(*around, func(i int32) bool { return i == id })
	}
}

// readTemplates reads a chat template, or a list of them with names.
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

// readSpecialTokens reads special_tokens_map.json, which older folders have. What
// tokenizer_config.json says counts.
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
